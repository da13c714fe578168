"""Provisioner component: probes its driver, then provisions claims, deletes volumes and publishes capacity.

Serves the whole cluster or, with `ProvisionerSettings.node_deployment`, one node. Two instances at once are safe but
wasteful (volume names are derived from claims, writes carry resourceVersions); leader election is the process's task.
"""

import asyncio
import random
from functools import partial
from typing import Final

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Forbidden
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.meta import OwnerReference
from mooring.api.views.storage import StorageClass
from mooring.client.contract import Unreachable
from mooring.clock import Clock, IncreasingTime
from mooring.control.component import Context
from mooring.control.feature_gates import CSI_STORAGE_CAPACITY, PROVISIONING_ROLLBACK
from mooring.control.workqueue import ConcurrencyLimit, repeat, work
from mooring.csi.contract import Code, ControllerCapability, DriverError, ProvisioningDriver
from mooring.provisioner.capacity.objects import PublisherIdentity, managed_by
from mooring.provisioner.capacity.publisher import CapacityListener, CapacityPublisher, CapacitySettings
from mooring.provisioner.capacity.segment_file import FileSegments, WatchedFile, watched_templates
from mooring.provisioner.capacity.segments import FixedSegment, NodeSegments, SegmentSource, SegmentSourceName
from mooring.provisioner.capacity.templates import TemplateCapacities
from mooring.provisioner.metrics import CapacityMetrics, DriverCalls, ProvisionerMetrics
from mooring.provisioner.provision import request
from mooring.provisioner.provision.controller import ProvisionController
from mooring.provisioner.provision.create import DriverContext, InFlightRecords
from mooring.provisioner.provision.delete import VolumeDeleter
from mooring.provisioner.provision.topology import CachedTopologySource, single_node_topology
from mooring.provisioner.rollback.held_provisioning import HeldVolumeController
from mooring.provisioner.rollback.orphans import OrphanCollector
from mooring.provisioner.settings import DriverFacts, ProvisionerSettings

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: external-provisioner's pause between two Probe calls.
RETRY_SECONDS: Final = 1.0
#: Range of the random number in the identity, as external-provisioner's.
IDENTITY_RANGE: Final = 10_000
#: external-provisioner's resync period.
RESYNC_SECONDS: Final = 15 * 60.0


async def probe_driver(
    driver: ProvisioningDriver, *, clock: Clock, rng: random.Random, node: str = "", node_info: bool = False
) -> DriverFacts:
    """Wait until the driver is ready, then read its name and capabilities, and NodeGetInfo with `node` or `node_info`.

    Raises DriverError for everything but a driver that is not ready yet.
    """
    while not await _ready(driver):
        log.info("driver not ready")
        await clock.sleep(RETRY_SECONDS)
    name = await driver.name()
    identity = f"{int(clock.now() * 1000)}-{rng.randrange(IDENTITY_RANGE)}-{name}"
    return DriverFacts(
        name=name,
        identity=f"{identity}-{node}" if node else identity,
        plugin_capabilities=await driver.plugin_capabilities(),
        controller_capabilities=await driver.controller_capabilities(),
        node=await driver.info() if node or node_info else None,
    )


def needs_node_info(capacity: CapacitySettings | None) -> bool:
    """Whether the published segment is the driver's own."""
    return capacity is not None and capacity.segment_source is SegmentSourceName.DRIVER


async def _ready(driver: ProvisioningDriver) -> bool:
    try:
        return await driver.probe()
    except DriverError as error:
        if error.code is Code.DEADLINE_EXCEEDED:
            return False
        raise


