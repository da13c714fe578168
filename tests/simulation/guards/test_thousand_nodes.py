"""Costs that grow with the cluster: one run with a thousand nodes and all features, counted in function calls.

Three classes with a capacity object per node, a provisioned volume on every node, holds, a leader change and a lost
node. The cost of a pod must not depend on the number of nodes, and the cost of a takeover must grow at most linearly:
the run is compared with one of half as many nodes.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

import pytest
from bench.takeover import CLASSES, HOLDS, a_class, things

from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.files import Backing
from mooring.hostpath.records import NODE_KEY, HostpathSettings, Pool, central
from mooring.hostpath.state_file import MemoryState
from mooring.hostpath.volume_store import VolumeStore
from mooring.provisioner.capacity.publisher import CapacitySettings
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import ProvisionerSettings
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.component import Scheduler
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.server.encoding import stored_form
from mooring.store.contract import ABSENT, Record, Revision, StoreChange
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import EPOCH, VirtualClock
from support.builders import claim_body, pod_body
from support.builders.counting import counted

PODS: Final = 10
GI: Final = 2**30
POOLS: Final = (Pool("fast", 100 * GI), Pool("slow", 100 * GI))
#: Longer than the run: polls are not counted.
NEVER: Final = 1e6


class Costs(NamedTuple):
    """Calls of functions, and bytes written to the store."""

    per_pod: float
    bytes_per_pod: float
    takeover: int
    new_class: int
    node_loss: int


class MeasuredStore(MemoryStore):
    """Counts the bytes of written objects."""

    written = 0

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        self.written += len(value or b"")
        return await super().write(key, value, expect=expect, precondition=precondition)


class Cluster:
    """Components with their own clients and informers on one API server; nodes are objects only."""

    def __init__(self, clock: VirtualClock, nodes: int) -> None:
        self.clock = clock
        self.store = MeasuredStore()
        self._nodes = nodes
        api = ApiServer(self.store, clock, random.Random(0))
        self.client = LocalClient(api, User("test", ("system:masters",)))
        names = [f"node-{number:05}" for number in range(nodes)]
        layout = central({name: {NODE_KEY: name} for name in names}, pools=POOLS)
        volumes = VolumeStore(layout, HostpathSettings(), MemoryState(), Backing(), chance=random.Random(1))
        self._driver = Hostpath(volumes, "")

    async def fill(self) -> None:
        for kind, body in things(self._nodes, EPOCH, pods=1):
            where = body["metadata"]
            key = kind.store_key(where.get("namespace", ""), where["name"])
            await self.store.write(key, stored_form(kind, body), expect=ABSENT)

    @asynccontextmanager
    async def running(self, build: Callable[[Context], Component]) -> AsyncIterator[Component]:
        """An active instance inside the block."""
        rng = random.Random(2)
        informers = Informers(self.client, self.clock, rng)
        recorder = EventRecorder(self.client, self.clock, "test", rng)
        component = build(Context(self.client, informers, recorder, self.clock, rng))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in (informers.run(), recorder.run(), component.run())]
            await self.until(self._is(lambda: component.ready))
            yield component
            for task in tasks:
                task.cancel()

    def provisioner(self, context: Context) -> Component:
        # As by default, each CreateVolume request names the segments of all nodes.
        settings = ProvisionerSettings(namespace=HOLDS, rollback=True)
        return Provisioner(context, self._driver, settings, capacity=CapacitySettings(HOLDS, poll_interval=NEVER))

    @staticmethod
    def coordinator(context: Context) -> Component:
        return Coordinator(context, CoordinatorSettings(hold_namespace=HOLDS, renews_lease=True))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(3000):
            if await holds():
                return
            await self.clock.sleep(0.1)
        raise AssertionError("it does not come about")

    async def place(self, *names: str) -> None:
        """Create pods with two volumes each, of different classes, and wait until all are scheduled."""
        for number, name in enumerate(names):
            claims = [f"{name}-a", f"{name}-b"]
            for position, claim in enumerate(claims):
                body = claim_body(name=claim, storage_class=CLASSES[(number + position) % 3], size="2Gi")
                await self.client.create(CLAIM, body, namespace="default")
            await self.client.create(POD, pod_body(name=name, claims=claims), namespace="default")

        async def placed() -> bool:
            pods = [await self.client.get(POD, name, namespace="default") for name in names]
            return all(pod.spec.node_name for pod in pods)

        await self.until(placed)

    async def has_capacity_of(self, storage_class: str) -> bool:
        """Whether an object exists for every node."""
        found = (await self.client.list(STORAGE_CAPACITY, namespace=HOLDS)).items
        return sum(each.storage_class_name == storage_class for each in found) == self._nodes

    @staticmethod
    def _is(holds: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
        async def ask() -> bool:
            return holds()

        return ask


def costs(nodes: int) -> Costs:
    async def main(clock: VirtualClock) -> Costs:
        cluster = Cluster(clock, nodes)
        await cluster.fill()
        async with (
            cluster.running(PersistentVolumeController),
            cluster.running(cluster.coordinator),
            cluster.running(cluster.provisioner),
        ):
            # The publisher has polled all segments.
            await clock.sleep(120.0)
            async with cluster.running(Scheduler):
                await cluster.place("first")
                before = cluster.store.written
                with counted() as pods:
                    await cluster.place(*(f"pod-{number}" for number in range(PODS)))
                written = cluster.store.written - before
            with counted() as takeover:
                async with cluster.running(Scheduler):
                    await cluster.place("after-the-leader-changed")
            async with cluster.running(Scheduler):
                with counted() as added:
                    await cluster.client.create(STORAGE_CLASS, a_class("late"))
                    await cluster.until(partial(cluster.has_capacity_of, "late"))
                    await cluster.place("after-a-class-was-added")
                lost = (await cluster.client.get(POD, "first", namespace="default")).spec.node_name
                with counted() as loss:
                    await cluster.client.delete(NODE, lost)
                    await clock.sleep(1.0)
                    await cluster.place("after-a-node-was-lost")
        return Costs(pods.calls / PODS, written / PODS, takeover.calls, added.calls, loss.calls)

    return virtual_time.run_in_virtual_time(main)


@pytest.mark.level("s")
@pytest.mark.req("T35.takeover-after-crash")
def test_costs_grow_at_most_linearly_with_nodes() -> None:
    """Recomputing all charges for every capacity object once made a takeover with a thousand nodes impossible."""
    small, large = costs(500), costs(1000)
    growth = {name: after / before for name, before, after in zip(Costs._fields, small, large, strict=True)}
    assert growth["per_pod"] < 1.2, "what a pod costs does not depend on how many nodes there are"
    assert growth["bytes_per_pod"] < 1.05, "nor does the size of what is written for it"
    assert max(growth.values()) < 2.2, growth
