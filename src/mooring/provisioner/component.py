"""The provisioner as one component: gets to know its driver, then serves claims, removes volumes, publishes capacity.

Works for the whole cluster or, with `Settings.node_deployment`, for the volumes of one node. What two instances do at
once is safe (names follow from claims, writes carry versions) and wasteful; leader election is the process's.
"""

import asyncio
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
from mooring.control.component import Context
from mooring.control.feature_gates import PROVISIONING_ROLLBACK
from mooring.control.worker import repeat, work
from mooring.csi.contract import ControllerCapability, Driver, DriverError
from mooring.provisioner import planning
from mooring.provisioner.accessibility import Places
from mooring.provisioner.calls import DriverCalls
from mooring.provisioner.capacity_metrics import CapacityMetrics
from mooring.provisioner.capacity_objects import Publisher, managed_by
from mooring.provisioner.held_attempts import HeldAttempts
from mooring.provisioner.held_provisioning import HeldProvisioning
from mooring.provisioner.hold_policy import HoldPolicy
from mooring.provisioner.holding import Holding
from mooring.provisioner.introduction import PAUSE, introduce
from mooring.provisioner.making import Making
from mooring.provisioner.metrics import ProvisionerMetrics
from mooring.provisioner.places import KnownPlaces, OwnPlace
from mooring.provisioner.provisioning import Provisioning
from mooring.provisioner.publisher import CapacityPublisher, CapacitySettings
from mooring.provisioner.removing import Removing
from mooring.provisioner.room import Room, Unpublished
from mooring.provisioner.segments import FixedSegment, NodeSegments
from mooring.provisioner.settings import DriverFacts, Settings
from mooring.provisioner.sweeping import Sweeping
from mooring.provisioner.unfinished import Unfinished

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: external-provisioner's resync period.
RESYNC_SECONDS: Final = 15 * 60.0


