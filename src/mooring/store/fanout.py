"""From accepted changes to the watches that want them: one bounded queue per watch.

    publish ──► history (bounded) ──► replay for watches that start in the past, lists of what was
           └──► buckets by directory ──► queue of each watch (bounded) ──► batches

Below all stores, on the event loop only. Nothing here waits for a watch: one that falls too far behind is cut
off, one that starts too far back is refused, and neither ever sees a gap.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Self

from mooring.store.contract import Change, Overrun, Revision, Watch
from mooring.store.history import History, Limits, weight_of

#: What one watch may have waiting before it is cut off, beyond what it was given at its start.
BACKLOG: Final = Limits(changes=10_000, bytes=64 << 20)


class Subscription:
    """The contract's Watch: changes gather here until somebody asks for them."""

    def __init__(
        self,
        prefix: str,
        after: Revision,
        replay: Iterable[Change],
        limits: Limits,
        leave: Callable[["Subscription"], None],
    ) -> None:
        self.prefix = prefix
        self._after = after
        self._limits = limits
        self._leave = leave
        self._pending = [*replay]
        self._room_changes = limits.changes
        self._room_bytes = limits.bytes
        self._news = asyncio.Event()
        self._overrun = False
        self._woken = False
        self._closed = False

    def offer(self, change: Change, weight: int) -> None:
        """Queue a change, or cut the watch off if that would be one too many."""
        if change.revision <= self._after:  # the watch asked to start in the future
            return
        self._room_changes -= 1
        self._room_bytes -= weight
        if self._room_changes < 0 or self._room_bytes < 0:
            self.cut_off()
        else:
            self._pending.append(change)
            self._news.set()

    def cut_off(self) -> None:
        """What is still to come cannot all be shown, so nothing more is."""
        self._overrun = True
        self._pending.clear()
        self._leave(self)
        self._news.set()

    def wake(self) -> None:
        self._woken = True
        self._news.set()

    def finish(self) -> None:
        """No more will come: end once everything queued was taken."""
        self._closed = True
        self._news.set()

    def close(self) -> None:
        self._pending.clear()
        self._leave(self)
        self.finish()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Change]:
        # Nothing is taken before the wait is over, so a cancelled wait loses nothing.
        while not (batch := self.waiting()):
            if self._closed:
                raise StopAsyncIteration
            if self._woken:
                self._woken = False
                break
            self._news.clear()
            await self._news.wait()
        return batch

    def waiting(self) -> Sequence[Change]:
        if self._overrun and not self._closed:
            raise Overrun(f"the watch of {self.prefix!r} did not keep up and was cut off")
        if not self._pending:
            return ()
        batch, self._pending = self._pending, []
        self._room_changes = self._limits.changes
        self._room_bytes = self._limits.bytes
        return batch


class Fanout:
    """All watches of one store.

    They are kept by the directory part of their prefix, so a change is held against those above its key only,
    not against everybody's. Dictionaries serve as ordered sets: who is told first must not depend on hashing.
    """

    def __init__(self, revision: Revision, *, history: Limits, backlog: Limits) -> None:
        self.history = History(revision, history)
        self._limits = history
        self._backlog = backlog
        self._buckets: dict[str, dict[Subscription, None]] = {}

    def publish(self, changes: Iterable[Change]) -> None:
        """Tell everybody concerned; changes come in revision order."""
        for change in changes:
            weight = weight_of(change)
            self.history.append(change, weight)
            for directory in _directories(change.key):
                # A copy, because a watch that is cut off leaves its bucket.
                for watch in tuple(self._buckets.get(directory, ())):
                    if change.key.startswith(watch.prefix):
                        watch.offer(change, weight)

    def subscribe(self, prefix: str, after: Revision) -> Subscription:
        """A watch of what comes after a revision, be it past or yet to come. Raises Compacted."""
        watch = Subscription(prefix, after, self.history.after(after, prefix), self._backlog, self._leave)
        self._buckets.setdefault(_directory(prefix), {})[watch] = None
        return watch

    def restart(self, revision: Revision) -> None:
        """Changes were missed: cut everybody off, and remember from here on."""
        for bucket in tuple(self._buckets.values()):
            for watch in tuple(bucket):
                watch.cut_off()
        self.history = History(revision, self._limits)

    def close(self) -> None:
        for bucket in self._buckets.values():
            for watch in bucket:
                watch.finish()
        self._buckets.clear()

    def _leave(self, watch: Subscription) -> None:
        directory = _directory(watch.prefix)
        bucket = self._buckets.get(directory, {})
        bucket.pop(watch, None)
        if not bucket:
            self._buckets.pop(directory, None)


def _directory(prefix: str) -> str:
    """Up to the last slash: where in the buckets a watch of this prefix is kept."""
    return prefix[: prefix.rfind("/") + 1]


def _directories(key: str) -> Iterator[str]:
    """All buckets in which a watch of this key may be, the widest first."""
    end = 0
    while end >= 0:
        yield key[:end]
        end = key.find("/", end) + 1 or -1


_contract: type[Watch] = Subscription
