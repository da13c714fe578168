"""Waiting for what other processes do, in a thread, so that the event loop stays free."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

#: Seconds for anything that comes by itself: what tells late from never. Less than the five minutes after which the
#: scheduler tries by itself whom nothing woke.
PATIENCE: Final = 150.0
#: The same for kubectl, which waits in its own way.
KUBECTL_PATIENCE: Final = "--timeout=120s"
POLL: Final = 0.2


async def eventually(holds: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Until it holds; AssertionError when that takes too long."""
    await asyncio.to_thread(wait, holds, patience=patience)


def wait(
    holds: Callable[[], bool],
    *,
    patience: float = PATIENCE,
    account: Callable[[], str] = lambda: "it never came to that",
) -> None:
    """The same without a loop. `account` says how things stand when patience is at its end."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, account()
        time.sleep(POLL)
