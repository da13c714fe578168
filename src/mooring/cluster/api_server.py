"""The API server as a process: store, certificates, tokens, listener, kubeconfig and event expiry.

`opened` provides the API on its store; `listening` accepts connections, after a control plane in the same process was
set up. All state is in one folder (`state.db` unless in etcd, `pki/`, `token`, kubeconfig), or in memory.
"""

import asyncio
import random
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import structlog

from mooring.api.health import Check, DebugDocuments
from mooring.api.kinds import STORAGE_CAPACITY, Kind
from mooring.api.views.meta import ApiObject
from mooring.clock import Clock
from mooring.cluster.bootstrap import SERVER, install_policy, system_priority_classes
from mooring.cluster.local_client import LocalClient
from mooring.control.feature_gates import CLAIM_ROLLBACK, CSI_STORAGE_CAPACITY, DEFAULTS, FeatureGates
from mooring.control.metrics import Metrics
from mooring.server.api import ApiServer
from mooring.server.auth.authenticator import Authenticator
from mooring.server.auth.authorizer import Security, cluster_security
from mooring.server.auth.server_files import LOCAL_NAMES, kubeconfig, kubeconfig_text, write_private
from mooring.server.contract import User
from mooring.server.event_expiry import EventExpiry
from mooring.server.http.bodies import WorkerThread
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.server.http.monitoring import RequestRecords, StoredObjects
from mooring.server.objects import Objects
from mooring.store.contract import Store, StoreUnusable
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.sqlite import SqliteStore
from mooring.store.watch_cache import MemoryStore

#: Loopback by default.
LOOPBACK: Final = "127.0.0.1"
ADMINISTRATOR: Final = User("mooring-admin", ("system:masters",))
#: Seconds an event stays after it was last written; upstream's figure.
EVENT_TTL: Final = 3600.0

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ApiSettings:
    port: int
    host: str = LOOPBACK
    #: None keeps everything in memory.
    data_dir: Path | None = None
    #: Certificates and keys; None puts them beside the data.
    cert_dir: Path | None = None
    #: None puts it beside the data.
    kubeconfig: Path | None = None
    #: Whom to let in besides the administrator, by token.
    tokens: Mapping[str, User] = field(default_factory=dict)
    event_ttl: float = EVENT_TTL
    gates: FeatureGates = DEFAULTS
    #: Where the objects are; None puts them into the folder.
    etcd: EtcdSettings | None = None


def disabled_kinds(gates: FeatureGates) -> tuple[Kind[ApiObject], ...]:
    """Kinds that the API server does not serve with these gates. Stored objects stay; components in the same process,
    which delete them with their namespace or owner, still access them."""
    return () if gates.enabled(CSI_STORAGE_CAPACITY) else (STORAGE_CAPACITY,)


@dataclass(frozen=True)
class Listening:
    url: str
    kubeconfig: Path


