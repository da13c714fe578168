"""The API server as a process has it: a store, certificates, tokens, a listener, a kubeconfig, and events that go.

Two steps, because a control plane in the same process stands between them: `opened` gives the API on its store,
`listening` lets others in. What outlives the process lies in one folder: `state.db` unless the objects are in etcd,
`pki/`, `token`, and the kubeconfig unless it is wanted elsewhere. Without a folder everything is in memory and leaves
nothing behind.
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

from mooring.api.debug_documents import DebugDocuments
from mooring.api.errors import AlreadyExists
from mooring.api.health import Check
from mooring.api.kinds import PRIORITY_CLASS
from mooring.clock import Clock
from mooring.cluster.local_client import LocalClient
from mooring.cluster.policy import install_policy
from mooring.control.feature_gates import CLAIM_ROLLBACK, DEFAULTS, FeatureGates
from mooring.control.metrics import Metrics
from mooring.server.api import ApiServer
from mooring.server.authentication.authenticator import Authenticator
from mooring.server.authorization.bootstrap import SERVER
from mooring.server.certificates import LOCAL_NAMES, Certificates, ensure_certificates
from mooring.server.contract import User
from mooring.server.event_expiry import EventExpiry
from mooring.server.http.large_requests import WorkerThread
from mooring.server.http.listening import listen
from mooring.server.http.request_records import RequestRecords, StoredObjects
from mooring.server.http.shell import HttpShell
from mooring.server.kubeconfig import kubeconfig, kubeconfig_text
from mooring.server.objects import Objects
from mooring.server.private_files import write_private
from mooring.server.security import Security, cluster_security
from mooring.server.validation.disruption import SYSTEM_CLASSES
from mooring.store.contract import Store, StoreUnusable
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.memory import MemoryStore
from mooring.store.sqlite import SqliteStore

#: Loopback: the embedded cluster is one machine's own unless somebody says otherwise.
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
        shell = HttpShell(
            self.api,
            authenticator=Authenticator(self.security.tokens),
            access=self.security.access,
            clock=clock,
            rng=self.rng,
            readiness={**self.checks, **readiness},
            metrics=metrics.expose,
            debug=debug,
            records=RequestRecords(metrics.registry, clock),
            catch_up=Objects(self.store).catch_up,
            off_loop=self.worker,
        )
        certificates = ensure_certificates(_keys(settings, self.folder), clock=clock, names=_names(settings.host))
        listener = await listen(shell.handle, settings.host, settings.port, certificates.tls_context())
        try:
            url = f"https://{_reached_at(settings.host)}:{listener.port}"
            yield Listening(url, self._write_kubeconfig(url, certificates))
        finally:
            shell.end_watches()
            await listener.close()

    def _write_kubeconfig(self, url: str, certificates: Certificates) -> Path:
        target = self.settings.kubeconfig or self.folder / "kubeconfig"
        config = kubeconfig(server=url, authority=certificates.authority.read_bytes(), token=self.token)
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
        await _system_classes(LocalClient(api, SERVER))
        expiry = asyncio.create_task(EventExpiry(store, clock, seconds=settings.event_ttl).run(), name="old events")
        expiry.add_done_callback(_tell_if_failed)
        stack.callback(expiry.cancel)
        yield ApiProcess(settings, folder, store, api, security, token, clock, rng, worker, checks)


def _tell_if_failed(task: "asyncio.Task[None]") -> None:
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
            checks = {"etcd": shared.trouble}
    stack.push_async_callback(store.close)
    return store, folder, checks


async def _system_classes(client: LocalClient) -> None:
    for name, value in SYSTEM_CLASSES.items():
        try:
            await client.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
        except AlreadyExists:
            continue


def _token(file: Path) -> str:
    """The administrator's token, the same at every start, so that a kubeconfig stays good. Raises StoreUnusable."""
    if not file.exists():
        write_private(file, secrets.token_urlsafe(32).encode())
    content = file.read_bytes()
    # An empty token would be anyone's.
    if not content.isascii() or not content.strip():
        raise StoreUnusable(f"{file} does not hold a token: remove it to get a new one")
    return content.decode().strip()


def _keys(settings: ApiSettings, folder: Path) -> Path:
    return settings.cert_dir or folder / "pki"


def _names(host: str) -> tuple[str, ...]:
    """Under which clients may reach us: this machine's names, and the address we listen on."""
    return tuple(dict.fromkeys((*LOCAL_NAMES, *(() if _is_any(host) else (host,)), socket.gethostname())))


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
