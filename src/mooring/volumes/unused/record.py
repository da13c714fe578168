"""How an unused claim is replaced: the record that is written first, and the next step. Pure.

    record ──► volume: Retain ──► claim: finalizer ──► list pods ──► delete claim ──► only our finalizer is left
                                                                                             │
                             no pod had it: volume gets its policy and the mark `UNUSED`  ◄──┤
                             otherwise: its claimRef loses the uid, so the next claim gets it ◄┘
                                                                                             │
                                                  create claim ◄── remove finalizer  ◄───────┘

Until the claim is being deleted a pod may begin to use its volume, and deletion cannot be undone. So the volume is
retained before, and the proof is completed after the deletion, when no kubelet mounts the volume any more. A process
that ends in between takes its knowledge with it; the next one then returns the volume to the claim of that name.

The list of pods is not part of the proof. A watch may be late, and a claim that is deleted under a running pod keeps
its volume, but is not usable by other pods until that one ends.
"""

from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from mooring.api import well_known
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.lost_storage_record import RECORD_LABEL, ClaimManifest, new_claim_body
from mooring.volumes.unused.proof import UnusedRefusal, Usage, times_replaced

RECORD_VALUE: Final = "unused-claim"
RECORD_SELECTOR: Final = f"{RECORD_LABEL}={RECORD_VALUE}"
_NAME_PREFIX: Final = "unused-claim-"
#: On a claim that is replaced: keeps it until it is decided what becomes of its volume.
FINALIZER: Final = "mooring.dev/unused-claim"
#: On a volume: uid of the claim with which no pod ever had it. Written together with its reclaim policy.
UNUSED: Final = "mooring.dev/never-used"
RETAIN: Final = "Retain"


def record_name(claim_uid: str) -> str:
    return f"{_NAME_PREFIX}{claim_uid}"


class ReplacementRecord(msgspec.Struct, frozen=True, rename="camel"):
    SELECTOR: ClassVar[str] = RECORD_SELECTOR

    namespace: str
    claim: str
    claim_uid: str
    volume: str
    volume_uid: str
    #: Reclaim policy of the volume before it was retained.
    policy: str
    #: Body of the claim that is created.
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        return record_name(self.claim_uid)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.claim}"


def replacement_record(claim: Claim, volume: Volume, manifest: ClaimManifest) -> ReplacementRecord:
    """`manifest` is the claim, read with its whole spec."""
    body = new_claim_body(manifest)
    body["metadata"].setdefault("annotations", {})[well_known.TIMES_REPLACED] = str(times_replaced(claim) + 1)
    policy = volume.spec.persistent_volume_reclaim_policy
    return ReplacementRecord(claim.namespace, claim.name, claim.uid, volume.name, volume.uid, policy, body)


class ReplacementState(NamedTuple):
    """The objects of a record as they are now."""

    #: The claim of that name, also another one.
    claim: Claim | None
    #: The volume of that name, also another one.
    volume: Volume | None
    #: Why the claim must not be deleted now, by `replacement_refusal`; of no meaning once it is being deleted.
    refusal: UnusedRefusal | None
    #: Whether a pod had the volume until the claim was being deleted.
    usage: Usage
    #: Whether the refusal regards a list of pods that is newer than the last change of the claim.
    pods_listed: bool = False


class RetainVolume(NamedTuple):
    volume: Volume


class GuardClaim(NamedTuple):
    """Add the finalizer."""

    claim: Claim


class ListPods(NamedTuple):
    """Read the pods of the claim's namespace from the server, after the finalizer was written."""

    claim: Claim


class DeleteUnusedClaim(NamedTuple):
    claim: Claim


class AwaitFinalizers(NamedTuple):
    """Other finalizers keep the claim: that of the protection, as long as a pod with a node uses it."""

    claim: Claim


class AwaitWatch(NamedTuple):
    """The watch of pods has not reached the deletion of the claim."""


class MarkUnused(NamedTuple):
    """The proof is complete: the volume gets its policy back, and goes with its claim if that is Delete."""

    volume: Volume
    policy: str


