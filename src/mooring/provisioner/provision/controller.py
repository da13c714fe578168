"""Provision controller: from a claim to its PersistentVolume, one claim at a time.

    claim ──► eligible? ──► plan ──► CreateVolume ──► PersistentVolume
                             ▲           │ no final response: the same request again, even if the claim is deleted
                             └── retry ──┘ RESOURCE_EXHAUSTED: the selected node is cleared

Restarts lose nothing: the volume name is derived from the claim, and requests are recorded before they are sent
(`create`).
"""

from functools import partial

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Conflict
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.client.cache import BY_UID
from mooring.client.contract import Unreachable
from mooring.client.live_reads import get_or_none
from mooring.client.recorder import NORMAL, WARNING
from mooring.control.feature_gates import VOLUME_SCHEDULING
from mooring.provisioner import events
from mooring.provisioner.provision import request, selected_node
from mooring.provisioner.provision.create import DriverContext, InFlightRecords, VolumeCreator
from mooring.provisioner.provision.eligibility import Eligibility, addressed_to, awaits_populator, eligibility_of
from mooring.provisioner.provision.request import ProvisioningPlan
from mooring.provisioner.provision.selected_node import NodeClaimer
from mooring.provisioner.rollback.held_provisioning import HeldVolumeController
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState

log: FilteringBoundLogger = structlog.get_logger(__name__)


