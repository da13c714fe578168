"""Clean and dirty claims: whether a pod was ever let near a claim's volume, and what follows from it.

Pure, and the same for the PV controller, the scheduler, the node agent and the API server; all of it counts only with
the gate `ClaimRollback`. A claim is called clean just before it is given a volume, and stays so until a node admits a
pod that uses it; it says so in a condition of its status. A claim that does not say is dirty: it may have been used
before anybody kept count. Only a clean claim may be unbound again, and none that is being unbound may be used:

    scheduler            no node because of clean claims: marks them `pv.kubernetes.io/rollback`
    PV controller        claim loses its volume ──► volume loses its claim ──► mark goes
    API server           lets a claim lose its volume only if it is clean and marked
    node agent           clean ──► dirty, before the volume is touched; refuses pods of marked claims

Using a claim and unbinding it are writes to one object, so one of the two comes first and the other one is refused.
Not to be mixed up with `holds/`, which keeps claims from being bound too early.
"""

import enum
from typing import Any, Final

from mooring.api import keys
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.volumes.plan import ROLLBACK_PREFIX

#: The condition; `True` while nobody has used the claim's volume.
CLEAN: Final = "mooring.dev/Clean"
#: On a claim that is to be unbound, and on one that is being: then with the name of the volume it had.
ROLLBACK: Final = "pv.kubernetes.io/rollback"


def is_clean(claim: Claim) -> bool:
    return any(condition.type == CLEAN and condition.status == "True" for condition in claim.status.conditions)


def rolls_back(claim: Claim) -> bool:
    return ROLLBACK in claim.metadata.annotations


def unbound_from(claim: Claim) -> str:
    """The volume that a claim in rollback had; "" where it has one, or had none when it was marked."""
    said = claim.metadata.annotations.get(ROLLBACK, "")
    return "" if claim.spec.volume_name or said == keys.YES else said


def may_unbind(claim: Claim) -> bool:
    """Whether a claim may lose its volume: never used, and asked to. What is safe, whoever asks and why."""
    return is_clean(claim) and rolls_back(claim)


def is_near(pod: Pod) -> bool:
    """Whether a pod may have come near the volumes of its claims: it has a node, which did not refuse it. What a node
    refuses has finished without ever having had a container."""
    return bool(pod.spec.node_name) and (not pod.finished or bool(pod.status.container_statuses))


class Fate(enum.Enum):
    """What becomes of a volume whose claim is unbound."""

    #: It was there before, and is again for anybody.
    FREED = "freed"
    #: It was made for this claim and goes with it, as if the claim had been deleted.
    REMOVED = "removed"


def fate(claim: Claim, volume: Volume) -> Fate | str:
    """What would become of a volume that belongs to the claim, or why the two have to stay together."""
    notes = volume.metadata.annotations
    if keys.BOUND_BY_CONTROLLER in notes:
        return Fate.FREED
    if keys.PROVISIONED_BY not in notes or not volume.name.endswith(claim.uid):
        return f'volume "{volume.name}" was reserved for the claim by hand'
    if volume.spec.persistent_volume_reclaim_policy != "Delete":
        return f'volume "{volume.name}" was made for the claim and is to be retained'
    return Fate.REMOVED


def why_kept(claim: Claim, volume: Volume | None) -> str | None:
    """Why a bound claim has to keep its volume; None if it could do without."""
    if not is_clean(claim):
        return "a pod may have used its volume"
    if claim.deleting:
        return "it is being deleted"
    if not claim.fully_bound:
        return "it is not completely bound"
    if volume is None:
        return f'volume "{claim.spec.volume_name}" is not there'
    if keys.BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        return f'it asks for volume "{volume.name}" itself'
    judged = fate(claim, volume)
    return judged if isinstance(judged, str) else None


def forsaken_uid(claim: Claim) -> str:
    """In the claimRef of a volume that goes because its claim was unbound: as if that claim had been deleted and its
    name taken by another one. Nobody who follows it finds the way back to the claim."""
    return f"{ROLLBACK_PREFIX}{claim.uid}"


def forsaken_by(volume: Volume) -> str:
    """The uid of the claim that was unbound from a volume which has to go; "" for every other volume."""
    reference = volume.spec.claim_ref
    uid = reference.uid if reference is not None else ""
    return uid.removeprefix(ROLLBACK_PREFIX) if uid.startswith(ROLLBACK_PREFIX) else ""


def clean(*, now: str) -> dict[str, Any]:
    """The condition of a claim that is about to be bound."""
    message = "No pod has been let near its volume"
    return _condition("True", "NeverUsed", message, now)


def dirty(pod: str, node: str, *, now: str) -> dict[str, Any]:
    """The condition of a claim whose volume a pod is about to use."""
    return _condition("False", "PodAdmitted", f"Pod {pod} was admitted on node {node}", now)


def _condition(status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": CLEAN, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
