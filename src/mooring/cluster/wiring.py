"""A whole control plane on one client: shared informers and every component. No HTTP, no store.

The embedded cluster passes a client of the API server in the same process; against a real Kubernetes it is an HTTP
client. The simulated world builds the same components one by one, because there they crash one by one.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import CollectorRegistry

from mooring.api.kinds import NODE
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout, bootstrap
from mooring.control.component import Component, Context, run_together
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.control.metrics import Metrics
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.rows import is_ready
from mooring.provisioner.standins.component import StandInProvisioner
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.pvcontroller.zonal_upgrade import ZonalUpgrade
from mooring.scheduler.component import Scheduler
from mooring.workloads.ephemeral_volumes import EphemeralVolumeController
from mooring.workloads.garbage import GarbageCollector
from mooring.workloads.namespaces import NamespaceController
from mooring.workloads.node_lifecycle import NodeLifecycleController
from mooring.workloads.statefulset_controller import StatefulSetController
from mooring.workloads.stranded_pods import StrandedPodCollector
from mooring.workloads.taint_eviction import TaintEvictionController

#: How often readiness is looked at while the cluster comes up; short against the second a start takes.
GLANCE_SECONDS: Final = 0.02

Build = Callable[[Context], Component]


def components(layout: Layout, registry: CollectorRegistry | None = None) -> Sequence[tuple[str, Build]]:
    """Every component and the name its events carry, in the order they are started.

    `registry` is where those with metrics of their own show them.
    """
    rows = layout.rows()
    return (
        (PersistentVolumeController.name, PersistentVolumeController),
        (VolumeProtection.name, VolumeProtection),
        (ZonalUpgrade.name, ZonalUpgrade),
        (StandInProvisioner.name, StandInProvisioner),
        ("default-scheduler", lambda context: Scheduler(context, alone=True, registry=registry)),
        (NodeAgent.name, lambda context: NodeAgent(context, rows)),
        (StatefulSetController.name, StatefulSetController),
        (EphemeralVolumeController.name, EphemeralVolumeController),
        (GarbageCollector.name, GarbageCollector),
        (NamespaceController.name, NamespaceController),
        (NodeLifecycleController.name, NodeLifecycleController),
        (TaintEvictionController.name, TaintEvictionController),
        (StrandedPodCollector.name, StrandedPodCollector),
    )


class ControlPlane:
    """Built without side effects; `run` brings it up and keeps it up until cancelled."""

    def __init__(
        self,
        client: Client,
        layout: Layout,
        *,
        clock: Clock,
        rng: random.Random,
        gates: FeatureGates = DEFAULTS,
        left_out: Collection[str] = (),
    ) -> None:
        """`left_out` names components that somebody else provides."""
        self.metrics = Metrics(clock)
        self._client = client
        self._clock = clock
        self._layout = layout
        self._informers = Informers(client, clock, rng)
        self._recorders: list[EventRecorder] = []
        self.components: list[Component] = []
        for source, build in components(layout, self.metrics.registry):
            if source in left_out:
                continue
            recorder = EventRecorder(client, clock, source, rng)
            self._recorders.append(recorder)
            context = Context(client, self._informers, recorder, clock, rng, gates, self.metrics.queue)
            self.components.append(build(context))

    @property
    def ready(self) -> bool:
        """All components act, and every node of the layout has reported."""
        nodes = self._informers.of(NODE)
        here = all((node := nodes.get(row.name)) is not None and is_ready(node) for row in self._layout.rows())
        return here and all(component.ready for component in self.components)

    async def wait_ready(self) -> None:
        while not self.ready:
            await self._clock.sleep(GLANCE_SECONDS)

    async def run(self) -> None:
        await bootstrap(self._client, self._layout)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers")
            for recorder in self._recorders:
                group.create_task(recorder.run(), name="events")
            group.create_task(run_together(self.components), name="components")


@asynccontextmanager
async def running(plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The control plane, up and ready inside the block. Its failure ends the block with the reason."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(plane.run(), name="control plane")
        await plane.wait_ready()
        yield plane
        task.cancel()
