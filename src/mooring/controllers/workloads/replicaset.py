"""ReplicaSet decisions: how many pods to create, which to delete (upstream's order), and the status. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from mooring.api import times
from mooring.api.documents import Body
from mooring.api.kinds import REPLICA_SET
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import ReplicaSet
from mooring.controllers.workloads import pod_rules

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
#: Maximum of pods created or deleted per sync, as upstream.
BURST: Final = 500


class ReplicaSetPlan(NamedTuple):
    create: int
    delete: Sequence[Pod]


def plan_replica_set(replica_set: ReplicaSet, pods: Collection[Pod], *, now: float) -> ReplicaSetPlan:
    """`pods` are the set's own; finished and terminating ones do not count."""
    if replica_set.deleting:
        return ReplicaSetPlan(0, ())
    active = [pod for pod in pods if is_active(pod)]
    missing = replica_set.spec.replicas - len(active)
    if missing >= 0:
        return ReplicaSetPlan(min(missing, BURST), ())
    return ReplicaSetPlan(0, _deletion_order(active, now)[: min(-missing, BURST)])


def is_active(pod: Pod) -> bool:
    return not pod.finished and not pod.deleting


def _deletion_order(pods: Sequence[Pod], now: float) -> list[Pod]:
    """As upstream."""
    per_node = Counter(pod.spec.node_name for pod in pods if pod.spec.node_name)

    def rank(pod: Pod) -> tuple[object, ...]:
        ready = pod.ready
        restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
        return (
            pod.spec.node_name != "",
            pod.status.phase == "Running",
            ready,
            _cost(pod),
            -per_node[pod.spec.node_name],
            _magnitude(_since_ready(pod, now)) if ready else 0,
            -restarts,
            _magnitude(now - times.from_time(pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")),
            pod.uid,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _since_ready(pod: Pod, now: float) -> float:
    ready = next((c for c in pod.status.conditions if c.type == "Ready"), None)
    return now - times.from_time(ready.last_transition_time) if ready and ready.last_transition_time else 0.0


def _magnitude(seconds: float) -> int:
    """Logarithmic age, so that pods created together are equal."""
    return int(math.log2(seconds)) if seconds >= 1 else 0


def pod_body(replica_set: ReplicaSet, name: str) -> Body:
    template: Body = msgspec.json.decode(replica_set.spec.template)
    meta = pod_rules.pod_metadata(template, REPLICA_SET, replica_set, name, {})
    return {"metadata": meta | {"generateName": f"{replica_set.name}-"}, "spec": template["spec"]}


def status(replica_set: ReplicaSet, pods: Collection[Pod], *, problem: str, now: float) -> Body:
    """`problem` is the error of a failed create or delete, else ""."""
    active = [pod for pod in pods if is_active(pod)]
    template: Body = msgspec.json.decode(replica_set.spec.template)
    template_labels = ((template.get("metadata") or {}).get("labels") or {}).items()
    least = replica_set.spec.min_ready_seconds
    known, date = replica_set.status.conditions, times.to_time(now)
    failure = pod_rules.condition_body(known, "ReplicaFailure", "True", "FailedCreate", problem, date=date)
    return {
        "observedGeneration": replica_set.metadata.generation,
        "replicas": len(active),
        "fullyLabeledReplicas": sum(pod.metadata.labels.items() >= template_labels for pod in active),
        "readyReplicas": sum(pod.ready for pod in active),
        "availableReplicas": sum(pod_rules.is_available(pod, least, now=now) for pod in active),
        "conditions": [failure] if problem else [],
    }
