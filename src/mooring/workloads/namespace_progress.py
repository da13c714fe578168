"""How far the emptying of a namespace has come: what is left, what people are told, and when to look again.

Pure, with the time as an argument. Conditions, reasons and texts are upstream's. `namespaces` does the work.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api import keys
from mooring.api.kinds import Kind
from mooring.api.timestamps import from_time
from mooring.api.views.meta import ApiObject, Condition
from mooring.api.views.namespace import Namespace

CONTENT_FAILURE: Final = "NamespaceDeletionContentFailure"
CONTENT_REMAINING: Final = "NamespaceContentRemaining"
FINALIZERS_REMAINING: Final = "NamespaceFinalizersRemaining"

#: What is granted beyond an object's last moment before it counts as stuck: moments are whole seconds, and whoever
#: ends a pod has to report it first.
SLACK: Final = 5.0
#: A namespace is looked at again after a quarter of the time its deletion has taken so far, within these bounds.
#: The upper one is upstream's.
SHORTEST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
_SHARE: Final = 0.25


class Leftovers(msgspec.Struct, frozen=True):
    """What is left of one kind once the deletion of all of it was asked for."""

    kind: Kind[ApiObject]
    count: int
    #: How many of them each finalizer holds back.
    finalizers: Mapping[str, int]
    #: How many nothing holds back: they should not be there.
    stuck: int


def leftovers(kind: Kind[ApiObject], items: Sequence[ApiObject], *, now: float) -> Leftovers:
    held = Counter(finalizer for item in items for finalizer in item.metadata.finalizers)
    return Leftovers(kind, len(items), held, sum(_is_stuck(item, now) for item in items))


def _is_stuck(item: ApiObject, now: float) -> bool:
    if item.metadata.finalizers:
        return False
    moment = item.metadata.deletion_timestamp
    return moment is None or now > from_time(moment) + SLACK


def conditions(namespace: str, left: Iterable[Leftovers], refusals: Iterable[str]) -> tuple[Condition, ...]:
    """What is to be said about a namespace after a pass over its contents; the times are `news`'s business."""
    left = tuple(left)
    problems = [*refusals, *(_unexpected(namespace, one.kind) for one in left if one.stuck)]
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


def _unexpected(namespace: str, kind: Kind[ApiObject]) -> str:
    resource = f"{kind.group}/{kind.version}, Resource={kind.plural}"
    return f"unexpected items still remain in namespace: {namespace} for gvr: {resource}"


def _condition(name: str, found: Iterable[str], bad: tuple[str, str], good: tuple[str, str]) -> Condition:
    """Sorted, so that the same state always reads the same."""
    listed = ", ".join(sorted(found))
    if not listed:
        reason, message = good
        return Condition(type=name, status="False", reason=reason, message=message)
    reason, message = bad
    return Condition(type=name, status="True", reason=reason, message=message + listed)


def news(before: Iterable[Condition], wanted: Iterable[Condition], *, moment: str) -> list[dict[str, str]]:
    """The conditions that say something else than before, as they are written. Times move with the status only."""
    was = {condition.type: condition for condition in before}
    return [_written(one, was.get(one.type), moment) for one in wanted if _differs(one, was.get(one.type))]


def _differs(condition: Condition, before: Condition | None) -> bool:
    if before is None:
        return True
    says = (condition.status, condition.reason, condition.message)
    return says != (before.status, before.reason, before.message)


def _written(condition: Condition, before: Condition | None, moment: str) -> dict[str, str]:
    since = moment
    if before is not None and before.status == condition.status and before.last_transition_time:
        since = before.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since,
    }


def pause(namespace: Namespace, *, now: float) -> float:
    """How long to leave a namespace that is not empty yet, unless something wakes us before."""
    begun = namespace.metadata.deletion_timestamp
    age = now - from_time(begun) if begun is not None else 0.0
    return min(max(age * _SHARE, SHORTEST_PAUSE), LONGEST_PAUSE)


def released(namespace: Namespace) -> dict[str, Any]:
    """The namespace as it is without our hold. The `finalize` subresource replaces metadata too, finalizers and labels
    included, so all of it has to come along."""
    metadata = msgspec.json.decode(msgspec.json.encode(namespace.metadata))
    holders = [holder for holder in namespace.spec.finalizers if holder != keys.NAMESPACE_CONTENTS]
    return {"metadata": metadata, "spec": {"finalizers": holders}}
