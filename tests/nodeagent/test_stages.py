"""Which stage comes next, and when: a pod's life played from its own status, second by second."""

import msgspec
import pytest

from builders import Body, a_pod, pod_body
from mooring.api import timestamps
from mooring.api.kinds import POD
from mooring.api.patches.strategic import apply_strategic
from mooring.api.views.pod import Pod
from mooring.nodeagent.script import Script
from mooring.nodeagent.stages import proceed, start, stop_wait

BEGIN = timestamps.from_time("2026-01-01T00:00:00Z")


def life(script: Script, *, policy: str = "Always", seconds: int = 120) -> list[tuple[int, str]]:
    """What kubectl would show of the pod, by the second at which it changes."""
    body = pod_body(node="node-1")
    body["spec"]["restartPolicy"] = policy
    shown: list[tuple[int, str]] = []
    due = 0.0
    for second in range(seconds):
        while due <= second:
            pod = POD.decode(msgspec.json.encode(body))
            step = (proceed if pod.status.phase == "Running" else start)(pod, script, now=BEGIN + second)
            if step.status is not None:
                body = apply_strategic(body, {"status": step.status}, POD.api_version, POD.kind)
                shown.append((second, in_words(POD.decode(msgspec.json.encode(body)))))
            due = second + step.again if step.again is not None else float("inf")
            if pod.finished:
                return shown
    return shown


def in_words(pod: Pod) -> str:
    [container] = pod.status.container_statuses
    if container.state.waiting is not None:
        return container.state.waiting.reason
    if container.state.terminated is not None:
        return f"{pod.status.phase} with {container.state.terminated.exit_code}"
    ready = "ready" if pod.ready and container.ready else "not ready"
    return f"{pod.status.phase} {ready}" + (f", restarted {container.restart_count}" if container.restart_count else "")


@pytest.mark.parametrize(
    ("script", "policy", "wanted"),
    [
        pytest.param(Script(), "Always", [(0, "Running ready")], id="runs for ever"),
        pytest.param(
            Script(start_after=5), "Always", [(0, "ContainerCreating"), (5, "Running ready")], id="starts later"
        ),
        pytest.param(
            Script(ready_after=7), "Always", [(0, "Running not ready"), (7, "Running ready")], id="is ready later"
        ),
        pytest.param(Script(run_for=10), "Never", [(0, "Running ready"), (10, "Succeeded with 0")], id="ends well"),
        pytest.param(
            Script(run_for=10, exit_code=3), "Never", [(0, "Running ready"), (10, "Failed with 3")], id="fails"
        ),
        pytest.param(
            Script(run_for=10), "OnFailure", [(0, "Running ready"), (10, "Succeeded with 0")], id="need not come again"
        ),
        pytest.param(
            Script(run_for=10, exit_code=1),
            "OnFailure",
            [
                (0, "Running ready"),
                (10, "CrashLoopBackOff"),
                (10, "Running ready, restarted 1"),
                (20, "CrashLoopBackOff"),
                (30, "Running ready, restarted 2"),
                (40, "CrashLoopBackOff"),
                (60, "Running ready, restarted 3"),
                (70, "CrashLoopBackOff"),
                (110, "Running ready, restarted 4"),
            ],
            id="starts again after growing pauses",
        ),
        pytest.param(
            Script(start_after=2, ready_after=3, run_for=4),
            "Never",
            [(0, "ContainerCreating"), (2, "Running not ready"), (5, "Running ready"), (6, "Succeeded with 0")],
            id="all of it",
        ),
        pytest.param(
            Script(ready_after=30, run_for=4),
            "Never",
            [(0, "Running not ready"), (4, "Succeeded with 0")],
            id="ends before it is ready",
        ),
    ],
)
def test_a_life(script: Script, policy: str, wanted: list[tuple[int, str]]) -> None:
    assert life(script, policy=policy) == wanted


def test_a_running_pod_that_nobody_started_here_is_left_alone() -> None:
    assert proceed(a_pod(phase="Running"), Script(run_for=1), now=BEGIN) == (None, None, None)


def deleted(*, grace: int) -> Pod:
    body: Body = pod_body(node="node-1", deleting=True)
    body["metadata"] |= {
        "deletionTimestamp": timestamps.to_time(BEGIN + grace),
        "deletionGracePeriodSeconds": grace,
    }
    return POD.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("script", "grace", "wanted"),
    [
        pytest.param(Script(), 30, 0.0, id="at once"),
        pytest.param(Script(stop_after=10), 30, 10.0, id="as long as it says"),
        pytest.param(Script(stop_after=50), 30, 30.0, id="no longer than its grace period"),
        pytest.param(Script(stop_after=50), 0, 0.0, id="at once when forced"),
    ],
)
def test_how_long_a_deleted_pod_takes(script: Script, grace: int, wanted: float) -> None:
    assert stop_wait(deleted(grace=grace), script, now=BEGIN) == wanted
