"""The embedded cluster as a process: the API server of `api_process`, and a control plane on it.

What the storage keeps lies beside what the API server keeps; without a folder, nothing is left behind.
"""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from mooring.api.health import readiness
from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.cluster.api_process import ApiSettings, opened
from mooring.cluster.bootstrap import Layout, Progress, no_progress
from mooring.cluster.identities import identity_of
from mooring.cluster.local_client import LocalClient
from mooring.cluster.storage import Storage, StorageSettings, storage
from mooring.cluster.wiring import Connect, ControlPlane, running
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.server.authorization.guarded_api import GuardedApi


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
    #: None for a cluster in which no volumes are made.
    storage: StorageSettings | None = None


@dataclass(frozen=True)
class Serving:
    url: str
    kubeconfig: Path
    #: Clients for others in this process, each with the rights of an identity.
    connect: Connect
    #: Who makes volumes, None where nobody does.
    storage: Storage | None = None
    #: Nodes of the layout that were not ready when all else was.
    unready_nodes: Sequence[str] = ()


@asynccontextmanager
async def serving(
    settings: Settings, *, clock: Clock, rng: random.Random, progress: Progress = no_progress
) -> AsyncIterator[Serving]:
    """The cluster, ready inside the block. Raises StoreUnusable and CannotListen before anything is changed."""
    wanted = ApiSettings(
        settings.port, data_dir=settings.data_dir, kubeconfig=settings.kubeconfig, gates=settings.gates
    )
    async with AsyncExitStack() as stack:
        progress("reading what is kept", 0, 0)
        process = await stack.enter_async_context(opened(wanted, clock=clock, rng=rng))
        guarded = GuardedApi(process.api, process.security.access)
        progress("waiting for the CSI driver", 0, 0)
        made = await _storage(settings, process.folder, stack, clock=clock, rng=rng)

        def connect(component: str) -> Client:
            return LocalClient(guarded, identity_of(component).user)

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
        await stack.enter_async_context(running(plane))
        yield Serving(door.url, door.kubeconfig, connect, made, plane.unready_nodes())


async def _storage(
    settings: Settings, folder: Path, stack: AsyncExitStack, *, clock: Clock, rng: random.Random
) -> Storage | None:
    wanted = settings.storage
    if wanted is None:
        return None
    rows = settings.layout.rows()
    return await stack.enter_async_context(storage(wanted, rows, folder / "csi", clock=clock, rng=rng))
