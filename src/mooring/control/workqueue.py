"""Rate-limited work queue with workers, loops, and locks by key.

    add ──► waiting ──► get() ──► working ──► done()
               ▲                     │ add while working: once more after done()
               └── retry / add_after ┘

Each key is handled by one worker at a time and never lost. ApiErrors and missing responses are expected: the key is
retried with exponential backoff. Any other exception is a bug: logged with its traceback as `reconcile failed with a
bug`, counted in `mooring_internal_errors_total`, recorded as an event on the object where known, and retried too, so
that one object stops neither the others nor the process.
"""

import asyncio
import heapq
import itertools
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, Generic, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Conflict
from mooring.backoff import KeyedBackoff
from mooring.client.contract import ReportInternalError, Unreachable
from mooring.clock import BATCH, Clock, set_within
from mooring.control.invariants import InvariantViolated

log: FilteringBoundLogger = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)
LockKey = TypeVar("LockKey", str, tuple[str, str, str])

#: client-go's per-item exponential limiter.
INITIAL_RETRY_SECONDS: Final = 0.005
MAX_RETRY_SECONDS: Final = 1000.0
#: A shorter delay is mostly the rounding error of a difference of times: the key would find its deadline still ahead.
MIN_DELAY_SECONDS: Final = 0.001


class Observer:
    """Called for what happens in a queue, without effect; `metrics.QueueMetrics` counts it."""

    def added(self, key: Hashable) -> None:
        """A key that was not waiting was added, whether new or being worked on."""

    def taken(self, key: Hashable) -> None: ...

    def done(self, key: Hashable) -> None: ...

    def retried(self) -> None: ...


class WorkQueue(Generic[K]):
    """First in, first out, or in the order of `priority`, for the tasks of one event loop. Everything but `get` returns
    at once.

    There is no task or timer: the workers that wait in `get` wait for delays too, and cancelling them ends everything.
    """

    #: Of the key when it is added: the smallest is next, and of equal ones the key that has waited longest.
    priority: Callable[[K], tuple[object, ...]] | None = None
    #: Of keys that are worked on at once, fewer than there are workers: with a smaller one, `priority` decides later.
    limit: "ConcurrencyLimit | None" = None

    def __init__(
        self,
        clock: Clock,
        observer: Observer | None = None,
        *,
        report: Callable[[K, Exception], None] = lambda key, error: None,
    ) -> None:
        """`report` is called for unexpected exceptions of the reconcile function, after they were logged."""
        self._clock = clock
        self.report = report
        self._observer = observer or Observer()
        self._waiting: OrderedDict[K, None] = OrderedDict()
        #: With `priority`: heap of (priority, sequence number, key) of what waits.
        self._prioritized: list[tuple[tuple[object, ...], int, K]] = []
        self._working: set[K] = set()
        #: Added while being worked on; always a subset of `_working`.
        self._again: set[K] = set()
        #: Heap of (due, sequence number, key); entries that differ from `_due` are skipped.
        self._delayed: list[tuple[float, int, K]] = []
        #: The earliest due time of each delayed key.
        self._due: dict[K, float] = {}
        self._arrivals = itertools.count()
        self._turns = itertools.count(1)
        self._backoff: KeyedBackoff[K] = KeyedBackoff(INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS)
        #: Its holder waits for keys and delays; other workers wait for the lock, in order.
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()

    def add(self, key: K) -> None:
        """Queue the key; a no-op while it waits, once more after `done` while it is being worked on."""
        if key in self._working:
            if key not in self._again:
                self._again.add(key)
                self._observer.added(key)
        elif key not in self._waiting:
            self._observer.added(key)
            self._wait(key)

    def _wait(self, key: K) -> None:
        self._waiting[key] = None
        if self.priority is not None:
            heapq.heappush(self._prioritized, (self.priority(key), next(self._arrivals), key))
        self._wake.set()

    def _take(self) -> K:
        if not self._prioritized:
            return self._waiting.popitem(last=False)[0]
        _, _, key = heapq.heappop(self._prioritized)
        del self._waiting[key]
        return key

    def add_after(self, key: K, seconds: float) -> None:
        """Queue the key after a delay, at once without one. Of several delays of one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + max(seconds, MIN_DELAY_SECONDS)
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._delayed, (due, next(self._arrivals), key))
        self._wake.set()

    def retry(self, key: K) -> None:
        """Queue the key after a delay that doubles with every call until `forget`."""
        self._observer.retried()
        self.add_after(key, self._backoff.next_delay(key))

    def forget(self, key: K) -> None:
        """Reset the key's backoff. It does not leave the queue."""
        self._backoff.forget(key)

    def failures(self, key: K) -> int:
        """Retries of the key since the last `forget`."""
        return self._backoff.failures(key)

    async def get(self) -> K:
        """The next key; the caller owns it until `done`. Safe to cancel: no key is lost. Yields to other tasks once per
        BATCH: reconciles without a write never suspend otherwise."""
        async with self._turn:
            if not next(self._turns) % BATCH:
                await self._clock.sleep(0)
            while True:
                self._admit_due()
                if self._waiting and (self.limit is None or len(self._working) < self.limit.value):
                    key = self._take()
                    self._working.add(key)
                    self._observer.taken(key)
                    return key
                await self._wait_for_key()

    def done(self, key: K) -> None:
        """The worker has finished with a key from `get`, successfully or not."""
        self._working.remove(key)
        self._observer.done(key)
        if self.limit is not None:
            self._wake.set()
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

    async def _wait_for_key(self) -> None:
        """Until a key is added, a delay is set, the earliest delay has passed, or the limit allows another key."""
        self._wake.clear()
        if self._delayed:
            await set_within(self._wake, self._delayed[0][0] - self._clock.monotonic(), self._clock)
        else:
            await self._wake.wait()


