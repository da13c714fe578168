"""Replaces bound claims that no pod ever used: one step at a time, a record before the first.

Every step is decided by `volumes.unused.record`, so a process that ends between any two writes is continued by the next
one. What was observed of pods is the caller's: it ends with the process.

    read live for every step      claim, volume: writes are conditional on them; class: it may not allow it any more
    read live before a deletion   pods of the namespace, for all claims with the finalizer, every LIST_SECONDS at most
    observed by the caller        pods that name a claim, VolumeAttachments, and the proof

So the requests of a claim do not depend on how many pods, claims and attachments there are.
"""

import enum
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import structlog

from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, VolumeAttachment
from mooring.client.cache import version_of
from mooring.client.contract import Client
from mooring.client.live_reads import get_or_none
from mooring.clock import Clock
from mooring.pvcontroller.claim_replacement import RecordedClaims
from mooring.volumes.lost_storage_record import RECOVERY_RECORD, RecoveryConfigMap, read_record
from mooring.volumes.unused.proof import BoundPair, UnusedRefusal, Usage, replacement_refusal
from mooring.volumes.unused.record import (
    FINALIZER,
    RETAIN,
    UNUSED,
    AwaitFinalizers,
    AwaitWatch,
    CreateReplacement,
    DeleteUnusedClaim,
    ForgetReplacement,
    GuardClaim,
    ListPods,
    MarkUnused,
    ReleaseClaim,
    ReplacementRecord,
    ReplacementState,
    ReplacementStep,
    RestorePolicy,
    RetainVolume,
    ReturnVolume,
    is_guarded,
    next_replacement_step,
    record_name,
    replacement_record,
)

log = structlog.get_logger(__name__)

#: Between two lists of the pods of a namespace.
LIST_SECONDS: Final = 5.0
#: More steps than any replacement has, conflicts included.
_MAX_STEPS: Final = 30


class Observations(Protocol):
    """What the caller's watches have shown."""

    def pods(self, claim: Claim) -> Sequence[Pod]:
        """Pods that name the claim."""

    def attachments(self, claim: Claim) -> Sequence[VolumeAttachment]:
        """Attachments of the claim's volume."""

    def usage(self, claim: Claim, until: int) -> Usage:
        """What is known about the pods of a claim up to a version."""

    def bound_at(self, claim: Claim) -> float:
        """When the claim was bound, in seconds since the epoch; 0 if that was not observed."""


class ReplacementProgress(enum.Enum):
    REPLACED = "Replaced"
    #: A pod may have had the volume: the next claim has it, too.
    RETURNED = "Returned"
    #: A finalizer keeps the claim, pods are to be listed, or the watch of pods has not caught up; the record stays.
    WAITING = "Waiting"
    REFUSED = "Refused"


class ReplacementOutcome(NamedTuple):
    progress: ReplacementProgress
    volume: str
    refusal: UnusedRefusal | None = None


class _PodList(NamedTuple):
    """The pods of a namespace at a version: those with a node, by the keys of their claims."""

    version: int
    with_node: dict[str, Pod]
    #: Monotonic.
    time: float


