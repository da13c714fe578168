"""One component as a process of its own, against any Kubernetes: everything around the component itself.

    client ──► informers, event recorders ──► leader election ──► the component
       └──────────── probes and metrics on a port of their own ───────┘

Informers run from the start, so that an instance that stands by takes over with warm caches. A component acts once
in a process: who loses its lease ends, and is started anew by whoever keeps it running, as upstream's components do.
On SIGTERM or SIGINT the component stops first, then the lease is given back, then everything else is closed.
"""

import asyncio
import random
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring import __version__
from mooring.api.debug_documents import DebugDocuments
from mooring.api.errors import ApiError, Forbidden, NotFound
from mooring.api.health import Check, readiness
from mooring.api.kinds import NAMESPACE
from mooring.cli.monitoring import Monitoring
from mooring.client.access import Access
from mooring.client.contract import Client, Unreachable
from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import Clock
from mooring.control.announcements import Announcement
from mooring.control.component import Component, Context, Together
from mooring.control.election_settings import LEASE_NAMESPACE, Election
from mooring.control.feature_gates import FeatureGates
from mooring.control.leader_election import incarnation, lead
from mooring.control.metrics import Metrics
from mooring.control.rights_watch import RightsWatch
from mooring.control.skew_watch import SkewWatch

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Any object will do to see whether the server answers and knows us.
PROBED_NAMESPACE: Final = "default"


class ProcessFailed(Exception):
    """The process cannot start or go on; the text is one sentence that says why."""


@dataclass(frozen=True)
class Address:
    """Where probes and metrics are answered; port 0 picks a free one."""

    host: str
    port: int


@dataclass(frozen=True)
class ProcessSettings:
    """All a process is told about its surroundings."""

    #: As the server's logs, its events and its metrics show it.
    name: str
    access: Access
    gates: FeatureGates
    #: None when every instance shall act.
    election: Election | None
    #: None when nobody shall ask.
    monitoring: Address | None
    #: Where the Leases of this process are: the one it leads by, and the one it announces itself with.
    namespace: str = LEASE_NAMESPACE


class Surroundings:
    """What a component is built from in its own process."""

    def __init__(
        self,
        settings: ProcessSettings,
        client: Client,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics or Metrics(clock)
        self._settings = settings
        self._client = client
        self._clock = clock
        self._rng = rng
        self.recorders: dict[str, EventRecorder] = {}
        self.informers = Informers(client, clock, rng)
        self.metrics.watch_informers(self.informers.failures)

    def recorder(self, source: str) -> EventRecorder:
        """The recorder of the events of one source, which is kept running."""
        if source not in self.recorders:
            self.recorders[source] = EventRecorder(self._client, self._clock, source, self._rng)
        return self.recorders[source]

    def context(self, source: str = "") -> Context:
        """`source` is whose events they are, if not the process's own."""
        recorder = self.recorder(source or self._settings.name)
        return Context(
            self._client,
            self.informers,
            recorder,
            self._clock,
            self._rng,
            self._settings.gates,
            self.metrics.queue,
            self.metrics.invariants,
        )

    async def run(self) -> None:
        """Keep caches current and events written, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="informers")
            for source, recorder in self.recorders.items():
                group.create_task(recorder.run(), name=f"events of {source}")

    async def flush(self) -> None:
        """Have the last events written, while `run` runs."""
        await asyncio.gather(*(recorder.flush() for recorder in self.recorders.values()))


Build = Callable[[Surroundings], Component]


async def run_process(
    settings: ProcessSettings,
    build: Build,
    *,
    clock: Clock,
    rng: random.Random,
    announce: Callable[[str], None],
    parts: Collection[str] = (),
    known_as: str = "",
    announces: bool = True,
    debug: DebugDocuments | None = None,
) -> None:
    """Run the component until a signal asks to stop. Raises ProcessFailed, and CannotListen before anything else.

    `announce` hears the address of probes and metrics once they are answered, "" where they are not. `parts` names
    what of the control plane this is, as feature gates know it, and `known_as` how others shall call the process, if
    not by its own name: they are told, unless it is one of many (`announces`), and compared with. `debug` is what is
    shown beside the metrics.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wanted, stop.set)
    metrics = Metrics(clock)
    rights = RightsWatch(clock, metrics.registry)
    client = HttpClient(settings.access, component=settings.name, clock=clock, refused=rights.refused)
    try:
        surroundings = Surroundings(settings, client, clock, rng, metrics)
        component = build(surroundings)
        if parts:
            mine = Announcement(known_as or settings.name, __version__, settings.gates, frozenset(parts))
            component = _among_others(settings, surroundings, component, mine, announces=announces)
        metrics.memory.add(component.name, component)
        metrics.memory.add("informers", surroundings.informers)
        metrics.memory.add("recorders", surroundings.recorders)
        process = _Process(settings, surroundings, component, client, clock, rng)
        async with process.monitored(debug) as url:
            if await _greet(settings, clock, stop):
                log.info("started", component=settings.name, version=__version__, server=settings.access.server)
                announce(url)
                await process.run(stop)
    finally:
        await client.close()


