"""What a pod's status says at each stage."""

from builders import a_pod
from mooring.nodeagent.lifecycle import rejected, running

NOW = "2026-01-01T00:00:00Z"
BEFORE = "2025-12-31T23:00:00Z"


def test_running_pod_is_ready_with_all_its_containers() -> None:
    status = running(a_pod(), now=NOW)
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
    since = {c["type"]: c["lastTransitionTime"] for c in running(a_pod(conditions=known), now=NOW)["conditions"]}
    assert (since["PodScheduled"], since["Ready"]) == (BEFORE, NOW)


def test_rejected_pod_has_failed_and_says_why() -> None:
    status = rejected("OutOfcpu", "Node didn't have enough resource: cpu", now=NOW)
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"] == "Pod was rejected: Node didn't have enough resource: cpu"
