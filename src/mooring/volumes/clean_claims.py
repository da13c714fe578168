"""Clean and dirty claims: whether a pod was ever let near a claim's volume.

Pure, and the same for the PV controller, the scheduler, the node agent and the API server; all of it counts only with
the gate `ClaimRollback`. A claim is clean from the moment it is bound until a node admits a pod that uses it, and says
so in a condition of its status. A claim that does not say is dirty: it may have been used before anybody kept count.
Only a clean claim may be unbound again, and none that is being unbound may be used.
"""

from typing import Any, Final

from mooring.api.views.claim import Claim

#: The condition; `True` while nobody has used the claim's volume.
CLEAN: Final = "mooring.dev/Clean"
#: On a claim that is to be unbound, and on one that is being.
ROLLBACK: Final = "pv.kubernetes.io/rollback"


def is_clean(claim: Claim) -> bool:
    return any(condition.type == CLEAN and condition.status == "True" for condition in claim.status.conditions)


def rolls_back(claim: Claim) -> bool:
    return ROLLBACK in claim.metadata.annotations


def clean(*, now: str) -> dict[str, Any]:
    """The condition of a claim that was just bound."""
    message = "No pod has been let near its volume"
    return _condition("True", "NeverUsed", message, now)


def dirty(pod: str, node: str, *, now: str) -> dict[str, Any]:
    """The condition of a claim whose volume a pod is about to use."""
    return _condition("False", "PodAdmitted", f"Pod {pod} was admitted on node {node}", now)


def _condition(status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": CLEAN, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