def _among_others(
    settings: ProcessSettings, surroundings: Surroundings, component: Component, mine: Announcement, *, announces: bool
) -> Component:
    """The component, and beside it who sees to it that it fits together with the rest of the control plane."""
    context, registry = surroundings.context(SkewWatch.name), surroundings.metrics.registry
    watch = SkewWatch(context, mine, namespace=settings.namespace, announces=announces, registry=registry)
    return Together(component.name, [component, watch])


class _Process:
    def __init__(
        self,
        settings: ProcessSettings,
        surroundings: Surroundings,
        component: Component,
        client: Client,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._settings = settings
        self._surroundings = surroundings
        self._component = component
        self._client = client
        self._clock = clock
        self._rng = rng
        self._leads = settings.election is None
        self._over = asyncio.Event()

    @asynccontextmanager
    async def monitored(self, debug: DebugDocuments | None) -> AsyncIterator[str]:
        """Probes and metrics are answered inside the block, at the address it is given."""
        address = self._settings.monitoring
        if address is None:
            yield ""
            return
        monitoring = Monitoring(self._readiness(), self._surroundings.metrics.expose, debug)
        listener = await monitoring.listen(address.host, address.port)
        try:
            yield listener.url
        finally:
            await listener.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; ProcessFailed when the lease is lost, whatever the component raises when it fails."""
        async with asyncio.TaskGroup() as group:
            around = group.create_task(self._surroundings.run(), name="surroundings")
            acting = group.create_task(self._act(), name=self._settings.name)
            waiting = group.create_task(stop.wait(), name="signals")
            lost = group.create_task(self._over.wait(), name="lease")
            await asyncio.wait((acting, waiting, lost), return_when=asyncio.FIRST_COMPLETED)
            # The lease is given back while the component's client still works: last things last.
            for task in (acting, lost, waiting):
                task.cancel()
            await asyncio.wait((acting,))
            await self._surroundings.flush()
            around.cancel()
        if not stop.is_set():
            raise ProcessFailed(
                "Lost the leader lease: another instance may act now; start this one again to stand by."
            )

    async def _act(self) -> None:
        election = self._settings.election
        if election is None:
            await self._component.run()
            return
        count = self._surroundings.metrics.leader(election.name)

        def report(leads: bool) -> None:
            self._leads = leads
            count(leads)
            if not leads:
                self._over.set()

        await lead(
            self._client,
            self._clock,
            self._rng,
            name=election.name,
            namespace=election.namespace,
            identity=incarnation(socket.gethostname(), self._rng),
            act=self._component.run,
            timings=election.timings,
            report=report,
        )

    def _readiness(self) -> Mapping[str, Check]:
        def informers_synced() -> str | None:
            missing = self._surroundings.informers.unsynced()
            return f"not everything is listed yet: {', '.join(missing)}" if missing else None

        return {"informer-sync": informers_synced, **readiness([self._component], leads=lambda: self._leads)}


async def _greet(settings: ProcessSettings, clock: Clock, stop: asyncio.Event) -> bool:
    """See that the server answers and accepts who we are; what we may do there shows when we do it. False when we are
    told to stop before it answers."""
    # A client of its own: that we may not look is nobody's business.
    client = HttpClient(settings.access, component=settings.name, clock=clock)
    greeting = asyncio.ensure_future(client.get(NAMESPACE, PROBED_NAMESPACE))
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((greeting, waiting), return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return False
        greeting.result()
    except (NotFound, Forbidden) as answer:
        log.debug("server answered", why=answer.message)
    except Unreachable as error:
        raise ProcessFailed(f"Cannot use the API server: {error}.") from error
    except ApiError as error:
        raise ProcessFailed(f"The API server refuses us: {error.message}.") from error
    finally:
        greeting.cancel()
        waiting.cancel()
        await client.close()
    return True
