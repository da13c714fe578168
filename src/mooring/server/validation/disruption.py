"""Rules for PodDisruptionBudgets and PriorityClasses: who may be disturbed, and for whom."""

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, unsupported
from mooring.server.body import Body, meta, part
from mooring.server.validation.scalars import at_most_all, count_or_share, immutable, not_negative, one_of
from mooring.server.validation.selectors import validate_label_selector

#: Upstream's built-in classes; any other name with their prefix is reserved.
SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_SYSTEM_PREFIX: Final = "system-"
#: Above it stand the system's own.
HIGHEST_USER_PRIORITY: Final = 1_000_000_000

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate_budget(obj: Body) -> Iterator[Cause]:
    spec = part(obj, "spec")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield bad_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from count_or_share(spec[field], f"spec.{field}")
            yield from at_most_all(spec[field], f"spec.{field}")
    yield from validate_label_selector(part(spec, "selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)


def validate_budget_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_budget(new)


def validate_budget_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    for field in _COUNTS:
        yield from not_negative(status.get(field, 0), f"status.{field}")


def validate_priority_class(obj: Body) -> Iterator[Cause]:
    name, value = meta(obj).get("name", ""), obj.get("value", 0)
    if name.startswith(_SYSTEM_PREFIX):
        if why := _not_a_system_class(name, value, is_default=obj.get("globalDefault", False)):
            yield forbidden(
                "metadata.name",
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}",
            )
    elif value > HIGHEST_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    yield from one_of(obj["preemptionPolicy"], _PREEMPTION_POLICIES, "preemptionPolicy")


def validate_priority_class_update(new: Body, old: Body) -> Iterator[Cause]:
    """Pods keep the number they were given, so a name keeps its meaning."""
    if new.get("value", 0) != old.get("value", 0):
        yield forbidden("value", "may not be changed in an update.")
    yield from immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")


def _not_a_system_class(name: str, value: int, *, is_default: bool) -> str:
    wanted = SYSTEM_CLASSES.get(name)
    if wanted is None:
        return f"{name} is not a known system priority class"
    if value != wanted:
        return f"value of {name} PriorityClass must be {wanted}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""
