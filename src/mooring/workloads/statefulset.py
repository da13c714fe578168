"""What a StatefulSet needs next: claims, pods, or fewer pods.

Pure: the set, its pods and which claims there are in; what to do out. Ordinals are worked through in order;
`OrderedReady` stops at the first one that is not ready, `Parallel` does not wait. Rolling updates replace one pod at a
time, highest ordinal first. Revisions are the hash of the template: there are no ControllerRevision objects, so an
older template cannot be brought back, and a `partition` that would need it is reported as unsupported.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.workloads.stateful_identity import (
    Body,
    claim_bodies,
    ordinal_of,
    ordinals,
    pod_body,
    pod_name,
    revision,
    revision_of,
)


class CreatePod(NamedTuple):
    """Make a pod, after those of its claims that are missing."""

    body: Body
    claims: tuple[Body, ...]


class RestoreClaims(NamedTuple):
    """Make claims again that a pod needs and that are gone."""

    pod: str
    claims: tuple[Body, ...]


class ReplacePod(NamedTuple):
    """Remove a pod that has ended, so that its ordinal is free for a new one."""

    pod: Pod


class DeletePod(NamedTuple):
    pod: Pod
    why: str


Action = CreatePod | RestoreClaims | ReplacePod | DeletePod


def unsupported(stateful_set: StatefulSet) -> list[str]:
    """What the set asks for and does not get; said in an event, so that nobody waits for it."""
    spec = stateful_set.spec
    problems: list[str] = []
    retention = spec.persistent_volume_claim_retention_policy
    if retention is not None and "Delete" in (retention.when_deleted, retention.when_scaled):
        problems.append("persistentVolumeClaimRetentionPolicy Delete is not supported yet: claims are retained")
    if _has_partition(stateful_set):
        problems.append("updateStrategy.rollingUpdate.partition is not supported yet: pods are not updated")
    rolling = spec.update_strategy.rolling_update
    if rolling is not None and rolling.max_unavailable not in (None, 1):
        problems.append("updateStrategy.rollingUpdate.maxUnavailable is not supported yet: pods go one at a time")
    if spec.min_ready_seconds > 0:
        problems.append("minReadySeconds is not supported yet: pods count as available once they are ready")
    return problems


def next_actions(stateful_set: StatefulSet, pods: Collection[Pod], *, has_claim: Callable[[str], bool]) -> list[Action]:
    """Everything that may be done now, in order. `pods` are the set's own; `has_claim` knows claims by name."""
    if stateful_set.deleting:
        # SEEN: the garbage collector removes the pods, or they are meant to be orphaned.
        return []
    by_ordinal = {o: pod for pod in pods if (o := ordinal_of(stateful_set, pod)) is not None}
    in_order = stateful_set.spec.pod_management_policy != "Parallel"
    actions: list[Action] = []
    for ordinal in ordinals(stateful_set):
        pod = by_ordinal.get(ordinal)
        actions += _keep(stateful_set, ordinal, pod, has_claim)
        if in_order and (pod is None or not _healthy(pod)):
            return actions
    actions += _scale_down(stateful_set, by_ordinal, in_order=in_order)
    return actions or _update(stateful_set, by_ordinal)


def _keep(stateful_set: StatefulSet, ordinal: int, pod: Pod | None, has_claim: Callable[[str], bool]) -> list[Action]:
    """What one ordinal needs to have its pod and its claims."""
    missing = tuple(body for body in claim_bodies(stateful_set, ordinal) if not has_claim(body["metadata"]["name"]))
    if pod is None:
        return [CreatePod(pod_body(stateful_set, ordinal), missing)]
    actions: list[Action] = [RestoreClaims(pod_name(stateful_set, ordinal), missing)] if missing else []
    if pod.finished and not pod.deleting:
        actions.append(ReplacePod(pod))
    return actions


def _healthy(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.ready and not pod.deleting


def _scale_down(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], *, in_order: bool) -> list[Action]:
    wanted = ordinals(stateful_set)
    surplus = sorted((o for o in by_ordinal if o not in wanted), reverse=True)
    if in_order:
        # The next one goes only when the one before is gone.
        surplus = surplus[:1]
    return [DeletePod(by_ordinal[o], "scaled down") for o in surplus if not by_ordinal[o].deleting]


def _update(stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod]) -> list[Action]:
    """The next pod to replace: the highest with an old template, once all above it are new and healthy."""
    if stateful_set.spec.update_strategy.type != "RollingUpdate" or _has_partition(stateful_set):
        return []
    newest = revision(stateful_set)
    for ordinal in reversed(ordinals(stateful_set)):
        pod = by_ordinal.get(ordinal)
        if pod is not None and not pod.deleting and revision_of(pod) != newest:
            return [DeletePod(pod, "the template changed")]
        if pod is None or not _healthy(pod):
            return []
    return []


def _has_partition(stateful_set: StatefulSet) -> bool:
    rolling = stateful_set.spec.update_strategy.rolling_update
    return rolling is not None and rolling.partition > 0


def status(stateful_set: StatefulSet, pods: Collection[Pod]) -> dict[str, Any]:
    """What the set's status should say of these pods."""
    replicas = stateful_set.spec.replicas
    newest = revision(stateful_set)
    live = [pod for pod in pods if not pod.finished]
    ready = [pod for pod in live if pod.status.phase == "Running" and pod.ready]
    revisions = [revision_of(pod) for pod in live if not pod.deleting]
    rolled_out = len(live) == len(ready) == revisions.count(newest) == replicas
    current = newest if rolled_out else stateful_set.status.current_revision or newest
    return {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": len(live),
        "readyReplicas": len(ready),
        "availableReplicas": len(ready),
        "currentReplicas": revisions.count(current),
        "updatedReplicas": revisions.count(newest),
        "currentRevision": current,
        "updateRevision": newest,
        "collisionCount": 0,
    }


def reported(stateful_set: StatefulSet) -> dict[str, Any]:
    """What the set's status says now, in the form `status` gives."""
    said = stateful_set.status
    return {
        "observedGeneration": said.observed_generation,
        "replicas": said.replicas,
        "readyReplicas": said.ready_replicas,
        "availableReplicas": said.available_replicas,
        "currentReplicas": said.current_replicas,
        "updatedReplicas": said.updated_replicas,
        "currentRevision": said.current_revision,
        "updateRevision": said.update_revision,
        "collisionCount": said.collision_count or 0,
    }
