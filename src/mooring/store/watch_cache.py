"""Reads and watches from memory, the base of all stores; MemoryStore. On the event loop only.

    publish ──► history (bounded) ──► replay for watches that start in the past, lists at a revision
           └──► watches by directory of their prefix ──► buffer of each watch (bounded) ──► batches

Publishing never waits for a watch: one that is too slow ends, one that starts too far back is refused.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Self

from mooring.store.contract import Listing, Record, Revision, StoreChange, StoreClosed, Watch, WatchOverflow
from mooring.store.state import HISTORY, History, Limits, StoreState, Write, decide, weight_of

#: Directories whose watches are remembered: kinds and, of namespaced ones, namespaces.
MAX_ROUTES: Final = 1024
#: Undelivered changes of one watch, beyond its initial replay.
BACKLOG: Final = Limits(changes=10_000, bytes=64 << 20)


class Subscription:
    """The contract's Watch: a bounded buffer of undelivered changes."""

    def __init__(
        self,
        prefix: str,
        after: Revision,
        replay: Iterable[StoreChange],
        limits: Limits,
        leave: Callable[["Subscription"], None],
    ) -> None:
        self.prefix = prefix
        self._after = after
        self._limits = limits
        self._leave = leave
        self._pending = [*replay]
        self._free_changes = limits.changes
        self._free_bytes = limits.bytes
        #: Of the reader, while it waits.
        self._waiter: asyncio.Future[None] | None = None
        self._overflowed = False
        self._progress_requested = False
        self._closed = False

    def offer(self, change: StoreChange, weight: int) -> None:
        """Buffer a change; end the watch if the buffer is full."""
        if change.revision <= self._after:  # the watch starts at a future revision
            return
        self._free_changes -= 1
        self._free_bytes -= weight
        if self._free_changes < 0 or self._free_bytes < 0:
            self.overflow()
        else:
            self._pending.append(change)
            if self._waiter is not None:
                self._wake()

    def overflow(self) -> None:
        """End the watch: it cannot deliver all changes."""
        self._overflowed = True
        self._pending.clear()
        self._leave(self)
        self._wake()

    def progress(self) -> None:
        self._progress_requested = True
        self._wake()

    def finish(self) -> None:
        """End after the buffered changes are delivered."""
        self._closed = True
        self._wake()

    def close(self) -> None:
        self._pending.clear()
        self._leave(self)
        self.finish()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[StoreChange]:
        # The batch is taken after the wait, so a cancelled wait loses no changes.
        while not (batch := self.waiting()):
            if self._closed:
                raise StopAsyncIteration
            if self._progress_requested:
                self._progress_requested = False
                break
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return batch

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def waiting(self) -> Sequence[StoreChange]:
        if self._overflowed and not self._closed:
            raise WatchOverflow(f"the watch of {self.prefix!r} was too slow: its buffer is full")
        if not self._pending:
            return ()
        batch, self._pending = self._pending, []
        self._free_changes = self._limits.changes
        self._free_bytes = self._limits.bytes
        return batch


class WatchHub:
    """All watches of one store, indexed by the directory part of their prefix.

    Dictionaries serve as ordered sets: the order of delivery must not depend on hashing.
    """

    def __init__(self, revision: Revision, *, history: Limits, backlog: Limits) -> None:
        self.history = History(revision, history)
        self._limits = history
        self._backlog = backlog
        self._buckets: dict[str, dict[Subscription, None]] = {}
        #: Watches by the directory of a changed key, until a watch begins or ends.
        self._routes: dict[str, tuple[Subscription, ...]] = {}

    def publish(self, changes: Iterable[StoreChange]) -> None:
        """Add changes to the history and to the matching watches, in revision order."""
        for change in changes:
            weight = weight_of(change)
            self.history.append(change, weight)
            for watch in self._concerned(change.key):
                if change.key.startswith(watch.prefix):
                    watch.offer(change, weight)

    def subscribe(self, prefix: str, after: Revision) -> Subscription:
        """A watch of the changes after a past or future revision. Raises Compacted."""
        watch = Subscription(prefix, after, self.history.after(after, prefix), self._backlog, self._leave)
        self._buckets.setdefault(_directory(prefix), {})[watch] = None
        self._routes.clear()
        return watch

    def restart(self, revision: Revision) -> None:
        """Changes were missed: end all watches and start a new history."""
        for bucket in tuple(self._buckets.values()):
            for watch in tuple(bucket):
                watch.overflow()
        self.history = History(revision, self._limits)

    def close(self) -> None:
        for bucket in self._buckets.values():
            for watch in bucket:
                watch.finish()
        self._buckets.clear()
        self._routes.clear()

    def _concerned(self, key: str) -> tuple[Subscription, ...]:
        """Watches that may match this key, those of the widest directory first."""
        directory = _directory(key)
        watches = self._routes.get(directory)
        if watches is None:
            if len(self._routes) >= MAX_ROUTES:
                self._routes.clear()
            watches = tuple(watch for each in _directories(directory) for watch in self._buckets.get(each, ()))
            self._routes[directory] = watches
        return watches

    def _leave(self, watch: Subscription) -> None:
        self._routes.clear()
        directory = _directory(watch.prefix)
        bucket = self._buckets.get(directory, {})
        bucket.pop(watch, None)
        if not bucket:
            self._buckets.pop(directory, None)


def _directory(prefix: str) -> str:
    """Bucket of a watch of this prefix: up to the last slash."""
    return prefix[: prefix.rfind("/") + 1]


def _directories(key: str) -> Iterator[str]:
    """Buckets of all watches that may match this key, the widest first."""
    end = 0
    while end >= 0:
        yield key[:end]
        end = key.find("/", end) + 1 or -1


class WatchCache:
    """Reads and watches of a store; a store adds `write` and `close`."""

    def __init__(self, state: StoreState, *, history: Limits, backlog: Limits) -> None:
        self._state = state
        self._hub = WatchHub(state.revision, history=history, backlog=backlog)
        self._closed = False

    @property
    def revision(self) -> Revision:
        return self._state.revision

    def count(self, prefix: str) -> int:
        return self._state.count(prefix)

    async def wait_current(self) -> None:
        """Only this process writes; EtcdStore overrides this."""

    async def get(self, key: str) -> Record | None:
        self._refuse_if_closed()
        return self._state.get(key)

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        self._refuse_if_closed()
        if at is None:
            return self._state.under(prefix, start=start, limit=limit)
        since = self._hub.history.after(at, prefix)
        return self._state.at_revision(since, at, prefix, start=start, limit=limit)

    async def watch(self, prefix: str, *, after: Revision) -> Watch:
        self._refuse_if_closed()
        return self._hub.subscribe(prefix, after)

    def _apply(self, changes: Sequence[StoreChange]) -> None:
        """Make decided changes readable and publish them to the watches."""
        for change in changes:
            self._state.apply(change)
        self._hub.publish(changes)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreClosed("the store is closed")


class MemoryStore(WatchCache):
    """Store without durability, used by simulated clusters. No call awaits anything."""

    def __init__(self, *, history: Limits = HISTORY, backlog: Limits = BACKLOG) -> None:
        super().__init__(StoreState(), history=history, backlog=backlog)

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        self._refuse_if_closed()
        decided = decide(Write(key, value, expect, precondition), self._state.get, self._state.revision)
        if not isinstance(decided, StoreChange):
            raise decided
        self._apply((decided,))
        return decided

    async def close(self) -> None:
        self._closed = True
        self._hub.close()
