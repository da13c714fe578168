"""A simulated cluster: the components of the embedded cluster on virtual time, from one seed and one fault plan.

Every component is an `Instance` with its own client, informers, recorder and randomness, and restarts without state
after a crash. With `Standby` in the plan, a second instance waits for the Lease of the first. Scenarios use a client
into which no faults are injected.
"""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from mooring.api.kinds import EVENT, NODE
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout, bootstrap
from mooring.cluster.control_plane import POLL_INTERVAL_SECONDS, build_components
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.control.election import LEASE_NAMESPACE
from mooring.control.feature_gates import CLAIM_ROLLBACK, DEFAULTS, FeatureGates
from mooring.control.leader_election import lead
from mooring.control.object_counts import remembered
from mooring.csi.contract import Driver
from mooring.nodeagent.node_objects import is_ready
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.simulation.faults import (
    NO_FAULTS,
    Crash,
    DuplicateInstance,
    FaultPlan,
    LeaderChange,
    ServerRestart,
    Standby,
)
from support.simulation.faulty_client import ElectionClient, FaultyClient, FaultyStore
from support.simulation.faulty_driver import DriverProcess, FaultyDriver
from support.simulation.history import History, RecordingStore, Written
from support.simulation.injector import FaultInjector, InstanceConnection, InstanceFaults, Interventions, Network

#: The driver of a name, over the connection of the process instance.
Reach = Callable[[str], Driver]
Build = Callable[[Context, Reach], Component]


#: How long an instance that was frozen acts until it observes that its lease is lost.
NOTICE_SECONDS: Final = 0.1
#: Noted when fault injection stops; every other note is about a fault.
FAULTS_STOPPED: Final = "stopped"


async def _kill(process: asyncio.Task[None], connection: InstanceConnection) -> None:
    connection.disconnect()
    process.cancel()
    await asyncio.wait((process,))


class InstanceState(NamedTuple):
    """The running component of an instance, for auditors."""

    component: Any
    informers: Informers


class Instance:
    """A component across its restarts. `name` is used in fault plans; two instances may share the event `source`."""

    def __init__(
        self,
        network: Network,
        drivers: Mapping[str, DriverProcess],
        name: str,
        source: str,
        build: Build,
        *,
        seed: int,
        gates: FeatureGates = DEFAULTS,
        elected: bool = False,
    ) -> None:
        """`elected`: it acts only while it holds the Lease of its component."""
        self._network = network
        self._drivers = drivers
        self._elected = elected
        self.name = name
        self._source = source
        self._build = build
        self._seed = seed
        self._gates = gates
        self._faults = InstanceFaults(network.injector, name)
        self._component: Component | None = None
        self._informers: Informers | None = None
        #: Objects of the running process, by the name they are counted under.
        self._holders: dict[str, object] = {}
        #: The revision of the watch cache that the next process sees, if it is behind.
        self._behind: int | None = None

    @property
    def state(self) -> InstanceState | None:
        """None while the component is not ready."""
        if self._component is None or self._informers is None or not self._component.ready:
            return None
        return InstanceState(self._component, self._informers)

    @property
    def ready(self) -> bool:
        return self._component is not None and self._component.ready

    @property
    def stands_by(self) -> bool:
        """Whether its caches have synced, so that it can take over."""
        return self._informers is not None and not self._informers.unsynced()

    def remembered(self) -> dict[str, int]:
        """Entries that the running process keeps in memory, its informers and event recorder included."""
        return {
            f"{self.name} {holder} {what}": count
            for holder, thing in self._holders.items()
            for what, count in remembered(thing, deep=True).items()
        }

    async def run(self) -> None:
        """Run and restart as planned, until cancelled. A component that returns by itself raises RuntimeError."""
        end: Crash | LeaderChange | None = None
        async with asyncio.TaskGroup() as resigning:
            for number in itertools.count(1):
                end = await self._run_instance(number, end, resigning)
                if isinstance(end, LeaderChange):
                    self._behind = None
                    self._network.history.note(self.name, "another instance leads")
                    continue
                revision = self._network.history.revision(end.behind)
                self._behind = revision if end.behind else None
                await self._network.clock.sleep(end.down)
                note = f", behind an API server at revision {revision}" if end.behind else ""
                self._network.history.note(self.name, f"started again{note}")

    async def _run_instance(
        self, number: int, before: Crash | LeaderChange | None, resigning: asyncio.TaskGroup
    ) -> Crash | LeaderChange:
        crashed: asyncio.Future[Crash | LeaderChange] = asyncio.get_running_loop().create_future()
        rng = self._randomness("network", number)
        connection = InstanceConnection(self._network, self.name, self._faults, rng, crashed.set_result)
        if isinstance(before, Crash) and self._behind is not None:
            connection.cached = self._behind, self._network.clock.monotonic() + before.stale
        frozen = False
        process = asyncio.create_task(self._work(connection, number), name=f"{self.name} {number}")
        try:
            await asyncio.wait((process, crashed), return_when=asyncio.FIRST_COMPLETED)
            if not crashed.done():
                process.result()
                raise RuntimeError(f"{self.name} ended by itself")
            end = crashed.result()
            if isinstance(end, LeaderChange):
                resigns = self._resign(process, connection, end)
                if end.frozen:
                    resigning.create_task(resigns, name=f"{self.name} {number} without its lease")
                    frozen = True
                else:
                    await resigns
            return end
        finally:
            self._component = None
            self._holders = {}
            if not frozen:
                await _kill(process, connection)

    async def _resign(self, process: asyncio.Task[None], connection: InstanceConnection, change: LeaderChange) -> None:
        """End a process that has lost its lease. Writes of its shutdown still take effect."""
        try:
            if change.frozen:
                await self._network.clock.sleep(change.frozen)
                connection.note("resumed without its lease")
                await self._network.clock.sleep(NOTICE_SECONDS)
            process.cancel()
            await asyncio.wait((process,))
            if not process.cancelled():
                process.result()
        finally:
            await _kill(process, connection)

    async def _work(self, connection: InstanceConnection, number: int) -> None:
        client = FaultyClient(connection)
        clock, rng = self._network.clock, self._randomness("component", number)
        informers = self._informers = Informers(client, clock, rng)
        recorder = EventRecorder(client, clock, self._source, rng)
        context = Context(client, informers, recorder, clock, rng, self._gates)
        self._component = self._build(context, lambda name: FaultyDriver(self._drivers[name], connection))
        self._holders = {"component": self._component, "informers": informers, "recorder": recorder}
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run(), name="informers")
            group.create_task(recorder.run(), name="events")
            group.create_task(self._act(self._component, connection, number), name=self._component.name)

    async def _act(self, component: Component, connection: InstanceConnection, number: int) -> None:
        if not self._elected:
            await component.run()
            return
        await lead(
            ElectionClient(connection),
            self._network.clock,
            self._randomness("election", number),
            name=f"{self._source}-leader",
            namespace=LEASE_NAMESPACE,
            identity=f"{self.name} {number}",
            act=component.run,
        )

    def _randomness(self, purpose: str, number: int) -> random.Random:
        """One source per purpose, so that leaving out a fault does not change other random values."""
        return random.Random(f"{self._seed} {purpose} {self.name} {number}")


