"""Small worlds hide what grows with the cluster: one run with a thousand nodes and everything on, counted in calls.

Three classes with a capacity object per node, a volume made by the provisioner on every node, holds, a leader change
and a lost node. What a pod costs must not depend on the number of nodes, and taking over must not cost more than in
proportion: the same run with half the nodes is what it is compared with.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

import pytest
from bench.takeover import CLASSES, HOLDS, a_class, things

from builders import claim_body, pod_body
from builders.counting import counted
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.coordinator.component import Coordinator
from mooring.coordinator.settings import Settings as Coordination
from mooring.hostpath.backing import NoBacking
from mooring.hostpath.driver import Hostpath
from mooring.hostpath.layout import NODE_KEY, Pool, Settings, central
from mooring.hostpath.state import MemoryState
from mooring.hostpath.volume_store import VolumeStore
from mooring.provisioner.component import Provisioner
from mooring.provisioner.publisher import CapacitySettings
from mooring.provisioner.settings import Settings as Provisioning
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.component import Scheduler
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.server.stamping import stored_form
from mooring.sim import loop
from mooring.sim.loop import EPOCH, VirtualClock
from mooring.store.contract import ABSENT
from mooring.store.memory import MemoryStore

PODS: Final = 10
GI: Final = 2**30
POOLS: Final = (Pool("fast", 100 * GI), Pool("slow", 100 * GI))
#: Longer than the run: what is polled is not what is counted.
NEVER: Final = 1e6


class Costs(NamedTuple):
    """Calls of functions."""

    per_pod: float
    takeover: int
    new_class: int
    node_loss: int


class Cluster:
    """Components with clients and informers of their own around one API server; nodes are objects only."""

    def __init__(self, clock: VirtualClock, nodes: int) -> None:
        self.clock = clock
        self._store = MemoryStore()
        self._nodes = nodes
        api = ApiServer(self._store, clock, random.Random(0))
        self.client = LocalClient(api, User("test", ("system:masters",)))
        names = [f"node-{number:05}" for number in range(nodes)]
        layout = central({name: {NODE_KEY: name} for name in names}, pools=POOLS)
        volumes = VolumeStore(layout, Settings(), MemoryState(), NoBacking(), chance=random.Random(1))
        self._driver = Hostpath(volumes, "")

    async def fill(self) -> None:
        for kind, body in things(self._nodes, EPOCH, pods=1):
            where = body["metadata"]
            key = kind.store_key(where.get("namespace", ""), where["name"])
            await self._store.write(key, stored_form(kind, body), expect=ABSENT)

    @asynccontextmanager
    async def running(self, build: Callable[[Context], Component]) -> AsyncIterator[Component]:
        """An instance that acts inside the block."""
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
        settings = Provisioning(strict_topology=True, namespace=HOLDS, rollback=True)
        return Provisioner(context, self._driver, settings, capacity=CapacitySettings(HOLDS, poll_interval=NEVER))

    @staticmethod
    def coordinator(context: Context) -> Component:
        return Coordinator(context, Coordination(hold_namespace=HOLDS, alone=True))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(3000):
            if await holds():
                return
            await self.clock.sleep(0.1)
        raise AssertionError("it does not come about")

    async def place(self, *names: str) -> None:
        """Pods with two volumes each, of different classes, until all of them have a node."""
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
        """Whether there is an object for every node."""
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
            # The publisher has answered for everything that it found.
            await clock.sleep(120.0)
            async with cluster.running(Scheduler):
                await cluster.place("first")
                with counted() as pods:
                    await cluster.place(*(f"pod-{number}" for number in range(PODS)))
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
        return Costs(pods.calls / PODS, takeover.calls, added.calls, loss.calls)

    return loop.run(main)


@pytest.mark.level("s")
@pytest.mark.req("T35.takeover-after-crash")
def test_nothing_costs_more_than_in_proportion_to_the_cluster() -> None:
    """Every capacity object once had all charges computed anew: no scheduler could ever take over a thousand nodes."""
    small, large = costs(500), costs(1000)
    growth = {name: after / before for name, before, after in zip(Costs._fields, small, large, strict=True)}
    assert growth["per_pod"] < 1.2, "what a pod costs does not depend on how many nodes there are"
    assert max(growth.values()) < 2.2, growth
