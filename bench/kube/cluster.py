"""The objects both sides work on: nodes with room for everything, two local volumes each, and what drivers report.

Nodes and reported capacity are shared and grow with the cluster. Every measurement has volumes of its own, all of them
free when it begins.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from bench.kube.watching import seen

from builders import capacity_body, class_body, driver_body, node_body, volume_body
from mooring.api import keys
from mooring.api.kinds import CSI_DRIVER, NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.volume import Volume
from mooring.client.http import HttpClient
from mooring.client.reflector import EVERYTHING

#: Requests on their way at once: enough to keep two cores busy, and far from what the server refuses.
AT_ONCE = 32
NAMESPACE = "default"
OFFERED = {"cpu": "64", "memory": "256Gi", "pods": "110"}
VOLUMES_PER_NODE = 2
#: Seconds in which the PV controller has to look at new volumes.
PREPARATION_SECONDS = 300.0
#: The class of volumes made on demand, and who makes them: one of the stand-ins, on the disks of a node.
MADE_CLASS = "made"
DRIVER = "local.standins.mooring.dev"


class Cluster:
    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self.nodes = 0

    async def begin(self) -> None:
        await self._client.create(STORAGE_CLASS, class_body(name=MADE_CLASS, provisioner=DRIVER))
        await self._client.create(CSI_DRIVER, driver_body(name=DRIVER, tracks_capacity=True))

    async def grow(self, nodes: int) -> None:
        """So many nodes, and for each the room that its disks have."""
        fresh = [f"node-{number}" for number in range(self.nodes, nodes)]
        await create_all(self._client, NODE, [node_body(name=name, allocatable=OFFERED) for name in fresh])
        room = [
            capacity_body(
                name=f"room-{name}",
                storage_class=MADE_CLASS,
                topology={"matchLabels": {keys.HOSTNAME: name}},
                capacity="1Ti",
            )
            for name in fresh
        ]
        await create_all(self._client, STORAGE_CAPACITY, room, NAMESPACE)
        self.nodes = max(nodes, self.nodes)

    async def add_local_volumes(self, storage_class: str) -> None:
        """Two on every node, of a delayed class of their own. Back when the PV controller has seen them all."""
        await self._client.create(STORAGE_CLASS, class_body(name=storage_class))
        places = [f"node-{number}" for number in range(self.nodes) for _ in range(VOLUMES_PER_NODE)]
        await self._add_volumes(storage_class, places)

    async def add_immediate_volumes(self, storage_class: str, count: int) -> None:
        await self._client.create(STORAGE_CLASS, class_body(name=storage_class, binding_mode="Immediate"))
        await self._add_volumes(storage_class, ["somewhere"] * count)

    async def _add_volumes(self, storage_class: str, places: Sequence[str]) -> None:
        bodies = [
            volume_body(name=f"{storage_class}-{number}", storage_class=storage_class, node=node)
            for number, node in enumerate(places)
        ]

        def is_available(volume: Volume) -> bool:
            return volume.spec.storage_class_name == storage_class and volume.status.phase == "Available"

        available = asyncio.create_task(
            seen(self._client, VOLUME, EVERYTHING, is_available, count=len(bodies), patience=PREPARATION_SECONDS)
        )
        await create_all(self._client, VOLUME, bodies)
        if (await available).count < len(bodies):
            raise RuntimeError(f"volumes of class {storage_class} are not available in time: is the PV controller up?")


async def create_all(
    client: HttpClient, kind: Kind[ApiObject], bodies: Sequence[dict[str, Any]], namespace: str = ""
) -> None:
    left = iter(bodies)

    async def create_some() -> None:
        for body in left:
            await client.create(kind, body, namespace=namespace)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(create_some())
