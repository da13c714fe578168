"""Claims and held volumes of deleted nodes, for all drivers of a cluster.

With a provisioner per node, the only instance that could clear a claim's selected node is deleted with its node; the
lost-node controller does it instead. Claims with a volume or a CreateVolume request that may be in flight are kept.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import ApiError
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, VOLUME
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, Volume
from mooring.client.cache import VOLUME_BY_CLAIM_UID, Index
from mooring.client.contract import Unreachable
from mooring.client.informer import Informer
from mooring.client.live_reads import get_or_none
from mooring.client.recorder import WARNING
from mooring.clock import set_within
from mooring.control.component import Context
from mooring.control.workqueue import repeat
from mooring.provisioner import events
from mooring.provisioner.provision import selected_node
from mooring.provisioner.provision.create import DRIVER_LABEL
from mooring.provisioner.provision.delete import remove_object
from mooring.provisioner.rollback.attempts import HeldAttempts
from mooring.provisioner.rollback.rollback import HoldRollback
from mooring.volumes.holds import objects
from mooring.volumes.holds.objects import INTENT_RECORD, intent_name, intent_of
from mooring.volumes.holds.transitions import IntentPhase, MalformedIntent

log: FilteringBoundLogger = structlog.get_logger(__name__)


def _is_lost(item: ApiObject) -> tuple[str, ...]:
    return (well_known.ANNOTATION_SET,) if objects.STORAGE_LOST in item.metadata.annotations else ()


def _awaits_volume(claim: Claim) -> tuple[str, ...]:
    waits = claim.selected_node is not None and not claim.spec.volume_name and not claim.deleting
    return (well_known.ANNOTATION_SET,) if waits else ()


#: Claims that have a node and no volume: few, whatever the number of claims.
_AWAITING_VOLUME: Final[Index[Claim]] = Index("selected node and no volume", _awaits_volume)
#: Objects that an administrator has annotated as lost.
_LOST: Final[Index[ApiObject]] = Index("storage lost", _is_lost)
#: Name of the loop in logs and metrics.
NAME: Final = "lost storage"
NODE_EXISTS: Final = "the Node exists: its volumes are left to the driver"
#: Between two checks of the claims that wait; a deleted Node is handled at once.
POLL_INTERVAL_SECONDS: Final = 15.0
#: How long a driver may be missing on an existing node: it may be restarting.
GRACE_SECONDS: Final = 60.0


class LostStorage:
    """Rolls back held volumes whose storage was lost with its node, and ends attempts on such nodes.

    A missing heartbeat or a deleted Node does not prove that the disks are lost: an administrator confirms it with the
    annotation `hold.mooring.dev/storage-lost` on the volume or on the provisioning record, which ordinary users cannot
    write. Even then nothing is ended while a Node of that name exists.
    """

    def __init__(self, context: Context, *, namespace: str) -> None:
        """`namespace` is that of the provisioning records."""
        self._context = context
        client = self._client = context.client
        self._volumes = context.informers.of(VOLUME)
        self._volumes.add_index(*_LOST)
        #: Not shared: only provisioning records.
        self._records: Informer[objects.IntentRecord] = Informer(
            client,
            objects.INTENT_RECORD,
            clock=context.clock,
            rng=context.rng,
            scope={"namespace": namespace, "labels": DRIVER_LABEL},
            report=context.internal_error,
        )
        self._records.add_index(*_LOST)
        self._attempts = HeldAttempts(client, driver="", namespace=namespace)
        self._hold_rollback = HoldRollback(
            context,
            self._attempts,
            delete_storage=self._write_off,
            remove_object=lambda volume, _: remove_object(client, volume),
            # Held volumes are never attached.
            attached=lambda name: False,
        )

    async def run(self) -> None:
        await self._records.run()

    async def check(self) -> None:
        try:
            await self._end_volumes()
            await self._end_attempts()
        except (ApiError, Unreachable) as error:
            log.info("lost storage not checked", error=str(error))

    async def _end_volumes(self) -> None:
        for volume in tuple(self._volumes.by_index(_LOST.name, well_known.ANNOTATION_SET)):
            with self._context.isolate_errors(NAME, volume, VOLUME):
                if self._hold_rollback.applies_to(volume) and (
                    error_text := (await self._hold_rollback.roll_back(volume.name))[0]
                ):
                    log.warning("volume of lost node not rolled back", volume=volume.name, error=error_text)

    async def _write_off(self, volume: Volume) -> str:
        """In place of DeleteVolume: why the storage cannot be considered lost; "" if it can."""
        node = volume.metadata.annotations.get(objects.NODE, "")
        if objects.STORAGE_LOST not in volume.metadata.annotations:
            return f"annotation {objects.STORAGE_LOST} is missing"
        if not await self._node_deleted(node):
            return NODE_EXISTS
        log.warning("storage written off", volume=volume.name, node=node)
        return ""

    async def _end_attempts(self) -> None:
        for record in tuple(self._records.by_index(_LOST.name, well_known.ANNOTATION_SET)):
            with self._context.isolate_errors(NAME, record, objects.INTENT_RECORD):
                attempt = await self._attempts.read(objects.claim_uid_of(record))
                if attempt is None or attempt.intent.phase is not IntentPhase.CREATING:
                    continue
                if not await self._node_deleted(attempt.intent.node):
                    log.warning("attempt on lost node not ended", claim=attempt.uid, reason=NODE_EXISTS)
                    continue
                await self._attempts.end_failed(attempt, reschedule=True)
                log.warning("attempt on lost node ended", claim=attempt.uid, node=attempt.intent.node)

    async def _node_deleted(self, node: str) -> bool:
        """Whether no such Node exists, by a live read."""
        return bool(node) and await get_or_none(self._client, NODE, node) is None


class UnusableNode(NamedTuple):
    """Why a claim's selected node cannot be used."""

    reason: str
    #: Whether the driver may only be restarting.
    transient: bool


