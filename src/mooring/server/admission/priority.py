"""Priority: a pod's `priorityClassName` becomes a number, once.

The two built-in classes and "no class" are all there is: no PriorityClass objects are served, so any other name is
one that was not found.
"""

from collections.abc import Mapping
from typing import Final

from mooring.server.admission.review import Review

#: Upstream's built-in classes.
_CLASSES: Final[Mapping[str, int]] = {
    "": 0,
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_PREEMPTION: Final = "PreemptLowerPriority"


async def resolve_priority(review: Review) -> None:
    spec = review.new["spec"]
    name = spec.get("priorityClassName", "")
    if name not in _CLASSES:
        raise review.forbidden(f"no PriorityClass with name {name} was found")
    priority = _CLASSES[name]
    if spec.setdefault("priority", priority) != priority:
        raise review.forbidden(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
    if spec.setdefault("preemptionPolicy", _PREEMPTION) != _PREEMPTION:
        raise review.forbidden(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {_PREEMPTION} from the given PriorityClass name"
        )


async def keep_priority(review: Review) -> None:
    """An update that says nothing of the priority keeps it."""
    if review.old is not None:
        for field in ("priority", "preemptionPolicy"):
            if field in review.old["spec"]:
                review.new["spec"].setdefault(field, review.old["spec"][field])