class UnusedClaimReplacement:
    def __init__(self, client: Client, clock: Clock, observed: Observations, *, namespace: str) -> None:
        """`namespace` is that of the records, closed to ordinary users."""
        self._client = client
        self._clock = clock
        self._observed = observed
        self._namespace = namespace
        self._claims = RecordedClaims(client, namespace)
        #: The last list of pods, by namespace.
        self._listed: dict[str, _PodList] = {}

    def forget_lists(self) -> None:
        """No replacement is unfinished."""
        self._listed.clear()

    async def replace(self, namespace: str, name: str) -> ReplacementOutcome | None:
        """Replace the claim, if it may be by what the server has now; None if there is nothing to report."""
        claim = await get_or_none(self._client, CLAIM, name, namespace=namespace)
        if claim is None:
            return None
        if is_guarded(claim):
            await self._release_unrecorded(claim)
            return None
        pair = await self._pair(claim)
        refusal = replacement_refusal(pair, self._clock.now())
        if refusal is not None:
            return ReplacementOutcome(ReplacementProgress.REFUSED, claim.spec.volume_name, refusal)
        assert pair.volume is not None, "a claim without a volume is refused"
        record = replacement_record(claim, pair.volume, await self._claims.manifest(claim))
        if await self._claims.begin(record):
            log.warning("replacement of unused claim begun", claim=record.key, volume=record.volume)
        return await self._continue(record)

    async def _release_unrecorded(self, claim: Claim) -> None:
        """Remove the finalizer of a claim without a record: a write of a process that has ended came late."""
        name = record_name(claim.uid)
        if await get_or_none(self._client, RECOVERY_RECORD, name, namespace=self._namespace) is None:
            await self._finalizers(claim, [each for each in claim.metadata.finalizers if each != FINALIZER])

    async def resume(self, found: RecoveryConfigMap) -> ReplacementOutcome:
        """Continue a recorded replacement. Raises MalformedRecovery."""
        return await self._continue(read_record(found, ReplacementRecord))

    async def _pair(self, claim: Claim) -> BoundPair:
        named = claim.spec.volume_name
        volume = await get_or_none(self._client, VOLUME, named) if named else None
        storage_class = await get_or_none(self._client, STORAGE_CLASS, claim.storage_class)
        observed, listed = self._observed, self._list_since(claim)
        with_node = listed.with_node.get(claim.key) if listed is not None else None
        pods = (*observed.pods(claim), *((with_node,) if with_node is not None else ()))
        usage, bound_at = observed.usage(claim, 0), observed.bound_at(claim)
        return BoundPair(claim, volume, storage_class, pods, observed.attachments(claim), usage, bound_at)

    def _list_since(self, claim: Claim) -> _PodList | None:
        """A list of pods that is newer than the last change of the claim."""
        listed = self._listed.get(claim.namespace)
        return listed if listed is not None and listed.version >= version_of(claim) else None

    async def _list_pods(self, namespace: str) -> None:
        listed = await self._client.list(POD, namespace=namespace)
        with_node = {key: pod for pod in listed.items if pod.spec.node_name for key in pod.claim_keys}
        self._listed[namespace] = _PodList(int(listed.resource_version), with_node, self._clock.monotonic())

    def _was_listed_recently(self, namespace: str) -> bool:
        """Then claims that have got the finalizer since wait, and share the next list."""
        listed = self._listed.get(namespace)
        return listed is not None and self._clock.monotonic() - listed.time < LIST_SECONDS

    async def _state(self, record: ReplacementRecord) -> ReplacementState:
        claim = await get_or_none(self._client, CLAIM, record.claim, namespace=record.namespace)
        if claim is None or claim.uid != record.claim_uid:
            volume = await get_or_none(self._client, VOLUME, record.volume)
            return ReplacementState(claim, volume, None, Usage.UNKNOWN)
        pair = await self._pair(claim)
        if not claim.deleting:
            refusal, is_listed = replacement_refusal(pair, self._clock.now()), self._list_since(claim) is not None
            return ReplacementState(claim, pair.volume, refusal, pair.usage, is_listed)
        # The claim was read when it was being deleted: whatever came before has a smaller version. Once the watch has
        # reached that version, it has shown every pod that a list would.
        return ReplacementState(claim, pair.volume, None, self._observed.usage(claim, version_of(claim)))

    async def _continue(self, record: ReplacementRecord) -> ReplacementOutcome:
        for _ in range(_MAX_STEPS):
            step = next_replacement_step(record, await self._state(record))
            if isinstance(step, AwaitFinalizers | AwaitWatch):
                break
            if isinstance(step, ListPods) and self._was_listed_recently(record.namespace):
                break
            try:
                if await self._do(record, step):
                    continue
            except (Conflict, NotFound) as error:
                # The objects have changed: they are read and decided again.
                log.info("replacement step repeated", claim=record.key, error=error.message)
                continue
            refusal = step.refusal if isinstance(step, ForgetReplacement) else None
            if refusal is not None:
                return ReplacementOutcome(ReplacementProgress.REFUSED, record.volume, refusal)
            returned = isinstance(step, ForgetReplacement) and step.returned
            progress = ReplacementProgress.RETURNED if returned else ReplacementProgress.REPLACED
            return ReplacementOutcome(progress, record.volume)
        return ReplacementOutcome(ReplacementProgress.WAITING, record.volume)

    async def _do(self, record: ReplacementRecord, step: ReplacementStep) -> bool:
        """False after the last step."""
        match step:
            case RetainVolume(volume):
                await self._patch_volume(volume.name, volume.metadata.resource_version, RETAIN)
            case RestorePolicy(volume, policy):
                await self._patch_volume(volume.name, volume.metadata.resource_version, policy)
            case MarkUnused(volume, policy):
                notes = {UNUSED: record.claim_uid}
                await self._patch_volume(volume.name, volume.metadata.resource_version, policy, annotations=notes)
            case ReturnVolume(volume, policy):
                reference = {"uid": None, "resourceVersion": None}
                await self._patch_volume(volume.name, volume.metadata.resource_version, policy, reference=reference)
                log.warning("volume returned to its claim", claim=record.key, volume=volume.name)
            case GuardClaim(claim):
                await self._finalizers(claim, [*claim.metadata.finalizers, FINALIZER])
            case ReleaseClaim(claim):
                await self._finalizers(claim, [each for each in claim.metadata.finalizers if each != FINALIZER])
            case ListPods(claim):
                await self._list_pods(claim.namespace)
            case DeleteUnusedClaim(claim):
                await self._claims.delete(claim)
                log.warning("unused claim deleted", claim=record.key, volume=record.volume)
            case CreateReplacement(body):
                if not await self._claims.create(record, body):
                    await self._claims.forget(record)
                    return False
            case ForgetReplacement():
                await self._claims.forget(record)
                return False
            case AwaitFinalizers() | AwaitWatch():
                """Left to the caller."""
        return True

    async def _patch_volume(
        self,
        name: str,
        version: str,
        policy: str,
        *,
        annotations: dict[str, str] | None = None,
        reference: dict[str, None] | None = None,
    ) -> None:
        meta: dict[str, Any] = {"resourceVersion": version}
        if annotations is not None:
            meta["annotations"] = annotations
        spec: dict[str, Any] = {"persistentVolumeReclaimPolicy": policy}
        if reference is not None:
            spec["claimRef"] = reference
        await self._client.patch(VOLUME, name, MergePatch({"metadata": meta, "spec": spec}))

    async def _finalizers(self, claim: Claim, finalizers: list[str]) -> None:
        meta = {"resourceVersion": claim.metadata.resource_version, "finalizers": finalizers or None}
        await self._client.patch(CLAIM, claim.name, MergePatch({"metadata": meta}), namespace=claim.namespace)
