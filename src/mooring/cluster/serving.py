"""The embedded cluster as a process: a control plane with a store, a listener, certificates and a kubeconfig.

Everything that outlives the process lies in one folder: `state.db`, `pki/`, `token`, and the kubeconfig unless it is
wanted elsewhere. Without a folder the cluster lives in memory and leaves nothing behind.
"""

import random
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.api.health import readiness
from mooring.clock import Clock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.identities import identity_of
from mooring.cluster.local_client import LocalClient
from mooring.cluster.policy import install_policy
from mooring.cluster.storage import Storage, StorageSettings, storage
from mooring.cluster.wiring import ControlPlane, running
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.server.api import ApiServer
from mooring.server.authentication.authenticator import Authenticator
from mooring.server.authorization.guarded_api import GuardedApi
from mooring.server.certificates import ensure_certificates
from mooring.server.contract import User
from mooring.server.http.listening import listen
from mooring.server.http.shell import HttpShell
from mooring.server.kubeconfig import kubeconfig, kubeconfig_text
from mooring.server.private_files import write_private
from mooring.server.security import cluster_security
from mooring.store.contract import Store
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore

#: Loopback: the embedded cluster is one machine's own.
HOST: Final = "127.0.0.1"
ADMINISTRATOR: Final = User("mooring-admin", ("system:masters",))


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
    #: Who makes volumes, None where nobody does.
    storage: Storage | None = None


@asynccontextmanager
async def serving(settings: Settings, *, clock: Clock, rng: random.Random) -> AsyncIterator[Serving]:
    """The cluster, ready inside the block. Raises StoreUnusable and CannotListen before anything is changed."""
    async with AsyncExitStack() as stack:
        store, folder = await _open(settings, stack)
        token = _token(folder / "token")
        security = cluster_security(store, clock=clock, directory=folder / "pki", tokens={token: ADMINISTRATOR})
        api = ApiServer(store, clock, rng, security)
        await install_policy(api)
        guarded = GuardedApi(api, security.access)
        made = await _storage(settings, folder, stack, clock=clock, rng=rng)
        plane = ControlPlane(
            lambda component: LocalClient(guarded, identity_of(component).user),
            settings.layout,
            clock=clock,
            rng=rng,
            gates=settings.gates,
            left_out=settings.left_out,
            storage=made,
        )
        shell = HttpShell(
            api,
            authenticator=Authenticator(security.tokens),
            access=security.access,
            clock=clock,
            rng=rng,
            readiness=readiness(plane.components),
            metrics=plane.metrics.expose,
        )
        certificates = ensure_certificates(folder / "pki", clock=clock)
        listener = await listen(shell.handle, HOST, settings.port, certificates.tls_context())
        stack.push_async_callback(listener.close)
        stack.callback(shell.end_watches)
        target = settings.kubeconfig or folder / "kubeconfig"
        config = kubeconfig(server=listener.url, authority=certificates.authority.read_bytes(), token=token)
        write_private(target, kubeconfig_text(config).encode())
        await stack.enter_async_context(running(plane))
        yield Serving(listener.url, target, made)


async def _open(settings: Settings, stack: AsyncExitStack) -> tuple[Store, Path]:
    """The store, and the folder for what belongs to this cluster alone."""
    store: Store
    if settings.data_dir is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-")))
        store = MemoryStore()
    else:
        folder = settings.data_dir
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = await SqliteStore.open(folder / "state.db")
    stack.push_async_callback(store.close)
    return store, folder


async def _storage(
    settings: Settings, folder: Path, stack: AsyncExitStack, *, clock: Clock, rng: random.Random
) -> Storage | None:
    wanted = settings.storage
    if wanted is None:
        return None
    rows = settings.layout.rows()
    return await stack.enter_async_context(storage(wanted, rows, folder / "csi", clock=clock, rng=rng))


def _token(file: Path) -> str:
    """The administrator's token, the same at every start, so that a kubeconfig stays good."""
    if not file.exists():
        write_private(file, secrets.token_urlsafe(32).encode())
    return file.read_text()
