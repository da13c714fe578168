"""Rules that workload controllers share: availability, expectations, ownership, revisions, int-or-percent. Pure.

As upstream, a controller owns by reference, never by labels alone: objects of another controller are not touched.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from mooring.api import selectors, times
from mooring.api.documents import Body
from mooring.api.errors import ApiError, Forbidden
from mooring.api.kinds import Kind
from mooring.api.patches.contract import StrategicPatch
from mooring.api.selectors import LabelSelector
from mooring.api.views.meta import ApiObject, Condition, LabelSelectorView
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import ControllerRevision, DaemonSet, StatefulSet


def is_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.ready


def seconds_until_available(pod: Pod, min_ready_seconds: int, *, now: float) -> float:
    """Seconds until the pod is available: ready for min_ready_seconds; infinite if not ready."""
    ready = next((c for c in pod.status.conditions if c.type == "Ready" and c.status == "True"), None)
    if ready is None or pod.status.phase != "Running":
        return math.inf
    if min_ready_seconds == 0:
        return 0.0
    if not ready.last_transition_time:
        return float(min_ready_seconds)
    return max(times.from_time(ready.last_transition_time) + min_ready_seconds - now, 0.0)


def is_available(pod: Pod, min_ready_seconds: int, *, now: float) -> bool:
    return seconds_until_available(pod, min_ready_seconds, now=now) == 0


def seconds_until_next_available(pods: Iterable[Pod], min_ready_seconds: int, *, now: float) -> float | None:
    """Of the ready pods that are not available yet; None without such a pod."""
    waits = (seconds_until_available(pod, min_ready_seconds, now=now) for pod in pods)
    return min((wait for wait in waits if 0 < wait < math.inf), default=None)


#: After which an expected pod is read from the server; watches take milliseconds.
EXPECTATION_TIMEOUT_SECONDS: Final = 2.0


class Expectations:
    """Requested pods that are not observed yet, by owner uid, so that a slow cache does not cause a second request."""

    def __init__(self) -> None:
        self._awaited: dict[str, dict[str, float]] = {}

    def expect(self, owner: str, pod: str, *, now: float) -> None:
        self._awaited.setdefault(owner, {})[pod] = now

    def met(self, owner: str, pod: str) -> None:
        """The pod was observed, or does not exist."""
        awaited = self._awaited.get(owner)
        if awaited is not None:
            awaited.pop(pod, None)
            if not awaited:
                del self._awaited[owner]

    def forget(self, owner: str) -> None:
        self._awaited.pop(owner, None)

    def awaited(self, owner: str) -> frozenset[str]:
        return frozenset(self._awaited.get(owner, ()))

    def overdue(self, owner: str, *, now: float) -> list[str]:
        """Pods to read from the server."""
        return [
            pod for pod, since in self._awaited.get(owner, {}).items() if now - since >= EXPECTATION_TIMEOUT_SECONDS
        ]


V = TypeVar("V", bound=ApiObject)


class ClassifiedObjects(NamedTuple, Generic[V]):
    mine: list[V]
    adopt: list[V]
    release: list[V]


def compiled_selector(selector: LabelSelectorView | None) -> LabelSelector | None:
    """None, which selects nothing, also for an empty selector."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    return selectors.label_selector_from_view(selector)


def classify_owned(
    owner: ApiObject, selector: LabelSelector | None, candidates: Iterable[V], *, named: Callable[[V], bool]
) -> ClassifiedObjects[V]:
    """The owner's objects, orphans to adopt, and objects to release. `named`: whether the name may be the owner's."""
    found: ClassifiedObjects[V] = ClassifiedObjects([], [], [])
    for item in candidates:
        controller = item.controller
        fits = selector is not None and selector.matches(item.metadata.labels) and named(item)
        if controller is None:
            if fits and not owner.deleting and not item.deleting:
                found.adopt.append(item)
        elif controller.uid == owner.uid:
            (found.mine if fits or owner.deleting else found.release).append(item)
    return found


def owner_reference(kind: Kind[ApiObject], owner: ApiObject, *, controller: bool = True) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def pod_metadata(template: Body, kind: Kind[ApiObject], owner: ApiObject, name: str, labels: Body) -> Body:
    """Metadata of a pod of this template; `labels` override the template's."""
    meta = template.get("metadata") or {}
    return {
        "name": name,
        "labels": (meta.get("labels") or {}) | labels,
        "annotations": meta.get("annotations") or {},
        "finalizers": meta.get("finalizers") or [],
        "ownerReferences": [owner_reference(kind, owner)],
    }


