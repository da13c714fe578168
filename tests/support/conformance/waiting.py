"""Polling for the effects of other processes, in a thread, so that the event loop is not blocked."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

#: Timeout in seconds. Less than the five minutes after which the scheduler retries unschedulable pods without an event.
TIMEOUT_SECONDS: Final = 150.0
#: The same for kubectl's own `--timeout`.
KUBECTL_TIMEOUT: Final = "--timeout=120s"
POLL: Final = 0.2


async def eventually(holds: Callable[[], bool], *, timeout: float = TIMEOUT_SECONDS) -> None:
    """Wait until the condition holds; AssertionError after the timeout."""
    await asyncio.to_thread(wait, holds, timeout=timeout)


def wait(
    holds: Callable[[], bool],
    *,
    timeout: float = TIMEOUT_SECONDS,
    account: Callable[[], str] = lambda: "it never came to that",
) -> None:
    """The same without an event loop. `account` describes the state after a timeout."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, account()
        time.sleep(POLL)
