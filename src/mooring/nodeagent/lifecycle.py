"""What a pod's status says at each stage of its life on a node.

Pure: a stage is the strategic patch that brings a pod there; conditions other components wrote stay. Conditions keep
their transition time when their status stays. Which stage comes when is `stages`' business. All containers of a pod
do the same at the same time.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.pod import Container, ContainerStatus, Pod, TerminatedState

Status = dict[str, Any]

#: The word `kubectl get` shows for a container that waits for the pause between two starts to pass.
CRASH_LOOP: Final = "CrashLoopBackOff"
#: The conditions that every stage but a rejection states anew.
_OURS: Final = frozenset({"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"})


def creating(pod: Pod, *, now: str) -> Status:
    """Admitted, but its containers cannot start yet."""

    def waits(_: ContainerStatus) -> Status:
        return {"state": {"waiting": {"reason": "ContainerCreating"}}}

    return {
        "phase": "Pending",
        "startTime": pod.status.start_time or now,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", "False", now),
            *_progress(pod, now, initialized=not pod.spec.init_containers, ready=False),
        ],
        **_containers(pod, waits, initialized=False),
    }


def running(pod: Pod, *, now: str, ready: bool = True) -> Status:
    """All containers up, for the first time or again after they had ended."""

    def starts(before: ContainerStatus) -> Status:
        ended = before.last_state.terminated
        again = ended is not None
        return {
            "ready": ready,
            "started": True,
            "restartCount": before.restart_count + again,
            "state": {"running": {"startedAt": now}},
            "lastState": {"terminated": _terminated(ended)} if ended is not None else {},
        }

    return _active(pod, starts, now=now, ready=ready)


def ready(pod: Pod, *, now: str) -> Status:
    """A running pod that answers from now on."""

    def answers(before: ContainerStatus) -> Status:
        begun, ended = before.state.running, before.last_state.terminated
        return {
            "ready": True,
            "started": True,
            "restartCount": before.restart_count,
            "state": {"running": {"startedAt": begun.started_at if begun is not None else now}},
            "lastState": {"terminated": _terminated(ended)} if ended is not None else {},
        }

    return _active(pod, answers, now=now, ready=True)


def resting(pod: Pod, exit_code: int, *, pause: int, now: str) -> Status:
    """Its containers ended and will be started again after so many seconds."""

    def rests(before: ContainerStatus) -> Status:
        whose = f"container={before.name} pod={pod.name}_{pod.namespace}({pod.uid})"
        waiting = {"reason": CRASH_LOOP, "message": f"back-off {pause}s restarting failed {whose}"}
        return {
            "restartCount": before.restart_count,
            "state": {"waiting": waiting},
            "lastState": {"terminated": _terminated(_end(before, exit_code, now))},
        }

    return _active(pod, rests, now=now, ready=False)


def ended(pod: Pod, exit_code: int, *, now: str) -> Status:
    """Its containers ended for good."""

    def ends(before: ContainerStatus) -> Status:
        state = {"terminated": _terminated(_end(before, exit_code, now))}
        return {"restartCount": before.restart_count, "state": state}

    why = "PodCompleted" if exit_code == 0 else "PodFailed"
    return {
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", "False", now),
            _condition(pod, "Initialized", "True", now, why if exit_code == 0 else ""),
            _condition(pod, "Ready", "False", now, why),
            _condition(pod, "ContainersReady", "False", now, why),
            _condition(pod, "PodScheduled", "True", now),
        ],
        **_containers(pod, ends, initialized=True),
    }


def patch(pod: Pod, body: Status) -> MergePatch | StrategicPatch:
    """How to send a stage: by condition where others have written some, else as a whole, which costs the server a
    third less."""
    conditions = body["status"].get("conditions")
    if conditions is None or not {condition.type for condition in pod.status.conditions} <= _OURS:
        return StrategicPatch(body)
    plain = [{field: value for field, value in row.items() if value is not None} for row in conditions]
    return MergePatch({**body, "status": {**body["status"], "conditions": plain}})


def rejected(reason: str, message: str, *, now: str) -> Status:
    """The node will not run it, now or later: the pod's owner has to make another."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": now,
    }


def _active(pod: Pod, each: Callable[[ContainerStatus], Status], *, now: str, ready: bool) -> Status:
    return {
        "phase": "Running",
        "startTime": pod.status.start_time or now,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", "True", now),
            *_progress(pod, now, initialized=True, ready=ready),
        ],
        **_containers(pod, each, initialized=True),
    }


def _progress(pod: Pod, now: str, *, initialized: bool, ready: bool) -> Iterator[Status]:
    why, which = "", ""
    if not ready:
        why = "ContainersNotReady"
        which = f"containers with unready status: [{' '.join(container.name for container in pod.spec.containers)}]"
    yield _condition(pod, "Initialized", _word(initialized), now)
    yield _condition(pod, "Ready", _word(ready), now, why, which)
    yield _condition(pod, "ContainersReady", _word(ready), now, why, which)
    yield _condition(pod, "PodScheduled", "True", now)


def _containers(pod: Pod, each: Callable[[ContainerStatus], Status], *, initialized: bool) -> Status:
    """The statuses of all containers. These lists are replaced as a whole, unlike the conditions."""
    known = {status.name: status for status in pod.status.container_statuses}
    statuses: Status = {
        "containerStatuses": [
            _unstarted(container) | each(known.get(container.name, ContainerStatus(name=container.name)))
            for container in pod.spec.containers
        ]
    }
    if pod.spec.init_containers:
        state: Status = {"waiting": {"reason": "PodInitializing"}}
        if initialized:
            state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        statuses["initContainerStatuses"] = [
            _unstarted(container) | {"ready": initialized, "state": state} for container in pod.spec.init_containers
        ]
    return statuses


def _unstarted(container: Container) -> Status:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
    }


def _end(before: ContainerStatus, exit_code: int, now: str) -> TerminatedState:
    begun = before.state.running.started_at if before.state.running is not None else None
    return TerminatedState(exit_code=exit_code, started_at=begun or now, finished_at=now)


def _terminated(end: TerminatedState) -> Status:
    return {
        "exitCode": end.exit_code,
        "reason": "Completed" if end.exit_code == 0 else "Error",
        "startedAt": end.started_at,
        "finishedAt": end.finished_at,
    }


def _word(holds: bool) -> str:
    return "True" if holds else "False"


def _condition(pod: Pod, kind: str, status: str, now: str, reason: str = "", message: str = "") -> Status:
    """What an earlier condition of the kind said beyond its status goes unless it is said again."""
    before = next((c for c in pod.status.conditions if c.type == kind), None)
    condition: Status = {"type": kind, "status": status, "lastTransitionTime": now}
    if before is not None:
        condition |= {field: None for field in ("reason", "message") if getattr(before, field)}
        if before.status == status and before.last_transition_time:
            condition["lastTransitionTime"] = before.last_transition_time
    return condition | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})
