"""Table of pods: ready, status, restarts and the wide columns."""

from typing import Any

import pytest

from mooring.api import kinds
from mooring.server.kinds.columns import Cell
from mooring.server.kinds.registry import rules_of
from support.builders.pods import pod_body
from support.server.table_rows import row

Body = dict[str, Any]

RUNNING: Body = {"ready": True, "state": {"running": {}}}
UNREADY: Body = {"ready": False, "state": {"running": {}}}
GATED: Body = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
INITIALIZED: Body = {"type": "Initialized", "status": "True"}
READY: Body = {"type": "Ready", "status": "True"}


def waiting(reason: str) -> Body:
    return {"state": {"waiting": {"reason": reason}}}


def terminated(**fields: object) -> Body:
    return {"state": {"terminated": fields}}


def restarted(times: int, status: Body, at: str = "") -> Body:
    last = {"lastState": {"terminated": {"finishedAt": at}}} if at else {}
    return status | {"restartCount": times} | last


def a_pod(
    *statuses: Body, phase: str = "Running", init: list[Body] | None = None, sidecars: int = 0, **status: object
) -> Body:
    """A pod with as many containers as statuses, at least one; the first `sidecars` init containers are such."""
    init = [{"name": f"i{n}"} | found for n, found in enumerate(init or [])]
    specs: list[Body] = [
        {"name": f"i{n}"} | ({"restartPolicy": "Always"} if n < sidecars else {}) for n in range(len(init))
    ]
    body = pod_body(phase=phase, containers=[{"name": f"c{n}"} for n in range(max(len(statuses), 1))])
    body["spec"]["initContainers"] = specs
    body["status"] |= {"containerStatuses": list(statuses), "initContainerStatuses": init} | status
    return body


