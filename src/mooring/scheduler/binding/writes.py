"""Writes of the binding cycle that are retried while the API server gives no final answer.

A refusal counts only after the object was read again: an earlier try may have succeeded with its response lost.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mooring.api.errors import ApiError, Conflict, ServerTimeout, ServiceUnavailable, TooManyRequests
from mooring.api.kinds import Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.backoff import JitteredBackoff
from mooring.client.contract import Client, Unreachable
from mooring.clock import Clock

#: Backoff of a request without a final answer.
INITIAL_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 5.0

#: No answer, or one after which the same request may succeed.
TRANSIENT_ERRORS: Final = (Unreachable, TooManyRequests, ServiceUnavailable, ServerTimeout)

V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")


class BindFailed(Exception):
    """The pod was not bound. The text is kube-scheduler's."""

    def __init__(self, text: str, *, provisioning_failed: bool = False) -> None:
        """`provisioning_failed`: a provisioner could not provision a volume for that node."""
        super().__init__(text)
        self.provisioning_failed = provisioning_failed


class RetriedWrites:
    """Deadlines are of the monotonic clock."""

    def __init__(self, client: Client, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng

    async def write(
        self, kind: Kind[V], target: V, patch: MergePatch, is_done: Callable[[V], bool], deadline: float
    ) -> V:
        """Retrying is safe: the resourceVersion in the patch lets it take effect once."""
        name, namespace = target.name, target.namespace
        try:
            return await self.retry(lambda: self._client.patch(kind, name, patch, namespace=namespace), deadline)
        except ApiError as error:
            current = await self.reread(kind, target, error, deadline)
            if not is_done(current):
                raise BindFailed(error.message) from error
            return current

    async def reread(self, kind: Kind[V], target: V, error: ApiError, deadline: float) -> V:
        """The object after a refused write, which an earlier try with a lost response may have changed."""
        if not isinstance(error, Conflict) and error.code < 500:
            raise BindFailed(error.message) from error
        name, namespace = target.name, target.namespace
        try:
            return await self.retry(lambda: self._client.get(kind, name, namespace=namespace), deadline)
        except ApiError as missing:
            raise BindFailed(missing.message) from missing

    async def retry(self, request: Callable[[], Awaitable[T]], deadline: float, *, internal_errors: int = 0) -> T:
        """Retry until the deadline; after an internal error of the API server, `internal_errors` times."""
        backoff = JitteredBackoff(self._rng, initial=INITIAL_RETRY_SECONDS, maximum=MAX_RETRY_SECONDS)
        while True:
            try:
                return await request()
            except TRANSIENT_ERRORS as error:
                if self._clock.monotonic() >= deadline:
                    raise BindFailed(str(error) or "no answer from the API server") from error
            except ApiError as error:
                if error.code != ApiError.code or not internal_errors:
                    raise
                internal_errors -= 1
            await self._clock.sleep(backoff.next_delay())