def condition_body(
    known: Iterable[Condition], kind: str, status: str, reason: str, message: str, *, date: str
) -> dict[str, Any]:
    """A condition; the transition time changes with the status only."""
    before = next((condition for condition in known if condition.type == kind), None)
    since = before.last_transition_time if before is not None and before.status == status else None
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since or date}


def adoption_patch(kind: Kind[ApiObject], owner: ApiObject, item: ApiObject) -> StrategicPatch:
    owners = [owner_reference(kind, owner)]
    meta = {"uid": item.uid, "resourceVersion": item.metadata.resource_version, "ownerReferences": owners}
    return StrategicPatch({"metadata": meta})


def release_patch(owner: ApiObject, item: ApiObject) -> StrategicPatch:
    gone = {"$patch": "delete", "uid": owner.uid}
    return StrategicPatch({"metadata": {"uid": item.uid, "ownerReferences": [gone]}})


#: Cause of Forbidden in a terminating namespace.
TERMINATING: Final = "NamespaceTerminating"


def is_namespace_terminating(error: ApiError) -> bool:
    """Whether the namespace is terminating: neither an event nor a retry is useful."""
    causes = error.details.causes if error.details is not None else ()
    return isinstance(error, Forbidden) and any(cause.reason == TERMINATING for cause in causes)


#: Hex digits of a revision's hash in names and labels.
HASH_LENGTH: Final = 10
#: The API's default of revisionHistoryLimit.
HISTORY_LIMIT: Final = 10
#: Upstream's label for the hash on ControllerRevisions.
HASH_LABEL: Final = "controller.kubernetes.io/hash"


class Revision(NamedTuple):
    """A pod template; the name contains its hash, so that equal templates have one revision."""

    name: str
    template: Body

    @property
    def hash(self) -> str:
        return self.name.rpartition("-")[2]


class Revisions(NamedTuple):
    """The revisions before (`current`) and after (`update`) a rollout."""

    current: Revision
    update: Revision


def template_hash(template: Body) -> str:
    return hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:HASH_LENGTH]


def revision_of(owner: StatefulSet | DaemonSet) -> Revision:
    """The revision of the owner's template, whether or not it is recorded."""
    template: Body = msgspec.json.decode(owner.spec.template)
    collisions = owner.status.collision_count
    hashed = template | {"collisions": collisions} if collisions else template
    return Revision(f"{owner.name}-{template_hash(hashed)}", template)


def recorded_revision(stored: ControllerRevision) -> Revision:
    data: Body = msgspec.json.decode(stored.data)
    template = {field: value for field, value in data["spec"]["template"].items() if field != "$patch"}
    return Revision(stored.name, template)


def revision_body(kind: Kind[ApiObject], owner: ApiObject, revision: Revision, *, number: int) -> Body:
    """The ControllerRevision; data is the patch of `kubectl rollout undo`, annotations contain the change cause."""
    labels = (revision.template.get("metadata") or {}).get("labels") or {}
    return {
        "metadata": {
            "name": revision.name,
            "labels": labels | {HASH_LABEL: revision.hash},
            "annotations": dict(owner.metadata.annotations),
            "ownerReferences": [owner_reference(kind, owner)],
        },
        "data": {"spec": {"template": {**revision.template, "$patch": "replace"}}},
        "revision": number,
    }


def outdated_revisions(
    stored: Sequence[ControllerRevision], in_use: Collection[str], limit: int
) -> list[ControllerRevision]:
    """Unused revisions above the limit, oldest first."""
    unused = sorted((r for r in stored if r.name not in in_use), key=lambda revision: revision.revision)
    return unused[: max(len(unused) - limit, 0)]


def has_status(current: msgspec.Struct, desired: Body) -> bool:
    """Whether the status view already has the desired fields; absent and empty are equal."""
    found: Body = msgspec.to_builtins(current)
    return all(_equal(found.get(field), value) for field, value in desired.items())


def _equal(found: object, desired: object) -> bool:
    if isinstance(found, list | tuple) and isinstance(desired, list):
        return len(found) == len(desired) and all(
            all(_equal(one.get(field), value) for field, value in other.items())
            for one, other in zip(found, desired, strict=True)
        )
    return found == desired or not (found or desired)


def resolve_int_or_percent(value: int | str | None, total: int, *, up: bool, default: int) -> int:
    """The number, or the percentage of `total` rounded `up` or down; validated by the server."""
    if value is None:
        return default
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-total * percent // 100) if up else total * percent // 100
