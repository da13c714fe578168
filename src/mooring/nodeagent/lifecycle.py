"""What a pod's status says at each stage of its life on a node.

Pure: a stage is the strategic patch that brings a pod there; conditions other components wrote stay. Conditions keep
their transition time when their status stays.
"""

from typing import Any

from mooring.api.views.pod import Pod

_TRUE_WHEN_RUNNING = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def running(pod: Pod, *, now: str) -> dict[str, Any]:
    """All containers up and ready."""
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [_condition(pod, kind, "True", now) for kind in _TRUE_WHEN_RUNNING],
        "containerStatuses": [
            {
                "name": container.name,
                "image": container.image,
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod.spec.containers
        ],
    }


def rejected(reason: str, message: str, *, now: str) -> dict[str, Any]:
    """The node will not run it, now or later: the pod's owner has to make another."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": now,
    }


def _condition(pod: Pod, kind: str, status: str, now: str) -> dict[str, str]:
    before = next((c for c in pod.status.conditions if c.type == kind), None)
    since = now
    if before is not None and before.status == status and before.last_transition_time:
        since = before.last_transition_time
    return {"type": kind, "status": status, "lastTransitionTime": since}
