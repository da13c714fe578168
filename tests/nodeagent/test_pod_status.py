"""What a pod's status says at each stage.

What pods may say about what they do.

Which stage comes next, and when: a pod's life played from its own status, second by second.
"""

import msgspec
import pytest

from mooring.api import times
from mooring.api.kinds import POD
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.patches.strategic import apply_strategic
from mooring.api.views.pods import Pod
from mooring.nodeagent.pod_status import (
    InvalidBehavior,
    PodBehavior,
    behavior_of,
    creating_status,
    proceed_pod,
    rejected_status,
    running_status,
    seconds_until_stopped,
    start_pod,
    status_patch,
)
from support.builders import Body, a_pod, pod_body

NOW = "2026-01-01T00:00:00Z"
BEFORE = "2025-12-31T23:00:00Z"


def test_running_pod_is_ready_with_all_its_containers() -> None:
    status = running_status(a_pod(), now=NOW)
    assert status["phase"] == "Running"
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    [container] = status["containerStatuses"]
    assert (container["name"], container["ready"], container["state"]) == (
        "main",
        True,
        {"running": {"startedAt": NOW}},
    )


def test_conditions_keep_their_time_while_their_status_stays() -> None:
    known = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": BEFORE},
        {"type": "Ready", "status": "False", "lastTransitionTime": BEFORE},
    ]
    since = {c["type"]: c["lastTransitionTime"] for c in running_status(a_pod(conditions=known), now=NOW)["conditions"]}
    assert (since["PodScheduled"], since["Ready"]) == (BEFORE, NOW)


def test_rejected_pod_has_failed_and_says_why() -> None:
    status = rejected_status("OutOfcpu", "Node didn't have enough resource: cpu", now=NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"] == "Pod was rejected: Node didn't have enough resource: cpu"


def test_reasons_of_a_condition_go_with_it() -> None:
    known = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers ..."}]
    [ready] = [c for c in running_status(a_pod(conditions=known), now=NOW)["conditions"] if c["type"] == "Ready"]
    assert ready == {"type": "Ready", "status": "True", "lastTransitionTime": NOW, "reason": None, "message": None}


def test_pod_that_waits_says_what_its_containers_wait_for() -> None:
    inits = [{"name": "first", "image": "example.com/init:1"}]
    status = creating_status(a_pod(init_containers=inits), now=NOW)
    assert (status["phase"], status["startTime"]) == ("Pending", NOW)
    assert [c["state"] for c in status["containerStatuses"]] == [{"waiting": {"reason": "ContainerCreating"}}]
    assert [c["state"] for c in status["initContainerStatuses"]] == [{"waiting": {"reason": "PodInitializing"}}]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert (conditions["Initialized"], conditions["Ready"]) == ("False", "False")


def test_status_patch_is_strategic_with_foreign_conditions() -> None:
    known = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    pod = a_pod(conditions=known)
    sent = status_patch(pod, {"status": running_status(pod, now=NOW)})
    assert isinstance(sent, MergePatch)
    assert all(value is not None for row in sent.body["status"]["conditions"] for value in row.values())
    foreign = a_pod(conditions=[*known, {"type": "example.com/checked", "status": "True"}])
    assert isinstance(status_patch(foreign, {"status": running_status(foreign, now=NOW)}), StrategicPatch)
    assert isinstance(status_patch(pod, {"status": rejected_status("OutOfcpu", "no", now=NOW)}), StrategicPatch)


def test_a_pod_that_says_nothing_runs_for_ever() -> None:
    assert behavior_of(a_pod(annotations={"example.com/note": "5s"})) == PodBehavior()


def test_every_annotation_is_read() -> None:
    said = {
        "mooring.dev/start-after": "5s",
        "mooring.dev/ready-after": "1m30s",
        "mooring.dev/run-for": "2h",
        "mooring.dev/exit-code": "3",
        "mooring.dev/stop-after": "500ms",
    }
    assert behavior_of(a_pod(annotations=said)) == PodBehavior(5.0, 90.0, 7200.0, 3, 0.5)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        pytest.param("run-for", "soon", "invalid duration 'soon'", id="not a duration"),
        pytest.param("start-after", "", "invalid duration ''", id="an empty duration"),
        pytest.param("exit-code", "-1", "'-1' is not an exit code", id="a negative code"),
        pytest.param("exit-code", "256", "'256' is not an exit code", id="a code no process has"),
    ],
)
def test_what_cannot_be_followed_is_named(key: str, value: str, why: str) -> None:
    with pytest.raises(InvalidBehavior, match=rf"^annotation mooring\.dev/{key}: {why}"):
        behavior_of(a_pod(annotations={f"mooring.dev/{key}": value}))


