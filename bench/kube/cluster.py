"""The objects for both sides: nodes with enough resources, two local volumes each, and reported capacity.

Nodes and reported capacity are shared and grow with the cluster. Every measurement has volumes of its own, all of them
free when it begins.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from bench.kube.watching import seen
from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, Volume
from mooring.client.http import HttpClient
from mooring.client.informer import ALL_OBJECTS
from support.builders import capacity_body, claim_body, class_body, driver_body, node_body, volume_body

T = TypeVar("T")

#: Requests on their way at once: enough to keep two cores busy, and far from what the server refuses.
AT_ONCE = 32
NAMESPACE = "default"
OFFERED = {"cpu": "64", "memory": "256Gi", "pods": "110"}
VOLUMES_PER_NODE = 2
#: Seconds in which the PV controller has to look at new volumes.
PREPARATION_SECONDS = 300.0
#: The class of provisioned volumes, and its provisioner: the stand-in for node-local disks.
MADE_CLASS = "made"
DRIVER = "local.standins.mooring.dev"
#: The driver of bound volumes, and how many of them a node attaches: as in scheduler_perf.
NETWORK_DRIVER = "disks.example.com"
ATTACH_LIMIT = 39


class Cluster:
    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self.nodes = 0

    async def begin(self) -> None:
        await self._client.create(STORAGE_CLASS, class_body(name=MADE_CLASS, provisioner=DRIVER))
        await self._client.create(CSI_DRIVER, driver_body(name=DRIVER, tracks_capacity=True))

    async def grow(self, nodes: int) -> None:
        """Create this many nodes, and the capacity object of each."""
        fresh = [f"node-{number}" for number in range(self.nodes, nodes)]
        await create_all(self._client, NODE, [node_body(name=name, allocatable=OFFERED) for name in fresh])
        attached = {
            "name": NETWORK_DRIVER,
            "nodeID": "node",
            "topologyKeys": [],
            "allocatable": {"count": ATTACH_LIMIT},
        }
        csi_nodes = [{"metadata": {"name": name}, "spec": {"drivers": [attached]}} for name in fresh]
        await create_all(self._client, CSI_NODE, csi_nodes)
        room = [
            capacity_body(
                name=f"room-{name}",
                storage_class=MADE_CLASS,
                topology={"matchLabels": {well_known.HOSTNAME: name}},
                capacity="1Ti",
            )
            for name in fresh
        ]
        await create_all(self._client, STORAGE_CAPACITY, room, NAMESPACE)
        self.nodes = max(nodes, self.nodes)

    async def add_local_volumes(self, storage_class: str) -> None:
        """Two on every node, of a delayed class of their own. Returns when the PV controller has processed them all."""
        await self._client.create(STORAGE_CLASS, class_body(name=storage_class))
        places = [f"node-{number}" for number in range(self.nodes) for _ in range(VOLUMES_PER_NODE)]
        await self._add_volumes(storage_class, places)

    async def add_immediate_volumes(self, storage_class: str, count: int) -> None:
        await self._client.create(STORAGE_CLASS, class_body(name=storage_class, binding_mode="Immediate"))
        await self._add_volumes(storage_class, ["somewhere"] * count)

    async def add_bound_claims(self, names: Sequence[str]) -> None:
        """Claims of network disks that any node can attach. Returns when the PV controller has bound them all."""
        volumes = [
            volume_body(
                name=name,
                storage_class="",
                claim_ref={"namespace": NAMESPACE, "name": name},
                source={"csi": {"driver": NETWORK_DRIVER, "volumeHandle": name}},
            )
            for name in names
        ]
        await create_all(self._client, VOLUME, volumes)
        wanted = frozenset(names)

        def is_bound(claim: Claim) -> bool:
            return claim.name in wanted and claim.status.phase == "Bound"

        bound = asyncio.create_task(
            seen(self._client, CLAIM, ALL_OBJECTS, is_bound, count=len(names), timeout=PREPARATION_SECONDS)
        )
        claims = [claim_body(name=name, storage_class="", size="1Gi", volume=name) for name in names]
        await create_all(self._client, CLAIM, claims, NAMESPACE)
        if (await bound).count < len(names):
            raise RuntimeError("claims are not bound in time: is the PV controller up?")

    async def _add_volumes(self, storage_class: str, places: Sequence[str]) -> None:
        bodies = [
            volume_body(name=f"{storage_class}-{number}", storage_class=storage_class, node=node)
            for number, node in enumerate(places)
        ]

        def is_available(volume: Volume) -> bool:
            return volume.spec.storage_class_name == storage_class and volume.status.phase == "Available"

        available = asyncio.create_task(
            seen(self._client, VOLUME, ALL_OBJECTS, is_available, count=len(bodies), timeout=PREPARATION_SECONDS)
        )
        await create_all(self._client, VOLUME, bodies)
        if (await available).count < len(bodies):
            raise RuntimeError(f"volumes of class {storage_class} are not available in time: is the PV controller up?")


async def create_all(
    client: HttpClient, kind: Kind[ApiObject], bodies: Sequence[dict[str, Any]], namespace: str = ""
) -> None:
    await each(bodies, lambda body: client.create(kind, body, namespace=namespace))


async def each(items: Iterable[T], act: Callable[[T], Awaitable[object]]) -> None:
    """`act` on every item, `AT_ONCE` at a time, in order."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
