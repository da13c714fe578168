"""Large requests: worked on beside the event loop, a few at a time.

Reading, completing and judging three megabytes takes Python up to seconds. The loop answers other callers meanwhile,
because these steps run in a thread of their own: there is one, since more would only take turns with the loop for the
interpreter. What such requests hold in memory is bounded by how many are worked on at once, and by how many wait.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from mooring.api.errors import Details, TooManyRequests

#: Large requests that are decoded at a time; each may take some ten megabytes.
AT_A_TIME: Final = 2
#: Large requests that wait, each with its body.
WAITING: Final = 32

T = TypeVar("T")


class WorkerThread:
    """Runs steps one after the other beside the event loop: an `environment.Compute`."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="large-requests")

    async def __call__(self, step: Callable[[], T], /) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, step)

    def close(self) -> None:
        """Steps that have not begun never do; the one under way ends, and nothing waits for it."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class LargeRequests:
    """The line that large requests stand in."""

    def __init__(self, *, at_a_time: int = AT_A_TIME, waiting: int = WAITING) -> None:
        self._turns = asyncio.Semaphore(at_a_time)
        self._most = at_a_time + waiting
        self._present = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One request's turn, inside the block. Raises TooManyRequests; clients come back after a while."""
        if self._present >= self._most:
            raise TooManyRequests(
                "too many large requests are waiting, please try again later", details=Details(retry_after_seconds=1)
            )
        self._present += 1
        try:
            async with self._turns:
                yield
        finally:
            self._present -= 1
