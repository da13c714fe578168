"""The storage of an embedded cluster: a CSI driver, its objects, and the clients to it.

By default the hostpath driver with pools on every node, called in this process; with an endpoint, an external driver on
all nodes, called over its Unix socket.
"""

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api import well_known
from mooring.clock import Clock
from mooring.csi.contract import ControllerCapability, Driver
from mooring.hostpath.records import DRIVER_NAME, NODE_KEY, DriverLayout, HostpathSettings, Pool, PoolKind, Site
from mooring.nodeagent.mounts import Mount
from mooring.nodeagent.node_objects import NodeTemplate
from mooring.nodeagent.volume_manager import MountStore
from mooring.provisioner.component import probe_driver
from mooring.provisioner.settings import DriverFacts
from mooring.store.contract import ABSENT, Store, StoreError
from mooring.store.sqlite import SqliteStore
from mooring.store.state import Limits

#: Where capacity objects and records of unfinished attempts lie; ordinary users have no business there.
NAMESPACE: Final = "kube-system"
GI: Final = 2**30
#: Pools of every node; thinly provisioned.
POOLS: Final = (Pool("fast", 100 * GI), Pool("slow", 500 * GI))


#: Seconds; long, since only this cluster uses the pools, and its own changes trigger an update.
POLL_INTERVAL: Final = 600.0
#: external-provisioner's default.
FOREIGN_POLL_INTERVAL: Final = 60.0
#: GetCapacity calls at once. What is written about them ends at this process: one by one, as upstream's default has it,
#: each would wait until the one before was on disk; so many are written together.
CAPACITY_THREADS: Final = 64
#: A driver of the user's may take a call as a real one does.
FOREIGN_CAPACITY_THREADS: Final = 16


class ClassRow(msgspec.Struct, frozen=True):
    """A class of the driver's volumes."""

    name: str
    parameters: Mapping[str, str] = {}
    default: bool = False


CLASSES: Final = (
    ClassRow("fast", {"pool": "fast"}, default=True),
    ClassRow("slow", {"pool": "slow"}),
    ClassRow("mirrored", {"pool": "slow", "kind": PoolKind.MIRRORED}),
)


#: Of a driver about which nothing is known.
FOREIGN_CLASSES: Final = (ClassRow("csi", default=True),)