class Provisioner:
    name = "mooring-provisioner"

    def __init__(
        self,
        context: Context,
        driver: ProvisioningDriver,
        settings: ProvisionerSettings | None = None,
        *,
        facts: DriverFacts | None = None,
        capacity: CapacitySettings | None = None,
        owner: OwnerReference | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """`facts` if the driver was probed before; `capacity` enables capacity publishing, `owner` owns the published
        objects."""
        self._context = context
        self._driver = driver
        self._settings = settings or ProvisionerSettings()
        self._facts = facts
        self._capacity = capacity if context.gates.enabled(CSI_STORAGE_CAPACITY) else None
        self._owner = owner
        metrics = registry or CollectorRegistry()
        self._metrics = ProvisionerMetrics(metrics)
        self._capacity_metrics = CapacityMetrics(metrics) if self._capacity is not None else None
        for kind in (CLAIM, STORAGE_CLASS, VOLUME):
            context.informers.of(kind)
        self._rollback = self._settings.rollback and context.gates.enabled(PROVISIONING_ROLLBACK)
        if self._rollback:
            context.informers.of(POD)
        if not self._single_node:
            context.informers.of(NODE)
            context.informers.of(CSI_NODE)
        self._serving = False
        self._publisher: CapacityPublisher | None = None
        self._segment_file: FileSegments | None = None
        self._templates: WatchedFile[TemplateCapacities] | None = None
        #: Created by `run`; `control.metrics` walks them.
        self._parts: tuple[object, ...] = ()

    @property
    def ready(self) -> bool:
        """Readiness includes the capacity publisher; claims are provisioned before."""
        return self._serving and (self._publisher is None or self._publisher.ready)

    @property
    def _single_node(self) -> bool:
        return self._settings.node_deployment is not None

    @property
    def _node(self) -> str:
        deployment = self._settings.node_deployment
        return deployment.node if deployment is not None else ""

    async def run(self) -> None:
        facts = self._facts or await self._probe_driver()
        context, settings = self._context, self._settings
        driver = request.ConfiguredDriver(facts, settings)
        calls = DriverCalls(self._driver, facts.name, self._metrics, context.clock)
        node = self._node
        # Polls and volumes are ordered by their times: a poll counts the volumes before it, and none after it.
        times = IncreasingTime(context.clock)
        publisher = self._publisher = self._capacity_publisher(facts, calls, times)
        topology = (
            single_node_topology(node, facts)
            if self._single_node
            else CachedTopologySource(context.informers.of(NODE), context.informers.of(CSI_NODE))
        )
        listener = publisher or CapacityListener()
        limit = ConcurrencyLimit(settings.worker_threads, timeout=settings.timeout)
        shared = DriverContext(context, driver, calls, topology, times, listener, self._metrics, limit)
        in_flight = InFlightRecords(shared, node=node)
        orphan_collector = OrphanCollector(shared, enabled=self._rollback)
        held = HeldVolumeController(shared, orphan_collector, enabled=self._rollback, node=node)
        claims = ProvisionController(shared, in_flight, held)
        volumes = VolumeDeleter(shared, orphan_collector, on_deleted=claims.volume_deleted)
        self._parts = (in_flight, orphan_collector, claims, volumes)
        async with asyncio.TaskGroup() as group:
            if publisher is not None:
                group.create_task(publisher.run(), name="capacity publisher")
            if self._segment_file is not None:
                group.create_task(self._segment_file.watch(context.clock), name="segment file")
            if self._templates is not None:
                group.create_task(self._templates.watch(context.clock), name="template file")
            await self._sync(in_flight, held, claims, volumes)
            self._serving = True
            threads = settings.worker_threads
            group.create_task(work(claims.queue, claims.sync, workers=threads, name=f"{self.name} claims"))
            group.create_task(work(volumes.queue, volumes.sync, workers=threads, name=f"{self.name} volumes"))
            group.create_task(self._resync(claims, volumes), name=f"{self.name} resync")
            group.create_task(orphan_collector.run(claims.queue.add), name=f"{self.name} orphans")

    async def _probe_driver(self) -> DriverFacts:
        clock = self._context.clock
        while True:
            try:
                rng, node_info = self._context.rng, needs_node_info(self._capacity)
                return await probe_driver(self._driver, clock=clock, rng=rng, node=self._node, node_info=node_info)
            except DriverError as error:
                log.warning("driver probe failed; retrying", error=str(error))
                await clock.sleep(RETRY_SECONDS)

    def _capacity_publisher(
        self, facts: DriverFacts, calls: DriverCalls, times: IncreasingTime
    ) -> CapacityPublisher | None:
        if self._capacity is None or self._capacity_metrics is None:
            return None
        if ControllerCapability.GET_CAPACITY not in facts.controller_capabilities:
            log.warning("capacity not published: the driver lacks GET_CAPACITY", driver=facts.name)
            return None
        source = self._segment_source(facts, self._capacity)
        identity = PublisherIdentity(facts.name, managed_by(self._node), self._owner)
        # Publishers of single nodes would all write the same objects.
        if self._capacity.template_file is not None and not self._single_node:
            self._templates = watched_templates(self._capacity.template_file)
        return CapacityPublisher(
            self._context,
            calls,
            source,
            identity,
            self._capacity,
            self._capacity_metrics,
            times,
            self._templates,
        )

    def _segment_source(self, facts: DriverFacts, capacity: CapacitySettings) -> SegmentSource:
        """Raises BadCapacityFile."""
        if self._single_node or capacity.segment_source is SegmentSourceName.DRIVER:
            return FixedSegment(facts.segments)
        if capacity.segment_source is SegmentSourceName.FILE:
            assert capacity.segment_file is not None, "the flags are checked"
            self._segment_file = FileSegments(capacity.segment_file)
            return self._segment_file
        return NodeSegments(self._context.informers, facts.name)

    async def _sync(
        self,
        in_flight: InFlightRecords,
        held: HeldVolumeController,
        claims: ProvisionController,
        volumes: VolumeDeleter,
    ) -> None:
        """Load the records of an earlier process, then subscribe."""
        informers = self._context.informers
        await informers.wait_synced()
        while True:
            try:
                for uid in await in_flight.load() + await held.load():
                    claims.queue.add(uid)
                break
            except Forbidden as error:
                log.warning("provisioning records not readable", error=error.message)
                break
            except (ApiError, Unreachable) as error:
                log.warning("provisioning records not read; retrying", error=str(error))
                await self._context.clock.sleep(RETRY_SECONDS)
        await informers.of(CLAIM).subscribe(claims.observe)
        await informers.of(VOLUME).subscribe(volumes.observe)

        def class_changed(before: StorageClass | None, after: StorageClass | None) -> None:
            if after is not None:
                claims.class_changed(after)

        await informers.of(STORAGE_CLASS).subscribe(class_changed)

    async def _resync(self, claims: ProvisionController, volumes: VolumeDeleter) -> None:
        """As external-provisioner, in case a change was missed."""
        context, name = self._context, f"{self.name} resync"
        informers = context.informers

        async def step() -> None:
            for claim in informers.of(CLAIM).items():
                with context.isolate_errors(name, claim, CLAIM):
                    claims.observe(None, claim)
            for volume in informers.of(VOLUME).items():
                with context.isolate_errors(name, volume, VOLUME):
                    volumes.observe(None, volume)

        pause = partial(context.clock.sleep, RESYNC_SECONDS)
        await repeat(step, pause, name=name, report=context.internal_error, at_once=False)
