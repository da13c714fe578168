"""Interceptors of CSI calls, for client and server; and the call log, which never contains a secret.

An interceptor may delay a call or raise `DriverError` before or after it, but does not change request or response. The
first in a sequence is the outermost.
"""

import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import structlog
from google.protobuf.descriptor import FieldDescriptor
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


#: Messages that stand for an optional value.
WRAPPERS: Final = frozenset({"google.protobuf.BoolValue", "google.protobuf.Int64Value"})
#: Entries of a list or map that are logged: a request may name every node, and a response every volume.
MAX_ENTRIES: Final = 5


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
            if self._log.is_enabled_for(logging.WARNING):
                self._record(self._log.warning, call, request, began, code=error.code.name, message=error.message)
            raise
        if self._log.is_enabled_for(logging.INFO):
            self._record(self._log.info, call, request, began, answer=plain(answer))
        return answer

    def _record(
        self, write: Callable[..., object], call: str, request: object, began: float, **outcome: object
    ) -> None:
        took = round((self._clock.monotonic() - began) * 1000, 3)
        write("csi call", call=call, request=plain(request), **outcome, milliseconds=took)


def plain(message: object) -> object:
    """A message as JSON values with CSI's field names, without secrets, and with the beginning of long lists."""
    if not isinstance(message, Message):
        return str(message)
    return {
        field.name: STRIPPED if field.name == SECRETS else _plain_field(field, value)
        for field, value in message.ListFields()
    }


def _plain_field(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401  # whatever the field holds
    if not field.is_repeated:
        return _plain_value(field, value)
    shown, more = itertools.islice(value, MAX_ENTRIES), len(value) - MAX_ENTRIES
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entries = {key: value[key] for key in shown}
        return entries | {"...": f"and {more} more"} if more > 0 else entries
    values = [_plain_value(field, each) for each in shown]
    return [*values, f"and {more} more"] if more > 0 else values


def _plain_value(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401  # whatever the field holds
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    if field.message_type is None:
        return value
    return value.value if field.message_type.full_name in WRAPPERS else plain(value)
