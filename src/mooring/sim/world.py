"""A simulated cluster: the components of the embedded one, in memory, on virtual time, from one seed and one plan.

Around one API server stand as many processes as there are components; each has its own client, informers and memory,
and each may crash. Scenarios see what a user sees, through a client that never fails.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from mooring.api.kinds import EVENT, NODE
from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout, bootstrap
from mooring.cluster.local_client import LocalClient
from mooring.cluster.wiring import GLANCE_SECONDS, components
from mooring.control.component import Component, Context
from mooring.control.feature_gates import CLAIM_ROLLBACK, DEFAULTS, FeatureGates
from mooring.control.remembered import remembered
from mooring.csi.contract import Driver
from mooring.nodeagent.rows import is_ready
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.sim import loop
from mooring.sim.faults import CALM, FaultPlan, ServerRestart, Twin
from mooring.sim.faulty_driver import DriverProcess
from mooring.sim.faulty_store import FaultyStore
from mooring.sim.history import History, WitnessedStore, Written
from mooring.sim.instance import Build, Insight, Instance
from mooring.sim.interventions import Interventions
from mooring.sim.lifeline import Network
from mooring.sim.loop import VirtualClock
from mooring.sim.weather import Weather

T = TypeVar("T")


class Annex(NamedTuple):
    """What a world has beyond the components of every cluster: drivers, and components that may reach them.

    A component of the same name as one of every cluster takes its place.
    """

    drivers: Mapping[str, Driver] = MappingProxyType({})
    components: Mapping[str, Build] = MappingProxyType({})


#: Made anew for every world: drivers remember.
MakeAnnex = Callable[[random.Random], Annex]


def no_annex(_: random.Random) -> Annex:
    return Annex()


#: Lease renewals a second of all nodes together: an idle hour of a hundred nodes should not cost a minute.
PACE: Final = 0.25


class World:
    """What a scenario sees: the API as any client would, the clock, and what has happened so far."""

    def __init__(
        self,
        layout: Layout,
        *,
        seed: int,
        plan: FaultPlan,
        clock: Clock,
        annex: MakeAnnex = no_annex,
        gates: FeatureGates = DEFAULTS,
    ) -> None:
        self.clock = clock
        self.history = History(clock)
        self._layout = layout
        self._seed = seed
        self._gates = gates
        self._weather = Weather(plan, clock)
        self.store = WitnessedStore(self.history)
        disk = FaultyStore(self.store, self._weather, self.history, clock)
        rollback = gates.enabled(CLAIM_ROLLBACK)
        self._server = server = ApiServer(disk, clock, random.Random(f"{seed} server"), claim_rollback=rollback)
        self.client: Client = LocalClient(server, User("simulation", ("system:masters",)))
        self._interventions = Interventions(self.client, self.history)
        self._network = Network(self.client, self._weather, self.history, clock)
        drivers, more = annex(random.Random(f"{seed} annex"))
        self._drivers = {name: DriverProcess(name, one, self.history, clock) for name, one in drivers.items()}
        builds = components(layout, pace=PACE)
        self._table = {source: _without_driver(build) for source, build in builds} | {**more}
        self._instances = [self._instance(source, source) for source in self._table]
        self._instances += [self._twin(twin) for twin in plan.of(Twin) if not twin.at]
        self._group: asyncio.TaskGroup | None = None
        self._problem = asyncio.Event()
        self._reason: Exception | None = None
        self.history.on_write(self._after_write)

    async def until(self, holds: Callable[[], Awaitable[bool]], *, within: float) -> bool:
        """Let time pass until something holds; False if it does not within so many simulated seconds."""
        deadline = self.clock.monotonic() + within
        while not await holds():
            if self.clock.monotonic() >= deadline:
                return False
            await self.clock.sleep(0.1)
        return True

    def driver(self, name: str) -> Driver:
        """A driver of the annex itself, without anything that could go wrong on the way to it."""
        return self._drivers[name].driver

    def insight(self, who: str) -> Insight | None:
        """A look inside an instance, for auditors; None while it does not act."""
        return next((each.insight for each in self._instances if each.who == who), None)

    def remembered(self) -> dict[str, int]:
        """Entries that every component and the API server keep in memory, by component and attribute."""
        found = {
            f"API server {holder} {what}": count
            for holder, thing in (("server", self._server), ("store", self.store))
            for what, count in remembered(thing, deep=True).items()
        }
        for instance in self._instances:
            found |= instance.remembered()
        return found

    def calm(self) -> None:
        """From here on nothing goes wrong any more; who is down comes up, and twins stay."""
        self.history.note("weather", "calm")
        self._weather.calm()

    def end(self, reason: Exception) -> None:
        """Stop everything, from wherever this is called; the run raises the first reason given."""
        if self._reason is None:
            self._reason = reason
            self._group = None
            self._problem.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Up and ready inside the block, with the plan in force."""
        await bootstrap(self.client, self._layout)
        async with asyncio.TaskGroup() as group:
            self._group = group
            tasks = [group.create_task(self._watch_for_problems(), name="problems")]
            tasks += [group.create_task(instance.run()) for instance in self._instances]
            while not await self._ready():
                await self.clock.sleep(GLANCE_SECONDS)
            self._weather.begin()
            tasks += [group.create_task(self._add_later(twin)) for twin in self._weather.plan.of(Twin) if twin.at]
            try:
                yield
            finally:
                self._group = None
                for task in tasks:
                    task.cancel()

    async def _ready(self) -> bool:
        """All components act, and every node of the layout has reported."""
        nodes = (await self.client.list(NODE)).items
        here = len(nodes) >= self._layout.nodes and all(is_ready(node) for node in nodes)
        return here and all(instance.ready for instance in self._instances)

    def _instance(self, who: str, component: str) -> Instance:
        build = self._table[component]
        return Instance(self._network, self._drivers, who, component, build, seed=self._seed, gates=self._gates)

    def _twin(self, twin: Twin) -> Instance:
        return self._instance(f"{twin.of}-2", twin.of)

    async def _add_later(self, twin: Twin) -> None:
        await self.clock.sleep(twin.at)
        self.history.note(f"{twin.of}-2", f"started beside {twin.of}")
        await self._twin(twin).run()

    async def _watch_for_problems(self) -> None:
        await self._problem.wait()
        assert self._reason is not None, "a problem has a reason"
        raise self._reason

    def _after_write(self, written: Written) -> None:
        if written.kind is EVENT or self._group is None:
            return
        for fault in self._weather.after_write():
            match fault:
                case ServerRestart(down=down):
                    self.history.note("API server", f"restarted, away for {down} s")
                    self._weather.take_server_away(down)
                    self.store.restart()
                case _:
                    self._group.create_task(self._interventions.carry_out(fault))


def _without_driver(build: Callable[[Context], Component]) -> Build:
    return lambda context, _: build(context)


def simulate(
    scenario: Callable[[World], Awaitable[T]],
    *,
    layout: Layout,
    seed: int = 0,
    plan: FaultPlan = CALM,
    annex: MakeAnnex = no_annex,
    gates: FeatureGates = DEFAULTS,
) -> T:
    """Bring a cluster up, run the scenario in it while the plan is in force, tear it down, return what it returned."""

    async def main(clock: VirtualClock) -> T:
        world = World(layout, seed=seed, plan=plan, clock=clock, annex=annex, gates=gates)
        async with world.running():
            return await scenario(world)

    return loop.run(main)
