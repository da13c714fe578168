"""What an embedded cluster holds when it starts for the first time: namespaces, classes, local volumes.

Each object is created only if it is not there, so a restart leaves alone what users changed; `Layout` is data, and
another layout on existing data adds what is missing and removes nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from mooring.api import keys
from mooring.api.errors import AlreadyExists
from mooring.api.kinds import CSI_DRIVER, NAMESPACE, PRIORITY_CLASS, SERVICE_ACCOUNT, STORAGE_CLASS, VOLUME, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.cluster.storage import Storage
from mooring.nodeagent.rows import NodeRow
from mooring.server.validation.disruption import SYSTEM_CLASSES

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
LOCAL_CLASS: Final = "local"
REGION: Final = "region-1"
#: The i-th local volume of every node has i times this size.
VOLUME_STEP_GI: Final = 10

#: Called with what is being done, how much of it is done, and how much there is; 0 where that is not known.
Progress = Callable[[str, int, int], None]


def no_progress(what: str, done: int, total: int) -> None:
    """For callers that show none."""


class Layout(msgspec.Struct, frozen=True):
    """How many nodes, spread over how many zones and racks, with how many local volumes each.

    Zones first: of six nodes in three zones with two racks, node-1 and node-4 are in zone-a, in its racks 1 and 2.
    """

    nodes: int = 3
    zones: int = 3
    local_volumes: int = 2
    #: Of each zone; 0 labels none.
    racks: int = 0
    #: What the nodes' names begin with.
    prefix: str = "node"

    def rows(self) -> tuple[NodeRow, ...]:
        return tuple(
            NodeRow(
                name=f"{self.prefix}-{number + 1}",
                zone=_zone(number % self.zones),
                region=REGION,
                labels={keys.RACK: self._rack(number)} if self.racks else {},
            )
            for number in range(self.nodes)
        )

    def _rack(self, number: int) -> str:
        """Racks of different zones have different names: a rack is one thing."""
        zone = _zone(number % self.zones)
        return f"{zone}-rack-{number // self.zones % self.racks + 1}"


def _zone(number: int) -> str:
    """zone-a … zone-z, then zone-27 and so on."""
    return f"zone-{chr(ord('a') + number)}" if number < 26 else f"zone-{number + 1}"


def local_class(*, default: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": LOCAL_CLASS, "annotations": {keys.DEFAULT_CLASS: "true"} if default else {}},
        "provisioner": keys.NO_PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    }


def local_volume(node: str, number: int) -> dict[str, Any]:
    """A disk of the node's own: usable there and nowhere else."""
    here = {"key": keys.HOSTNAME, "operator": "In", "values": [node]}
    return {
        "metadata": {"name": f"local-{node}-{number}"},
        "spec": {
            "capacity": {"storage": f"{number * VOLUME_STEP_GI}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": LOCAL_CLASS,
            "local": {"path": f"/mnt/disks/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def volumes(layout: Layout) -> Iterator[dict[str, Any]]:
    for row in layout.rows():
        for number in range(1, layout.local_volumes + 1):
            yield local_volume(row.name, number)


async def system_namespaces(client: Client) -> None:
    """Those every cluster has."""
    for name in NAMESPACES:
        await _ensure(client, NAMESPACE, {"metadata": {"name": name}})


async def bootstrap(
    client: Client, layout: Layout, storage: Storage | None = None, progress: Progress = no_progress
) -> None:
    """Where volumes are made on demand, that is what claims without a class get."""
    await system_namespaces(client)
    for name in NAMESPACES:
        await _ensure(client, SERVICE_ACCOUNT, {"metadata": {"name": "default"}}, namespace=name)
    for name, value in SYSTEM_CLASSES.items():
        await _ensure(client, PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
    await _ensure(client, STORAGE_CLASS, local_class(default=storage is None))
    if storage is not None:
        await _ensure(client, CSI_DRIVER, storage.driver_object())
        for body in storage.class_objects():
            await _ensure(client, STORAGE_CLASS, body)
    total = layout.nodes * layout.local_volumes
    for number, body in enumerate(volumes(layout)):
        progress("local volumes", number, total)
        await _ensure(client, VOLUME, body)


async def _ensure(client: Client, kind: Kind[ApiObject], body: dict[str, Any], *, namespace: str = "") -> None:
    try:
        await client.create(kind, body, namespace=namespace)
    except AlreadyExists:
        return
