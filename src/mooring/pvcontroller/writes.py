"""Intents as patches: which bytes change for each thing a state machine may ask for.

Pure. Every patch carries the version of the object it was decided on, so that a decision made on old facts fails
with a conflict instead of taking effect.
"""

from typing import Any, NamedTuple

from mooring.api import keys
from mooring.api.kinds import CLAIM, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.volume import Volume
from mooring.pvcontroller.intents import (
    AssignClass,
    HandToProvisioner,
    PointClaim,
    ReleaseVolume,
    ReserveVolume,
    SetClaimStatus,
    SetVolumePhase,
    Write,
)


class Request(NamedTuple):
    kind: Kind[ApiObject]
    target: Claim | Volume
    patch: MergePatch
    subresource: str = ""


def to_request(write: Write) -> Request:
    match write:
        case ReserveVolume(volume, claim, by_controller):
            annotations = {keys.BOUND_BY_CONTROLLER: keys.YES} if by_controller else {}
            return _volume(volume, _reference(claim), annotations)
        case ReleaseVolume(volume, whole=True):
            return _volume(volume, None, {keys.BOUND_BY_CONTROLLER: None})
        case ReleaseVolume(volume, whole=False):
            return _volume(volume, {"uid": None, "resourceVersion": None}, {})
        case SetVolumePhase(volume, phase, message):
            return _status(VOLUME, volume, {"phase": phase, "message": message or None})
        case PointClaim(claim, name):
            annotations = {keys.BIND_COMPLETED: keys.YES}
            if claim.spec.volume_name != name:
                annotations[keys.BOUND_BY_CONTROLLER] = keys.YES
            return _claim(claim, {"volumeName": name}, annotations)
        case SetClaimStatus(claim, phase, volume):
            return _status(CLAIM, claim, {"phase": phase} | _offers(volume))
        case AssignClass(claim, storage_class):
            return _claim(claim, {"storageClassName": storage_class}, {})
        case HandToProvisioner(claim, provisioner):
            marks = {keys.STORAGE_PROVISIONER: provisioner, keys.STORAGE_PROVISIONER_BETA: provisioner}
            return _claim(claim, {}, marks)


def _reference(claim: Claim) -> dict[str, str]:
    reference = claim.reference
    return {
        "kind": reference.kind,
        "apiVersion": reference.api_version,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
        "resourceVersion": reference.resource_version,
    }


def _offers(volume: Volume | None) -> dict[str, Any]:
    if volume is None:
        return {"accessModes": None, "capacity": None}
    return {"accessModes": list(volume.spec.access_modes), "capacity": dict(volume.spec.capacity)}


def _meta(target: Claim | Volume, annotations: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": target.metadata.resource_version}
    return meta | {"annotations": annotations} if annotations else meta


def _volume(volume: Volume, reference: dict[str, Any] | None, annotations: dict[str, Any]) -> Request:
    body = {"metadata": _meta(volume, annotations), "spec": {"claimRef": reference}}
    return Request(VOLUME, volume, MergePatch(body))


def _claim(claim: Claim, spec: dict[str, Any], annotations: dict[str, Any]) -> Request:
    body: dict[str, Any] = {"metadata": _meta(claim, annotations)}
    return Request(CLAIM, claim, MergePatch(body | {"spec": spec} if spec else body))


def _status(kind: Kind[ApiObject], target: Claim | Volume, status: dict[str, Any]) -> Request:
    body = {"metadata": _meta(target, {}), "status": status}
    return Request(kind, target, MergePatch(body), "status")