def unusable_node(claim: Claim, node: Node | None, csi_nodes: Mapping[str, Iterable[str]]) -> UnusableNode | None:
    """`csi_nodes` are the drivers of each node. None if the claim has a volume or its node can be used."""
    name = claim.selected_node
    if name is None or claim.spec.volume_name or claim.deleting:
        return None
    if node is None:
        return UnusableNode("the Node was deleted", transient=False)
    annotations = claim.metadata.annotations
    driver = annotations.get(well_known.STORAGE_PROVISIONER, annotations.get(well_known.STORAGE_PROVISIONER_BETA, ""))
    registers = any(driver in drivers for drivers in csi_nodes.values())
    if not registers or driver in csi_nodes.get(name, ()):
        # A provisioner that no CSINode lists is not a CSI driver, or was uninstalled: no other node would be better.
        return None
    return UnusableNode(f"driver {driver} is not registered on it any more", transient=True)


class LostNodeController:
    name = "selected-node-janitor"

    def __init__(self, context: Context, *, namespace: str = "default") -> None:
        """`namespace` is that of the provisioning records."""
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._claims = context.informers.of(CLAIM)
        self._claims.add_index(*_AWAITING_VOLUME)
        self._nodes = context.informers.of(NODE)
        self._csi_nodes = context.informers.of(CSI_NODE)
        self._volumes = context.informers.of(VOLUME)
        self._volumes.add_index(*VOLUME_BY_CLAIM_UID)
        self._namespace = namespace
        self._lost_storage = LostStorage(context, namespace=namespace)
        #: Since when a claim's driver is missing, by claim uid.
        self._missing: dict[str, float] = {}
        #: Uids of the claims that have volumes by a live list, read at most once in a round.
        self._owners: frozenset[str] | None = None
        self.ready = False

    async def run(self) -> None:
        for informer in (self._claims, self._nodes, self._csi_nodes, self._volumes):
            await informer.synced.wait()
        check = asyncio.Event()

        def on_node(before: Node | None, after: Node | None) -> None:
            if after is None:
                check.set()

        await self._nodes.subscribe(on_node)
        self.ready = True

        async def step() -> None:
            check.clear()
            await self._check_claims()
            await self._lost_storage.check()

        async with asyncio.TaskGroup() as group:
            group.create_task(self._lost_storage.run(), name="informer of attempt records")
            pause = partial(set_within, check, POLL_INTERVAL_SECONDS, self._clock)
            group.create_task(repeat(step, pause, name=self.name, report=self._context.internal_error))

    async def _check_claims(self) -> None:
        self._owners = None
        waiting = tuple(self._claims.by_index(_AWAITING_VOLUME.name, well_known.ANNOTATION_SET))
        csi_nodes = {
            node.name: {driver.name for driver in node.spec.drivers or ()}
            for node in (self._csi_nodes.items() if waiting else ())
        }
        suspects: set[str] = set()
        for claim in waiting:
            with self._context.isolate_errors(self.name, claim, CLAIM):
                found = unusable_node(claim, self._nodes.get(claim.selected_node or ""), csi_nodes)
                if found is None:
                    continue
                suspects.add(claim.uid)
                since = self._missing.setdefault(claim.uid, self._clock.monotonic())
                if not found.transient or self._clock.monotonic() - since >= GRACE_SECONDS:
                    await self._clear_node(claim, found)
        self._missing = {uid: since for uid, since in self._missing.items() if uid in suspects}

    async def _clear_node(self, claim: Claim, found: UnusableNode) -> None:
        node = claim.selected_node or ""
        try:
            if not found.transient and await get_or_none(self._client, NODE, node) is not None:
                return
            if await self._has_volume(claim):
                return
            if await selected_node.clear_selected_node(self._client, claim, node):
                text = events.SELECTED_NODE_CLEARED.format(node=node, reason=found.reason)
                self._recorder.record(claim, CLAIM, WARNING, "ProvisioningFailed", text)
        except (ApiError, Unreachable) as error:
            log.info("selected node not cleared", claim=claim.key, error=str(error))

    async def _has_volume(self, claim: Claim) -> bool:
        """Whether the claim has a volume or may have one. All volumes are listed last, once for all claims of a round,
        and only if the cache and the record do not decide it."""
        if self._volumes.by_index(VOLUME_BY_CLAIM_UID.name, claim.uid) or await self._is_provisioning(claim):
            return True
        if self._owners is None:
            volumes = (await self._client.list(VOLUME)).items
            self._owners = frozenset(each.spec.claim_ref.uid for each in volumes if each.spec.claim_ref is not None)
        return claim.uid in self._owners

    async def _is_provisioning(self, claim: Claim) -> bool:
        """Whether the provisioning record has an attempt that is not closed."""
        record = await get_or_none(self._client, INTENT_RECORD, intent_name(claim.uid), namespace=self._namespace)
        try:
            return record is not None and not intent_of(record).closed
        except MalformedIntent:
            return True
