"""One log line per CSI call: what was asked, what was answered, how long it took, and never a secret.

An interceptor for channels and services alike, so that the author of a driver sees the same line on both sides.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from structlog.typing import FilteringBoundLogger

from mooring.clock import Clock
from mooring.csi.contract import DriverError

T = TypeVar("T")

#: What csi-lib-utils writes in the same place, so that people can search for it.
STRIPPED: Final = "***stripped***"
#: CSI gives all its secrets this name.
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
            self._log.warning(
                "csi call",
                call=call,
                request=plain(request),
                code=error.code.name,
                message=error.message,
                milliseconds=self._since(began),
            )
            raise
        self._log.info(
            "csi call", call=call, request=plain(request), answer=plain(answer), milliseconds=self._since(began)
        )
        return answer

    def _since(self, began: float) -> float:
        return round((self._clock.monotonic() - began) * 1000, 3)


def plain(message: object) -> object:
    """A message as JSON values with CSI's own field names. CSI keeps secrets at the top of its requests only."""
    if not isinstance(message, Message):
        return str(message)
    values: dict[str, object] = MessageToDict(message, preserving_proto_field_name=True)
    if SECRETS in values:
        values[SECRETS] = STRIPPED
    return values
