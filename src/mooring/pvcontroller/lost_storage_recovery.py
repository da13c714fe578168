"""Replaces claims whose storage was lost with its node: live reads, one step at a time, a record before the first.

Used by `mooring orphans --apply` and by the controller for StorageClasses with a delay. Every step is decided by
`volumes.lost_storage_record` from objects read just before it, so a process that ends between any two writes is
continued by the next one.
"""

import enum
from typing import Final, NamedTuple

import structlog

from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import Node
from mooring.api.views.storage import Volume
from mooring.client.contract import Client
from mooring.client.live_reads import get_or_none
from mooring.clock import Clock
from mooring.pvcontroller.claim_replacement import RecordedClaims
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.lost_storage import (
    Confirmation,
    LostPair,
    ReachableNodes,
    Refusal,
    VolumePair,
    is_out_of_service,
    lost_pair,
    node_of,
)
from mooring.volumes.lost_storage_record import (
    RECORD_SELECTOR,
    RECOVERY_RECORD,
    Abandon,
    AwaitClaimDeletion,
    CreateClaim,
    DeleteClaim,
    DeleteLostVolume,
    DeletePodOfLostNode,
    Finish,
    RecoveryConfigMap,
    RecoveryRecord,
    RecoveryState,
    ReleaseLostVolume,
    Step,
    next_step,
    read_record,
    record_of,
)

log = structlog.get_logger(__name__)

#: How long a claim's deletion is waited for; afterwards the record is continued later.
CLAIM_DELETION_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.5
#: More steps than any recovery has, conflicts included: a pod per step.
_MAX_STEPS: Final = 200


class RecoveryProgress(enum.StrEnum):
    DONE = "Done"
    #: A finalizer keeps the claim; the record stays.
    WAITING = "Waiting"
    REFUSED = "Refused"


class RecoveryOutcome(NamedTuple):
    claim: str
    progress: RecoveryProgress
    detail: str
    refusal: Refusal | None = None


