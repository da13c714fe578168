"""Makes and removes the pods of owners that do not care what their pods are called, and tells people about it.

Shared by the controllers of ReplicaSets and DaemonSets, each of which has its own. Names are chosen here, before they
are sent, so that a pod whose answer got lost is remembered (`expectations`); until all that were asked for have been
seen, an owner has to wait, or it would ask for them twice.
"""

from collections.abc import Callable
from typing import Any, Final

from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.workloads.expectations import PATIENCE, Expectations
from mooring.workloads.refusals import namespace_goes

#: Letters of generated names: no vowels and nothing that looks like something else; upstream's.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX: Final = 5
#: Longest stem a generated name keeps.
_STEM: Final = 63 - SUFFIX - 1


class PodMaker:
    def __init__(self, context: Context, kind: Kind[ApiObject], queue: WorkQueue[str]) -> None:
        self._client = context.client
        self._clock = context.clock
        self._rng = context.rng
        self._recorder = context.recorder
        self._kind = kind
        self._queue = queue
        self._expectations = Expectations()
        #: Uids of pods whose deletion was asked for and not seen yet.
        self._doomed: set[str] = set()

    def on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """To be told of every change before the owner is queued for it."""
        pod = after if after is not None else before
        if pod is not None and pod.controller is not None:
            self._expectations.met(pod.controller.uid, pod.name)
            if after is None or after.deleting:
                self._doomed.discard(pod.uid)

    def forget(self, owner: ApiObject) -> None:
        self._expectations.forget(owner.uid)

    def goes(self, pod: Pod) -> bool:
        """Whether the pod is on its way out, seen or not."""
        return pod.deleting or pod.uid in self._doomed

    async def waits_for_news(self, owner: ApiObject) -> bool:
        """Whether pods that were asked for have not been seen yet; those that take long are asked about."""
        for pod in self._expectations.overdue(owner.uid, now=self._clock.monotonic()):
            try:
                await self._client.get(POD, pod, namespace=owner.namespace)
            except NotFound:
                self._expectations.met(owner.uid, pod)
        waits = bool(self._expectations.awaited(owner.uid))
        if waits:
            self._queue.add_after(owner.key, PATIENCE)
        return waits

    async def make(self, owner: ApiObject, body: Callable[[str], dict[str, Any]]) -> ApiError | None:
        """Make a pod whose body follows from its name; why the server refused, None when it did not."""
        name = f"{owner.name[:_STEM]}-{''.join(self._rng.choices(ALPHABET, k=SUFFIX))}"
        self._expectations.expect(owner.uid, name, now=self._clock.monotonic())
        try:
            await self._client.create(POD, body(name), namespace=owner.namespace)
        except Unreachable:
            # SEEN: it may be there or not; the expectation stays until somebody knows.
            self._queue.add_after(owner.key, PATIENCE)
            return None
        except AlreadyExists:
            # SEEN: the name was taken; the next look chooses another.
            self._expectations.met(owner.uid, name)
            self._queue.add(owner.key)
            return None
        except ApiError as error:
            self._expectations.met(owner.uid, name)
            # Without the random part of the name: what is said again and again must be the same each time.
            error.message = error.message.replace(name, f"{owner.name}-")
            self._tell_failure(owner, "FailedCreate", "Error creating", error)
            return error
        self._recorder.record(owner, self._kind, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return None

    async def remove(self, owner: ApiObject, pod: Pod) -> ApiError | None:
        """Ask for a pod to go; why the server refused, None when it did not."""
        self._doomed.add(pod.uid)
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
        except NotFound:
            self._doomed.discard(pod.uid)
            return None
        except Conflict as error:
            # Mostly that another pod has the name; the next look, at newer news, tells.
            self._doomed.discard(pod.uid)
            return error
        except Unreachable:
            self._doomed.discard(pod.uid)
            raise
        except ApiError as error:
            self._doomed.discard(pod.uid)
            self._tell_failure(owner, "FailedDelete", "Error deleting", error)
            return error
        self._recorder.record(owner, self._kind, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return None

    def _tell_failure(self, owner: ApiObject, reason: str, what: str, error: ApiError) -> None:
        if not namespace_goes(error):
            self._recorder.record(owner, self._kind, "Warning", reason, f"{what}: {error.message}")
