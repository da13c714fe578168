"""Which stage of its life comes next for an admitted pod, and when.

Pure: read from the pod's own status and its `script`, so that an agent that starts again goes on where the last one
stopped. Moments in a status are whole seconds, and so is everything here.

    ContainerCreating ──start-after──► Running ──ready-after──► ready ──run-for──► Succeeded or Failed
                                          ▲                                │ restartPolicy
                                          └───── CrashLoopBackOff ◄────────┘
"""

from typing import Final, NamedTuple

from mooring.api import timestamps
from mooring.api.views.pod import ContainerStatus, Pod
from mooring.nodeagent import lifecycle
from mooring.nodeagent.lifecycle import Status
from mooring.nodeagent.script import Script

#: The kubelet's pauses between two starts: none after the first end, then 10 s doubling to 5 min.
FIRST_PAUSE: Final = 10
LONGEST_PAUSE: Final = 300
#: The doubling after which the longest pause is reached; keeps the power small.
_DOUBLINGS: Final = 5


class Step(NamedTuple):
    """What to write now, if anything, and in how many seconds to look again, if ever."""

    status: Status | None = None
    again: float | None = None
    #: Reason and text of the event that goes with it.
    event: tuple[str, str, str] | None = None


STARTED: Final = ("Normal", "Started", "All containers are up (none is really run)")


def start(pod: Pod, script: Script, *, now: float) -> Step:
    """The pod's volumes are there: start its containers, or wait until it is time."""
    date = timestamps.to_time(now)
    begun = pod.status.start_time
    if script.start_after > 0:
        if begun is None or not pod.status.container_statuses:
            return Step(lifecycle.creating(pod, now=date), script.start_after)
        wait = timestamps.from_time(begun) + script.start_after - now
        if wait > 0:
            return Step(again=wait)
    return _up(pod, script, date)


def proceed(pod: Pod, script: Script, *, now: float) -> Step:
    """A pod that has started: ready, ending, pausing or starting again."""
    if not pod.status.container_statuses:
        # SEEN: somebody else wrote its phase; there is nothing to go on from.
        return Step()
    container = pod.status.container_statuses[0]
    if container.state.running is not None:
        return _run(pod, script, container, now)
    if container.last_state.terminated is not None and container.last_state.terminated.finished_at:
        wait = timestamps.from_time(container.last_state.terminated.finished_at) + _pause(container) - now
        return Step(again=wait) if wait > 0 else _up(pod, script, timestamps.to_time(now))
    return Step()


def stop_wait(pod: Pod, script: Script, *, now: float) -> float:
    """Seconds until a deleted pod has stopped."""
    grace = pod.metadata.deletion_grace_period_seconds or 0
    if script.stop_after <= 0 or grace <= 0 or pod.metadata.deletion_timestamp is None:
        return 0.0
    asked = timestamps.from_time(pod.metadata.deletion_timestamp) - grace
    return max(asked + min(script.stop_after, grace) - now, 0.0)


def _up(pod: Pod, script: Script, date: str) -> Step:
    waits = [seconds for seconds in (script.ready_after, script.run_for) if seconds]
    status = lifecycle.running(pod, now=date, ready=script.ready_after <= 0)
    return Step(status, min(waits, default=None), STARTED)


def _run(pod: Pod, script: Script, container: ContainerStatus, now: float) -> Step:
    assert container.state.running is not None
    begun = container.state.running.started_at
    ran = now - timestamps.from_time(begun) if begun is not None else 0.0
    if script.run_for is not None and ran >= script.run_for:
        return _end(pod, script, container, now)
    left = [script.run_for - ran] if script.run_for is not None else []
    if not container.ready or not pod.ready:
        # The second is what becomes of pods whose node was silent for a while: others declare them not ready.
        if ran >= script.ready_after:
            return Step(lifecycle.ready(pod, now=timestamps.to_time(now)), min(left, default=None))
        left.append(script.ready_after - ran)
    return Step(again=min(left, default=None))


def _end(pod: Pod, script: Script, container: ContainerStatus, now: float) -> Step:
    date, policy = timestamps.to_time(now), pod.spec.restart_policy
    if policy == "Never" or (policy == "OnFailure" and script.exit_code == 0):
        return Step(lifecycle.ended(pod, script.exit_code, now=date))
    pause = _pause(container)
    step = Step(lifecycle.resting(pod, script.exit_code, pause=pause, now=date), float(pause))
    if container.restart_count == 0:
        return step
    return step._replace(event=("Warning", "BackOff", f"Back-off restarting failed container {container.name}"))


def _pause(container: ContainerStatus) -> int:
    """Seconds between the end of a container and its next start."""
    if container.restart_count == 0:
        return 0
    return int(min(FIRST_PAUSE * 2 ** min(container.restart_count - 1, _DOUBLINGS), LONGEST_PAUSE))