class StorageRecovery:
    """Safe to run in several processes: every write is conditional on what was read."""

    def __init__(
        self, client: Client, clock: Clock, *, namespace: str = HOLD_NAMESPACE, timeout: float = CLAIM_DELETION_SECONDS
    ) -> None:
        """`namespace` is that of the records, closed to ordinary users; `timeout` in seconds is how long the deletion
        of a claim is waited for."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._claims = RecordedClaims(client, namespace)
        self._timeout = timeout

    async def records(self) -> tuple[RecoveryConfigMap, ...]:
        """Recoveries that are not finished."""
        return (await self._client.list(RECOVERY_RECORD, namespace=self._namespace, labels=RECORD_SELECTOR)).items

    async def recover(self, volume: str, known: Confirmation) -> RecoveryOutcome:
        """Replace the claim of a volume, if it may be by what the server has now."""
        pair = await self._decide(volume, known)
        if isinstance(pair, Refusal):
            return RecoveryOutcome(volume, RecoveryProgress.REFUSED, pair.reason, pair)
        record = record_of(pair, await self._claims.manifest(pair.claim))
        if await self._claims.begin(record):
            log.warning("recovery begun", claim=record.key, volume=volume, node=pair.node, reason=pair.confirmed_by)
        return await self._continue(record, known)

    async def resume(self, found: RecoveryConfigMap, known: Confirmation) -> RecoveryOutcome:
        """Continue a recorded recovery. If the claim is not deleted yet, the loss has to be confirmed again: since the
        record was written the node may have come back, and been lost with other data. Raises MalformedRecovery."""
        return await self._continue(read_record(found, RecoveryRecord), known)

    async def _decide(self, name: str, known: Confirmation) -> LostPair | Refusal:
        volume = await self._client.get(VOLUME, name)
        reference = volume.spec.claim_ref
        claim = None
        if reference is not None:
            claim = await get_or_none(self._client, CLAIM, reference.name, namespace=reference.namespace)
        place = None if claim is None else node_of(volume, claim)
        nodes = ReachableNodes(await self._nodes(*place) if place is not None else ())
        return lost_pair(await self._pair(volume, claim.key if claim is not None else ""), nodes, known)

    async def _pair(self, volume: Volume, key: str) -> VolumePair:
        namespace, _, name = key.partition("/")
        claim = await get_or_none(self._client, CLAIM, name, namespace=namespace) if name else None
        named = claim.storage_class if claim is not None else ""
        storage_class = await get_or_none(self._client, STORAGE_CLASS, named) if named else None
        pods = (await self._client.list(POD, namespace=namespace)).items if name else ()
        users = tuple(pod for pod in pods if not pod.finished and key in pod.claim_keys)
        return VolumePair(volume, claim, storage_class, users)

    async def _nodes(self, key: str, name: str) -> tuple[Node, ...]:
        """Nodes with the name, or with the label that the volume's affinity requires."""
        node = await get_or_none(self._client, NODE, name)
        labelled = (await self._client.list(NODE, labels=f"{key}={name}")).items
        return (*labelled, *([] if node is None else [node]))

    async def _continue(self, record: RecoveryRecord, known: Confirmation) -> RecoveryOutcome:
        until = self._clock.monotonic() + self._timeout
        for _ in range(_MAX_STEPS):
            step = next_step(record, await self._state(record, known))
            if isinstance(step, AwaitClaimDeletion):
                if self._clock.monotonic() >= until:
                    detail = f"finalizers keep the claim: {', '.join(step.claim.metadata.finalizers)}"
                    return RecoveryOutcome(record.key, RecoveryProgress.WAITING, detail)
                await self._clock.sleep(_POLL_SECONDS)
                continue
            try:
                if isinstance(step, CreateClaim) and not await self._claims.create(record, step.body):
                    await self._claims.forget(record)
                    return RecoveryOutcome(record.key, RecoveryProgress.DONE, "its namespace was deleted")
                await self._do(record, step)
            except (Conflict, NotFound) as error:
                # The objects have changed: they are read and decided again.
                log.info("recovery step repeated", claim=record.key, error=error.message)
                await self._clock.sleep(_POLL_SECONDS)
                continue
            if isinstance(step, Abandon):
                return RecoveryOutcome(record.key, RecoveryProgress.REFUSED, step.refusal.reason, step.refusal)
            if isinstance(step, Finish):
                return RecoveryOutcome(record.key, RecoveryProgress.DONE, f"{record.volume} is replaced")
        return RecoveryOutcome(record.key, RecoveryProgress.WAITING, "its objects change all the time")

    async def _state(self, record: RecoveryRecord, known: Confirmation) -> RecoveryState:
        volume = await get_or_none(self._client, VOLUME, record.volume)
        pair = await self._pair(volume if volume is not None else Volume(), record.key)
        # Nodes last: nothing that was read before can make up for one that came back.
        nodes = await self._nodes(record.node_key, record.node)
        decided = lost_pair(pair, ReachableNodes(nodes), known)
        refusal = decided if isinstance(decided, Refusal) else None
        pods = tuple(pod for pod in pair.pods if pod.spec.node_name == record.node)
        return RecoveryState(pair.claim, volume, pods, refusal, node_lost=all(map(is_out_of_service, nodes)))

    async def _do(self, record: RecoveryRecord, step: Step) -> None:
        client = self._client
        match step:
            case DeleteClaim(claim):
                await self._claims.delete(claim)
                log.warning("claim deleted", claim=record.key, volume=record.volume, node=record.node)
            case DeletePodOfLostNode(pod):
                await client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
            case DeleteLostVolume(volume):
                await client.delete(VOLUME, volume.name, uid=volume.uid)
            case ReleaseLostVolume(volume, finalizers):
                meta = {"resourceVersion": volume.metadata.resource_version, "finalizers": list(finalizers) or None}
                await client.patch(VOLUME, volume.name, MergePatch({"metadata": meta}))
                log.warning("storage written off", volume=volume.name, node=record.node)
            case Abandon() | Finish():
                await self._claims.forget(record)
            case CreateClaim() | AwaitClaimDeletion():
                """Done by the caller."""