@pytest.mark.parametrize(
    ("pod", "ready", "status"),
    [
        pytest.param(a_pod(phase="Pending"), "0/1", "Pending", id="not scheduled"),
        pytest.param(a_pod(phase="Pending", conditions=[GATED]), "0/1", "SchedulingGated", id="gated"),
        pytest.param(a_pod(RUNNING, RUNNING), "2/2", "Running", id="running"),
        pytest.param(a_pod(RUNNING, UNREADY), "1/2", "Running", id="not all ready"),
        pytest.param(a_pod(waiting("ContainerCreating"), phase="Pending"), "0/1", "ContainerCreating", id="creating"),
        pytest.param(a_pod(waiting("CrashLoopBackOff"), RUNNING), "1/2", "CrashLoopBackOff", id="crash loop"),
        pytest.param(
            a_pod(waiting("ErrImagePull"), waiting("CrashLoopBackOff")), "0/2", "ErrImagePull", id="the first one wins"
        ),
        pytest.param(a_pod(terminated(reason="Error", exitCode=1)), "0/1", "Error", id="failed with a reason"),
        pytest.param(a_pod(terminated(exitCode=3)), "0/1", "ExitCode:3", id="failed without a reason"),
        pytest.param(a_pod(terminated(signal=9, exitCode=137)), "0/1", "Signal:9", id="killed"),
        pytest.param(
            a_pod(terminated(reason="Completed", exitCode=0), phase="Succeeded"), "0/1", "Completed", id="completed"
        ),
        pytest.param(
            a_pod(terminated(reason="Completed", exitCode=0), RUNNING, conditions=[READY]),
            "1/2",
            "Running",
            id="one completed, the rest ready",
        ),
        pytest.param(
            a_pod(terminated(reason="Completed", exitCode=0), RUNNING), "1/2", "NotReady", id="one completed, not ready"
        ),
        pytest.param(a_pod(phase="Failed", reason="Evicted"), "0/1", "Evicted", id="the pod's own reason"),
        pytest.param(a_pod(phase="Pending", init=[UNREADY, {}]), "0/1", "Init:0/2", id="first init container"),
        pytest.param(
            a_pod(phase="Pending", init=[terminated(exitCode=0), UNREADY]),
            "0/1",
            "Init:1/2",
            id="second init container",
        ),
        pytest.param(
            a_pod(phase="Pending", init=[waiting("PodInitializing")]), "0/1", "Init:0/1", id="init not yet begun"
        ),
        pytest.param(
            a_pod(phase="Pending", init=[waiting("CrashLoopBackOff")]), "0/1", "Init:CrashLoopBackOff", id="init crash"
        ),
        pytest.param(a_pod(phase="Pending", init=[terminated(exitCode=2)]), "0/1", "Init:ExitCode:2", id="init failed"),
        pytest.param(
            a_pod(phase="Pending", init=[terminated(reason="OOMKilled", exitCode=137)]),
            "0/1",
            "Init:OOMKilled",
            id="init failed with a reason",
        ),
        pytest.param(
            a_pod(phase="Pending", init=[terminated(exitCode=1, signal=15)]), "0/1", "Init:Signal:15", id="init killed"
        ),
        pytest.param(a_pod(RUNNING, init=[terminated(exitCode=0)]), "1/1", "Running", id="init done"),
        pytest.param(
            a_pod(RUNNING, init=[RUNNING | {"started": True}], sidecars=1), "2/2", "Running", id="with a sidecar"
        ),
        pytest.param(
            a_pod(phase="Pending", init=[RUNNING | {"started": False}], sidecars=1),
            "0/2",
            "Init:0/1",
            id="sidecar not started",
        ),
        pytest.param(
            a_pod(RUNNING, init=[waiting("CrashLoopBackOff")], sidecars=1, conditions=[INITIALIZED]),
            "1/2",
            "Init:CrashLoopBackOff",
            id="sidecar fails later",
        ),
    ],
)
def test_ready_and_status(pod: Body, ready: str, status: str) -> None:
    cells = row(kinds.POD, pod)
    assert (cells["Ready"], cells["Status"]) == (ready, status)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(RUNNING), "Terminating", id="running"),
        pytest.param(a_pod(waiting("CrashLoopBackOff")), "Terminating", id="crashing"),
        pytest.param(a_pod(phase="Succeeded"), "Succeeded", id="finished before"),
        pytest.param(a_pod(RUNNING, reason="NodeLost"), "Unknown", id="on a lost node"),
    ],
)
def test_status_while_being_deleted(pod: Body, want: str) -> None:
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    assert row(kinds.POD, pod)["Status"] == want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(RUNNING), "0", id="none"),
        pytest.param(a_pod(restarted(1, RUNNING), restarted(2, RUNNING)), "3", id="all containers count"),
        pytest.param(
            a_pod(restarted(1, RUNNING, "2025-12-31T23:00:00Z"), restarted(1, RUNNING, "2025-12-31T23:55:00Z")),
            "2 (5m ago)",
            id="the last one is dated",
        ),
        pytest.param(a_pod(phase="Pending", init=[restarted(4, UNREADY)]), "4", id="of init containers meanwhile"),
        pytest.param(
            a_pod(restarted(1, RUNNING), init=[restarted(4, terminated(exitCode=0))]),
            "1",
            id="init containers do not count later",
        ),
        pytest.param(
            a_pod(restarted(1, RUNNING), init=[restarted(4, RUNNING | {"started": True})], sidecars=1),
            "5",
            id="sidecars do",
        ),
    ],
)
def test_restarts(pod: Body, want: str) -> None:
    assert row(kinds.POD, pod)["Restarts"] == want


@pytest.mark.parametrize(
    ("column", "pod", "want"),
    [
        ("Name", pod_body(name="web-0"), "web-0"),
        ("Age", pod_body(), "5m"),
        ("IP", pod_body(), "<none>"),
        ("IP", a_pod(podIP="10.0.0.1"), "10.0.0.1"),
        ("IP", a_pod(podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.2"}]), "10.0.0.2"),
        ("Node", pod_body(), "<none>"),
        ("Node", pod_body(node="node-1"), "node-1"),
        ("Nominated Node", pod_body(), "<none>"),
        ("Nominated Node", pod_body(nominated_node="node-2"), "node-2"),
        ("Readiness Gates", pod_body(), "<none>"),
    ],
)
def test_other_columns(column: str, pod: Body, want: Cell) -> None:
    assert row(kinds.POD, pod)[column] == want


def test_readiness_gates_are_counted() -> None:
    pod = pod_body(conditions=[{"type": "a", "status": "True"}, {"type": "b", "status": "False"}])
    pod["spec"]["readinessGates"] = [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]
    assert row(kinds.POD, pod)["Readiness Gates"] == "1/3"


def test_columns() -> None:
    columns = rules_of(kinds.POD).printer.columns
    assert [column.name for column in columns if not column.wide] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert [column.name for column in columns if column.wide] == [
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]