class Provisioner:
    name = "mooring-provisioner"

    def __init__(
        self,
        context: Context,
        driver: Driver,
        settings: Settings | None = None,
        *,
        facts: DriverFacts | None = None,
        capacity: CapacitySettings | None = None,
        owner: OwnerReference | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """`facts` are what the driver has said of itself, if it was asked before; `capacity` turns publishing on, and
        `owner` is whose the published objects are."""
        self._context = context
        self._driver = driver
        self._settings = settings or Settings()
        self._facts = facts
        self._capacity = capacity
        self._owner = owner
        metrics = registry or CollectorRegistry()
        self._metrics = ProvisionerMetrics(metrics)
        self._capacity_metrics = CapacityMetrics(metrics) if capacity is not None else None
        for kind in (CLAIM, STORAGE_CLASS, VOLUME):
            context.informers.of(kind)
        self._rollback = self._settings.rollback and context.gates.enabled(PROVISIONING_ROLLBACK)
        if self._rollback:
            context.informers.of(POD)
        if not self._alone:
            context.informers.of(NODE)
            context.informers.of(CSI_NODE)
        self._serves = False
        self._publisher: CapacityPublisher | None = None
        #: What `run` works with, for the count of remembered objects.
        self._parts: tuple[object, ...] = ()

    @property
    def ready(self) -> bool:
        """Claims do not wait for capacity to be published; whoever asks about readiness does."""
        return self._serves and (self._publisher is None or self._publisher.ready)

    @property
    def _alone(self) -> bool:
        """Whether no node but the driver's own is looked at."""
        return self._settings.node_deployment is not None

    async def run(self) -> None:
        facts = self._facts or await self._introduction()
        context, settings = self._context, self._settings
        driver = planning.Driver(facts, settings)
        calls = DriverCalls(self._driver, facts.name, self._metrics, context.clock)
        deployment = settings.node_deployment
        node = deployment.node if deployment is not None else ""
        unfinished = Unfinished(context.client, driver=facts.name, namespace=settings.namespace, node=node)
        publisher = self._publisher = self._publishing(facts, calls, node)
        room: Room = publisher or Unpublished()
        places = self._places(facts, node)
        making = Making(context.client, context.clock, calls, facts)
        held = HeldAttempts(context.client, driver=facts.name, namespace=settings.namespace)
        sweeping = Sweeping(context.client, context.clock, context.rng, context.informers, driver, calls, places, held)
        holding = self._holding(driver, places, held, making, room, sweeping)
        claims = Provisioning(context, driver, calls, places, unfinished, room, self._metrics, making, holding)
        volumes = Removing(
            context,
            driver,
            calls,
            room,
            self._metrics,
            held=held,
            removed=claims.queue.add,
        )
        self._parts = (unfinished, held, sweeping, claims, volumes)
        async with asyncio.TaskGroup() as group:
            if publisher is not None:
                group.create_task(publisher.run(), name="capacity publisher")
            await self._sync(unfinished, holding, claims, volumes)
            self._serves = True
            threads = settings.worker_threads
            group.create_task(work(claims.queue, claims.sync, workers=threads, name=f"{self.name} claims"))
            group.create_task(work(volumes.queue, volumes.sync, workers=threads, name=f"{self.name} volumes"))
            group.create_task(self._resync(claims, volumes), name=f"{self.name} resync")
            if self._rollback:
                group.create_task(sweeping.run(claims.queue.add), name=f"{self.name} sweep")

    async def _introduction(self) -> DriverFacts:
        deployment = self._settings.node_deployment
        node = deployment.node if deployment is not None else ""
        while True:
            try:
                return await introduce(self._driver, clock=self._context.clock, rng=self._context.rng, node=node)
            except DriverError as error:
                log.warning("driver cannot be used yet", why=str(error))
                await self._context.clock.sleep(PAUSE)

    def _places(self, facts: DriverFacts, node: str) -> Places:
        return OwnPlace(node, facts) if self._alone else KnownPlaces(self._context.informers)

    def _publishing(self, facts: DriverFacts, calls: DriverCalls, node: str) -> CapacityPublisher | None:
        if self._capacity is None or self._capacity_metrics is None:
            return None
        if ControllerCapability.GET_CAPACITY not in facts.controller_capabilities:
            log.warning("no capacity is published: the driver does not say what it has left", driver=facts.name)
            return None
        source = FixedSegment(facts.segments) if self._alone else NodeSegments(self._context.informers, facts.name)
        whose = Publisher(facts.name, managed_by(node), self._owner)
        return CapacityPublisher(self._context, calls, source, whose, self._capacity, self._capacity_metrics)

    def _holding(
        self,
        driver: planning.Driver,
        places: Places,
        held: HeldAttempts,
        making: Making,
        room: Room,
        sweeping: Sweeping,
    ) -> Holding:
        context = self._context
        policy = HoldPolicy(
            context.client, context.clock, context.informers, namespace=held.namespace, enabled=self._rollback
        )
        provisioning = HeldProvisioning(
            context.client, context.clock, context.rng, driver, places, held, policy, making, room
        )
        node = self._settings.node_deployment.node if self._settings.node_deployment is not None else ""
        return Holding(policy, held, provisioning, sweeping, node=node)

    async def _sync(self, unfinished: Unfinished, holding: Holding, claims: Provisioning, volumes: Removing) -> None:
        """Take up what was left, then listen."""
        informers = self._context.informers
        await informers.wait_synced()
        while True:
            try:
                left = await unfinished.load() + await holding.load()
                for uid in left:
                    claims.queue.add(uid)
                break
            except Forbidden as error:
                log.warning("records of unfinished attempts cannot be read", why=error.message)
                break
            except (ApiError, Unreachable) as error:
                log.warning("records of unfinished attempts not read yet", why=str(error))
                await self._context.clock.sleep(PAUSE)
        await informers.of(CLAIM).subscribe(claims.observe)
        await informers.of(VOLUME).subscribe(volumes.observe)

        def class_changed(before: StorageClass | None, after: StorageClass | None) -> None:
            if after is not None:
                claims.class_changed(after)

        await informers.of(STORAGE_CLASS).subscribe(class_changed)

    async def _resync(self, claims: Provisioning, volumes: Removing) -> None:
        """Look at everything again now and then, in case a change was missed."""
        informers = self._context.informers

        async def step() -> None:
            for claim in informers.of(CLAIM).items():
                claims.observe(None, claim)
            for volume in informers.of(VOLUME).items():
                volumes.observe(None, volume)

        pause = partial(self._context.clock.sleep, RESYNC_SECONDS)
        await repeat(step, pause, name=f"{self.name} resync", at_once=False)
