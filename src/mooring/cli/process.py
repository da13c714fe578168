"""One component as a process: client, informers, event recorders, leader election, health and metrics endpoints.

Informers run from the start, so that a standby instance takes over with warm caches. A process that loses its lease
exits and must be restarted, as upstream's components. On SIGTERM or SIGINT the component stops first, then the lease is
released, then everything else is closed. Debug documents are served to loopback callers only: they name pods.
"""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import click
import structlog
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from mooring import __version__
from mooring.api.errors import ApiError, Forbidden, NotFound
from mooring.api.health import Check, DebugDocuments, readiness
from mooring.api.kinds import NAMESPACE
from mooring.cli.runtime import api_errors_as, configure_logging, run_event_loop, stop_event
from mooring.client.access import Access
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock, SystemClock
from mooring.control.component import Component, Context, InternalErrors, PermissionErrorReporter
from mooring.control.component_info import ComponentInfo, announcement_seconds
from mooring.control.election import LEASE_NAMESPACE, Election
from mooring.control.feature_gates import FeatureGates, FeatureRollout
from mooring.control.leader_election import lead, new_identity
from mooring.control.metrics import Metrics
from mooring.control.version_skew import VersionSkewMonitor
from mooring.server.http.host_guard import CLUSTER_NAMES, is_loopback
from mooring.server.http.listener import CannotListen, Listener, listen
from mooring.server.http.monitoring import ENDPOINTS, Probes
from mooring.server.http.requests import flag
from mooring.server.http.responses import failure, json_response, metrics_response, text_response

REMOTE_FORBIDDEN: Final = "forbidden: only callers on this machine are allowed; use kubectl port-forward\n"


class Monitoring:
    """Handler of the health, metrics and debug endpoints."""

    def __init__(
        self, readiness: Mapping[str, Check], metrics: Callable[[], bytes], debug: DebugDocuments | None = None
    ) -> None:
        self._probes = Probes(readiness)
        self._metrics = metrics
        self._debug = dict(debug or {})

    async def listen(self, host: str, port: int) -> Listener:
        """Raises CannotListen."""
        names = () if is_loopback(host) else (*CLUSTER_NAMES, socket.gethostname())
        return await listen(self.handle, host, port, None, names=names)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            return text_response("method not allowed\n", code=405)
        if (inspect := self._debug.get(request.path)) is not None:
            if not is_loopback(request.remote or ""):
                return text_response(REMOTE_FORBIDDEN, code=403)
            try:
                return json_response(inspect(request.query))
            except ApiError as error:
                return failure(error)
        match request.path.strip("/").split("/"):
            case ["metrics"]:
                return metrics_response(self._metrics())
            case [endpoint, *below] if endpoint in ENDPOINTS:
                verbose, exclude = flag(request.query, "verbose"), request.query.getall("exclude", [])
                answer = self._probes.answer(endpoint, below, verbose=verbose, exclude=exclude)
                if answer is not None:
                    return answer
        return text_response("404 page not found\n", code=404)


log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Read to check that the server responds and authenticates this process.
PROBED_NAMESPACE: Final = "default"


class ProcessFailed(click.ClickException):
    """The process cannot start or continue."""


@dataclass(frozen=True)
class Address:
    """Of the health and metrics endpoints; port 0 picks a free port."""

    host: str
    port: int


@dataclass(frozen=True)
class ProcessSettings:
    #: In the server's logs, events and metrics.
    name: str
    access: Access
    gates: FeatureGates
    #: None without leader election.
    election: Election | None
    #: None without endpoints.
    monitoring: Address | None
    #: Of the Leases of this process: leader election and ComponentInfo.
    namespace: str = LEASE_NAMESPACE


