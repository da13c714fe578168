"""Status of pods on simulated nodes: each state as a patch, and which state follows when. Pure.

    ContainerCreating ──start-after──► Running ──ready-after──► ready ──run-for──► Succeeded or Failed
                                          ▲                                │ restartPolicy
                                          └───── CrashLoopBackOff ◄────────┘

The next state follows from the pod's status and its annotations (`PodBehavior`), so a restarted agent continues. All
containers of a pod change state together. Conditions of other components stay.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from mooring.api import times
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.times import DurationError, parse_duration
from mooring.api.views.pods import Container, ContainerStatus, Pod, TerminatedState
from mooring.backoff import exponential_backoff

Status = dict[str, Any]

CRASH_LOOP: Final = "CrashLoopBackOff"
#: Conditions that every status but a rejection contains.
_OURS: Final = frozenset({"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"})


def creating_status(pod: Pod, *, now: str) -> Status:
    """Admitted; containers waiting."""
    return {
        "phase": "Pending",
        "startTime": pod.status.start_time or now,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", "False", now),
            *_progress(pod, now, initialized=not pod.spec.init_containers, ready=False),
        ],
        **_containers(pod, lambda _: {"state": {"waiting": {"reason": "ContainerCreating"}}}, initialized=False),
    }


def running_status(pod: Pod, *, now: str, ready: bool = True) -> Status:
    """All containers running, for the first time or restarted."""

    def starts(before: ContainerStatus) -> Status:
        restarted = before.last_state.terminated is not None
        return _running(before, now, ready=ready, restarts=before.restart_count + restarted)

    return _active(pod, starts, now=now, ready=ready)


def ready_status(pod: Pod, *, now: str) -> Status:
    """A running pod that became ready."""

    def answers(before: ContainerStatus) -> Status:
        begun = before.state.running
        started_at = begun.started_at if begun is not None else now
        return _running(before, started_at, ready=True, restarts=before.restart_count)

    return _active(pod, answers, now=now, ready=True)


def _running(before: ContainerStatus, started_at: str | None, *, ready: bool, restarts: int) -> Status:
    ended = before.last_state.terminated
    return {
        "ready": ready,
        "started": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": started_at}},
        "lastState": {"terminated": _terminated(ended)} if ended is not None else {},
    }


def crash_loop_backoff(pod: Pod, exit_code: int, *, pause: int, now: str) -> Status:
    """Containers terminated; restarted after `pause` seconds."""

    def rests(before: ContainerStatus) -> Status:
        container = f"container={before.name} pod={pod.name}_{pod.namespace}({pod.uid})"
        waiting = {"reason": CRASH_LOOP, "message": f"back-off {pause}s restarting failed {container}"}
        return {
            "restartCount": before.restart_count,
            "state": {"waiting": waiting},
            "lastState": {"terminated": _terminated(_terminated_state(before, exit_code, now))},
        }

    return _active(pod, rests, now=now, ready=False)


def ended_status(pod: Pod, exit_code: int, *, now: str) -> Status:
    """Containers terminated for good."""

    def ends(before: ContainerStatus) -> Status:
        state = {"terminated": _terminated(_terminated_state(before, exit_code, now))}
        return {"restartCount": before.restart_count, "state": state}

    reason = "PodCompleted" if exit_code == 0 else "PodFailed"
    return {
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", "False", now),
            _condition(pod, "Initialized", "True", now, reason if exit_code == 0 else ""),
            _condition(pod, "Ready", "False", now, reason),
            _condition(pod, "ContainersReady", "False", now, reason),
            _condition(pod, "PodScheduled", "True", now),
        ],
        **_containers(pod, ends, initialized=True),
    }


def status_patch(pod: Pod, body: Status) -> MergePatch | StrategicPatch:
    """Strategic if other components have written conditions, else merge, which costs the server a third less."""
    conditions = body["status"].get("conditions")
    if conditions is None or not {condition.type for condition in pod.status.conditions} <= _OURS:
        return StrategicPatch(body)
    plain = [{field: value for field, value in row.items() if value is not None} for row in conditions]
    return MergePatch({**body, "status": {**body["status"], "conditions": plain}})


def rejected_status(reason: str, message: str, *, now: str) -> Status:
    """Rejected by the node for good: the pod's owner has to create another."""
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": now}


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
    reason, message = "", ""
    if not ready:
        reason = "ContainersNotReady"
        message = f"containers with unready status: [{' '.join(container.name for container in pod.spec.containers)}]"
    yield _condition(pod, "Initialized", _bool_text(initialized), now)
    yield _condition(pod, "Ready", _bool_text(ready), now, reason, message)
    yield _condition(pod, "ContainersReady", _bool_text(ready), now, reason, message)
    yield _condition(pod, "PodScheduled", "True", now)