BEGIN = times.from_time("2026-01-01T00:00:00Z")


def life(behavior: PodBehavior, *, policy: str = "Always", seconds: int = 120) -> list[tuple[int, str]]:
    """What kubectl would show of the pod, by the second at which it changes."""
    body = pod_body(node="node-1")
    body["spec"]["restartPolicy"] = policy
    shown: list[tuple[int, str]] = []
    due = 0.0
    for second in range(seconds):
        while due <= second:
            pod = POD.decode(msgspec.json.encode(body))
            step = (proceed_pod if pod.status.phase == "Running" else start_pod)(pod, behavior, now=BEGIN + second)
            if step.status is not None:
                body = apply_strategic(body, {"status": step.status}, POD.api_version, POD.kind)
                shown.append((second, in_words(POD.decode(msgspec.json.encode(body)))))
            due = second + step.requeue_seconds if step.requeue_seconds is not None else float("inf")
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
    ("behavior", "policy", "want"),
    [
        pytest.param(PodBehavior(), "Always", [(0, "Running ready")], id="runs for ever"),
        pytest.param(
            PodBehavior(start_after=5), "Always", [(0, "ContainerCreating"), (5, "Running ready")], id="starts later"
        ),
        pytest.param(
            PodBehavior(ready_after=7), "Always", [(0, "Running not ready"), (7, "Running ready")], id="is ready later"
        ),
        pytest.param(
            PodBehavior(run_for=10), "Never", [(0, "Running ready"), (10, "Succeeded with 0")], id="ends well"
        ),
        pytest.param(
            PodBehavior(run_for=10, exit_code=3), "Never", [(0, "Running ready"), (10, "Failed with 3")], id="fails"
        ),
        pytest.param(
            PodBehavior(run_for=10),
            "OnFailure",
            [(0, "Running ready"), (10, "Succeeded with 0")],
            id="need not come again",
        ),
        pytest.param(
            PodBehavior(run_for=10, exit_code=1),
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
            PodBehavior(start_after=2, ready_after=3, run_for=4),
            "Never",
            [(0, "ContainerCreating"), (2, "Running not ready"), (5, "Running ready"), (6, "Succeeded with 0")],
            id="all of it",
        ),
        pytest.param(
            PodBehavior(ready_after=30, run_for=4),
            "Never",
            [(0, "Running not ready"), (4, "Succeeded with 0")],
            id="ends before it is ready",
        ),
    ],
)
def test_a_life(behavior: PodBehavior, policy: str, want: list[tuple[int, str]]) -> None:
    assert life(behavior, policy=policy) == want


def test_running_pod_without_container_status_is_kept() -> None:
    assert proceed_pod(a_pod(phase="Running"), PodBehavior(run_for=1), now=BEGIN) == (None, None, None)


def deleted(*, grace: int) -> Pod:
    body: Body = pod_body(node="node-1", deleting=True)
    body["metadata"] |= {
        "deletionTimestamp": times.to_time(BEGIN + grace),
        "deletionGracePeriodSeconds": grace,
    }
    return POD.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("behavior", "grace", "want"),
    [
        pytest.param(PodBehavior(), 30, 0.0, id="at once"),
        pytest.param(PodBehavior(stop_after=10), 30, 10.0, id="as long as it says"),
        pytest.param(PodBehavior(stop_after=50), 30, 30.0, id="no longer than its grace period"),
        pytest.param(PodBehavior(stop_after=50), 0, 0.0, id="at once when forced"),
    ],
)
def test_how_long_a_deleted_pod_takes(behavior: PodBehavior, grace: int, want: float) -> None:
    assert seconds_until_stopped(deleted(grace=grace), behavior, now=BEGIN) == want