@dataclass(frozen=True)
class StorageSettings:
    pools: tuple[Pool, ...] = POOLS
    classes: tuple[ClassRow, ...] = CLASSES
    #: Socket of an external driver; None runs the hostpath driver.
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
    #: What the nodes have mounted.
    mounts: MountStore
    #: Seconds between two questions about everything.
    poll_interval: float
    #: GetCapacity calls at once.
    capacity_threads: int

    def driver_object(self) -> dict[str, Any]:
        can = self.facts.controller_capabilities
        modes = ["Persistent", "Ephemeral"] if self.facts.name == DRIVER_NAME else ["Persistent"]
        return {
            "metadata": {"name": self.facts.name},
            "spec": {
                "attachRequired": ControllerCapability.PUBLISH_UNPUBLISH_VOLUME in can,
                "podInfoOnMount": True,
                "storageCapacity": ControllerCapability.GET_CAPACITY in can,
                "volumeLifecycleModes": modes,
            },
        }

    def class_objects(self) -> Sequence[dict[str, Any]]:
        return [
            {
                "metadata": {"name": row.name, "annotations": _notes(row)},
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
    default = {well_known.DEFAULT_CLASS: "true"} if row.default else {}
    return default | ({well_known.CAPACITY_POOL: row.parameters["pool"]} if "pool" in row.parameters else {})


MOUNTS_NAME: Final = "mounts.db"
#: Of the files of earlier versions.
MOUNTS_FOLDER: Final = "mounts"
#: Nothing watches the records.
_NO_HISTORY: Final = Limits(changes=0, bytes=0)


class StoredMounts(MountStore):
    """Mount records in a SQLite store: one commit for all that arrive during the last one.

    Below `folder` are the records, and `<node>/…` for volumes. Files of earlier versions, one per record, are imported.
    """

    def __init__(self, folder: Path, store: Store, mounts: list[Mount]) -> None:
        """Use `open_mount_records`."""
        self.root = str(folder.absolute())
        self._store = store
        self._mounts = mounts

    def load(self) -> list[Mount]:
        return self._mounts

    async def record(self, mount: Mount) -> None:
        """Also creates the directories that drivers expect."""
        _make_directories(mount)
        await _write_mount(self._store, mount, msgspec.json.encode(mount))

    async def remove(self, mount: Mount) -> None:
        await _write_mount(self._store, mount, None)


@asynccontextmanager
async def open_mount_records(folder: Path) -> AsyncIterator[StoredMounts]:
    """Raises StoreUnusable."""
    files = _earlier_files(folder)
    store = await SqliteStore.open(folder / MOUNTS_NAME, history=_NO_HISTORY)
    try:
        for content in files.values():
            await _write_mount(store, msgspec.json.decode(content, type=Mount), content)
        # Once their records are durable, so that an import that was cut short is repeated.
        for file in files:
            file.unlink()
        records = (await store.list("")).records
        yield StoredMounts(folder, store, [msgspec.json.decode(record.value, type=Mount) for record in records])
    finally:
        await store.close()


def _earlier_files(folder: Path) -> dict[Path, bytes]:
    """Creates the folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {file: file.read_bytes() for file in sorted((folder / MOUNTS_FOLDER).glob("*.json"))}


def _make_directories(mount: Mount) -> None:
    # On the event loop: nothing is synced, and a thread would cost more than the few system calls.
    Path(mount.target).parent.mkdir(parents=True, exist_ok=True)
    if mount.staging:
        Path(mount.staging).mkdir(parents=True, exist_ok=True)


async def _write_mount(store: Store, mount: Mount, value: bytes | None) -> None:
    """Writes of one mount are awaited one after the other. Raises OSError."""
    key = f"/mounts/{mount.pod}/{mount.name}"
    known = await store.get(key)
    if known is None and value is None:
        return
    try:
        await store.write(key, value, expect=ABSENT if known is None else known.revision)
    except StoreError as error:
        raise OSError(str(error)) from error


@asynccontextmanager
async def storage(
    settings: StorageSettings, rows: Sequence[NodeTemplate], folder: Path, *, clock: Clock, rng: random.Random
) -> AsyncIterator[Storage]:
    """The driver, known and ready inside the block; ours keeps its volumes below `folder`.

    Raises DriverError if an external driver cannot be used, StateUnusable if the hostpath driver cannot use the folder.
    """
    async with AsyncExitStack() as stack:
        controller: Driver
        nodes: Mapping[str, Driver]
        if settings.endpoint is None:
            classes, interval, threads = settings.classes, POLL_INTERVAL, CAPACITY_THREADS
            controller, nodes = await stack.enter_async_context(_hostpath(settings, rows, folder, rng=rng))
        else:
            # gRPC takes its time and 20 MB to load.
            from mooring.csi.client import CsiClient
            from mooring.csi.interceptors import CallLog

            classes, interval, threads = FOREIGN_CLASSES, FOREIGN_POLL_INTERVAL, FOREIGN_CAPACITY_THREADS
            controller = await stack.enter_async_context(
                CsiClient(settings.endpoint, interceptors=[CallLog(clock=clock)])
            )
            nodes = dict.fromkeys((row.name for row in rows), controller)
        facts = await probe_driver(controller, clock=clock, rng=rng)
        mounts = await stack.enter_async_context(open_mount_records(folder / "nodes"))
        yield Storage(facts, controller, nodes, classes, mounts, interval, threads)


@asynccontextmanager
async def _hostpath(
    settings: StorageSettings, rows: Sequence[NodeTemplate], folder: Path, *, rng: random.Random
) -> AsyncIterator[tuple[Driver, dict[str, Driver]]]:
    """One driver for all nodes, each with pools of its own: its controller, and its node service by node."""
    from mooring.hostpath.driver import Hostpath, open_volume_store
    from mooring.hostpath.files import Links

    places = {row.name: {NODE_KEY: row.name} for row in rows}
    layout = DriverLayout(sites=tuple(Site(place, settings.pools) for place in places.values()), nodes=places)
    # Links, not mounts: simulated nodes share one machine, and the user need not be root.
    async with open_volume_store(layout, HostpathSettings(), _home(folder), Links(), chance=rng) as volume_store:
        yield Hostpath(volume_store, ""), {name: Hostpath(volume_store, name) for name in places}
