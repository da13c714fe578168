"""What waits: since when something has been so, as far as this process has seen, and tasks that take turns."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager


class Since:
    """Moments by subject and key. A restart begins to count anew, which only ever waits longer."""

    def __init__(self) -> None:
        self._began: dict[str, dict[str, float]] = {}

    def seconds(self, subject: str, key: str = "", *, begins: bool, ends: bool, now: float) -> float:
        """How long ago it began. What has begun goes on until it ends, whether or not it begins again meanwhile."""
        moments = self._began.setdefault(subject, {})
        if ends:
            moments.pop(key, None)
            return 0.0
        if begins:
            moments.setdefault(key, now)
        return now - moments.get(key, now)

    def forget(self, subject: str) -> None:
        self._began.pop(subject, None)


class KeyedLocks:
    """Locks by key, several at once; nothing is kept of keys that no task holds or waits for."""

    def __init__(self) -> None:
        #: The lock of a key, and how many tasks hold it or wait for it.
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def holding(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """No other task holds any of the keys inside the block. In one order for all, so that none waits for ever."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                lock, wanted = self._locks.get(key, (asyncio.Lock(), 0))
                self._locks[key] = lock, wanted + 1
                stack.callback(self._leave, key)
                await stack.enter_async_context(lock)
            yield

    def _leave(self, key: str) -> None:
        lock, wanted = self._locks.pop(key)
        if wanted > 1:
            self._locks[key] = lock, wanted - 1
