"""Actions of the state machines, and their patches. Pure.

A state machine returns the next write, if any; after the write it runs again on the returned object, so a crash
between two writes needs no recovery. Every patch has the resourceVersion it was decided on, so that a stale decision
fails.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME, Kind
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, Volume
from mooring.volumes import claim_rollback


class ReserveVolume(NamedTuple):
    """Let the volume's claimRef point at the claim; `by_controller` marks that no user asked for it."""

    volume: Volume
    claim: Claim
    by_controller: bool


class ReleaseVolume(NamedTuple):
    """Take the volume back from a claim that went elsewhere.

    `whole` clears claimRef and the controller's mark; otherwise only the uid goes, because the user wrote the rest.
    """

    volume: Volume
    whole: bool


class SetVolumePhase(NamedTuple):
    volume: Volume
    phase: str
    message: str = ""


class SetClaimVolumeName(NamedTuple):
    """Complete the claim: volumeName (unless the user set it) and the annotations that say who did what."""

    claim: Claim
    volume: str


class SetClaimStatus(NamedTuple):
    """Report the phase and what the volume offers: only the fields that differ, None for those that go."""

    claim: Claim
    phase: str
    changes: Mapping[str, Any]


class AssignClass(NamedTuple):
    """Give a claim without any class the default one."""

    claim: Claim
    storage_class: str


class RequestProvisioning(NamedTuple):
    """Tell the external provisioner that this claim is its to serve."""

    claim: Claim
    provisioner: str


class SelectNode(NamedTuple):
    """Have the claim bound or provisioned for this node."""

    claim: Claim
    node: str


class RecordMigration(NamedTuple):
    """Note which CSI driver looks after an object instead of an in-tree plugin, "" for none, and who guards it."""

    target: Claim | Volume
    driver: str
    finalizers: tuple[str, ...]


class MarkClean(NamedTuple):
    """Record that no pod has used the claim's volume, before it has one."""

    claim: Claim


class UnbindClaim(NamedTuple):
    """Take a clean claim's volume from it, and the choice of its node."""

    claim: Claim


class DetachVolume(NamedTuple):
    """Take the claim from a volume that was provisioned for it, so that its provisioner removes it."""

    volume: Volume
    claim: Claim


class EndRollback(NamedTuple):
    """Take the mark off a claim whose rollback is over, or was refused."""

    claim: Claim


Write = (
    ReserveVolume
    | ReleaseVolume
    | SetVolumePhase
    | SetClaimVolumeName
    | SetClaimStatus
    | AssignClass
    | RequestProvisioning
    | SelectNode
    | RecordMigration
    | MarkClean
    | UnbindClaim
    | DetachVolume
    | EndRollback
)


class EmitEvent(NamedTuple):
    """An event for people, about a claim or a volume."""

    about: Claim | Volume
    type: str
    reason: str
    message: str


class SyncStep(NamedTuple):
    """The next write, if anything is left to do, and what to say once it is done, or if there is none."""

    write: Write | None = None
    events: tuple[EmitEvent, ...] = ()
    #: The key of a claim that should be looked at because of what was seen here.
    enqueue_claim: str = ""
    #: What stands in the way of a decision, for the log. The object is looked at again when something changes.
    problem: str = ""


class PatchRequest(NamedTuple):
    kind: Kind[ApiObject]
    target: Claim | Volume
    patch: MergePatch | StrategicPatch
    subresource: str = ""


#: What says that a claim is bound, by whom, and for which node.
_BINDING_ANNOTATIONS: Final = dict.fromkeys(
    (
        well_known.BIND_COMPLETED,
        well_known.BOUND_BY_CONTROLLER,
        well_known.SELECTED_NODE,
        well_known.SELECTED_NODE_DRAFT,
    )
)


def to_request(write: Write, *, now: str = "") -> PatchRequest:
    """`now` is the date of what conditions say."""
    match write:
        case ReserveVolume(volume, claim, by_controller):
            marks = {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET} if by_controller else {}
            return _spec(volume, {"claimRef": claim.reference.body()}, marks)
        case ReleaseVolume(volume, whole):
            if whole:
                return _spec(volume, {"claimRef": None}, {well_known.BOUND_BY_CONTROLLER: None})
            return _spec(volume, {"claimRef": {"uid": None}}, {})
        case SetVolumePhase(volume, phase, message):
            return _status(volume, {"phase": phase, "message": message or None})
        case SetClaimVolumeName(claim, name):
            marks = {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}
            if claim.spec.volume_name != name:
                marks[well_known.BOUND_BY_CONTROLLER] = well_known.ANNOTATION_SET
            return _spec(claim, {"volumeName": name}, marks)
        case SetClaimStatus(claim, _, changes):
            return _status(claim, dict(changes))
        case AssignClass(claim, storage_class):
            return _spec(claim, {"storageClassName": storage_class}, {})
        case RequestProvisioning(claim, provisioner):
            marks = {well_known.STORAGE_PROVISIONER: provisioner, well_known.STORAGE_PROVISIONER_BETA: provisioner}
            return _spec(claim, {}, marks)
        case SelectNode(claim, node):
            return _spec(claim, {}, {well_known.SELECTED_NODE: node})
        case RecordMigration(target, driver, finalizers):
            meta: dict[str, Any] = {"resourceVersion": target.metadata.resource_version}
            meta["annotations"] = {well_known.MIGRATED_TO: driver or None}
            if finalizers != target.metadata.finalizers:
                meta["finalizers"] = list(finalizers) or None
            return PatchRequest(_kind(target), target, MergePatch({"metadata": meta}))
        case MarkClean(claim):
            said = {"conditions": [claim_rollback.clean_condition(now=now)]}
            body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": said}
            return PatchRequest(CLAIM, claim, StrategicPatch(body), "status")
        case UnbindClaim(claim):
            had = {claim_rollback.ROLLBACK: claim.spec.volume_name}
            return _spec(claim, {"volumeName": None}, _BINDING_ANNOTATIONS | had)
        case DetachVolume(volume, claim):
            whose = {"uid": claim_rollback.detached_claim_uid(claim), "resourceVersion": None}
            return _spec(volume, {"claimRef": whose}, {})
        case EndRollback(claim):
            return _spec(claim, {}, {claim_rollback.ROLLBACK: None})


def _kind(target: Claim | Volume) -> Kind[ApiObject]:
    return CLAIM if isinstance(target, Claim) else VOLUME


def _spec(target: Claim | Volume, spec: dict[str, Any], annotations: Mapping[str, str | None]) -> PatchRequest:
    body: dict[str, Any] = {"metadata": {"resourceVersion": target.metadata.resource_version}}
    if annotations:
        body["metadata"]["annotations"] = dict(annotations)
    if spec:
        body["spec"] = spec
    return PatchRequest(_kind(target), target, MergePatch(body))


def _status(target: Claim | Volume, status: dict[str, Any]) -> PatchRequest:
    body = {"metadata": {"resourceVersion": target.metadata.resource_version}, "status": status}
    return PatchRequest(_kind(target), target, MergePatch(body), "status")
