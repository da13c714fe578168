"""The storage of an embedded cluster: a CSI driver, the objects that introduce it, and how components reach it.

By default the hostpath driver with pools on every node, behind a Unix socket of its own, so that the provisioner
speaks gRPC here as anywhere. With an endpoint it is somebody else's driver, on all nodes.
"""

import random
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api import keys
from mooring.clock import Clock
from mooring.csi.contract import ControllerCapability, Driver
from mooring.hostpath.layout import DRIVER_NAME, NODE_KEY, Kind, Layout, Pool, Settings, Site
from mooring.nodeagent.rows import NodeRow
from mooring.provisioner.introduction import introduce
from mooring.provisioner.settings import DriverFacts

#: Where capacity objects and records of unfinished attempts lie; ordinary users have no business there.
NAMESPACE: Final = "kube-system"
GI: Final = 2**30
#: What every node has. Promises only: nothing is taken from the disk before somebody writes to a volume.
POOLS: Final = (Pool("fast", 100 * GI), Pool("slow", 500 * GI))


#: Seconds. Nobody but this cluster takes from our driver's pools, and of its own doing the publisher hears at once.
POLL_INTERVAL: Final = 600.0
#: external-provisioner's default.
FOREIGN_POLL_INTERVAL: Final = 60.0


class ClassRow(msgspec.Struct, frozen=True):
    """A class of the driver's volumes."""

    name: str
    parameters: Mapping[str, str] = {}
    default: bool = False


CLASSES: Final = (
    ClassRow("fast", {"pool": "fast"}, default=True),
    ClassRow("slow", {"pool": "slow"}),
    ClassRow("mirrored", {"pool": "slow", "kind": Kind.MIRRORED}),
)


#: Of a driver about which nothing is known.
FOREIGN_CLASSES: Final = (ClassRow("csi", default=True),)


@dataclass(frozen=True)
class StorageSettings:
    pools: tuple[Pool, ...] = POOLS
    classes: tuple[ClassRow, ...] = CLASSES
    #: The socket of somebody's own driver; None runs ours.
    endpoint: Path | None = None


@dataclass(frozen=True)
class Storage:
    """A driver that answers."""

    facts: DriverFacts
    #: As the provisioner calls it.
    controller: Driver
    #: As each node calls it, by the node's name.
    nodes: Mapping[str, Driver]
    classes: tuple[ClassRow, ...]
    #: Below which nodes keep what they mount.
    folder: Path
    #: Seconds between two questions about everything.
    poll_interval: float

    def driver_object(self) -> dict[str, Any]:
        can = self.facts.controller_capabilities
        return {
            "metadata": {"name": self.facts.name},
            "spec": {
                "attachRequired": ControllerCapability.PUBLISH_UNPUBLISH_VOLUME in can,
                "podInfoOnMount": True,
                "storageCapacity": ControllerCapability.GET_CAPACITY in can,
                "volumeLifecycleModes": ["Persistent", "Ephemeral"]
                if self.facts.name == DRIVER_NAME
                else ["Persistent"],
            },
        }

    def class_objects(self) -> Sequence[dict[str, Any]]:
        return [
            {
                "metadata": {
                    "name": row.name,
                    "annotations": _notes(row),
                },
                "provisioner": self.facts.name,
                "parameters": dict(row.parameters),
                "volumeBindingMode": "WaitForFirstConsumer",
                "reclaimPolicy": "Delete",
            }
            for row in self.classes
        ]


def _home(folder: Path) -> Path:
    """Absolute: links to volumes lead there from anywhere."""
    return folder.absolute() / "hostpath"


def _notes(row: ClassRow) -> dict[str, str]:
    """Volumes of different pools do not take from each other, so the scheduler must not add them up."""
    default = {keys.DEFAULT_CLASS: "true"} if row.default else {}
    return default | ({keys.CAPACITY_POOL: row.parameters["pool"]} if "pool" in row.parameters else {})


@asynccontextmanager
async def storage(
    settings: StorageSettings, rows: Sequence[NodeRow], folder: Path, *, clock: Clock, rng: random.Random
) -> AsyncIterator[Storage]:
    """The driver, known and ready inside the block; ours keeps its volumes below `folder`.

    Raises DriverError when somebody's own driver cannot be used, StateUnusable when ours cannot use the folder.
    """
    # gRPC takes its time to load, and clusters without storage do without it.
    from mooring.csi.call_log import CallLog
    from mooring.csi.channel import Channel

    async with AsyncExitStack() as stack:
        path = settings.endpoint or stack.enter_context(_socket())
        classes = settings.classes if settings.endpoint is None else FOREIGN_CLASSES
        channel = await stack.enter_async_context(Channel(path, interceptors=[CallLog(clock=clock)]))
        nodes: dict[str, Driver] = {row.name: channel for row in rows}
        if settings.endpoint is None:
            nodes = await stack.enter_async_context(_hostpath(settings, rows, folder, path, rng=rng))
        facts = await introduce(channel, clock=clock, rng=rng)
        interval = POLL_INTERVAL if settings.endpoint is None else FOREIGN_POLL_INTERVAL
        yield Storage(facts, channel, nodes, classes, folder / "nodes", interval)


@asynccontextmanager
async def _hostpath(
    settings: StorageSettings, rows: Sequence[NodeRow], folder: Path, path: Path, *, rng: random.Random
) -> AsyncIterator[dict[str, Driver]]:
    """One driver for all nodes, each with pools of its own; the socket has the controller."""
    from mooring.csi.service import Service
    from mooring.hostpath.driver import Hostpath
    from mooring.hostpath.mounts import Links
    from mooring.hostpath.running import on_files

    places = {row.name: {NODE_KEY: row.name} for row in rows}
    layout = Layout(sites=tuple(Site(place, settings.pools) for place in places.values()), nodes=places)
    # Links, not mounts: played nodes share one machine, and whoever runs them need not be root.
    async with on_files(layout, Settings(), _home(folder), Links(), chance=rng) as volume_store:
        nodes: dict[str, Driver] = {name: Hostpath(volume_store, name) for name in places}
        async with Service(next(iter(nodes.values()), Hostpath(volume_store, "none")), path):
            yield nodes


@contextmanager
def _socket() -> Iterator[Path]:
    """In a folder of its own: the path of a data folder may be longer than that of a socket may be."""
    with tempfile.TemporaryDirectory(prefix="mooring-csi-") as folder:
        yield Path(folder) / "csi.sock"
