"""One instance of a component through all its lives: started, crashed, started again with nothing remembered.

Every incarnation gets a `Context` of its own: client, informers, event recorder, randomness. Death severs its lifeline
first and cancels the tasks after, so that no `finally` can still write. What survives is the API server's, the
drivers', and the instance's luck.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.control.component import Component, Context
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.control.remembered import remembered
from mooring.csi.contract import Driver
from mooring.sim.faults import Crash
from mooring.sim.faulty_client import FaultyClient
from mooring.sim.faulty_driver import DriverProcess, FaultyDriver
from mooring.sim.lifeline import Lifeline, Network
from mooring.sim.weather import Luck

#: The driver of a name, at the end of the incarnation's own line, which may fail and which its death severs.
Reach = Callable[[str], Driver]
Build = Callable[[Context, Reach], Component]


class Insight(NamedTuple):
    component: Any
    informers: Informers


class Instance:
    """Known as `who` in plans and stories; its events carry `source`, which two instances may share."""

    def __init__(
        self,
        network: Network,
        drivers: Mapping[str, DriverProcess],
        who: str,
        source: str,
        build: Build,
        *,
        seed: int,
        gates: FeatureGates = DEFAULTS,
    ) -> None:
        self._network = network
        self._drivers = drivers
        self.who = who
        self._source = source
        self._build = build
        self._seed = seed
        self._gates = gates
        self._luck = Luck(network.weather, who)
        self._component: Component | None = None
        self._informers: Informers | None = None
        #: What this incarnation holds, by the name it is counted under.
        self._holders: dict[str, object] = {}
        #: The revision that the next incarnation finds the API server's watch cache at, if that is behind.
        self._behind: int | None = None

    @property
    def insight(self) -> Insight | None:
        """What the present incarnation is made of; None while it does not act."""
        if self._component is None or self._informers is None or not self._component.ready:
            return None
        return Insight(self._component, self._informers)

    @property
    def ready(self) -> bool:
        return self._component is not None and self._component.ready

    def remembered(self) -> dict[str, int]:
        """Entries that the living incarnation keeps in memory, its informers and event recorder included."""
        return {
            f"{self.who} {holder} {what}": count
            for holder, thing in self._holders.items()
            for what, count in remembered(thing, deep=True).items()
        }

    async def run(self) -> None:
        """Live and die as the plan has it, until cancelled. A component that ends by itself is a bug, and raised."""
        crash: Crash | None = None
        for number in itertools.count(1):
            crash = await self._live(number, crash)
            revision = self._network.history.revision(crash.behind)
            self._behind = revision if crash.behind else None
            await self._network.clock.sleep(crash.down)
            note = f", behind an API server at revision {revision}" if crash.behind else ""
            self._network.history.note(self.who, f"started again{note}")

    async def _live(self, number: int, before: Crash | None) -> Crash:
        crashed: asyncio.Future[Crash] = asyncio.get_running_loop().create_future()
        rng = self._randomness("network", number)
        line = Lifeline(self._network, self.who, self._luck, rng, crashed.set_result)
        if before is not None and self._behind is not None:
            line.cached = self._behind, self._network.clock.monotonic() + before.stale
        life = asyncio.create_task(self._work(line, number), name=f"{self.who} {number}")
        try:
            await asyncio.wait((life, crashed), return_when=asyncio.FIRST_COMPLETED)
            if crashed.done():
                return crashed.result()
            life.result()
            raise RuntimeError(f"{self.who} ended by itself")
        finally:
            self._component = None
            self._holders.clear()
            line.sever()
            life.cancel()
            await asyncio.wait((life,))

    async def _work(self, line: Lifeline, number: int) -> None:
        client = FaultyClient(line)
        clock, rng = self._network.clock, self._randomness("component", number)
        informers = self._informers = Informers(client, clock, rng)
        recorder = EventRecorder(client, clock, self._source, rng)
        context = Context(client, informers, recorder, clock, rng, self._gates)
        self._component = self._build(context, lambda name: FaultyDriver(self._drivers[name], line))
        self._holders = {"component": self._component, "informers": informers, "recorder": recorder}
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run(), name="informers")
            group.create_task(recorder.run(), name="events")
            group.create_task(self._component.run(), name=self._component.name)

    def _randomness(self, purpose: str, number: int) -> random.Random:
        """A source of its own for each purpose, so that a fault left out does not change what others draw."""
        return random.Random(f"{self._seed} {purpose} {self.who} {number}")
