"""StatefulSet decisions: pod identity, claims and their retention, scaling, rolling update and status. Pure.

Bodies are built from the raw template, so that fields without a view are kept. `OrderedReady` stops at the first
ordinal that is not available. Rolling updates go from the highest ordinal down to the partition; pods below keep their
revision. Claim retention uses owner references, which the garbage collector acts on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from mooring.api import well_known
from mooring.api.documents import Body
from mooring.api.kinds import POD, STATEFUL_SET
from mooring.api.views.meta import OwnerReference
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.api.views.workloads import ClaimRetention, StatefulSet
from mooring.controllers.workloads import pod_rules
from mooring.controllers.workloads.pod_rules import Revision, Revisions, owner_reference


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(well_known.CONTROLLER_REVISION_HASH, "")


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals is not None else 0
    return range(start, start + stateful_set.spec.replicas)


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """The ordinal in a pod's name, None for other names."""
    number = pod.name.removeprefix(f"{stateful_set.name}-")
    if not (number.isascii() and number.isdigit()):
        return None
    return int(number) if pod_name(stateful_set, int(number)) == pod.name else None


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.name}-{ordinal}"


def claim_name(template: str, stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{template}-{stateful_set.name}-{ordinal}"


def claim_bodies(stateful_set: StatefulSet, ordinal: int) -> Iterator[Body]:
    selector = stateful_set.spec.selector
    selected = dict(selector.match_labels) if selector is not None else {}
    for template in _claim_templates(stateful_set):
        meta = template["metadata"]
        body = {field: value for field, value in template.items() if field != "status"}
        body["metadata"] = {
            "name": claim_name(meta["name"], stateful_set, ordinal),
            "labels": (meta.get("labels") or {}) | selected,
            "annotations": meta.get("annotations") or {},
        }
        yield body


def pod_body(stateful_set: StatefulSet, ordinal: int, of: Revision) -> Body:
    spec = dict(of.template["spec"])
    name = pod_name(stateful_set, ordinal)
    identity = {
        well_known.STATEFUL_POD_NAME: name,
        well_known.POD_INDEX: str(ordinal),
        well_known.CONTROLLER_REVISION_HASH: of.name,
    }
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    spec["volumes"] = _volumes(stateful_set, ordinal, spec.get("volumes") or [])
    return {"metadata": pod_rules.pod_metadata(of.template, STATEFUL_SET, stateful_set, name, identity), "spec": spec}


def _volumes(stateful_set: StatefulSet, ordinal: int, written: list[Body]) -> list[Body]:
    """The template's volumes; those of claim templates replace volumes of the same name."""
    provided: dict[str, Body] = {}
    for template in _claim_templates(stateful_set):
        name = template["metadata"]["name"]
        claim = claim_name(name, stateful_set, ordinal)
        provided[name] = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    return [*provided.values(), *(volume for volume in written if volume["name"] not in provided)]


def _claim_templates(stateful_set: StatefulSet) -> Iterator[Body]:
    for raw in stateful_set.spec.volume_claim_templates:
        template: Body = msgspec.json.decode(raw)
        yield template


def claim_owner_references(stateful_set: StatefulSet, pod: Pod, claim: Claim) -> list[dict[str, Any]] | None:
    """The owner references by the retention policy; None if up to date or controlled by another owner."""
    if claim.controller is not None and claim.controller.uid not in (stateful_set.uid, pod.uid):
        return None
    policy = stateful_set.spec.persistent_volume_claim_retention_policy or ClaimRetention()
    surplus = ordinal_of(stateful_set, pod) not in ordinals(stateful_set)
    desired: dict[str, dict[str, Any]] = {}
    if policy.when_scaled == "Delete" and surplus:
        desired[pod.uid] = owner_reference(POD, pod)
    elif policy.when_deleted == "Delete":
        desired[stateful_set.uid] = owner_reference(STATEFUL_SET, stateful_set)
    references = claim.metadata.owner_references
    others = [reference for reference in references if not _ours(reference, stateful_set, pod)]
    mine = {reference.uid for reference in references} - {reference.uid for reference in others}
    if mine == desired.keys():
        return None
    return [*(msgspec.to_builtins(other) for other in others), *desired.values()]


def _ours(owner: OwnerReference, stateful_set: StatefulSet, pod: Pod) -> bool:
    """Whether the owner is the set, this pod, or an earlier pod of its name."""
    return owner.uid == stateful_set.uid or (owner.kind == POD.kind and owner.name == pod.name)


class CreatePod(NamedTuple):
    """Create missing claims, then the pod."""

    body: Body
    claims: tuple[Body, ...]


class RestoreClaims(NamedTuple):
    """Create deleted claims of a pod again."""

    pod: str
    claims: tuple[Body, ...]


class OwnClaim(NamedTuple):
    """Set the owner references of a claim."""

    claim: Claim
    owners: list[Body]


class ReplacePod(NamedTuple):
    """Delete a finished pod, so that it is created again."""

    pod: Pod


class DeletePod(NamedTuple):
    pod: Pod
    reason: str


Action = CreatePod | RestoreClaims | OwnClaim | ReplacePod | DeletePod


class StatefulSetState(NamedTuple):
    revisions: Revisions
    pods: Collection[Pod]
    claim: Callable[[str], Claim | None]
    now: float


class StatefulSetPlan(NamedTuple):
    """Actions in order, and seconds until the next sync."""

    actions: list[Action]
    again: float | None = None


def plan_stateful_set(stateful_set: StatefulSet, state: StatefulSetState) -> StatefulSetPlan:
    if stateful_set.deleting:
        # The garbage collector deletes or orphans the pods.
        return StatefulSetPlan([])
    by_ordinal = {o: pod for pod in state.pods if (o := ordinal_of(stateful_set, pod)) is not None}
    least = stateful_set.spec.min_ready_seconds
    again = pod_rules.seconds_until_next_available(state.pods, least, now=state.now)
    return StatefulSetPlan(_actions(stateful_set, by_ordinal, state), again)


def _actions(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], state: StatefulSetState) -> list[Action]:
    in_order = stateful_set.spec.pod_management_policy != "Parallel"
    actions: list[Action] = []
    for ordinal in ordinals(stateful_set):
        pod = by_ordinal.get(ordinal)
        actions += _keep(stateful_set, ordinal, pod, state)
        if in_order and (pod is None or not _available(stateful_set, pod, state.now)):
            return actions
    actions += _scale_down(stateful_set, by_ordinal, state, in_order=in_order)
    return actions or _update(stateful_set, by_ordinal, state)


