"""Watch events that many watchers get: made once per change, however many there are.

Without selectors an event looks the same to everybody who watches the kind; two hundred informers of pods must not cost
two hundred times the work. Kept for as long as watchers are likely to be behind.
"""

from collections import OrderedDict
from typing import Any, Final

from mooring.api.kinds import Kind
from mooring.server.contract import StreamEvent
from mooring.server.stamping import stamped
from mooring.store.contract import Change

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

#: A few batches of the store.
KEPT: Final = 2048


class SharedEvents:
    def __init__(self) -> None:
        self._events: OrderedDict[tuple[Kind[Any], int], tuple[Change, StreamEvent]] = OrderedDict()

    def of(self, kind: Kind[Any], change: Change) -> StreamEvent:
        """What a change is to those who watch everything of the kind."""
        key = (kind, change.revision)
        made = self._events.get(key)
        # A store whose data was replaced by a backup counts to the same revision again.
        if made is not None and made[0] == change:
            return made[1]
        event = event_of(kind, change)
        self._events[key] = change, event
        if len(self._events) > KEPT:
            self._events.popitem(last=False)
        return event


def event_of(kind: Kind[Any], change: Change) -> StreamEvent:
    """The version on an event is that of the change; what was deleted is shown as it last was."""
    if change.after is not None:
        return StreamEvent(ADDED if change.before is None else MODIFIED, _body(kind, change.after.value, change))
    assert change.before is not None, "a change has something before or after it"
    return StreamEvent(DELETED, _body(kind, change.before.value, change))


def _body(kind: Kind[Any], value: bytes, change: Change) -> bytes:
    return stamped(kind, value, change.revision)
