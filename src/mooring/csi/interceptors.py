"""Interceptors of CSI calls, for client and server; and the call log, which never contains a secret.

An interceptor may delay a call or raise `DriverError` before or after it, but does not change request or response. The
first in a sequence is the outermost.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

import structlog
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from structlog.typing import FilteringBoundLogger

from mooring.clock import Clock
from mooring.csi.contract import DriverError

T = TypeVar("T")


class Interceptor(Protocol):
    async def __call__(self, call: str, request: object, proceed: Callable[[], Awaitable[T]]) -> T:
        """`call` is the method's name without its service, such as CreateVolume."""


async def through(
    interceptors: Sequence[Interceptor], call: str, request: object, proceed: Callable[[], Awaitable[T]]
) -> T:
    if not interceptors:
        return await proceed()
    first, *rest = interceptors
    return await first(call, request, lambda: through(rest, call, request, proceed))


#: As csi-lib-utils logs it.
STRIPPED: Final = "***stripped***"
#: Field name of all secrets in CSI requests.
SECRETS: Final = "secrets"


class CallLog:
    def __init__(self, *, clock: Clock, driver: str = "") -> None:
        log: FilteringBoundLogger = structlog.get_logger(__name__)
        self._log = log.bind(driver=driver) if driver else log
        self._clock = clock

    async def __call__(self, call: str, request: object, proceed: Callable[[], Awaitable[T]]) -> T:
        began = self._clock.monotonic()
        try:
            answer = await proceed()
        except DriverError as error:
            self._record(self._log.warning, call, request, began, code=error.code.name, message=error.message)
            raise
        self._record(self._log.info, call, request, began, answer=plain(answer))
        return answer

    def _record(
        self, write: Callable[..., object], call: str, request: object, began: float, **outcome: object
    ) -> None:
        took = round((self._clock.monotonic() - began) * 1000, 3)
        write("csi call", call=call, request=plain(request), **outcome, milliseconds=took)


def plain(message: object) -> object:
    """A message as JSON values with CSI's field names. CSI has secrets only at the top level of requests."""
    if not isinstance(message, Message):
        return str(message)
    values: dict[str, object] = MessageToDict(message, preserving_proto_field_name=True)
    if SECRETS in values:
        values[SECRETS] = STRIPPED
    return values