class ProvisionController:
    """`sync` takes the uid of a claim and requeues it after a failure."""

    def __init__(self, context: DriverContext, in_flight: InFlightRecords, held: HeldVolumeController) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.clock
        informers = context.component.informers
        self._claims = informers.of(CLAIM)
        self._claims.add_index(*BY_UID)
        self._classes = informers.of(STORAGE_CLASS)
        self._volumes = informers.of(VOLUME)
        self._driver = context.driver
        self._in_flight = in_flight
        self._creator = VolumeCreator(context)
        self._held = held
        self._delayed_binding = context.component.gates.enabled(VOLUME_SCHEDULING)
        self._capacity_listener = context.capacity_listener
        self._metrics = context.metrics
        self._backoff = context.driver.retry_backoff()
        #: Uids of claims that are read before the next volume is provisioned.
        self._unconfirmed: set[str] = set()
        self._node_claimer = NodeClaimer(context)
        self.queue = context.component.work_queue("claims", CLAIM, find=self._claim_with_uid)
        self.queue.limit = context.limit
        self.queue.priority = lambda uid: self._held.priority(self._claim_with_uid(uid))

    def observe(self, before: Claim | None, after: Claim | None) -> None:
        """A claim in backoff stays there unless its selected node changed."""
        if after is None:
            if before is not None and (
                self._held.has_record(before.uid) or self._in_flight.may_have_record(before.uid)
            ):
                self.queue.add(before.uid)
            return
        if not addressed_to(after, self._driver.facts.name):
            return
        node_changed = before is not None and before.selected_node != after.selected_node
        if node_changed or after.uid not in self._backoff:
            self.queue.add(after.uid)

    def volume_deleted(self, uid: str) -> None:
        """Of a claim, by its uid: the claim may be deleted as well, which informers tell later."""
        self._unconfirmed.add(uid)
        self.queue.add(uid)

    def class_changed(self, storage_class: StorageClass) -> None:
        """Claims may have waited for the class, or for a corrected one."""
        for claim in self._claims.items():
            if claim.storage_class == storage_class.name and not claim.spec.volume_name:
                self.observe(None, claim)

    def _claim_with_uid(self, uid: str) -> Claim | None:
        return next(iter(self._claims.by_index(BY_UID.name, uid)), None)

    async def sync(self, uid: str) -> None:
        claim = self._claim_with_uid(uid)
        if uid in self._unconfirmed:
            claim = await selected_node.live_claim(self._client, uid, claim)
            self._unconfirmed.discard(uid)
        plan = await self._in_flight.find(uid)
        if plan is None:
            if not await self._held.resolve_orphan(uid, claim, self._class_of(claim)):
                self._retry(uid)
                return
            if await self._held.applies_to(uid, claim):
                await self._provision_held(uid, claim)
                return
            if claim is None:
                await self._end(uid)
                return
            plan = await self._begin(claim)
            if plan is None:
                return
        begun = self._clock.monotonic()
        try:
            volume = await self._creator.create(plan, before_call=partial(self._record, plan))
        except ProvisioningFailure as failure:
            await self._fail(plan, claim, failure)
            return
        if await self._close_record(uid):
            self._succeed(plan, claim, volume, self._clock.monotonic() - begun)

    async def _record(self, plan: ProvisioningPlan) -> None:
        """Record the request before it is sent. Raises ProvisioningFailure."""
        if not await self._in_flight.open(plan):
            self._held.expect_record(plan.claim["uid"])
            raise ProvisioningFailure(ProvisioningState.NO_CHANGE, "another instance holds a volume for the claim")

    async def _end(self, uid: str) -> None:
        """There is nothing to provision: the record of a request that was never sent goes too."""
        if await self._close_record(uid):
            self._forget(uid)

    async def _close_record(self, uid: str) -> bool:
        """False if the record could not be deleted: the claim is retried."""
        try:
            await self._in_flight.close(uid)
        except (ApiError, Unreachable) as error:
            log.warning("provisioning record not deleted", claim=uid, error=str(error))
            self._retry(uid)
            return False
        return True

    async def _provision_held(self, uid: str, claim: Claim | None) -> None:
        """The volume is created like any other, but stays held until the coordinator commits it."""
        storage_class = self._class_of(claim)
        try:
            volume = await self._held.serve(uid, claim, storage_class)
        except ProvisioningFailure as failure:
            self._fail_held(uid, claim, failure)
            return
        except Conflict as error:
            # The record may also be that of a request which is not held: that request is repeated then.
            self._in_flight.expect_record(uid)
            text = f"another instance updated the provisioning record: {error.message}"
            self._fail_held(uid, claim, ProvisioningFailure(ProvisioningState.NO_CHANGE, text))
            return
        self._forget(uid)
        if volume is not None and claim is not None:
            self._record_event(claim, NORMAL, "VolumeHeld", events.VOLUME_HELD.format(volume=volume.name))

    def _fail_held(self, uid: str, claim: Claim | None, failure: ProvisioningFailure) -> None:
        if claim is not None:
            self._warn(claim, failure)
        if failure.state is ProvisioningState.RESCHEDULE:
            self._forget(uid)
        else:
            self._retry(uid)

    def _class_of(self, claim: Claim | None) -> StorageClass | None:
        return self._classes.get(claim.storage_class) if claim is not None else None

    async def _begin(self, claim: Claim) -> ProvisioningPlan | None:
        """The plan for a claim without a request in flight; None if there is nothing to do now."""
        storage_class = self._classes.get(claim.storage_class)
        settings, facts = self._driver.settings, self._driver.facts
        waits = self._delayed_binding
        match eligibility_of(claim, storage_class, facts.name, settings.node_deployment, delayed_binding=waits):
            case Eligibility.SKIP:
                await self._end(claim.uid)
                return None
            case Eligibility.NO_CLASS:
                text = f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
                self._refuse(claim, ProvisioningFailure(ProvisioningState.NO_CHANGE, text))
                return None
            case Eligibility.CLAIM_NODE:
                assert storage_class is not None, "only a class can be immediate"
                wait = await self._node_claimer.try_claim(claim, storage_class)
                if wait is not None:
                    self.queue.add_after(claim.uid, wait)
                return None
            case Eligibility.PROVISION:
                return await self._plan(claim, storage_class)

    async def _plan(self, claim: Claim, storage_class: StorageClass | None) -> ProvisioningPlan | None:
        assert storage_class is not None, "eligible claims have a class"
        wait = self._backoff.suspended_seconds(claim.uid, version=storage_class.uid, now=self._clock.monotonic())
        if wait:
            self.queue.add_after(claim.uid, wait)
            return None
        if awaits_populator(claim):
            self._record_event(claim, NORMAL, "Provisioning", events.EXTERNAL_POPULATOR)
            self._forget(claim.uid)
            return None
        name = self._driver.volume_name(claim.uid)
        # The API server is asked because the cache may be behind.
        if self._volumes.get(name) is not None or await get_or_none(self._client, VOLUME, name) is not None:
            await self._end(claim.uid)
            return None
        self._record_event(claim, NORMAL, "Provisioning", events.PROVISIONING.format(claim=claim.key))
        try:
            return self._context.plan(claim, storage_class)
        except ProvisioningFailure as failure:
            if failure.state is ProvisioningState.RESCHEDULE:
                await self._reschedule(claim.uid, claim, claim.selected_node or "", failure)
            else:
                self._refuse(claim, failure)
            return None

    def _succeed(self, plan: ProvisioningPlan, claim: Claim | None, volume: Volume, seconds: float) -> None:
        self._metrics.provisioned.labels(plan.storage_class, "").inc()
        self._metrics.provision_duration.labels(plan.storage_class, "").observe(seconds)
        claim_object = claim or request.claim_of_plan(plan)
        self._record_event(claim_object, NORMAL, "ProvisioningSucceeded", events.PROVISIONED.format(volume=volume.name))
        self._forget(claim_object.uid)
        self._capacity_listener.volume_created(volume)

    async def _fail(self, plan: ProvisioningPlan, claim: Claim | None, outcome: ProvisioningFailure) -> None:
        uid, claim_object = plan.claim["uid"], claim or request.claim_of_plan(plan)
        if outcome.state is not ProvisioningState.RESCHEDULE:
            self._metrics.provision_failed.labels(plan.storage_class, "").inc()
        if outcome.state is not ProvisioningState.NO_CHANGE:
            self._capacity_listener.provisioning_failed(plan)
        ended = outcome.state in (ProvisioningState.FINISHED, ProvisioningState.RESCHEDULE)
        if ended and not await self._close_record(uid):
            return
        if outcome.state is ProvisioningState.RESCHEDULE:
            self._metrics.exhausted.labels(plan.storage_class).inc()
            await self._capacity_listener.refresh(plan)
            await self._reschedule(uid, claim_object, plan.node, outcome)
        elif outcome.state is ProvisioningState.FINISHED and claim is None:
            # The claim was deleted and the driver has no volume for it.
            self._forget(uid)
        else:
            self._refuse(claim_object, outcome)

    async def _reschedule(self, uid: str, claim_object: ApiObject, node: str, outcome: ProvisioningFailure) -> None:
        """Clear the selected node, so that the scheduler selects another one."""
        self._warn(claim_object, outcome)
        try:
            cleared = await selected_node.clear_selected_node(self._client, claim_object, node)
        except (ApiError, Unreachable) as error:
            log.warning("selected node not cleared", claim=claim_object.key, error=str(error))
            self._retry(uid)
            return
        self._forget(uid)
        if not cleared:
            self.queue.add(uid)

    def _refuse(self, claim_object: ApiObject, outcome: ProvisioningFailure) -> None:
        self._warn(claim_object, outcome)
        if outcome.infeasible and isinstance(claim_object, Claim):
            storage_class = self._classes.get(claim_object.storage_class)
            class_uid = storage_class.uid if storage_class is not None else ""
            self._backoff.suspend(claim_object.uid, version=class_uid, now=self._clock.monotonic())
        self._retry(claim_object.uid)

    def _retry(self, uid: str) -> None:
        self.queue.add_after(uid, self._backoff.next_delay(uid))

    def _forget(self, uid: str) -> None:
        self._backoff.forget(uid)
        self._node_claimer.forget(uid)

    def _warn(self, claim_object: ApiObject, outcome: ProvisioningFailure) -> None:
        text = outcome.text
        if isinstance(claim_object, Claim):
            text = events.PROVISION_FAILED.format(storage_class=claim_object.storage_class, reason=text)
        if outcome.infeasible:
            text = events.INFEASIBLE.format(reason=text)
        self._record_event(claim_object, WARNING, "ProvisioningFailed", text)

    def _record_event(self, claim_object: ApiObject, event_type: str, reason: str, text: str) -> None:
        self._context.component.recorder.record(claim_object, CLAIM, event_type, reason, text)
