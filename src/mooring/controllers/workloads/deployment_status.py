"""Status and conditions of Deployments. Pure; reasons and texts are upstream's, as `kubectl rollout status` expects."""

from typing import Final

import msgspec

from mooring.api import times
from mooring.api.documents import Body
from mooring.api.views.workloads import Deployment, DeploymentCondition
from mooring.controllers.workloads import pod_rules
from mooring.controllers.workloads.deployment import Sets, max_unavailable

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


def deadline(deployment: Deployment, *, now: float) -> float | None:
    """Seconds until progressDeadlineSeconds is exceeded; None if it does not apply."""
    condition, seconds = _known(deployment, PROGRESSING), deployment.spec.progress_deadline_seconds
    if condition is None or seconds is None or condition.reason in (DONE, TIMED_OUT) or deployment.spec.paused:
        return None
    begun = condition.last_update_time
    return max(times.from_time(begun) + seconds - now, 0.0) if begun is not None else None


def _available(deployment: Deployment, available: int, now: float) -> Body:
    least = deployment.spec.replicas - max_unavailable(deployment)
    if available >= least:
        said = "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        said = "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return _condition(deployment, AVAILABLE, *said, now)


def _progress(deployment: Deployment, sets: Sets, counts: Body, now: float) -> list[Body]:
    if deployment.spec.progress_deadline_seconds is None:
        return []
    before = _known(deployment, PROGRESSING)
    if deployment.spec.paused:
        return [_condition(deployment, PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)]
    if before is not None and before.reason == PAUSED:
        return [_condition(deployment, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now)]
    desired = deployment.spec.replicas
    which = f'ReplicaSet "{sets.new.name}"' if sets.new is not None else f'Deployment "{deployment.name}"'
    if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == desired and sets.new:
        text = f"{which} has successfully progressed."
        return [_condition(deployment, PROGRESSING, "True", DONE, text, now)]
    if before is not None and before.reason == DONE and counts["updatedReplicas"] == counts["replicas"]:
        # A failing pod or a changed number of replicas is not a new rollout.
        return [msgspec.to_builtins(before)]
    if before is None or _has_progressed(deployment, counts):
        text = f"{which} is progressing."
        return [_condition(deployment, PROGRESSING, "True", "ReplicaSetUpdated", text, now, progressed=True)]
    if before.reason != TIMED_OUT and deadline(deployment, now=now) == 0:
        text = f"{which} has timed out progressing."
        return [_condition(deployment, PROGRESSING, "False", TIMED_OUT, text, now)]
    return [msgspec.to_builtins(before)]


def _has_progressed(deployment: Deployment, counts: Body) -> bool:
    current = deployment.status
    old, was_old = counts["replicas"] - counts["updatedReplicas"], current.replicas - current.updated_replicas
    return bool(
        counts["updatedReplicas"] > current.updated_replicas
        or old < was_old
        or counts["readyReplicas"] > current.ready_replicas
        or counts["availableReplicas"] > current.available_replicas
        or (current.observed_generation < deployment.metadata.generation and old > 0)
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
    deployment: Deployment, kind: str, status: str, reason: str, message: str, now: float, *, progressed: bool = False
) -> Body:
    """`progressed` updates lastUpdateTime of an unchanged condition: the deadline counts from it."""
    date, before = times.to_time(now), _known(deployment, kind)
    unchanged = before is not None and (before.status, before.reason, before.message) == (status, reason, message)
    if unchanged and not progressed:
        return dict(msgspec.to_builtins(before))
    condition = pod_rules.condition_body(deployment.status.conditions, kind, status, reason, message, date=date)
    return condition | {"lastUpdateTime": date}
