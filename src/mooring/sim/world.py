"""A simulated cluster: the same wiring as the embedded one, in memory, on virtual time, from one seed."""

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.wiring import ControlPlane, running
from mooring.sim import loop
from mooring.sim.loop import VirtualClock
from mooring.store.memory import MemoryStore

T = TypeVar("T")


class World:
    """What a scenario sees: the API as any client would, and the clock."""

    def __init__(self, plane: ControlPlane, clock: Clock) -> None:
        self.client: Client = plane.client
        self.clock = clock

    async def until(self, holds: Callable[[], Awaitable[bool]], *, within: float) -> bool:
        """Let time pass until something holds; False if it does not within so many simulated seconds."""
        deadline = self.clock.monotonic() + within
        while not await holds():
            if self.clock.monotonic() >= deadline:
                return False
            await self.clock.sleep(0.1)
        return True


def simulate(scenario: Callable[[World], Awaitable[T]], *, layout: Layout, seed: int = 0) -> T:
    """Bring a cluster up, run the scenario in it, tear it down, and return what the scenario returned."""

    async def main(clock: VirtualClock) -> T:
        plane = ControlPlane(MemoryStore(), layout, clock=clock, rng=random.Random(seed))
        async with running(plane):
            return await scenario(World(plane, clock))

    return loop.run(main)