def _keep(stateful_set: StatefulSet, ordinal: int, pod: Pod | None, state: StatefulSetState) -> list[Action]:
    """Actions for the pod and claims of one ordinal."""
    missing = tuple(b for b in claim_bodies(stateful_set, ordinal) if state.claim(b["metadata"]["name"]) is None)
    if pod is None:
        revision = _revision_for(stateful_set, ordinal, state)
        return [CreatePod(pod_body(stateful_set, ordinal, revision), missing)]
    actions: list[Action] = [RestoreClaims(pod_name(stateful_set, ordinal), missing)] if missing else []
    actions += _own_claims(stateful_set, ordinal, pod, state)
    if pod.finished and not pod.deleting:
        actions.append(ReplacePod(pod))
    return actions


def _revision_for(stateful_set: StatefulSet, ordinal: int, state: StatefulSetState) -> Revision:
    """A pod recreated during a rollout gets the revision of its position in the rollout."""
    current, update = state.revisions
    if stateful_set.spec.update_strategy.type != "RollingUpdate" or current.name == update.name:
        return update
    old = sum(revision_of(pod) == current.name and not pod.deleting for pod in state.pods)
    kept = _partition(stateful_set) or old
    return current if ordinal < ordinals(stateful_set).start + kept else update


def _own_claims(stateful_set: StatefulSet, ordinal: int, pod: Pod, state: StatefulSetState) -> list[Action]:
    actions: list[Action] = []
    for template in _claim_templates(stateful_set):
        claim = state.claim(claim_name(template["metadata"]["name"], stateful_set, ordinal))
        owners = claim_owner_references(stateful_set, pod, claim) if claim is not None else None
        if claim is not None and owners is not None:
            actions.append(OwnClaim(claim, owners))
    return actions


def _available(stateful_set: StatefulSet, pod: Pod, now: float) -> bool:
    return not pod.deleting and pod_rules.is_available(pod, stateful_set.spec.min_ready_seconds, now=now)


def _scale_down(
    stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], state: StatefulSetState, *, in_order: bool
) -> list[Action]:
    surplus = sorted(by_ordinal.keys() - ordinals(stateful_set), reverse=True)
    actions: list[Action] = []
    for ordinal in surplus[:1] if in_order else surplus:
        pod = by_ordinal[ordinal]
        if not pod.deleting:
            # Owner references of claims must be set before the pod is deleted.
            actions += _own_claims(stateful_set, ordinal, pod, state) or [DeletePod(pod, "scaled down")]
    return actions


def _update(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], state: StatefulSetState) -> list[Action]:
    """The next pods to replace: the highest ordinals of an old revision, within maxUnavailable."""
    strategy = stateful_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return []
    desired = ordinals(stateful_set)
    most = strategy.rolling_update.max_unavailable if strategy.rolling_update is not None else None
    allowed = max(pod_rules.resolve_int_or_percent(most, len(desired), up=True, default=1), 1)
    actions: list[Action] = []
    for ordinal in reversed(desired):
        if ordinal < desired.start + _partition(stateful_set) or len(actions) >= allowed:
            break
        pod = by_ordinal.get(ordinal)
        if pod is not None and not pod.deleting and revision_of(pod) != state.revisions.update.name:
            actions.append(DeletePod(pod, "the template changed"))
        elif pod is None or not _available(stateful_set, pod, state.now):
            allowed -= 1
    return actions


def _partition(stateful_set: StatefulSet) -> int:
    rolling = stateful_set.spec.update_strategy.rolling_update
    return rolling.partition if rolling is not None else 0


def stateful_set_status(
    stateful_set: StatefulSet, pods: Collection[Pod], revisions: Revisions, *, now: float
) -> dict[str, Any]:
    replicas, newest = stateful_set.spec.replicas, revisions.update.name
    live = [pod for pod in pods if not pod.finished]
    ready = [pod for pod in live if pod_rules.is_ready(pod)]
    least = stateful_set.spec.min_ready_seconds
    available = [pod for pod in ready if pod_rules.is_available(pod, least, now=now)]
    made = [revision_of(pod) for pod in live if not pod.deleting]
    rolled_out = len(live) == len(ready) == made.count(newest) == replicas
    current = newest if rolled_out else revisions.current.name
    return {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": len(live),
        "readyReplicas": len(ready),
        "availableReplicas": len(available),
        "currentReplicas": made.count(current),
        "updatedReplicas": made.count(newest),
        "currentRevision": current,
        "updateRevision": newest,
        "collisionCount": stateful_set.status.collision_count or 0,
    }
