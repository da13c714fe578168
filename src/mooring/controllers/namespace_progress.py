"""Conditions of a terminating namespace and when to check it again. Pure; reasons and texts are upstream's."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api import well_known
from mooring.api.kinds import Kind
from mooring.api.times import from_time
from mooring.api.views.core import Namespace
from mooring.api.views.meta import ApiObject, Condition
from mooring.controllers.workloads.pod_rules import condition_body

CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
CONTENT_REMAINING: Final = "NamespaceContentRemaining"
FINALIZERS_REMAINING: Final = "NamespaceFinalizersRemaining"

#: After an object's deletionTimestamp, which has whole seconds; the node agent must report the end of a pod first.
STUCK_AFTER_SECONDS: Final = 5.0
#: Bounds of the recheck interval, a quarter of the deletion's duration so far. The maximum is upstream's.
MIN_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 60.0
_SHARE: Final = 0.25


class RemainingObjects(msgspec.Struct, frozen=True):
    """Objects of one kind that remain after all were deleted."""

    kind: Kind[ApiObject]
    count: int
    #: Finalizer -> number of objects.
    finalizers: Mapping[str, int]
    #: Objects without finalizer past their grace period.
    stuck: int


def remaining_objects(kind: Kind[ApiObject], items: Sequence[ApiObject], *, now: float) -> RemainingObjects:
    held = Counter(finalizer for item in items for finalizer in item.metadata.finalizers)
    return RemainingObjects(kind, len(items), held, sum(_is_stuck(item, now) for item in items))


def _is_stuck(item: ApiObject, now: float) -> bool:
    if item.metadata.finalizers:
        return False
    moment = item.metadata.deletion_timestamp
    return moment is None or now > from_time(moment) + STUCK_AFTER_SECONDS


def conditions(namespace: str, left: Iterable[RemainingObjects], refusals: Iterable[str]) -> tuple[Condition, ...]:
    """The conditions after a pass over the contents, without times."""
    left = tuple(left)
    unexpected = f"unexpected items still remain in namespace: {namespace} for gvr: "
    stuck = (one.kind for one in left if one.stuck)
    problems = [*refusals, *(f"{unexpected}{kind.group}/{kind.version}, Resource={kind.plural}" for kind in stuck)]
    resources = [f"{one.kind.plural}.{one.kind.group} has {one.count} resource instances" for one in left]
    held: Counter[str] = sum((Counter(one.finalizers) for one in left), Counter())
    finalizers = [f"{finalizer} in {count} resource instances" for finalizer, count in held.items()]
    return (
        _condition(
            CONTENT_FAILURE,
            problems,
            ("ContentDeletionFailed", f"Failed to delete all resource types, {len(problems)} remaining: "),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        _condition(
            CONTENT_REMAINING,
            resources,
            ("SomeResourcesRemain", "Some resources are remaining: "),
            ("ContentRemoved", "All content successfully removed"),
        ),
        _condition(
            FINALIZERS_REMAINING,
            finalizers,
            ("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    )


def _condition(name: str, found: Iterable[str], bad: tuple[str, str], good: tuple[str, str]) -> Condition:
    """Sorted for a stable message."""
    listed = ", ".join(sorted(found))
    reason, message = bad if listed else good
    return Condition(type=name, status="True" if listed else "False", reason=reason, message=message + listed)


def changed_conditions(
    before: Iterable[Condition], desired: Iterable[Condition], *, moment: str
) -> list[dict[str, str]]:
    """Bodies of the conditions that changed; the transition time changes with the status only."""
    before = tuple(before)
    known = {(one.type, one.status, one.reason, one.message) for one in before}
    said = ((one.type, one.status, one.reason, one.message) for one in desired)
    return [condition_body(before, *one, date=moment) for one in said if one not in known]


def seconds_until_recheck(namespace: Namespace, *, now: float) -> float:
    """Recheck interval of a namespace that is not empty yet."""
    begun = namespace.metadata.deletion_timestamp
    age = now - from_time(begun) if begun is not None else 0.0
    return min(max(age * _SHARE, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)


def finalize_body(namespace: Namespace) -> dict[str, Any]:
    """The namespace without the contents finalizer; `finalize` replaces all metadata too."""
    metadata = msgspec.json.decode(msgspec.json.encode(namespace.metadata))
    holders = [holder for holder in namespace.spec.finalizers if holder != well_known.NAMESPACE_CONTENTS]
    return {"metadata": metadata, "spec": {"finalizers": holders}}
