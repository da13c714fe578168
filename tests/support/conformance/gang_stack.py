"""Mooring's driver, provisioner, coordinator and scheduler as processes on a real cluster, with holds for gangs.

kube-controller-manager binds claims. Each node has a pool of its own of one central driver; `fill` takes space that the
cluster does not know of before the next poll.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from mooring.api import quantity, well_known
from mooring.api.kinds import CSI_DRIVER, LEASE, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.csi.client import CsiClient
from mooring.csi.contract import AccessibilityRequirements, AccessMode, CreateVolume, Topology, VolumeCapability
from mooring.hostpath.records import DRIVER_NAME
from mooring.volumes.holds import group_objects
from support.builders import class_body
from support.builders.drivers import driver_body
from support.conformance.control_plane import ControlPlane
from support.conformance.gang_cluster import CONTROLLERS, NAMESPACE, POOLED, GangCluster
from support.conformance.gang_history import GangHistory
from support.conformance.process import Process
from support.hostpath.command import csi_hostpath

GANG_VOLUMES: Final = "--feature-gates=GangVolumes=true"
#: Of each node before `fill`.
POOL: Final = "15Gi"
PARAMETERS: Final = {"pool": "fast"}
#: Without the second one, volumes that are rolled back keep the finalizer of the API server, and with it their names.
WITH_PROTECTION: Final = (*CONTROLLERS, "persistentvolume-protection-controller")
PROVISIONER_OPTIONS: Final = (
    "--enable-rollback",
    "--strict-topology",
    "--enable-capacity",
    "--capacity-ownerref-level=-1",
    "--capacity-poll-interval=2s",
    "--retry-interval-max=1s",
    GANG_VOLUMES,
)


class GangStack(GangCluster):
    """A cluster whose volumes the driver in `folder` provides; `history` is all that has happened since the start."""

    def __init__(self, kube: ControlPlane, client: HttpClient, folder: Path) -> None:
        super().__init__(kube, client, driver=DRIVER_NAME)
        self.history = GangHistory(client)
        self._folder = folder
        self._fillers: dict[str, str] = {}

    async def add_pools(self, free: Mapping[str, str], *, tracks_capacity: bool = True) -> None:
        """The class, and pools with so much free capacity, which is published if the driver tracks it."""
        for node, amount in free.items():
            taken = _bytes(POOL) - _bytes(amount)
            if taken:
                await self.fill(node, taken)
        await self.client.create(CSI_DRIVER, driver_body(name=DRIVER_NAME, tracks_capacity=tracks_capacity))
        await self.client.create(STORAGE_CLASS, class_body(name=POOLED, provisioner=DRIVER_NAME, parameters=PARAMETERS))
        expected = {node: _bytes(amount) for node, amount in free.items()}

        async def published() -> bool:
            found = (await self.client.list(STORAGE_CAPACITY, namespace=NAMESPACE)).items
            figures = {
                figure.node_topology.match_labels[well_known.HOSTNAME]: _bytes(figure.capacity)
                for figure in found
                if figure.node_topology is not None and figure.capacity
            }
            return figures == expected

        if tracks_capacity:
            await self.until(published)

    async def fill(self, node: str, size: int) -> None:
        where = Topology({well_known.HOSTNAME: node})
        request = CreateVolume(
            f"filler-{node}",
            size,
            capabilities=(VolumeCapability(AccessMode.SINGLE_NODE_WRITER),),
            parameters=PARAMETERS,
            accessibility=AccessibilityRequirements((where,), (where,)),
        )
        async with CsiClient(self._folder / "csi.sock") as driver:
            self._fillers[node] = (await driver.create_volume(request, secrets={})).volume_id

    async def empty(self, node: str) -> None:
        """Undo `fill`."""
        async with CsiClient(self._folder / "csi.sock") as driver:
            await driver.delete_volume(self._fillers.pop(node), secrets={})

    async def provisioned(self) -> list[str]:
        """The driver's list without what `fill` took."""
        async with CsiClient(self._folder / "csi.sock") as driver:
            listed = {volume.volume_id for volume in await driver.list_volumes()}
        return sorted(listed - set(self._fillers.values()))

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """Mooring's, in the place of kube-scheduler."""
        options = (f"--hold-namespace={NAMESPACE}", "--leader-elect=false", "--no-http", GANG_VOLUMES)
        with _mooring(self.kube, self._folder, "scheduler", *options):
            yield

    async def announced(self) -> bool:
        """Whether a coordinator decides about groups."""
        leases = (await self.client.list(LEASE, namespace=NAMESPACE)).items
        return any(group_objects.ANNOUNCEMENT in lease.metadata.annotations for lease in leases)

    async def _account(self) -> str:
        logs = [path.read_text()[-4000:] for path in sorted(self._folder.glob("*.log"))]
        return "\n".join((await super()._account(), str(self.history.phases()), *logs))


def _bytes(amount: str) -> int:
    return quantity.parse(amount) // quantity.NANOS_PER_UNIT


@contextmanager
def _mooring(kube: ControlPlane, folder: Path, command: str, *options: str) -> Iterator[None]:
    words = [sys.executable, "-m", "mooring", command, f"--kubeconfig={kube.kubeconfig}", *options]
    process = Process(words, folder / f"{command}.log", {"NAMESPACE": NAMESPACE})
    try:
        yield
        assert process.running, process.log_tail()
    finally:
        process.stop(signal.SIGTERM)


@asynccontextmanager
async def gang_stack(kube: ControlPlane, folder: Path, racks: Mapping[str, str]) -> AsyncIterator[GangStack]:
    """Everything but a scheduler; `racks` are the nodes and their racks."""
    client = HttpClient(kube.access, component="test", clock=SystemClock())
    stack = GangStack(kube, client, folder)
    try:
        with (
            csi_hostpath(folder, *_driver_options(tuple(racks))),
            kube.controllers(*WITH_PROTECTION, options=("--pvclaimbinder-sync-period=1s",)),
            _mooring(kube, folder, "provisioner", f"--csi-address={folder / 'csi.sock'}", *PROVISIONER_OPTIONS),
            _mooring(kube, folder, "coordinator", f"--hold-namespace={NAMESPACE}", "--no-http", GANG_VOLUMES),
        ):
            watching = asyncio.create_task(stack.history.run())
            try:
                await stack.add_nodes(racks)
                await stack.until(stack.announced)
                yield stack
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
    finally:
        await client.close()


def _driver_options(nodes: Sequence[str]) -> list[str]:
    options = ["--pool", f"fast={POOL}", "--topology", f"{well_known.HOSTNAME}=nowhere"]
    for node in nodes:
        options += ["--serve", f"{node}:{well_known.HOSTNAME}={node}"]
    return options