def _containers(pod: Pod, each: Callable[[ContainerStatus], Status], *, initialized: bool) -> Status:
    """Statuses of all containers; these lists are replaced as a whole, unlike the conditions."""
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


def _terminated_state(before: ContainerStatus, exit_code: int, now: str) -> TerminatedState:
    begun = before.state.running.started_at if before.state.running is not None else None
    return TerminatedState(exit_code=exit_code, started_at=begun or now, finished_at=now)


def _terminated(end: TerminatedState) -> Status:
    return {
        "exitCode": end.exit_code,
        "reason": "Completed" if end.exit_code == 0 else "Error",
        "startedAt": end.started_at,
        "finishedAt": end.finished_at,
    }


def _bool_text(holds: bool) -> str:
    return "True" if holds else "False"


def _condition(pod: Pod, kind: str, status: str, now: str, reason: str = "", message: str = "") -> Status:
    """Keeps the transition time of an equal status; clears reason and message unless given."""
    before = next((c for c in pod.status.conditions if c.type == kind), None)
    condition: Status = {"type": kind, "status": status, "lastTransitionTime": now}
    if before is not None:
        condition |= {field: None for field in ("reason", "message") if getattr(before, field)}
        if before.status == status and before.last_transition_time:
            condition["lastTransitionTime"] = before.last_transition_time
    return condition | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


START_AFTER: Final = "mooring.dev/start-after"
READY_AFTER: Final = "mooring.dev/ready-after"
RUN_FOR: Final = "mooring.dev/run-for"
EXIT_CODE: Final = "mooring.dev/exit-code"
STOP_AFTER: Final = "mooring.dev/stop-after"

#: The largest exit code of a process.
_MAX_EXIT_CODE: Final = 255


class InvalidBehavior(ValueError):
    """An invalid annotation; the text names it."""


class PodBehavior(NamedTuple):
    """Simulated behavior of a pod's containers, from its annotations; in seconds.

    mooring.dev/start-after: 5s     ContainerCreating for this long, once its volumes are mounted
    mooring.dev/ready-after: 10s    not ready for this long after each start
    mooring.dev/run-for: 1m         containers terminate after this long, each time; without it they never do
    mooring.dev/exit-code: "1"      exit code, 0 by default
    mooring.dev/stop-after: 20s     time to stop after a deletion, at most the grace period
    """

    start_after: float = 0.0
    ready_after: float = 0.0
    run_for: float | None = None
    exit_code: int = 0
    stop_after: float = 0.0


def behavior_of(pod: Pod) -> PodBehavior:
    """Raises InvalidBehavior."""
    annotations = pod.metadata.annotations
    return PodBehavior(
        _duration(pod, START_AFTER),
        _duration(pod, READY_AFTER),
        _duration(pod, RUN_FOR) if RUN_FOR in annotations else None,
        _code(annotations.get(EXIT_CODE, "0")),
        _duration(pod, STOP_AFTER),
    )


def _duration(pod: Pod, key: str) -> float:
    try:
        return parse_duration(pod.metadata.annotations.get(key, "0"))
    except DurationError as error:
        raise InvalidBehavior(f"annotation {key}: {error}") from error


def _code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MAX_EXIT_CODE):
        raise InvalidBehavior(f"annotation {EXIT_CODE}: {text!r} is not an exit code: write 0 to {_MAX_EXIT_CODE}")
    return int(text)


