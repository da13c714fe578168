"""A whole control plane around one store: API server, shared informers, every component. No HTTP.

The embedded cluster and the simulated world both stand on this; they differ in the store, the clock and the source of
randomness they pass in.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from mooring.api.kinds import NODE
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout, bootstrap
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context, run_together
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.rows import is_ready
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.scheduler.component import Scheduler
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.contract import Store
from mooring.workloads.garbage import GarbageCollector
from mooring.workloads.namespaces import NamespaceController
from mooring.workloads.statefulset_controller import StatefulSetController

#: Who the components of one process are, as long as they share informers and so must share one identity.
CONTROL_PLANE: Final = User("system:mooring", ("system:masters", "system:authenticated"))
#: How often readiness is looked at while the cluster comes up; short against the second a start takes.
GLANCE_SECONDS: Final = 0.02

Build = Callable[[Context], Component]


def components(layout: Layout) -> Sequence[tuple[str, Build]]:
    """Every component and the name its events carry, in the order they are started."""
    rows = layout.rows()
    return (
        (PersistentVolumeController.name, PersistentVolumeController),
        (VolumeProtection.name, VolumeProtection),
        ("default-scheduler", Scheduler),
        (NodeAgent.name, lambda context: NodeAgent(context, rows)),
        (StatefulSetController.name, StatefulSetController),
        (GarbageCollector.name, GarbageCollector),
        (NamespaceController.name, NamespaceController),
    )


class ControlPlane:
    """Built without side effects; `run` brings it up and keeps it up until cancelled."""

    def __init__(self, store: Store, layout: Layout, *, clock: Clock, rng: random.Random) -> None:
        self.api = ApiServer(store, clock, rng)
        self.client = LocalClient(self.api, CONTROL_PLANE)
        self._clock = clock
        self._layout = layout
        self._informers = Informers(self.client, clock, rng)
        self._recorders: list[EventRecorder] = []
        self.components: list[Component] = []
        for source, build in components(layout):
            recorder = EventRecorder(self.client, clock, source, rng)
            self._recorders.append(recorder)
            self.components.append(build(Context(self.client, self._informers, recorder, clock, rng)))

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
        await bootstrap(self.client, self._layout)
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
