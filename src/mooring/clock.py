"""The `Clock` contract for waiting and timestamps; no other module reads the operating system's clock.

Below every layer. Simulations pass a virtual clock.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final, Protocol

#: Steps of a long computation between two turns of the event loop. A step (decode, index, notify handlers) takes 10 to
#: 100 microseconds, so that a batch delays a lease renewal by milliseconds only.
BATCH: Final = 64


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for durations, and sleeping."""

    def now(self) -> float:
        """Seconds since the epoch, UTC. For timestamps in objects; may jump."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment. For deadlines, backoff and ages; never jumps back."""

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields to other tasks."""


class SystemClock:
    """The machine's clocks and the running event loop's timer."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


class IncreasingTime:
    """Wall-clock readings of one process, each later than all before, also where the clock stops or steps back."""

    #: The finest difference that timestamps in objects show.
    TICK: Final = 1e-6

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0.0

    def after(self, moment: float = 0.0) -> float:
        """The time now, and later than `moment`."""
        self._last = max(self._clock.now(), moment + self.TICK, self._last + self.TICK)
        return self._last


async def set_within(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait for the event at most this long; whether it is set."""
    waiting = asyncio.ensure_future(event.wait())
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((waiting, alarm), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        alarm.cancel()
    return event.is_set()


async def in_batches(steps: Iterable[object], clock: Clock) -> None:
    """Exhaust `steps`, yielding to other tasks after each batch."""
    for number, _ in enumerate(steps, 1):
        if not number % BATCH:
            await clock.sleep(0)