class ReturnVolume(NamedTuple):
    """The proof failed: the volume is reserved for the next claim of that name, and gets its policy back."""

    volume: Volume
    policy: str


class ReleaseClaim(NamedTuple):
    """Remove the finalizer."""

    claim: Claim


class RestorePolicy(NamedTuple):
    volume: Volume
    policy: str


class CreateReplacement(NamedTuple):
    body: dict[str, Any]


class ForgetReplacement(NamedTuple):
    """The record can be deleted: the claim was replaced, or nothing is left to be undone."""

    refusal: UnusedRefusal | None = None
    #: Whether the next claim has the same volume.
    returned: bool = False


ReplacementStep = (
    RetainVolume
    | GuardClaim
    | ListPods
    | DeleteUnusedClaim
    | AwaitFinalizers
    | AwaitWatch
    | MarkUnused
    | ReturnVolume
    | ReleaseClaim
    | RestorePolicy
    | CreateReplacement
    | ForgetReplacement
)


def is_guarded(claim: Claim) -> bool:
    """Whether a claim has the finalizer. Without a record, a process that has crashed left it: it has to be removed."""
    return FINALIZER in claim.metadata.finalizers


def next_replacement_step(record: ReplacementRecord, state: ReplacementState) -> ReplacementStep:
    claim = state.claim
    if claim is None or claim.uid != record.claim_uid:
        return _after_deletion(record, state)
    if not claim.deleting:
        return _undo(record, state, claim) if state.refusal is not None else _forward(record, state, claim)
    if not is_guarded(claim):
        # Its user has deleted it before it was guarded.
        return _undo(record, state, claim)
    if len(claim.metadata.finalizers) > 1:
        return AwaitFinalizers(claim)
    step = _volume_step(record, state)
    return step if step is not None else ReleaseClaim(claim)


def _forward(record: ReplacementRecord, state: ReplacementState, claim: Claim) -> ReplacementStep:
    volume = _own_volume(record, state.volume)
    if volume is None:
        return _undo(record, state, claim)
    if volume.spec.persistent_volume_reclaim_policy != RETAIN:
        return RetainVolume(volume)
    if not is_guarded(claim):
        return GuardClaim(claim)
    return DeleteUnusedClaim(claim) if state.pods_listed else ListPods(claim)


def _undo(record: ReplacementRecord, state: ReplacementState, claim: Claim) -> ReplacementStep:
    """The finalizer first: a claim with it that is being deleted counts as deleted by the controller."""
    if is_guarded(claim):
        return ReleaseClaim(claim)
    volume = _own_volume(record, state.volume)
    if volume is not None and volume.spec.persistent_volume_reclaim_policy != record.policy:
        return RestorePolicy(volume, record.policy)
    return ForgetReplacement(state.refusal)


def _after_deletion(record: ReplacementRecord, state: ReplacementState) -> ReplacementStep:
    if (step := _volume_step(record, state)) is not None:
        return step
    if state.claim is None:
        return CreateReplacement(record.manifest)
    return ForgetReplacement(returned=_is_returned(record, state.volume))


def _volume_step(record: ReplacementRecord, state: ReplacementState) -> ReplacementStep | None:
    """What has to be decided about the volume before the claim may go; None if that is done."""
    volume = _own_volume(record, state.volume)
    if volume is None or _is_proved_unused(record, volume):
        return None
    reference = volume.spec.claim_ref
    if reference is None or reference.uid != record.claim_uid:
        return None
    match state.usage:
        case Usage.NEVER:
            return MarkUnused(volume, record.policy)
        case Usage.PENDING:
            return AwaitWatch()
        case _:
            return ReturnVolume(volume, record.policy)


def _own_volume(record: ReplacementRecord, volume: Volume | None) -> Volume | None:
    return volume if volume is not None and volume.uid == record.volume_uid else None


def _is_proved_unused(record: ReplacementRecord, volume: Volume) -> bool:
    return volume.metadata.annotations.get(UNUSED) == record.claim_uid


def _is_returned(record: ReplacementRecord, volume: Volume | None) -> bool:
    return _own_volume(record, volume) is not None and volume is not None and not _is_proved_unused(record, volume)
