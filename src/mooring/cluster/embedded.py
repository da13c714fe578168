"""The embedded cluster as a process: API server, control plane and storage."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from mooring.api.health import readiness
from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.cluster.api_server import ApiSettings, opened
from mooring.cluster.bootstrap import Layout, Progress, no_progress
from mooring.cluster.control_plane import Connect, ControlPlane, running_control_plane
from mooring.cluster.identities import identity_of
from mooring.cluster.local_client import LocalClient
from mooring.cluster.storage import Storage, StorageSettings, storage
from mooring.control.feature_gates import DEFAULTS, FeatureGates


@dataclass(frozen=True)
class Settings:
    layout: Layout
    port: int
    #: None keeps everything in memory.
    data_dir: Path | None
    #: None puts it beside the data.
    kubeconfig: Path | None
    gates: FeatureGates = DEFAULTS
    #: Components that run elsewhere, against this API server.
    left_out: tuple[str, ...] = ()
    #: None for a cluster without dynamic provisioning.
    storage: StorageSettings | None = None


@dataclass(frozen=True)
class EmbeddedCluster:
    url: str
    kubeconfig: Path
    #: Clients for others in this process, each with the rights of an identity.
    connect: Connect
    #: None without a provisioner.
    storage: Storage | None = None
    #: Nodes of the layout that were not ready when all else was.
    unready_nodes: Sequence[str] = ()


@asynccontextmanager
async def serving(
    settings: Settings, *, clock: Clock, rng: random.Random, progress: Progress = no_progress
) -> AsyncIterator[EmbeddedCluster]:
    """The cluster, ready inside the block. Raises StoreUnusable and CannotListen before anything is changed."""
    api_settings = ApiSettings(
        settings.port, data_dir=settings.data_dir, kubeconfig=settings.kubeconfig, gates=settings.gates
    )
    async with AsyncExitStack() as stack:
        progress("reading what is kept", 0, 0)
        process = await stack.enter_async_context(opened(api_settings, clock=clock, rng=rng))
        progress("waiting for the CSI driver", 0, 0)
        made = None
        if settings.storage is not None:
            rows = settings.layout.rows()
            made = await stack.enter_async_context(
                storage(settings.storage, rows, process.folder / "csi", clock=clock, rng=rng)
            )

        def connect(component: str) -> Client:
            return LocalClient(process.api, identity_of(component).user, process.security.access)

        plane = ControlPlane(
            connect,
            settings.layout,
            clock=clock,
            rng=rng,
            gates=settings.gates,
            left_out=settings.left_out,
            storage=made,
            progress=progress,
        )
        door = await stack.enter_async_context(
            process.listening(plane.metrics, readiness(plane.components), plane.debug)
        )
        await stack.enter_async_context(running_control_plane(plane))
        yield EmbeddedCluster(door.url, door.kubeconfig, connect, made, plane.unready_nodes())
