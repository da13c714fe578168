"""A keyed work queue: every key is handled by one worker at a time, and never forgotten.

    add ──► waiting ──► next() ──► working ──► done()
               ▲                      │ add while working: once more after done()
               └── retry / add_after ─┘

Adding a key that already waits changes nothing; adding one that is being worked on makes it come again. `retry`
waits 5 ms doubling to 1000 s per key, as upstream's controllers do, until `forget`.

First in, first out; delayed keys join the line when their time has come. There is no task and no timer of its own:
whoever waits in `next` keeps the time, so that cancelling the workers ends everything and nothing is left behind.
"""

import asyncio
import heapq
import itertools
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

from mooring.clock import BATCH, Clock, set_within

K = TypeVar("K", bound=Hashable)

#: client-go's per-item exponential limiter.
FIRST_RETRY: Final = 0.005
LONGEST_RETRY: Final = 1000.0
#: The doubling after which the longest wait is reached; beyond it only the count grows.
_DOUBLINGS: Final = 18


class Observer(Protocol):
    """Who counts what happens in a queue; `metrics.QueueMetrics` does."""

    def added(self, key: Hashable) -> None:
        """A key that was not waiting will be handled, be it new or in a worker's hands."""
        ...

    def taken(self, key: Hashable) -> None: ...

    def done(self, key: Hashable) -> None: ...

    def retried(self) -> None: ...

    def failed(self) -> None:
        """Handling a key failed with a bug."""
        ...


class Unobserved:
    """Nobody counts."""

    def added(self, key: Hashable) -> None: ...

    def taken(self, key: Hashable) -> None: ...

    def done(self, key: Hashable) -> None: ...

    def retried(self) -> None: ...

    def failed(self) -> None: ...


class WorkQueue(Generic[K]):
    """For the tasks of one event loop. Everything but `next` returns at once."""

    def __init__(self, clock: Clock, observer: Observer | None = None) -> None:
        self._clock = clock
        self._observer = observer or Unobserved()
        self._waiting: OrderedDict[K, None] = OrderedDict()
        self._working: set[K] = set()
        #: Added while being worked on; always a subset of `_working`.
        self._again: set[K] = set()
        #: (due, order of arrival, key), as a heap; entries that `_due` disowns are skipped.
        self._delayed: list[tuple[float, int, K]] = []
        #: The earliest time each delayed key is wanted.
        self._due: dict[K, float] = {}
        self._arrivals = itertools.count()
        self._turns = itertools.count(1)
        self._failures: dict[K, int] = {}
        #: Whoever holds it waits for work and time; the others wait for their turn, in order.
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()

    @property
    def depth(self) -> int:
        """How many keys wait for a worker now; delayed ones do not count."""
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Have the key handled soon."""
        if key in self._working:
            if key not in self._again:
                self._again.add(key)
                self._observer.added(key)
        elif key not in self._waiting:
            self._observer.added(key)
            self._wait(key)

    def _wait(self, key: K) -> None:
        self._waiting[key] = None
        self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Have the key handled in a while. Of several delays of one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._delayed, (due, next(self._arrivals), key))
        self._wake.set()

    def retry(self, key: K) -> None:
        """Have the key handled again after a wait that doubles with every call until `forget`."""
        self._observer.retried()
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_RETRY * 2 ** min(failures, _DOUBLINGS), LONGEST_RETRY))

    def failed(self) -> None:
        """Have it counted that handling a key failed with a bug."""
        self._observer.failed()

    def forget(self, key: K) -> None:
        """The key is well: its next `retry` begins with the shortest wait. It does not leave the queue."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key was retried since it was last forgotten."""
        return self._failures.get(key, 0)

    async def next(self) -> K:
        """The key that has waited longest; it is the caller's until `done`. Safe to cancel: no key gets lost.

        Now and then others run first: workers that find nothing to write for thousands of keys never wait otherwise.
        """
        async with self._turn:
            if not next(self._turns) % BATCH:
                await self._clock.sleep(0)
            while True:
                self._admit_due()
                if self._waiting:
                    key, _ = self._waiting.popitem(last=False)
                    self._working.add(key)
                    self._observer.taken(key)
                    return key
                await self._something_happens()

    def done(self, key: K) -> None:
        """The worker has finished with a key it got from `next`, well or not."""
        self._working.remove(key)
        self._observer.done(key)
        if key in self._again:
            self._again.remove(key)
            self._wait(key)

    def _admit_due(self) -> None:
        now = self._clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)

    async def _something_happens(self) -> None:
        """Until a key is added, a delay is set, or the earliest delay is over."""
        self._wake.clear()
        if self._delayed:
            await set_within(self._wake, self._delayed[0][0] - self._clock.monotonic(), self._clock)
        else:
            await self._wake.wait()
