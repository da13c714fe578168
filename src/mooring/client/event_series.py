"""Event correlation, per-object rate limits and the queue of the event recorder. Pure; time is an argument.

Both caches are bounded LRU: an evicted entry costs a second Event object instead of a count, or a few events above the
limit.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from mooring.api.views.meta import ObjectReference

#: client-go's correlator: entries per cache, burst per object, and seconds until one more event.
CACHE_SIZE: Final = 4096
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
#: client-go's aggregator: this many different messages for one reason, within this interval, become one Event.
SIMILAR: Final = 10
SIMILAR_SECONDS: Final = 600.0
COMBINED: Final = "(combined from similar events): "

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class EventRecord(msgspec.Struct, frozen=True, gc=False):
    """One recorded event of an object, at a wall time."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    at: float


@dataclass(slots=True)
class Series:
    """Equal records, written as one Event with a count."""

    first: float
    last: float
    count: int = 0
    #: Of aggregated records, the latest.
    message: str = ""
    #: Name of the Event object, once written.
    written_as: str = ""


class _Recent(Generic[K, T]):
    """A dict that keeps the `limit` most recently used entries."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, T] = OrderedDict()

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        if key in self._entries:
            self._entries.move_to_end(key)
            return self._entries[key]
        entry = self._entries[key] = make()
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return entry


@dataclass(slots=True)
class _Messages:
    """Recent different messages of an object for one reason."""

    last: float
    texts: dict[str, None] = field(default_factory=dict)

    def too_many(self, message: str, at: float) -> bool:
        if at - self.last > SIMILAR_SECONDS:
            self.texts.clear()
        self.last = at
        self.texts[message] = None
        if len(self.texts) < SIMILAR:
            return False
        del self.texts[next(iter(self.texts))]
        return True


class EventSeries:
    """Groups records with the same object, type, reason and message; without the message where it keeps changing."""

    def __init__(self, limit: int = CACHE_SIZE) -> None:
        self._series: _Recent[tuple[ObjectReference, str, str, str], Series] = _Recent(limit)
        self._messages: _Recent[tuple[ObjectReference, str, str], _Messages] = _Recent(limit)

    def observe(self, event: EventRecord) -> Series:
        # The resourceVersion does not distinguish events.
        regarding = msgspec.structs.replace(event.regarding, resource_version="")
        alike = (regarding, event.type, event.reason)
        messages = self._messages.get_or_make(alike, lambda: _Messages(event.at))
        combined = messages.too_many(event.message, event.at)
        key = (*alike, COMBINED if combined else event.message)
        series = self._series.get_or_make(key, lambda: Series(event.at, event.at))
        series.count += 1
        series.last = event.at
        series.message = f"{COMBINED}{event.message}" if combined else event.message
        return series


@dataclass(slots=True)
class _Budget:
    left: float
    since: float


class EventBudget:
    """Token bucket per object: a burst, then one event in five minutes."""

    def __init__(self, limit: int = CACHE_SIZE) -> None:
        self._budgets: _Recent[str, _Budget] = _Recent(limit)

    def take(self, uid: str, now: float) -> bool:
        """Whether the object may have another event at this monotonic time."""
        budget = self._budgets.get_or_make(uid, lambda: _Budget(BURST, now))
        budget.left = min(BURST, budget.left + (now - budget.since) / REFILL_SECONDS)
        budget.since = now
        if budget.left < 1.0:
            return False
        budget.left -= 1.0
        return True


class EventQueue:
    """Bounded FIFO, the oldest record yields to the newest. One record per object is being written at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._number = 0
        self._waiting: OrderedDict[int, EventRecord] = OrderedDict()
        #: Object -> numbers of its waiting records; present while one waits or is being written.
        self._lanes: dict[str, deque[int]] = {}
        self._written: set[str] = set()
        #: Objects with a record that may be taken, each once.
        self._ready: deque[str] = deque()

    def __len__(self) -> int:
        """Records that wait or are being written."""
        return len(self._waiting) + len(self._written)

    def put(self, event: EventRecord) -> bool:
        """Add a record; False if the oldest was dropped for it."""
        fits = len(self._waiting) < self._limit
        if not fits:
            self._drop_oldest()
        self._number += 1
        self._waiting[self._number] = event
        about = _object(event)
        if about not in self._lanes:
            self._lanes[about] = deque()
            self._ready.append(about)
        self._lanes[about].append(self._number)
        return fits

    def take(self) -> EventRecord | None:
        """The next record to write; None if none may be taken now. Call `done` afterwards."""
        if not self._ready:
            return None
        about = self._ready.popleft()
        self._written.add(about)
        return self._waiting.pop(self._lanes[about].popleft())

    def done(self, event: EventRecord) -> None:
        """The record was written or dropped."""
        about = _object(event)
        self._written.discard(about)
        if self._lanes[about]:
            self._ready.append(about)
        else:
            del self._lanes[about]

    def _drop_oldest(self) -> None:
        number, event = self._waiting.popitem(last=False)
        about = _object(event)
        lane = self._lanes[about]
        # The oldest record is the oldest of its object.
        assert lane[0] == number
        lane.popleft()
        if not lane and about not in self._written:
            del self._lanes[about]
            self._ready.remove(about)  # near the front, where the oldest are


def _object(event: EventRecord) -> str:
    regarding = event.regarding
    return f"{regarding.kind} {regarding.namespace}/{regarding.name} {regarding.uid}"