class ComponentRuntime:
    """Builds the Contexts of a process and runs its informers and recorders."""

    def __init__(
        self,
        settings: ProcessSettings,
        client: Client,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        rollout: FeatureRollout | None = None,
    ) -> None:
        self.settings = settings
        self._rollout = rollout
        self.client = client
        self.clock = clock
        self.rng = rng
        self.metrics = metrics
        self.recorders: dict[str, EventRecorder] = {}
        # Change handlers of all components of the process share its informers.
        report = InternalErrors(self.recorder(settings.name), metrics.count_internal_error)
        self.informers = Informers(client, clock, rng, report=report)

    def recorder(self, source: str) -> EventRecorder:
        """The recorder of one event source."""
        if source not in self.recorders:
            count = self.metrics.count_internal_error
            self.recorders[source] = EventRecorder(
                self.client, self.clock, source, self.rng, count_internal_error=count
            )
        return self.recorders[source]

    def context(self, source: str = "") -> Context:
        """`source` is the event source, by default the process."""
        metrics = self.metrics
        return Context(
            self.client,
            self.informers,
            self.recorder(source or self.settings.name),
            self.clock,
            self.rng,
            self.settings.gates,
            metrics.queue,
            metrics.invariants,
            metrics.count_internal_error,
            metrics.registry,
            self._rollout,
        )

    async def run(self) -> None:
        """Run informers and recorders until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="informers")
            for source, recorder in self.recorders.items():
                group.create_task(recorder.run(), name=f"events of {source}")

    async def flush(self) -> None:
        """Write the last events, while `run` runs."""
        await asyncio.gather(*(recorder.flush() for recorder in self.recorders.values()))


Build = Callable[[ComponentRuntime], Component]


def run_component(
    settings: ProcessSettings,
    build: Build,
    *,
    log_level: str,
    greeting: str,
    parts: Collection[str] = (),
    debug: DebugDocuments | None = None,
    known_as: str = "",
) -> None:
    """`run_process` in an event loop of its own."""
    configure_logging(log_level)
    run_event_loop(run_process(settings, build, greeting=greeting, parts=parts, debug=debug, known_as=known_as))


async def run_process(
    settings: ProcessSettings,
    build: Build,
    *,
    greeting: str,
    parts: Collection[str] = (),
    known_as: str = "",
    announces: bool = True,
    debug: DebugDocuments | None = None,
) -> None:
    """Run the component until SIGTERM or SIGINT. Raises ProcessFailed.

    `greeting` is printed after the version, with the URL of the health and metrics endpoints, when the API server has
    responded. `parts` are the components of the process as in feature gates, `known_as` its name in the ComponentInfo,
    which is published if `announces`. `debug` are documents served beside the metrics.
    """
    stop = stop_event()
    clock, rng = SystemClock(), random.SystemRandom()
    metrics = Metrics(clock)
    permissions = PermissionErrorReporter(clock, metrics.registry)
    client = HttpClient(settings.access, component=settings.name, clock=clock, refused=permissions.refused)
    # As in upstream's components: a renewal must not wait behind the requests of the component.
    election_client = HttpClient(
        settings.access, component=f"{settings.name}/leader-election", clock=clock, refused=permissions.refused
    )
    try:
        runtime = ComponentRuntime(settings, client, clock, rng, metrics, FeatureRollout() if parts else None)
        component = build(runtime)
        process = _Process(runtime, component, election_client)
        if parts:
            mine = ComponentInfo(known_as or settings.name, __version__, settings.gates, frozenset(parts))
            process.announce(mine, only_compares=not announces)
        metrics.memory.add(component.name, component)
        metrics.memory.add("informers", runtime.informers)
        metrics.memory.add("recorders", runtime.recorders)
        async with process.monitored(debug) as url:
            if await _check_connection(settings, clock, stop):
                log.info("started", component=settings.name, version=__version__, server=settings.access.server)
                click.echo(f"Mooring {__version__} {greeting}")
                if url:
                    click.echo(f"  health and metrics at {url}")
                await process.run(stop)
    finally:
        await election_client.close()
        await client.close()


class _Process:
    def __init__(self, runtime: ComponentRuntime, component: Component, election_client: Client) -> None:
        self._runtime = runtime
        self._election_client = election_client
        self._settings = runtime.settings
        self._component = component
        self._leads = runtime.settings.election is None
        self._over = asyncio.Event()
        self._skew: VersionSkewMonitor | None = None

    def announce(self, mine: ComponentInfo, *, only_compares: bool) -> None:
        """Before `run`: have this instance announced, also while it does not lead."""
        runtime, settings = self._runtime, self._settings
        election = settings.election
        self._skew = VersionSkewMonitor(
            runtime.context(VersionSkewMonitor.name),
            mine,
            namespace=settings.namespace,
            announces=not only_compares,
            instance=f"{runtime.rng.getrandbits(32):08x}",
            seconds=announcement_seconds(None if election is None else election.timings.lease_duration),
            leads=lambda: self._leads,
            registry=runtime.metrics.registry,
        )
        runtime.metrics.memory.add(VersionSkewMonitor.name, self._skew)

    @asynccontextmanager
    async def monitored(self, debug: DebugDocuments | None) -> AsyncIterator[str]:
        """Serve the health and metrics endpoints inside the block; yields their URL."""
        address = self._settings.monitoring
        if address is None:
            yield ""
            return
        monitoring = Monitoring(self._readiness(), self._runtime.metrics.expose, debug)
        try:
            listener = await monitoring.listen(address.host, address.port)
        except CannotListen as error:
            raise ProcessFailed(str(error)) from error
        try:
            yield listener.url
        finally:
            await listener.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`. Raises ProcessFailed when the lease is lost, and the exceptions of the component."""
        async with asyncio.TaskGroup() as group:
            around = group.create_task(self._runtime.run(), name="runtime")
            announcing = group.create_task(self._announce(), name=VersionSkewMonitor.name)
            acting = group.create_task(self._act(), name=self._settings.name)
            waiting = group.create_task(stop.wait(), name="signals")
            lost = group.create_task(self._over.wait(), name="lease")
            await asyncio.wait((acting, waiting, lost), return_when=asyncio.FIRST_COMPLETED)
            # The lease is released while the client still works.
            for task in (acting, lost, waiting):
                task.cancel()
            await asyncio.wait((acting,))
            # Withdrawn only now: until it has ended, it takes part.
            announcing.cancel()
            await asyncio.wait((announcing,))
            await self._runtime.flush()
            around.cancel()
        if not stop.is_set():
            raise ProcessFailed("Lost the leader lease: another instance may be active; restart this one as standby.")

    async def _announce(self) -> None:
        if self._skew is not None:
            await self._skew.run()

    async def _act(self) -> None:
        election = self._settings.election
        if self._skew is not None:
            # A feature that is held back must not be used at first.
            await self._skew.compared.wait()
        if election is None:
            await self._component.run()
            return
        runtime = self._runtime
        count = runtime.metrics.leader(election.name)

        def report(leads: bool) -> None:
            self._leads = leads
            count(leads)
            if self._skew is not None:
                self._skew.wake()
            if not leads:
                self._over.set()

        await lead(
            self._election_client,
            runtime.clock,
            runtime.rng,
            name=election.name,
            namespace=election.namespace,
            identity=new_identity(socket.gethostname(), runtime.rng),
            act=self._component.run,
            timings=election.timings,
            report=report,
        )

    def _readiness(self) -> Mapping[str, Check]:
        return {"informer-sync": self._unsynced, **readiness([self._component], leads=lambda: self._leads)}

    def _unsynced(self) -> str | None:
        # A kind that is read later, such as PodGroups, keeps no process from work.
        missing = self._runtime.informers.unsynced(late=False)
        return f"informers not synced: {', '.join(missing)}" if missing else None


async def _check_connection(settings: ProcessSettings, clock: Clock, stop: asyncio.Event) -> bool:
    """Check that the server responds and authenticates this process. False if stopped before."""
    # A separate client: a Forbidden here must not be reported as a missing permission.
    client = HttpClient(settings.access, component=settings.name, clock=clock)
    greeting = asyncio.ensure_future(client.get(NAMESPACE, PROBED_NAMESPACE))
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((greeting, waiting), return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return False
        with api_errors_as(ProcessFailed):
            try:
                greeting.result()
            except (NotFound, Forbidden) as answer:
                log.debug("server responded", error=answer.message)
    finally:
        greeting.cancel()
        waiting.cancel()
        await client.close()
    return True
