"""What a Deployment's status should say: its pods counted over all its sets, and whether it gets anywhere.

Pure. Reasons and texts are upstream's; `kubectl rollout status` waits for them.
"""

from typing import Any, Final

from mooring.api import timestamps
from mooring.api.views.deployment import Deployment, DeploymentCondition
from mooring.workloads import deployment_sets
from mooring.workloads.deployment_sets import Sets

Body = dict[str, Any]

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"
DONE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"


def status(deployment: Deployment, sets: Sets, *, now: float) -> Body:
    available = sum(one.status.available_replicas for one in sets.all)
    counts = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(one.status.replicas for one in sets.all),
        "updatedReplicas": sets.new.status.replicas if sets.new is not None else 0,
        "readyReplicas": sum(one.status.ready_replicas for one in sets.all),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(one.spec.replicas for one in sets.all) - available, 0),
        "collisionCount": deployment.status.collision_count or 0,
    }
    conditions = [_available(deployment, available, now), *_progress(deployment, sets, counts, now)]
    return {**counts, "conditions": [*conditions, *_failure(deployment, sets, now)]}


def reported(deployment: Deployment) -> Body:
    """What the status says now, in the form `status` gives."""
    said = deployment.status
    return {
        "observedGeneration": said.observed_generation,
        "replicas": said.replicas,
        "updatedReplicas": said.updated_replicas,
        "readyReplicas": said.ready_replicas,
        "availableReplicas": said.available_replicas,
        "unavailableReplicas": said.unavailable_replicas,
        "collisionCount": said.collision_count or 0,
        "conditions": [_body(condition) for condition in said.conditions],
    }


def deadline(deployment: Deployment, *, now: float) -> float | None:
    """Seconds until a rollout that gets nowhere has timed out; None where nobody waits for that."""
    condition, seconds = _known(deployment, PROGRESSING), deployment.spec.progress_deadline_seconds
    if condition is None or seconds is None or condition.reason in (DONE, TIMED_OUT) or deployment.spec.paused:
        return None
    begun = condition.last_update_time
    return max(timestamps.from_time(begun) + seconds - now, 0.0) if begun is not None else None


def _available(deployment: Deployment, available: int, now: float) -> Body:
    least = deployment.spec.replicas - deployment_sets.unavailable(deployment)
    if available >= least:
        reason, text = "MinimumReplicasAvailable", "Deployment has minimum availability."
        return _condition(deployment, AVAILABLE, "True", reason, text, now)
    reason, text = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return _condition(deployment, AVAILABLE, "False", reason, text, now)


def _progress(deployment: Deployment, sets: Sets, counts: Body, now: float) -> list[Body]:
    if deployment.spec.progress_deadline_seconds is None:
        return []
    before = _known(deployment, PROGRESSING)
    if deployment.spec.paused:
        return [_condition(deployment, PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)]
    if before is not None and before.reason == PAUSED:
        return [_condition(deployment, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now)]
    wanted = deployment.spec.replicas
    which = f'ReplicaSet "{sets.new.name}"' if sets.new is not None else f'Deployment "{deployment.name}"'
    if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted and sets.new:
        text = f"{which} has successfully progressed."
        return [_condition(deployment, PROGRESSING, "True", DONE, text, now)]
    if before is not None and before.reason == DONE and counts["updatedReplicas"] == counts["replicas"]:
        # SEEN: done before; that a pod fails or the number wanted changes is no new rollout.
        return [_body(before)]
    if before is None or _moved(deployment, counts):
        text = f"{which} is progressing."
        return [_condition(deployment, PROGRESSING, "True", "ReplicaSetUpdated", text, now, moved=True)]
    if before.reason != TIMED_OUT and deadline(deployment, now=now) == 0:
        text = f"{which} has timed out progressing."
        return [_condition(deployment, PROGRESSING, "False", TIMED_OUT, text, now)]
    return [_body(before)]


def _moved(deployment: Deployment, counts: Body) -> bool:
    said = deployment.status
    old, was_old = counts["replicas"] - counts["updatedReplicas"], said.replicas - said.updated_replicas
    return bool(
        counts["updatedReplicas"] > said.updated_replicas
        or old < was_old
        or counts["readyReplicas"] > said.ready_replicas
        or counts["availableReplicas"] > said.available_replicas
        or (said.observed_generation < deployment.metadata.generation and old > 0)
    )


def _failure(deployment: Deployment, sets: Sets, now: float) -> list[Body]:
    for one in [sets.new, *sets.old] if sets.new is not None else sets.old:
        found = next((c for c in one.status.conditions if c.type == FAILURE and c.status == "True"), None)
        if found is not None:
            return [_condition(deployment, FAILURE, "True", found.reason, found.message, now)]
    return []


def _known(deployment: Deployment, kind: str) -> DeploymentCondition | None:
    return next((c for c in deployment.status.conditions if c.type == kind), None)


def _condition(
    deployment: Deployment, kind: str, status: str, reason: str, message: str, now: float, *, moved: bool = False
) -> Body:
    """`moved` dates the condition anew although it says the same: progress is measured from there."""
    date, before = timestamps.to_time(now), _known(deployment, kind)
    same = before is not None and before.status == status
    if before is not None and same and before.reason == reason and before.message == message and not moved:
        return _body(before)
    since = before.last_transition_time if before is not None and same else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": date,
        "lastTransitionTime": since or date,
    }


def _body(condition: DeploymentCondition) -> Body:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastUpdateTime": condition.last_update_time,
        "lastTransitionTime": condition.last_transition_time,
    }
