"""What a ReplicaSet needs next: more pods, or fewer, and which; and what its status says.

Pure. Who goes first when there are too many is upstream's order: what nobody would miss.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api import timestamps
from mooring.api.kinds import REPLICA_SET
from mooring.api.views.deployment import ReplicaSet
from mooring.api.views.pod import Pod
from mooring.workloads import availability
from mooring.workloads.ownership import reference

#: How a pod may say what its loss would cost.
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
#: Most pods made or removed in one go; upstream's burst.
BURST: Final = 500

Body = dict[str, Any]


class Change(NamedTuple):
    """How many pods to make, and which to remove."""

    create: int
    delete: Sequence[Pod]


def change(replica_set: ReplicaSet, pods: Collection[Pod], *, now: float) -> Change:
    """`pods` are the set's own; those that ended or go do not count."""
    if replica_set.deleting:
        return Change(0, ())
    active = [pod for pod in pods if is_active(pod)]
    missing = replica_set.spec.replicas - len(active)
    if missing >= 0:
        return Change(min(missing, BURST), ())
    return Change(0, _dispensable(active, now)[: min(-missing, BURST)])


def is_active(pod: Pod) -> bool:
    return not pod.finished and not pod.deleting


def _dispensable(pods: Sequence[Pod], now: float) -> list[Pod]:
    """First those that do the least."""
    crowds = Counter(pod.spec.node_name for pod in pods if pod.spec.node_name)

    def worth(pod: Pod) -> tuple[object, ...]:
        ready = pod.ready
        restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
        return (
            pod.spec.node_name != "",
            pod.status.phase == "Running",
            ready,
            _cost(pod),
            -crowds[pod.spec.node_name],
            _magnitude(_since_ready(pod, now)) if ready else 0,
            -restarts,
            _magnitude(now - timestamps.from_time(pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")),
            pod.uid,
        )

    return sorted(pods, key=worth)


def _cost(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _since_ready(pod: Pod, now: float) -> float:
    ready = next((c for c in pod.status.conditions if c.type == "Ready"), None)
    return now - timestamps.from_time(ready.last_transition_time) if ready and ready.last_transition_time else 0.0


def _magnitude(seconds: float) -> int:
    """Ages count by powers of two, so that pods made together are not told apart by a second."""
    return int(math.log2(seconds)) if seconds >= 1 else 0


def pod_body(replica_set: ReplicaSet, name: str) -> Body:
    template: Body = msgspec.json.decode(replica_set.spec.template)
    meta = template.get("metadata") or {}
    return {
        "metadata": {
            "name": name,
            "generateName": f"{replica_set.name}-",
            "labels": meta.get("labels") or {},
            "annotations": meta.get("annotations") or {},
            "finalizers": meta.get("finalizers") or [],
            "ownerReferences": [reference(REPLICA_SET, replica_set)],
        },
        "spec": template["spec"],
    }


def status(replica_set: ReplicaSet, pods: Collection[Pod], *, problem: str, now: float, date: str) -> Body:
    """`problem` is why a pod could not be made or removed, "" if all went well."""
    active = [pod for pod in pods if is_active(pod)]
    template: Body = msgspec.json.decode(replica_set.spec.template)
    wanted = ((template.get("metadata") or {}).get("labels") or {}).items()
    least = replica_set.spec.min_ready_seconds
    return {
        "observedGeneration": replica_set.metadata.generation,
        "replicas": len(active),
        "fullyLabeledReplicas": sum(pod.metadata.labels.items() >= wanted for pod in active),
        "readyReplicas": sum(pod.ready for pod in active),
        "availableReplicas": sum(availability.wait(pod, least, now=now) == 0 for pod in active),
        "conditions": _conditions(replica_set, problem, date),
    }


def _conditions(replica_set: ReplicaSet, problem: str, date: str) -> list[Body]:
    if not problem:
        return []
    before = next((c for c in replica_set.status.conditions if c.type == "ReplicaFailure"), None)
    since = before.last_transition_time if before is not None else None
    return [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": problem,
            "lastTransitionTime": since or date,
        }
    ]


def reported(replica_set: ReplicaSet) -> Body:
    """What the set's status says now, in the form `status` gives."""
    said = replica_set.status
    return {
        "observedGeneration": said.observed_generation,
        "replicas": said.replicas,
        "fullyLabeledReplicas": said.fully_labeled_replicas,
        "readyReplicas": said.ready_replicas,
        "availableReplicas": said.available_replicas,
        "conditions": [
            {
                "type": c.type,
                "status": c.status,
                "reason": c.reason,
                "message": c.message,
                "lastTransitionTime": c.last_transition_time,
            }
            for c in said.conditions
        ],
    }
