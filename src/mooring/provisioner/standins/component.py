"""Component of all stand-in provisioners: watches claims, volumes, classes and nodes and carries out `decisions`.

Its state is derived from the objects, so it can restart at any moment; volume names are derived from claim uids.
"""

import asyncio
from typing import Final

import structlog

from mooring.api.errors import AlreadyExists, ApiError
from mooring.api.kinds import CLAIM, NODE, STORAGE_CLASS, VOLUME
from mooring.api.views.core import Node
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.backoff import KeyedBackoff
from mooring.client.contract import Unreachable
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context
from mooring.control.feature_gates import VOLUME_SCHEDULING
from mooring.control.workqueue import work
from mooring.provisioner import events
from mooring.provisioner.provision.delete import add_finalizer, drop_finalizer, remove_object
from mooring.provisioner.provision.eligibility import VolumeAction, finalizer_step
from mooring.provisioner.provision.selected_node import clear_selected_node
from mooring.provisioner.standins.decisions import StandInPlan, StandInRequest, decide, is_stand_in_volume, request_for
from mooring.provisioner.standins.disks import StandInFailure, StandInPools

WORKERS: Final = 16
#: external-provisioner's --retry-interval-start and -max.
INITIAL_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 300.0

log = structlog.get_logger(__name__)


class StandInProvisioner:
    name = "standin-provisioner"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._nodes = context.informers.of(NODE)
        self._delayed_binding = context.gates.enabled(VOLUME_SCHEDULING)
        self._claim_work = context.work_queue("standin_claims", CLAIM)
        self._volume_work = context.work_queue("standin_volumes", VOLUME)
        self._pools = StandInPools()
        #: Claims that could not be provisioned.
        self._refusals: KeyedBackoff[str] = KeyedBackoff(INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS)
        self.ready = False

    async def run(self) -> None:
        await self._volumes.subscribe(self._on_volume)
        await self._classes.subscribe(self._on_class)
        await self._nodes.subscribe(self._on_node)
        await self._claims.subscribe(self._on_claim)
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._claim_work, self._sync_claim, workers=WORKERS, name=f"{self.name} claims"))
            group.create_task(work(self._volume_work, self._sync_volume, workers=WORKERS, name=f"{self.name} volumes"))

    def _on_claim(self, _: Claim | None, after: Claim | None) -> None:
        if after is not None and self._request_for(after) is not None:
            self._claim_work.add(after.key)

    def _on_class(self, _: StorageClass | None, after: StorageClass | None) -> None:
        """A claim may have been observed before its class."""
        for claim in self._claims.items():
            if after is not None and claim.storage_class == after.name:
                self._on_claim(None, claim)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        """Failed claims may fit now; those whose selected node was deleted fail."""
        if before is None or after is None or before.metadata.labels != after.metadata.labels:
            for key in self._refusals:
                self._claim_work.add(key)
        if after is None:
            for claim in self._claims.items():
                self._on_claim(None, claim)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        if after is not None and is_stand_in_volume(after):
            self._pools.observe(after)
            if finalizer_step(after) is not VolumeAction.NOTHING:
                self._volume_work.add(after.key)
        elif before is not None and after is None and is_stand_in_volume(before):
            self._pools.release(before.name)
            for key in self._refusals:
                self._claim_work.add(key)

    def _request_for(self, claim: Claim) -> StandInRequest | None:
        storage_class = self._classes.get(claim.storage_class)
        return request_for(claim, storage_class, delayed_binding=self._delayed_binding)

    async def _sync_claim(self, key: str) -> None:
        claim = self._claims.get(key)
        request = None if claim is None else self._request_for(claim)
        if request is None or self._volumes.get(request.volume) is not None:
            self._refusals.forget(key)
            return
        self._record_event(request, "Normal", "Provisioning", events.PROVISIONING.format(claim=key))
        try:
            await self._create(request, await self._decide(request))
        except StandInFailure as failure:
            await self._fail(request, failure)

    async def _decide(self, request: StandInRequest) -> StandInPlan:
        name = request.claim.selected_node
        node = self._nodes.get(name) if name else None
        if name and node is None:
            node = await get_or_none(self._client, NODE, name)
            if node is None:
                raise StandInFailure(f'node "{name}" not found', reschedule=True)
        plan = decide(request, node, self._nodes.items(), self._pools)
        # Charged before the next await: concurrent decisions must count it.
        self._pools.charge(request.volume, request.storage_class.name, plan.places, request.size)
        return plan

    async def _create(self, request: StandInRequest, plan: StandInPlan) -> None:
        try:
            await self._client.create(VOLUME, plan.body)
        except AlreadyExists:
            log.debug("object already exists", volume=request.volume)
        except (ApiError, Unreachable):
            # If it was created after all, observing the volume charges it again.
            self._pools.release(request.volume)
            raise
        self._refusals.forget(request.claim.key)
        log.info(
            "volume provisioned", claim=request.claim.key, volume=request.volume, places=[*map(sorted, plan.places)]
        )
        text = events.PROVISIONED.format(volume=request.volume)
        self._record_event(request, "Normal", "ProvisioningSucceeded", text)

    async def _fail(self, request: StandInRequest, failure: StandInFailure) -> None:
        claim = request.claim
        text = events.PROVISION_FAILED.format(storage_class=request.storage_class.name, reason=failure.reason)
        log.info("volume not provisioned", claim=claim.key, reason=failure.reason, reschedule=failure.reschedule)
        if failure.reschedule and claim.selected_node is not None:
            await clear_selected_node(self._client, claim, claim.selected_node)
            self._refusals.forget(claim.key)
        else:
            self._claim_work.add_after(claim.key, self._refusals.next_delay(claim.key))
        self._record_event(request, "Warning", "ProvisioningFailed", text)

    async def _sync_volume(self, key: str) -> None:
        volume = self._volumes.get(key)
        if volume is None:
            return
        match finalizer_step(volume):
            case VolumeAction.ADD_FINALIZER:
                await add_finalizer(self._client, volume)
            case VolumeAction.REMOVE_FINALIZER:
                await drop_finalizer(self._client, volume)
            case VolumeAction.DELETE:
                await remove_object(self._client, volume)

    def _record_event(self, about: StandInRequest, event_type: str, reason: str, message: str) -> None:
        self._recorder.record(about.claim, CLAIM, event_type, reason, message)
