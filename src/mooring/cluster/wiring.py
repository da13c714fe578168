"""A whole control plane: shared informers and every component, each under its own identity. No HTTP, no store.

The embedded cluster passes clients of the API server in the same process; against a real Kubernetes they are HTTP
clients. The simulated world builds the same components one by one, because there they crash one by one.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import CollectorRegistry

from mooring import __version__
from mooring.api.debug_documents import DebugDocuments
from mooring.api.kinds import NODE
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout, Progress, bootstrap, no_progress
from mooring.cluster.controllers import CONTROLLERS, Build
from mooring.cluster.identities import BOOTSTRAP, INFORMERS, UNSHARED, identity_of
from mooring.cluster.shared_informers import SharedInformers
from mooring.cluster.storage import NAMESPACE as STORAGE_NAMESPACE
from mooring.cluster.storage import Storage
from mooring.control.announcements import Announcement
from mooring.control.component import Component, Context, run_together
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.control.metrics import Metrics
from mooring.control.skew_watch import SkewWatch
from mooring.coordinator import settings as coordination
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import ControllerCapability
from mooring.nodeagent.attacher import Attacher
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.ground import Folders
from mooring.nodeagent.heartbeat import RENEWALS_PER_SECOND, powered
from mooring.nodeagent.rows import NodeRow, is_ready, played_here
from mooring.provisioner.component import Provisioner
from mooring.provisioner.publisher import CapacitySettings
from mooring.provisioner.settings import Settings
from mooring.scheduler.attempt_log import PATH, AttemptLog
from mooring.scheduler.component import Scheduler

#: How often readiness is looked at while the cluster comes up; short against the second a start takes.
GLANCE_SECONDS: Final = 0.02
#: Looks at which nothing has changed after which nothing will: half a minute. Looks and not seconds, since a process
#: that is busy or was suspended looks rarely.
MAX_GLANCES: Final = 1500

#: Questions about capacity at once. All of them, and what is written about them, end at this process: one by one, as
#: upstream's default has it, each would wait until the one before was on disk; so many are written together.
CAPACITY_THREADS: Final = 16

SCHEDULER: Final = "default-scheduler"
#: What this process is called among those of the control plane.
PROCESS: Final = "mooring-control-plane"
#: The client of a component, by its name; those of `identities` are asked for.
Connect = Callable[[str], Client]


def components(
    layout: Layout,
    registry: CollectorRegistry | None = None,
    storage: Storage | None = None,
    *,
    pace: float = RENEWALS_PER_SECOND,
    attempts: AttemptLog | None = None,
) -> Sequence[tuple[str, Build]]:
    """Every component and the name its events carry, in the order they are started.

    `registry` is where those with metrics of their own show them. `storage` brings those that make volumes.
    Nodes renew their Leases `pace` times a second at most, all together. `attempts` is what the scheduler writes down.
    """
    rows = layout.rows()
    return (
        *((controller.source, controller.build) for controller in CONTROLLERS),
        (SCHEDULER, lambda context: Scheduler(context, alone=True, registry=registry, attempts=attempts)),
        (NodeAgent.name, lambda context: _node_agent(context, rows, storage, pace)),
        *(_volume_makers(storage, registry) if storage is not None else ()),
    )


def _node_agent(context: Context, rows: Sequence[NodeRow], storage: Storage | None, pace: float) -> NodeAgent:
    if storage is None:
        return NodeAgent(context, rows, pace=pace)
    drivers = {node: {storage.facts.name: driver} for node, driver in storage.nodes.items()}
    return NodeAgent(context, rows, drivers=drivers, ground=Folders(storage.folder), pace=pace)


def _volume_makers(storage: Storage, registry: CollectorRegistry | None) -> Sequence[tuple[str, Build]]:
    settings = Settings(strict_topology=True, extra_create_metadata=True, namespace=STORAGE_NAMESPACE, rollback=True)
    capacity = CapacitySettings(
        namespace=STORAGE_NAMESPACE, poll_interval=storage.poll_interval, threads=CAPACITY_THREADS
    )

    def provisioner(context: Context) -> Component:
        return Provisioner(
            context, storage.controller, settings, facts=storage.facts, capacity=capacity, registry=registry
        )

    def coordinator(context: Context) -> Component:
        settings = coordination.Settings(hold_namespace=STORAGE_NAMESPACE, alone=True)
        return Coordinator(context, settings, registry=registry)

    def attacher(context: Context) -> Component:
        return Attacher(context, storage.facts.name, storage.controller)

    attaches = ControllerCapability.PUBLISH_UNPUBLISH_VOLUME in storage.facts.controller_capabilities
    always: tuple[tuple[str, Build], ...] = (
        (Coordinator.name, coordinator),
        (Provisioner.name, provisioner),
    )
    return (*always, (Attacher.name, attacher)) if attaches else always


class NotReady(Exception):
    """What did not start in time: components, or all nodes."""


class ControlPlane:
    """Built without side effects; `run` brings it up and keeps it up until cancelled."""

    def __init__(
        self,
        connect: Connect,
        layout: Layout,
        *,
        clock: Clock,
        rng: random.Random,
        gates: FeatureGates = DEFAULTS,
        left_out: Collection[str] = (),
        storage: Storage | None = None,
        progress: Progress = no_progress,
    ) -> None:
        """`left_out` names components that somebody else provides; without `storage` no volumes are made."""
        self.metrics = Metrics(clock)
        attempts = AttemptLog()
        #: What may be looked at beside the metrics; without the scheduler there is nothing.
        self.debug: DebugDocuments = {} if SCHEDULER in left_out else {PATH: attempts.document}
        self._connect = connect
        self._clock = clock
        self._layout = layout
        self._nodes = tuple(row.name for row in layout.rows())
        self._storage = storage
        self._progress = progress
        #: Set once the first objects are there.
        self._created = asyncio.Event()
        others = {kind: connect(component) for kind, component in UNSHARED.items()}
        self._informers = Informers(connect(INFORMERS), clock, rng, other_clients=others)
        self.metrics.watch_informers(self._informers.failures)
        self._recorders: list[EventRecorder] = []
        self.components: list[Component] = []
        self.metrics.memory.add("informers", self._informers)
        rows = components(layout, self.metrics.registry, storage, attempts=attempts)
        table = [row for row in rows if row[0] not in left_out]
        table.append((SkewWatch.name, self._skew_watch(frozenset(source for source, _ in table), gates)))
        for source, build in table:
            client, informers = connect(source), SharedInformers(self._informers, identity_of(source))
            recorder = EventRecorder(client, clock, source, rng)
            self._recorders.append(recorder)
            context = Context(
                client, informers, recorder, clock, rng, gates, self.metrics.queue, self.metrics.invariants
            )
            self.components.append(build(context))
            self.metrics.memory.add(source, self.components[-1])
        self.metrics.memory.add("recorders", self._recorders)

    def _skew_watch(self, sources: frozenset[str], gates: FeatureGates) -> Build:
        """Components of one process fit together; those of others may not."""
        parts = sources | ({"scheduler"} if SCHEDULER in sources else set())
        mine = Announcement(PROCESS, __version__, gates, parts)
        return lambda context: SkewWatch(context, mine, registry=self.metrics.registry)

    def missing_components(self) -> list[str]:
        """Names of the components that do not act yet."""
        return [component.name for component in self.components if not component.ready]

    def unready_nodes(self) -> list[str]:
        nodes = self._informers.of(NODE)
        return [name for name in self._nodes if (node := nodes.get(name)) is None or not is_ready(node)]

    def awaited_nodes(self) -> list[str]:
        """Unready nodes but for those that nothing here will report as ready: nodes that are switched off, and Nodes
        of the layout's names that some other agent has registered."""
        nodes = self._informers.of(NODE)
        found = [(name, nodes.get(name)) for name in self.unready_nodes()]
        return [name for name, node in found if node is None or (played_here(node) and powered(node))]

    async def wait_ready(self) -> None:
        """Until all components act and every node that is awaited has reported, or no further one does.

        Raises NotReady where a component stays behind, or all nodes do.
        """
        await self._created.wait()
        last, glances = (0, 0), 0
        while True:
            components, nodes = self.missing_components(), self.awaited_nodes()
            missing = (len(components), len(nodes))
            glances = glances + 1 if missing == last else 0
            last = missing
            if not components and not nodes:
                return
            if glances == MAX_GLANCES:
                if components or len(nodes) == len(self._nodes):
                    raise NotReady(", ".join(components or ("any node",)))
                return
            if components:
                total = len(self.components)
                self._progress(f"waiting for {', '.join(components[:3])}", total - len(components), total)
            else:
                self._progress("waiting for nodes", len(self._nodes) - len(nodes), len(self._nodes))
            await self._clock.sleep(GLANCE_SECONDS)

    async def run(self) -> None:
        await bootstrap(self._connect(BOOTSTRAP), self._layout, self._storage, self._progress)
        self._created.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers")
            for recorder in self._recorders:
                group.create_task(recorder.run(), name="events")
            group.create_task(run_together(self.components), name="components")

    async def flush(self) -> None:
        """Have the last events written, while `run` runs."""
        await asyncio.gather(*(recorder.flush() for recorder in self._recorders))


@asynccontextmanager
async def running(plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane, up and ready inside the block. Its failure ends the block with the reason."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(plane.run(), name="control plane")
        await plane.wait_ready()
        yield plane
        await plane.flush()
        task.cancel()