class ConcurrencyLimit:
    """How many calls of a service to keep in flight: as many as it handles at once, and a few that wait.

    A service that handles few calls at once queues the others itself, in an order of its own, and their callers time
    out. The limit rises with every call that returns early, and falls by a quarter if one returns late: by its timeout,
    or after half of it and twice the time of the fastest call.
    """

    #: Before the first call has returned, and the smallest one.
    INITIAL: Final = 10
    LEAST: Final = 4

    def __init__(self, most: int, *, timeout: float) -> None:
        self.value = min(self.INITIAL, most)
        self._most = most
        self._timeout = timeout
        self._fastest = timeout
        #: When the limit fell. Calls from before tell nothing about the new one.
        self._fell = float("-inf")

    def observe(self, begun: float, now: float) -> None:
        """A call returned, with a result or by timeout; times in seconds of one clock."""
        seconds = now - begun
        self._fastest = min(self._fastest, seconds)
        if seconds < min(max(self._timeout / 2, 2 * self._fastest), self._timeout):
            self.value = min(self.value + 1, self._most)
        elif begun >= self._fell:
            self.value = min(max(self.value * 3 // 4, self.LEAST), self._most)
            self._fell = now


#: Log event of unexpected exceptions.
BUG: Final = "reconcile failed with a bug"
#: Log event of an object that is left alone until it changes.
SKIPPED: Final = "object skipped: invariant violated"


async def work(queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[None]], *, workers: int, name: str) -> None:
    """Reconcile keys until cancelled, at most `workers` concurrently; `name` is the queue's name in the log."""
    if workers < 1:
        raise ValueError(f"{name}: workers must be at least 1")
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_keep_working(queue, reconcile, log.bind(queue=name)), name=f"{name} {number}")


async def repeat(
    step: Callable[[], Awaitable[None]],
    pause: Callable[[], Awaitable[object]],
    *,
    name: str,
    report: ReportInternalError,
    at_once: bool = True,
) -> None:
    """Alternate `step` and `pause` until cancelled, starting with a pause unless `at_once`. Exceptions of a step are
    logged and reported as those of a worker; the next step follows after the pause."""
    if not at_once:
        await pause()
    while True:
        try:
            await step()
        except (ApiError, Unreachable) as error:
            log.warning("step failed; retrying", loop=name, error=str(error))
        except Exception as error:
            log.exception(BUG, loop=name)
            report(name, error)
        await pause()


async def _keep_working(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[None]], log: FilteringBoundLogger
) -> None:
    while True:
        key = await queue.get()
        try:
            await reconcile(key)
        except (ApiError, Unreachable) as error:
            # A conflict is expected: another writer was first, and the retry sees its change.
            level = log.info if isinstance(error, Conflict) else log.warning
            level("reconcile failed; retrying", key=str(key), error=str(error), failures=queue.failures(key))
            queue.retry(key)
        except InvariantViolated as violation:
            log.error(SKIPPED, key=str(key), error=str(violation))
            queue.forget(key)
        except Exception as error:
            log.exception(BUG, key=str(key), failures=queue.failures(key))
            queue.report(key, error)
            queue.retry(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)


class KeyedLocks(Generic[LockKey]):
    """First-come locks by key, several at once: tasks without a common key do not wait for each other."""

    def __init__(self) -> None:
        #: Lock and number of tasks that hold it or wait for it; keys without any are removed.
        self._locks: dict[LockKey, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def holding(self, keys: Iterable[LockKey]) -> AsyncIterator[None]:
        """Hold all keys inside the block. Acquired in sorted order, so that tasks cannot deadlock."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                lock, users = self._locks.get(key, (asyncio.Lock(), 0))
                self._locks[key] = lock, users + 1
                stack.callback(self._leave, key)
                await stack.enter_async_context(lock)
            yield

    def _leave(self, key: LockKey) -> None:
        lock, users = self._locks.pop(key)
        if users > 1:
            self._locks[key] = lock, users - 1