#: The kubelet's CrashLoopBackOff: none after the first termination, then 10 s doubling to 5 min.
INITIAL_PAUSE_SECONDS: Final = 10
MAX_PAUSE_SECONDS: Final = 300


class PodTransition(NamedTuple):
    """The status to write, if any, and the seconds until the pod is synced again, if ever."""

    status: Status | None = None
    requeue_seconds: float | None = None
    #: Type, reason and text of the event to record.
    event: tuple[str, str, str] | None = None


STARTED: Final = ("Normal", "Started", "All containers are up (none is really run)")


def start_pod(pod: Pod, behavior: PodBehavior, *, now: float) -> PodTransition:
    """The pod's volumes are mounted: start its containers, or wait for `start_after`."""
    date = times.to_time(now)
    begun = pod.status.start_time
    if behavior.start_after > 0:
        if begun is None or not pod.status.container_statuses:
            return PodTransition(creating_status(pod, now=date), behavior.start_after)
        wait = times.from_time(begun) + behavior.start_after - now
        if wait > 0:
            return PodTransition(requeue_seconds=wait)
    return _started(pod, behavior, date)


def proceed_pod(pod: Pod, behavior: PodBehavior, *, now: float) -> PodTransition:
    """A started pod: becomes ready, terminates, waits or restarts."""
    if not pod.status.container_statuses:
        # Another component wrote the phase; there is no container state to continue from.
        return PodTransition()
    container = pod.status.container_statuses[0]
    if container.state.running is not None:
        return _run(pod, behavior, container, now)
    if container.last_state.terminated is not None and container.last_state.terminated.finished_at:
        wait = times.from_time(container.last_state.terminated.finished_at) + _pause(container) - now
        return PodTransition(requeue_seconds=wait) if wait > 0 else _started(pod, behavior, times.to_time(now))
    return PodTransition()


def seconds_until_stopped(pod: Pod, behavior: PodBehavior, *, now: float) -> float:
    grace = pod.metadata.deletion_grace_period_seconds or 0
    if behavior.stop_after <= 0 or grace <= 0 or pod.metadata.deletion_timestamp is None:
        return 0.0
    asked = times.from_time(pod.metadata.deletion_timestamp) - grace
    return max(asked + min(behavior.stop_after, grace) - now, 0.0)


def _started(pod: Pod, behavior: PodBehavior, date: str) -> PodTransition:
    waits = [seconds for seconds in (behavior.ready_after, behavior.run_for) if seconds]
    status = running_status(pod, now=date, ready=behavior.ready_after <= 0)
    return PodTransition(status, min(waits, default=None), STARTED)


def _run(pod: Pod, behavior: PodBehavior, container: ContainerStatus, now: float) -> PodTransition:
    assert container.state.running is not None
    begun = container.state.running.started_at
    ran = now - times.from_time(begun) if begun is not None else 0.0
    if behavior.run_for is not None and ran >= behavior.run_for:
        return _after_main_process(pod, behavior, container, now)
    left = [behavior.run_for - ran] if behavior.run_for is not None else []
    if not container.ready or not pod.ready:
        # `pod.ready` alone is false after missing heartbeats: the node controller marks pods not ready.
        if ran >= behavior.ready_after:
            return PodTransition(ready_status(pod, now=times.to_time(now)), min(left, default=None))
        left.append(behavior.ready_after - ran)
    return PodTransition(requeue_seconds=min(left, default=None))


def _after_main_process(pod: Pod, behavior: PodBehavior, container: ContainerStatus, now: float) -> PodTransition:
    date, policy = times.to_time(now), pod.spec.restart_policy
    if policy == "Never" or (policy == "OnFailure" and behavior.exit_code == 0):
        return PodTransition(ended_status(pod, behavior.exit_code, now=date))
    pause = _pause(container)
    step = PodTransition(crash_loop_backoff(pod, behavior.exit_code, pause=pause, now=date), float(pause))
    if container.restart_count == 0:
        return step
    return step._replace(event=("Warning", "BackOff", f"Back-off restarting failed container {container.name}"))


def _pause(container: ContainerStatus) -> int:
    return int(exponential_backoff(INITIAL_PAUSE_SECONDS, MAX_PAUSE_SECONDS, container.restart_count))
