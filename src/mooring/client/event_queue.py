"""What waits to be written as Events: several objects' at once, one object's in the order it happened.

Between `record` and the writers of `recorder`. Bounded: the oldest that waits yields to the newest. Pure; it neither
writes nor waits.
"""

from collections import OrderedDict, deque

from mooring.client.event_series import Happening


class EventQueue:
    """Happenings in order, each taken once. While one of an object is being written, its others wait."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._number = 0
        self._waiting: OrderedDict[int, Happening] = OrderedDict()
        #: By object, the numbers of what waits; there as long as something waits or is being written.
        self._lanes: dict[str, deque[int]] = {}
        self._written: set[str] = set()
        #: Objects with something that may be taken, each once.
        self._ready: deque[str] = deque()

    def __len__(self) -> int:
        """How many wait or are being written."""
        return len(self._waiting) + len(self._written)

    def put(self, happening: Happening) -> bool:
        """Whether there was room; if not, the oldest has gone."""
        room = len(self._waiting) < self._limit
        if not room:
            self._drop_oldest()
        self._number += 1
        self._waiting[self._number] = happening
        about = _object(happening)
        if about not in self._lanes:
            self._lanes[about] = deque()
            self._ready.append(about)
        self._lanes[about].append(self._number)
        return room

    def take(self) -> Happening | None:
        """What to write next; None when nothing waits, or only for what is being written. Ends with `done`."""
        if not self._ready:
            return None
        about = self._ready.popleft()
        self._written.add(about)
        return self._waiting.pop(self._lanes[about].popleft())

    def done(self, happening: Happening) -> None:
        """It was written, or will not be."""
        about = _object(happening)
        self._written.discard(about)
        if self._lanes[about]:
            self._ready.append(about)
        else:
            del self._lanes[about]

    def _drop_oldest(self) -> None:
        number, happening = self._waiting.popitem(last=False)
        about = _object(happening)
        lane = self._lanes[about]
        # What is oldest of all is oldest of its object.
        assert lane[0] == number
        lane.popleft()
        if not lane and about not in self._written:
            del self._lanes[about]
            self._ready.remove(about)  # near the front, where the oldest are


def _object(happening: Happening) -> str:
    regarding = happening.regarding
    return f"{regarding.kind} {regarding.namespace}/{regarding.name} {regarding.uid}"
