"""What ties one incarnation of a component to the rest of its world: all it sends and hears goes along this line.

Messages take their time on it, a paused incarnation sends and hears nothing, and death cuts it first: from then on
nothing that is asked for reaches anybody and nothing comes back, so that whatever a dying component still tries, its
last write lies behind it. `faulty_client` and `faulty_driver` are what is at the other end.
"""

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple

from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.sim.faults import Crash
from mooring.sim.history import History
from mooring.sim.weather import Luck, Weather


class Network(NamedTuple):
    """What all incarnations of a world share."""

    server: Client
    weather: Weather
    history: History
    clock: Clock


class Lifeline:
    def __init__(
        self, network: Network, who: str, luck: Luck, rng: random.Random, die: Callable[[Crash], None]
    ) -> None:
        """`die` is called, once, when the incarnation's time has come; the line is severed by then."""
        self.network = network
        self.who = who
        self.luck = luck
        self._rng = rng
        self._die = die
        self._severed = False
        #: The revision of the watch cache that lists and watches are served from, and until when it stays behind.
        self.cached: tuple[int, float] | None = None

    @property
    def stale_cache(self) -> tuple[int, float] | None:
        """The same, while it is behind."""
        return self.cached if self.cached is not None and self.network.clock.monotonic() < self.cached[1] else None

    def sever(self) -> None:
        self._severed = True

    def live(self) -> None:
        """Ends whoever asks once this incarnation is over, even in a `finally`, where waiting for an answer that
        never comes would keep the dead around."""
        if self._severed:
            raise asyncio.CancelledError("this incarnation is over")

    async def travel(self) -> None:
        """A message on its way, to wherever this incarnation then is."""
        _, weather, _, clock = self.network
        if weather.plan.latency:
            await clock.sleep(self._rng.uniform(0.0, weather.plan.latency))
        if pause := self.luck.pause():
            await clock.sleep(pause)
        self.live()

    async def delay(self, seconds: float) -> None:
        """A message that takes longer than it should."""
        await self.network.clock.sleep(seconds)
        await self.travel()

    def outlive(self, what: str) -> None:
        """Something took effect that outlasts the incarnation: whether it lives to hear of it."""
        crash = self.luck.next_write()
        if crash is not None and not self._severed:
            self.note(f"{what}: crashed after this write, down for {crash.down} s")
            self.sever()
            self._die(crash)
        self.live()

    def note(self, what: str) -> None:
        self.network.history.note(self.who, what)
