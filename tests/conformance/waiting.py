"""Waiting for what other processes do, in a thread, so that the event loop stays free."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
POLL: Final = 0.2


async def eventually(holds: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Until it holds; AssertionError when that takes too long."""
    await asyncio.to_thread(wait, holds, patience=patience)


def wait(holds: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """The same without a loop."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(POLL)