T = TypeVar("T")


class ExtraComponents(NamedTuple):
    """Drivers and components besides those of every cluster; a component of the same name replaces the default one."""

    drivers: Mapping[str, Driver] = MappingProxyType({})
    components: Mapping[str, Build] = MappingProxyType({})


#: Called once per cluster, since drivers have state.
BuildExtraComponents = Callable[[random.Random], ExtraComponents]


def no_extra_components(_: random.Random) -> ExtraComponents:
    return ExtraComponents()


#: Lease renewals a second of all nodes together: an idle hour of a hundred nodes should not cost a minute.
PACE: Final = 0.25


class SimulatedCluster:
    """What a scenario uses: a client, the clock and the history."""

    def __init__(
        self,
        layout: Layout,
        *,
        seed: int,
        plan: FaultPlan,
        clock: Clock,
        extra_components: BuildExtraComponents = no_extra_components,
        gates: FeatureGates = DEFAULTS,
    ) -> None:
        self.clock = clock
        self.history = History(clock)
        self._layout = layout
        self._seed = seed
        self._gates = gates
        self._injector = FaultInjector(plan, clock)
        self.store = RecordingStore(self.history)
        disk = FaultyStore(self.store, self._injector, self.history, clock)
        rollback = gates.enabled(CLAIM_ROLLBACK)
        self._server = server = ApiServer(disk, clock, random.Random(f"{seed} server"), claim_rollback=rollback)
        self.client: Client = LocalClient(server, User("simulation", ("system:masters",)))
        self._interventions = Interventions(self.client, self.history)
        self._network = Network(self.client, self._injector, self.history, clock)
        drivers, more = extra_components(random.Random(f"{seed} annex"))
        self._drivers = {name: DriverProcess(name, one, self.history, clock) for name, one in drivers.items()}
        builds = build_components(layout, pace=PACE)
        self._table = {source: _without_driver(build) for source, build in builds} | {**more}
        elected = {standby.of for standby in plan.of(Standby)}
        self._instances = [self._instance(source, source, elected=source in elected) for source in self._table]
        self._standbys = [self._instance(f"{name}-2", name, elected=True) for name in sorted(elected)]
        self._instances += [self._duplicate(duplicate) for duplicate in plan.of(DuplicateInstance) if not duplicate.at]
        self._group: asyncio.TaskGroup | None = None
        self._problem = asyncio.Event()
        self._reason: Exception | None = None
        self.history.on_write(self._after_write)

    async def until(self, holds: Callable[[], Awaitable[bool]], *, within: float) -> bool:
        """Wait until a condition holds; False after `within` simulated seconds."""
        deadline = self.clock.monotonic() + within
        while not await holds():
            if self.clock.monotonic() >= deadline:
                return False
            await self.clock.sleep(0.1)
        return True

    def driver(self, name: str) -> Driver:
        """A driver, without fault injection."""
        return self._drivers[name].driver

    def state(self, instance: str) -> InstanceState | None:
        """The running component of an instance; None while it is not ready."""
        return next((each.state for each in self._instances if each.name == instance), None)

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

    def stop(self) -> None:
        """Stop fault injection. Crashed instances restart; duplicates stay."""
        self.history.note("fault injection", FAULTS_STOPPED)
        self._injector.stop()

    def end(self, reason: Exception) -> None:
        """Stop the run, which raises the first reason given."""
        if self._reason is None:
            self._reason = reason
            self._group = None
            self._problem.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ready inside the block, with the plan active."""
        await bootstrap(self.client, self._layout)
        async with asyncio.TaskGroup() as group:
            self._group = group
            tasks = [group.create_task(self._watch_for_problems(), name="problems")]
            tasks += [group.create_task(instance.run()) for instance in self._instances]
            while not await self._ready():
                await self.clock.sleep(POLL_INTERVAL_SECONDS)
            tasks += [group.create_task(standby.run()) for standby in self._standbys]
            while not all(standby.stands_by for standby in self._standbys):
                await self.clock.sleep(POLL_INTERVAL_SECONDS)
            self._injector.begin()
            tasks += [
                group.create_task(self._add_later(duplicate))
                for duplicate in self._injector.plan.of(DuplicateInstance)
                if duplicate.at
            ]
            try:
                yield
            finally:
                self._group = None
                for task in tasks:
                    task.cancel()

    async def _ready(self) -> bool:
        """All components and all nodes of the layout are ready."""
        nodes = (await self.client.list(NODE)).items
        here = len(nodes) >= self._layout.nodes and all(is_ready(node) for node in nodes)
        return here and all(instance.ready for instance in self._instances)

    def _instance(self, name: str, component: str, *, elected: bool = False) -> Instance:
        build, gates = self._table[component], self._gates
        return Instance(
            self._network, self._drivers, name, component, build, seed=self._seed, gates=gates, elected=elected
        )

    def _duplicate(self, duplicate: DuplicateInstance) -> Instance:
        return self._instance(f"{duplicate.of}-2", duplicate.of)

    async def _add_later(self, duplicate: DuplicateInstance) -> None:
        await self.clock.sleep(duplicate.at)
        self.history.note(f"{duplicate.of}-2", f"started beside {duplicate.of}")
        await self._duplicate(duplicate).run()

    async def _watch_for_problems(self) -> None:
        await self._problem.wait()
        assert self._reason is not None, "end() sets the reason first"
        raise self._reason

    def _after_write(self, written: Written) -> None:
        if written.kind is EVENT or self._group is None:
            return
        for fault in self._injector.after_write():
            match fault:
                case ServerRestart(down=down):
                    self.history.note("API server", f"restarted, unavailable for {down} s")
                    self._injector.take_server_away(down)
                    self.store.restart()
                case _:
                    self._group.create_task(self._interventions.carry_out(fault))


def _without_driver(build: Callable[[Context], Component]) -> Build:
    return lambda context, _: build(context)


def simulate(
    scenario: Callable[[SimulatedCluster], Awaitable[T]],
    *,
    layout: Layout,
    seed: int = 0,
    plan: FaultPlan = NO_FAULTS,
    extra_components: BuildExtraComponents = no_extra_components,
    gates: FeatureGates = DEFAULTS,
) -> T:
    """Start a cluster, run the scenario while the plan is active, stop the cluster, return the scenario's result."""

    async def main(clock: VirtualClock) -> T:
        cluster = SimulatedCluster(
            layout, seed=seed, plan=plan, clock=clock, extra_components=extra_components, gates=gates
        )
        async with cluster.running():
            return await scenario(cluster)

    return virtual_time.run_in_virtual_time(main)
