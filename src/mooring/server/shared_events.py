"""Watch events that many watchers get: made once per change, however many there are.

Without selectors an event looks the same to everybody who watches the kind; two hundred informers of pods must not cost
two hundred times the work. Kept for as long as watchers are likely to be behind, and bounded by bytes: an event, and
the change it is compared with, may weigh megabytes.
"""

from collections import OrderedDict
from typing import Any, Final

from mooring.api.kinds import Kind
from mooring.server.contract import StreamEvent
from mooring.server.stamping import stamped
from mooring.store.contract import Change
from mooring.store.history import Limits, weight_of

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

#: A few batches of the store, of objects of 4 kB.
KEPT: Final = Limits(changes=2048, bytes=16 << 20)


class SharedEvents:
    def __init__(self, limits: Limits = KEPT) -> None:
        self._limits = limits
        self._events: OrderedDict[tuple[Kind[Any], int], tuple[Change, StreamEvent]] = OrderedDict()
        #: Bytes kept alive by what is kept; values that the store's history has too count as well.
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def of(self, kind: Kind[Any], change: Change) -> StreamEvent:
        """What a change is to those who watch everything of the kind."""
        key = (kind, change.revision)
        made = self._events.get(key)
        # A store whose data was replaced by a backup counts to the same revision again.
        if made is not None and made[0] == change:
            return made[1]
        event = event_of(kind, change)
        if made is not None:
            self._drop(key)
        self._events[key] = change, event
        self.bytes += _weight(change, event)
        while len(self._events) > self._limits.changes or self.bytes > self._limits.bytes:
            self._drop(next(iter(self._events)))
        return event

    def _drop(self, key: tuple[Kind[Any], int]) -> None:
        self.bytes -= _weight(*self._events.pop(key))


def _weight(change: Change, event: StreamEvent) -> int:
    # The body twice: as it is, and in the line made of it for watches over HTTP.
    return weight_of(change) + 2 * len(event.body)


def event_of(kind: Kind[Any], change: Change) -> StreamEvent:
    """The version on an event is that of the change; what was deleted is shown as it last was."""
    if change.after is not None:
        return StreamEvent(ADDED if change.before is None else MODIFIED, _body(kind, change.after.value, change))
    assert change.before is not None, "a change has something before or after it"
    return StreamEvent(DELETED, _body(kind, change.before.value, change))


def _body(kind: Kind[Any], value: bytes, change: Change) -> bytes:
    return stamped(kind, value, change.revision)
