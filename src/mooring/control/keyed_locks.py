"""Locks by key, several at once: tasks that have no key in common do not wait for each other.

For the coordinator, which decides at a time about claims that pods have in common, and for node agents, which must
not unstage a volume that another pod is being given. First come, first served.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", str, tuple[str, str, str])


class KeyedLocks(Generic[K]):
    """Nothing is kept of keys that no task holds or waits for."""

    def __init__(self) -> None:
        #: The lock of a key, and how many tasks hold it or wait for it.
        self._locks: dict[K, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def holding(self, keys: Iterable[K]) -> AsyncIterator[None]:
        """No other task holds any of the keys inside the block. In one order for all, so that none waits for ever."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):
                lock, wanted = self._locks.get(key, (asyncio.Lock(), 0))
                self._locks[key] = lock, wanted + 1
                stack.callback(self._leave, key)
                await stack.enter_async_context(lock)
            yield

    def _leave(self, key: K) -> None:
        lock, wanted = self._locks.pop(key)
        if wanted > 1:
            self._locks[key] = lock, wanted - 1
