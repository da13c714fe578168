"""Time as an argument: the one contract every waiting or dating piece of Mooring takes.

Lowest module of the package, below every layer. The real cluster and the embedded one pass `SystemClock`;
the simulated world passes a clock of its own whose hour costs milliseconds. This is the only module that may
ask the operating system what time it is.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Final, Protocol

#: Steps of a long computation between two turns of the event loop. A step is told to handlers, indexed or decoded in
#: some ten to a hundred microseconds: a batch holds up a lease's renewal for milliseconds, whatever there is in all.
BATCH: Final = 64


class Clock(Protocol):
    """Wall time for what people read, monotonic time for what is measured, and a way to wait."""

    def now(self) -> float:
        """Seconds since the epoch, UTC. For timestamps in objects; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment. For deadlines, backoff and ages; never jumps back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields to others."""
        ...


class SystemClock:
    """The machine's clocks and the running event loop's timer."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


async def set_within(event: asyncio.Event, seconds: float, clock: Clock) -> bool:
    """Wait until the event is set, but no longer than so many seconds; whether it was set."""
    waiting = asyncio.ensure_future(event.wait())
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((waiting, alarm), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        alarm.cancel()
    return event.is_set()


async def in_batches(steps: Iterable[object], clock: Clock) -> None:
    """Go through all steps, and let others run after each batch of them."""
    for number, _ in enumerate(steps, 1):
        if not number % BATCH:
            await clock.sleep(0)


_contract: Clock = SystemClock()
