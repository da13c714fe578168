"""What the event recorder remembers: which events repeat, and which objects have had too many.

Pure, with the time as an argument. Both memories are bounded and forget what was used longest ago; the price of
forgetting is a second Event object where a count would have done, or a few events more than allowed.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from mooring.api.views.meta import ObjectReference

#: client-go's correlator: entries per memory, events an object may have at once, and seconds until one more.
REMEMBERED: Final = 4096
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
#: And its aggregator: from so many different messages for one reason on, within so many seconds of each other, an
#: object gets one Event for all of them.
SIMILAR: Final = 10
SIMILAR_SECONDS: Final = 600.0
COMBINED: Final = "(combined from similar events): "

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Happening(msgspec.Struct, frozen=True, gc=False):
    """Something a component wants people to know about an object, at a moment of wall time."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    at: float


@dataclass(slots=True)
class Series:
    """Equal happenings, shown to people as one Event with a count."""

    first: float
    last: float
    count: int = 0
    #: What people read; of similar happenings shown as one, the latest.
    message: str = ""
    #: The Event's name once it was written.
    written_as: str = ""


class _Recent(Generic[K, T]):
    """A dict that keeps its last used entries."""

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
    """The different messages an object got for one reason lately."""

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
    """Counts happenings that people should see as one.

    These are the ones with the same object, type, reason and message; and where messages for one reason keep changing,
    as those with figures in them do, all of them.
    """

    def __init__(self, limit: int = REMEMBERED) -> None:
        self._series: _Recent[tuple[ObjectReference, str, str, str], Series] = _Recent(limit)
        self._messages: _Recent[tuple[ObjectReference, str, str], _Messages] = _Recent(limit)

    def observe(self, happening: Happening) -> Series:
        # The version moves with every change of the object; what happened to it is still the same.
        regarding = msgspec.structs.replace(happening.regarding, resource_version="")
        alike = (regarding, happening.type, happening.reason)
        messages = self._messages.get_or_make(alike, lambda: _Messages(happening.at))
        combined = messages.too_many(happening.message, happening.at)
        key = (*alike, COMBINED if combined else happening.message)
        series = self._series.get_or_make(key, lambda: Series(happening.at, happening.at))
        series.count += 1
        series.last = happening.at
        series.message = f"{COMBINED}{happening.message}" if combined else happening.message
        return series


@dataclass(slots=True)
class _Budget:
    left: float
    since: float


class EventBudget:
    """Stops a component from burying an object, and the server, under events: a burst, then one in five minutes."""

    def __init__(self, limit: int = REMEMBERED) -> None:
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
