"""Priority: a pod's `priorityClassName` becomes a number, once.

A pod that names no class gets the one marked as the default, if there is one. The two built-in classes are known even
where nobody has created them yet.
"""

from typing import Final

from mooring.api.kinds import PRIORITY_CLASS
from mooring.api.views.meta import Meta
from mooring.api.views.priority_class import PriorityClass
from mooring.server.admission.review import Review
from mooring.server.body import meta
from mooring.server.validation.disruption import SYSTEM_CLASSES

#: What a pod of no class gets.
_NO_CLASS: Final = PriorityClass()


async def resolve_priority(review: Review) -> None:
    spec = review.new["spec"]
    found = await _class_of(review, spec.get("priorityClassName", ""))
    if found.name:
        spec["priorityClassName"] = found.name
    if spec.setdefault("priority", found.value) != found.value:
        raise review.forbidden(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {found.value} from the given PriorityClass name"
        )
    policy = found.preemption_policy
    if spec.setdefault("preemptionPolicy", policy) != policy:
        raise review.forbidden(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )


async def keep_priority(review: Review) -> None:
    """An update that says nothing of the priority keeps it."""
    if review.old is not None:
        for field in ("priority", "preemptionPolicy"):
            if field in review.old["spec"]:
                review.new["spec"].setdefault(field, review.old["spec"][field])


async def keep_one_default(review: Review) -> None:
    """Of classes, not of pods: what a pod of no class gets must not depend on who is asked."""
    if not review.new.get("globalDefault"):
        return
    other = await _default_class(review)
    if other.name and (review.old is None or other.name != meta(review.new).get("name")):
        raise review.forbidden(f"PriorityClass {other.name} is already marked as default. Only one default can exist")


async def _class_of(review: Review, name: str) -> PriorityClass:
    if not name:
        return await _default_class(review)
    found = await review.objects.view(PRIORITY_CLASS, "", name)
    if found is None and name in SYSTEM_CLASSES:
        found = PriorityClass(metadata=Meta(name=name), value=SYSTEM_CLASSES[name])
    if found is None:
        raise review.forbidden(f"no PriorityClass with name {name} was found")
    return found


async def _default_class(review: Review) -> PriorityClass:
    """Where a race left two, the lesser one."""
    classes = await review.objects.views(PRIORITY_CLASS)
    return min((c for c in classes if c.global_default), key=lambda c: c.value, default=_NO_CLASS)
