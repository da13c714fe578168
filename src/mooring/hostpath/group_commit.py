"""Group commit: callers that wait for the disk at the same time share one flush.

While a flush runs in its thread, further items queue up and go into the next one, so the number of flushes depends on
how long the disk takes and not on how many callers there are.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class GroupCommit(Generic[T]):
    def __init__(self, flush: Callable[[Sequence[T]], None]) -> None:
        """`flush` blocks until the items are durable and raises OSError when they are not; it runs in a thread, never
        twice at once."""
        self._flush = flush
        self._queue: list[tuple[T, asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> None:
        """Return when a flush that began after this call has succeeded; raise the OSError of that flush."""
        done = asyncio.get_running_loop().create_future()
        self._queue.append((item, done))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._run(), name="group commit")
        await done

    async def _run(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                failure: Exception | None = None
                try:
                    await asyncio.to_thread(self._flush, [item for item, _ in batch])
                except Exception as error:
                    failure = error
                for _, done in batch:
                    if done.done():
                        continue
                    if failure is None:
                        done.set_result(None)
                    else:
                        done.set_exception(failure)
        finally:
            self._flusher = None
