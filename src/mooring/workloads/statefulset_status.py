"""What a StatefulSet's status should say of its pods, and what it says. Pure."""

from collections.abc import Collection
from typing import Any

from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.workloads import availability
from mooring.workloads.revisions import Revisions
from mooring.workloads.stateful_identity import revision_of


def status(stateful_set: StatefulSet, pods: Collection[Pod], revisions: Revisions, *, now: float) -> dict[str, Any]:
    replicas, newest = stateful_set.spec.replicas, revisions.update.name
    live = [pod for pod in pods if not pod.finished]
    ready = [pod for pod in live if availability.is_ready(pod)]
    least = stateful_set.spec.min_ready_seconds
    available = [pod for pod in ready if availability.wait(pod, least, now=now) == 0]
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
