"""What a pod's status says at each stage."""

from builders import a_pod
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.nodeagent.lifecycle import creating, patch, rejected, running

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


def test_reasons_of_a_condition_go_with_it() -> None:
    known = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers ..."}]
    [ready] = [c for c in running(a_pod(conditions=known), now=NOW)["conditions"] if c["type"] == "Ready"]
    assert ready == {"type": "Ready", "status": "True", "lastTransitionTime": NOW, "reason": None, "message": None}


def test_pod_that_waits_says_what_its_containers_wait_for() -> None:
    inits = [{"name": "first", "image": "example.com/init:1"}]
    status = creating(a_pod(init_containers=inits), now=NOW)
    assert (status["phase"], status["startTime"]) == ("Pending", NOW)
    assert [c["state"] for c in status["containerStatuses"]] == [{"waiting": {"reason": "ContainerCreating"}}]
    assert [c["state"] for c in status["initContainerStatuses"]] == [{"waiting": {"reason": "PodInitializing"}}]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert (conditions["Initialized"], conditions["Ready"]) == ("False", "False")


def test_stages_are_sent_whole_unless_somebody_else_has_written_conditions() -> None:
    known = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    pod = a_pod(conditions=known)
    sent = patch(pod, {"status": running(pod, now=NOW)})
    assert isinstance(sent, MergePatch)
    assert all(value is not None for row in sent.body["status"]["conditions"] for value in row.values())
    foreign = a_pod(conditions=[*known, {"type": "example.com/checked", "status": "True"}])
    assert isinstance(patch(foreign, {"status": running(foreign, now=NOW)}), StrategicPatch)
    assert isinstance(patch(pod, {"status": rejected("OutOfcpu", "no", now=NOW)}), StrategicPatch)
