"""Intents as patches: which bytes change for each thing a state machine may ask for.

Pure. Every patch carries the version of the object it was decided on, so that a decision made on old facts fails
with a conflict instead of taking effect.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.api import keys
from mooring.api.kinds import CLAIM, VOLUME, Kind
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.volume import Volume
from mooring.pvcontroller.intents import (
    AssignClass,
    EndRollback,
    ForsakeVolume,
    HandToProvisioner,
    MarkClean,
    NoteHandover,
    PointClaim,
    ReleaseVolume,
    ReserveVolume,
    SetClaimStatus,
    SetVolumePhase,
    UnbindClaim,
    Write,
)
from mooring.volumes import clean_claims


class Request(NamedTuple):
    kind: Kind[ApiObject]
    target: Claim | Volume
    patch: MergePatch | StrategicPatch
    subresource: str = ""


#: What says that a claim is bound, by whom, and for which node.
_BINDING_MARKS: Final = dict.fromkeys(
    (keys.BIND_COMPLETED, keys.BOUND_BY_CONTROLLER, keys.SELECTED_NODE, keys.SELECTED_NODE_DRAFT)
)


def to_request(write: Write, *, now: str = "") -> Request:
    """`now` is the date of what conditions say."""
    match write:
        case ReserveVolume(volume, claim, by_controller):
            marks = {keys.BOUND_BY_CONTROLLER: keys.YES} if by_controller else {}
            return _spec(VOLUME, volume, {"claimRef": claim.reference.body()}, marks)
        case ReleaseVolume(volume, whole):
            if whole:
                return _spec(VOLUME, volume, {"claimRef": None}, {keys.BOUND_BY_CONTROLLER: None})
            return _spec(VOLUME, volume, {"claimRef": {"uid": None}}, {})
        case SetVolumePhase(volume, phase, message):
            return _status(VOLUME, volume, {"phase": phase, "message": message or None})
        case PointClaim(claim, name):
            marks = {keys.BIND_COMPLETED: keys.YES}
            if claim.spec.volume_name != name:
                marks[keys.BOUND_BY_CONTROLLER] = keys.YES
            return _spec(CLAIM, claim, {"volumeName": name}, marks)
        case SetClaimStatus(claim, _, changes):
            return _status(CLAIM, claim, dict(changes))
        case AssignClass(claim, storage_class):
            return _spec(CLAIM, claim, {"storageClassName": storage_class}, {})
        case HandToProvisioner(claim, provisioner):
            marks = {keys.STORAGE_PROVISIONER: provisioner, keys.STORAGE_PROVISIONER_BETA: provisioner}
            return _spec(CLAIM, claim, {}, marks)
        case NoteHandover(target, driver, finalizers):
            meta: dict[str, Any] = {"resourceVersion": target.metadata.resource_version}
            meta["annotations"] = {keys.MIGRATED_TO: driver or None}
            if finalizers != target.metadata.finalizers:
                meta["finalizers"] = list(finalizers) or None
            return Request(_kind(target), target, MergePatch({"metadata": meta}))
        case MarkClean(claim):
            said = {"conditions": [clean_claims.clean(now=now)]}
            body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": said}
            return Request(CLAIM, claim, StrategicPatch(body), "status")
        case UnbindClaim(claim):
            had = {clean_claims.ROLLBACK: claim.spec.volume_name}
            return _spec(CLAIM, claim, {"volumeName": None}, _BINDING_MARKS | had)
        case ForsakeVolume(volume, claim):
            whose = {"uid": clean_claims.forsaken_uid(claim), "resourceVersion": None}
            return _spec(VOLUME, volume, {"claimRef": whose}, {})
        case EndRollback(claim):
            return _spec(CLAIM, claim, {}, {clean_claims.ROLLBACK: None})


def _kind(target: Claim | Volume) -> Kind[ApiObject]:
    return CLAIM if isinstance(target, Claim) else VOLUME


def _spec(
    kind: Kind[ApiObject], target: Claim | Volume, spec: dict[str, Any], annotations: Mapping[str, str | None]
) -> Request:
    body: dict[str, Any] = {"metadata": {"resourceVersion": target.metadata.resource_version}}
    if annotations:
        body["metadata"]["annotations"] = dict(annotations)
    if spec:
        body["spec"] = spec
    return Request(kind, target, MergePatch(body))


def _status(kind: Kind[ApiObject], target: Claim | Volume, status: dict[str, Any]) -> Request:
    body = {"metadata": {"resourceVersion": target.metadata.resource_version}, "status": status}
    return Request(kind, target, MergePatch(body), "status")
