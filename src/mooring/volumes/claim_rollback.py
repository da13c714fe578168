"""Clean and dirty claims: whether a pod was ever admitted with a claim's volume, and when the claim may be unbound.

Pure; all of it counts only with the gate `ClaimRollback`. A claim is marked clean (a status condition) before it
gets a volume and stays so until a node admits a pod that uses it. Only a clean claim may be unbound, and none in
rollback used:

    scheduler            pod unschedulable because of clean claims: annotates them `pv.kubernetes.io/rollback`
    PV controller        clears the claim's volumeName ──► the volume's claimRef ──► the annotation
    API server           allows clearing volumeName only if the claim is clean and annotated
    node agent           clean ──► dirty before the volume is used; rejects pods with annotated claims

Using and unbinding write to the same object, so one precedes the other, which then fails. Not to be confused with
`holds/`.
"""

import enum
from typing import Any, Final

from mooring.api import well_known
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.volumes.binding import ROLLBACK_PREFIX
from mooring.volumes.matching import is_reserved_for

#: The condition; `True` while no pod has used the claim's volume.
CLEAN: Final = "mooring.dev/Clean"
#: On a claim that is to be unbound, and on one that is being: then with the name of the volume it had.
ROLLBACK: Final = "pv.kubernetes.io/rollback"

#: Texts of the PV controller's events ClaimRolledBack and ClaimRollbackRefused; `explain` looks them up.
ROLLED_BACK_TEXT: Final = 'claim is unbound from volume "{volume}", which no pod has used'
REFUSED_TEXT: Final = "claim keeps its volume: {reason}"


def is_clean(claim: Claim) -> bool:
    return any(condition.type == CLEAN and condition.status == "True" for condition in claim.status.conditions)


def is_rolling_back(claim: Claim) -> bool:
    return ROLLBACK in claim.metadata.annotations


def unbound_from(claim: Claim) -> str:
    """The volume that a claim in rollback had; "" where it has one, or had none when it was marked."""
    said = claim.metadata.annotations.get(ROLLBACK, "")
    return "" if claim.spec.volume_name or said == well_known.ANNOTATION_SET else said


def may_unbind(claim: Claim) -> bool:
    """Whether a claim may lose its volume: never used, and annotated for rollback. Safe for any caller."""
    return is_clean(claim) and is_rolling_back(claim)


def may_have_used_volumes(pod: Pod) -> bool:
    """Whether a pod may have come near the volumes of its claims: it has a node, which did not refuse it. What a node
    refuses has finished without ever having had a container."""
    return bool(pod.spec.node_name) and (not pod.finished or bool(pod.status.container_statuses))


class UnboundVolumeAction(enum.Enum):
    """What becomes of a volume whose claim is unbound."""

    #: A static volume: available to any claim again.
    FREED = "freed"
    #: It was provisioned for this claim and goes with it, as if the claim had been deleted.
    REMOVED = "removed"


def unbound_volume_action(claim: Claim, volume: Volume) -> UnboundVolumeAction | str:
    """What would become of a volume that belongs to the claim, or why the two have to stay together."""
    notes = volume.metadata.annotations
    if well_known.BOUND_BY_CONTROLLER in notes:
        return UnboundVolumeAction.FREED
    if well_known.PROVISIONED_BY not in notes or not volume.name.endswith(claim.uid):
        return f'volume "{volume.name}" was reserved for the claim by hand'
    if volume.spec.persistent_volume_reclaim_policy != "Delete":
        return f'volume "{volume.name}" was made for the claim and is to be retained'
    return UnboundVolumeAction.REMOVED


def unbind_blocker(claim: Claim, volume: Volume | None) -> str | None:
    """Why a bound claim has to keep its volume; None if it could do without."""
    if not is_clean(claim):
        return "a pod may have used its volume"
    if claim.deleting:
        return "it is being deleted"
    if not claim.fully_bound:
        return "it is not completely bound"
    if volume is None:
        return f'volume "{claim.spec.volume_name}" is not there'
    if not is_reserved_for(volume, claim):
        return f'volume "{volume.name}" does not belong to it'
    if well_known.BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        return f'it asks for volume "{volume.name}" itself'
    judged = unbound_volume_action(claim, volume)
    return judged if isinstance(judged, str) else None


def detached_claim_uid(claim: Claim) -> str:
    """In the claimRef of a volume that goes because its claim was unbound: as if that claim had been deleted and its
    name taken by another one. No controller that follows it finds the claim."""
    return f"{ROLLBACK_PREFIX}{claim.uid}"


def detached_from(volume: Volume) -> str:
    """The uid of the claim that was unbound from a volume which has to go; "" for every other volume."""
    reference = volume.spec.claim_ref
    uid = reference.uid if reference is not None else ""
    return uid.removeprefix(ROLLBACK_PREFIX) if uid.startswith(ROLLBACK_PREFIX) else ""


def clean_condition(*, now: str) -> dict[str, Any]:
    """The condition of a claim that is about to be bound."""
    message = "No pod has been let near its volume"
    return _condition("True", "NeverUsed", message, now)


def dirty_condition(pod: str, node: str, *, now: str) -> dict[str, Any]:
    """The condition of a claim whose volume a pod is about to use."""
    return _condition("False", "PodAdmitted", f"Pod {pod} was admitted on node {node}", now)


def _condition(status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": CLEAN, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
