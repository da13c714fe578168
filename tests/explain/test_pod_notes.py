"""What was told about a pod, beside its verdict."""

from builders import Body, claim_body, class_body, node_body, pod_body
from explain.worlds import event_body, explained

AT = "2026-11-02T10:00:00Z"
NOT_BOUND = "error processing PVC default/data: PVC is not bound"


def placed(*, ready: bool) -> Body:
    conditions = [{"type": "Ready", "status": "True"}] if ready else []
    return pod_body(node="n1", conditions=conditions)


def test_what_the_kubelet_said_last_comes_with_its_meaning() -> None:
    pod = placed(ready=False)
    verdict = explained(
        node_body(name="n1"), pod, event_body(pod, "FailedMount", NOT_BOUND, at=AT, component="kubelet")
    )
    first, second = verdict.notes
    assert first == f"kubelet said at {AT}: {NOT_BOUND}"
    assert second.startswith("  that is: The pod has a node and its claim has no volume")
    assert "Create the pod without nodeName" in second


def test_what_is_over_is_not_told() -> None:
    pod = placed(ready=True)
    assert explained(node_body(name="n1"), pod, event_body(pod, "FailedMount", NOT_BOUND, at=AT)).notes == ()


def test_what_the_scheduler_said_of_a_pod_that_has_a_node_by_now_is_over() -> None:
    pod = placed(ready=False)
    assert explained(node_body(name="n1"), pod, event_body(pod, "FailedScheduling", "x", at=AT)).notes == ()


def test_events_of_the_new_form_name_their_teller_elsewhere() -> None:
    pod = pod_body()
    event = event_body(pod, "FailedScheduling", "0/1 nodes are available: 1 Too many pods.", at="")
    event |= {"reportingComponent": "default-scheduler", "eventTime": AT, "firstTimestamp": None, "lastTimestamp": None}
    assert explained(node_body(), pod, event).notes == (
        f"default-scheduler said at {AT}: 0/1 nodes are available: 1 Too many pods.",
    )


def test_nominated_node_without_victims_is_only_expected() -> None:
    verdict = explained(node_body(name="n1"), pod_body(nominated_node="n1"))
    assert verdict.notes == ("the scheduler expects it on n1",)


def test_victims_of_preemption_are_named() -> None:
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim = pod_body(name="low", node="n1", deleting=True, conditions=[evicted], priority=-1)
    leaving = pod_body(name="leaving", node="n1", deleting=True)
    verdict = explained(node_body(name="n1"), pod_body(nominated_node="n1"), victim, leaving)
    assert verdict.notes == ("default/low is being evicted for it on n1",)


def test_a_scheduler_of_which_something_is_heard_is_there() -> None:
    waiting = pod_body(scheduler="second")
    assert not explained(node_body(), waiting).ok
    other = event_body(pod_body(name="other"), "Scheduled", "x", at=AT, component="second")
    assert explained(node_body(), waiting, other).ok
    looked_at = pod_body(scheduler="second", conditions=[{"type": "PodScheduled", "status": "False"}])
    claim = claim_body(name="data")
    assert explained(node_body(), class_body(), claim, looked_at).ok
