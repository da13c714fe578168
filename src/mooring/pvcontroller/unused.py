"""The claim condition `Unused`: since when no pod uses a claim. Kept only with its feature gate, which is alpha.

Pure. Other than for protection, every pod counts that has not finished, with a node or without. A claim that is being
deleted keeps the condition it has.
"""

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.patches.contract import StrategicPatch
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod

TYPE: Final = "Unused"


def is_used(pods: Iterable[Pod]) -> bool:
    """Whether one of the pods that name a claim may still use it."""
    return any(not pod.finished for pod in pods)


def is_told(claim: Claim, *, used: bool) -> bool:
    """Whether the condition says so already, or must not be touched any more."""
    said = next((condition.status for condition in claim.status.conditions if condition.type == TYPE), None)
    return claim.deleting or said == _status(used=used)


def condition(claim: Claim, *, used: bool, now: str) -> StrategicPatch:
    """The change of the claim's status; other conditions stay."""
    told: dict[str, Any] = {
        "type": TYPE,
        "status": _status(used=used),
        "reason": "PodUsingPVC" if used else "NoPodsUsingPVC",
        "lastTransitionTime": now,
    }
    meta = {"resourceVersion": claim.metadata.resource_version}
    return StrategicPatch({"metadata": meta, "status": {"conditions": [told]}})


def _status(*, used: bool) -> str:
    return "False" if used else "True"