@dataclass(frozen=True)
class ApiProcess:
    """The API on its store, not yet listening."""

    settings: ApiSettings
    folder: Path
    store: Store
    api: ApiServer
    security: Security
    token: str
    clock: Clock
    rng: random.Random
    #: For the steps of large requests.
    worker: WorkerThread
    #: What of the store `/readyz` asks about.
    checks: Mapping[str, Check]

    @asynccontextmanager
    async def listening(
        self, metrics: Metrics, readiness: Mapping[str, Check], debug: DebugDocuments | None = None
    ) -> AsyncIterator[Listening]:
        """Others may come in inside the block. Raises CannotListen before anything is changed."""
        settings, clock = self.settings, self.clock
        metrics.registry.register(StoredObjects(self.store.count))
        metrics.memory.add("apiserver", self.api)
        metrics.memory.add("store", self.store)
        shell = RequestHandler(
            self.api,
            authenticator=Authenticator(self.security.tokens),
            access=self.security.access,
            clock=clock,
            rng=self.rng,
            readiness={**self.checks, **readiness},
            metrics=metrics.expose,
            debug=debug,
            records=RequestRecords(metrics.registry, clock),
            wait_current=Objects(self.store).wait_current,
            off_loop=self.worker,
            disabled=disabled_kinds(settings.gates),
        )
        # Imported here because of `cryptography`, which simulated clusters do not need.
        from mooring.server.auth.certificates import ensure_certificates

        # Under which clients may reach us: this machine's names, and the address we listen on.
        host = () if _is_any(settings.host) else (settings.host,)
        names = tuple(dict.fromkeys((*LOCAL_NAMES, *host, socket.gethostname())))
        certificates = ensure_certificates(_keys(settings, self.folder), clock=clock, names=names)
        listener = await listen(shell.handle, settings.host, settings.port, certificates.tls_context())
        try:
            url = f"https://{_reached_at(settings.host)}:{listener.port}"
            yield Listening(url, self._write_kubeconfig(url, certificates.authority))
        finally:
            shell.end_watches()
            await listener.close()

    def _write_kubeconfig(self, url: str, authority: Path) -> Path:
        target = self.settings.kubeconfig or self.folder / "kubeconfig"
        config = kubeconfig(server=url, authority=authority.read_bytes(), token=self.token)
        write_private(target, kubeconfig_text(config).encode())
        return target


@asynccontextmanager
async def opened(settings: ApiSettings, *, clock: Clock, rng: random.Random) -> AsyncIterator[ApiProcess]:
    """The API, with what every cluster has from the start. Raises StoreUnusable before anything is changed."""
    async with AsyncExitStack() as stack:
        store, folder, checks = await _open(settings, stack, clock)
        token = _token(folder / "token")
        tokens = {token: ADMINISTRATOR, **settings.tokens}
        security = cluster_security(store, clock=clock, directory=_keys(settings, folder), tokens=tokens)
        rollback = settings.gates.enabled(CLAIM_ROLLBACK)
        worker = WorkerThread()
        stack.callback(worker.close)
        api = ApiServer(store, clock, rng, security, claim_rollback=rollback, off_loop=worker)
        await install_policy(api)
        await system_priority_classes(LocalClient(api, SERVER))
        expiry = asyncio.create_task(EventExpiry(store, clock, seconds=settings.event_ttl).run(), name="old events")
        expiry.add_done_callback(_log_failure)
        stack.callback(expiry.cancel)
        yield ApiProcess(settings, folder, store, api, security, token, clock, rng, worker, checks)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Old events do no harm: a server that cannot remove them goes on, and says so."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("old events are no longer removed", exc_info=error)


async def _open(settings: ApiSettings, stack: AsyncExitStack, clock: Clock) -> tuple[Store, Path, Mapping[str, Check]]:
    """The store, the folder for what belongs to this server alone, and how to find out whether the store is well."""
    store: Store
    checks: Mapping[str, Check] = {}
    if settings.data_dir is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-")))
        store = MemoryStore()
    else:
        folder = settings.data_dir
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if settings.etcd is None:
            store = await SqliteStore.open(folder / "state.db")
        else:
            # Here and not above: it brings in gRPC, which a server on SQLite does without.
            from mooring.store.etcd.store import EtcdStore

            store = shared = await EtcdStore.open(settings.etcd, clock)
            checks = {"etcd": shared.disconnect_reason}
    stack.push_async_callback(store.close)
    return store, folder, checks


def _token(file: Path) -> str:
    """The administrator's token, the same at every start, so that a kubeconfig stays good. Raises StoreUnusable."""
    if not file.exists():
        write_private(file, secrets.token_urlsafe(32).encode())
    content = file.read_bytes()
    # An empty token would let every caller in.
    if not content.isascii() or not content.strip():
        raise StoreUnusable(f"{file} does not hold a token: remove it to get a new one")
    return content.decode().strip()


def _keys(settings: ApiSettings, folder: Path) -> Path:
    return settings.cert_dir or folder / "pki"


def _reached_at(host: str) -> str:
    """How clients on this machine write the address."""
    if _is_any(host):
        return LOOPBACK
    return f"[{host}]" if ":" in host else host


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
