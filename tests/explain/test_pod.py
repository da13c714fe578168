"""Whole explanations: every plugin's reasons for every node, and the one sentence above them.

What was told about a pod, beside its verdict.
"""

import pytest

from mooring.api import well_known
from mooring.explain.inspection import DELETED, FINISHED, GATED
from mooring.volumes.state import ConflictReason
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.explain.clusters import claim_on, claim_report, event_body, explained, reasons

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


def test_every_plugin_speaks_about_every_node() -> None:
    verdict = explained(
        node_body(name="n1"),
        node_body(name="n2", taints=[TAINT], unschedulable=True, allocatable={"cpu": "1"}),
        pod_body(requests={"cpu": "2"}),
    )
    assert verdict.nodes["n1"].fits
    assert not verdict.nodes["n2"].fits
    assert [plugin for plugin, _ in reasons(verdict, "n2")] == [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeResourcesFit",
    ]
    assert verdict.verdict == "default/pod-1 would fit on 1 of 2 nodes."
    assert verdict.ok


def test_an_unschedulable_pod_gets_the_sentence_of_kube_scheduler() -> None:
    verdict = explained(node_body(name="n1", unschedulable=True), node_body(name="n2", unschedulable=True), pod_body())
    assert verdict.verdict == ("default/pod-1 would not fit: 0/2 nodes are available: 2 node(s) were unschedulable.")
    assert not verdict.ok


def test_without_nodes_there_is_nothing_to_say_about_them() -> None:
    verdict = explained(pod_body())
    assert verdict.verdict == "default/pod-1 would not fit: no nodes available to schedule pods."
    assert verdict.nodes == {}


def test_a_missing_claim_is_a_reason_on_every_node() -> None:
    verdict = explained(node_body(name="n1"), pod_body(claims=["data"]))
    assert ("VolumeBinding", 'persistentvolumeclaim "data" not found') in [
        (one.plugin, one.reason) for one in verdict.prefilter
    ]
    assert not verdict.nodes["n1"].fits
    assert verdict.nodes["n1"].volumes == ()
    assert not verdict.ok


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(pod_body(gates=["wait"]), GATED, id="gated"),
        pytest.param(pod_body(deleting=True), DELETED, id="being deleted"),
        pytest.param(pod_body(phase="Succeeded"), FINISHED, id="finished"),
    ],
)
def test_a_pod_that_would_not_be_tried_fits_nowhere(pod: Body, reason: str) -> None:
    verdict = explained(node_body(), pod)
    assert [one.reason for one in verdict.prefilter] == [reason]
    assert verdict.verdict == f"default/pod-1 is not scheduled: {reason}."
    assert not verdict.ok


BOUND = (
    class_body(),
    claim_body(name="data", volume="v1", bound=True),
    volume_body(name="v1", node="n1", phase="Bound"),
    node_body(name="n1"),
    node_body(name="n2"),
)


def test_a_bound_pod_with_usable_volumes_is_ok() -> None:
    verdict = explained(*BOUND, pod_body(claims=["data"], node="n1", phase="Running"))
    assert verdict.verdict == "default/pod-1 is on n1, and its volumes can be used there."
    assert verdict.node_name == "n1"
    assert verdict.ok
    assert claim_on(verdict, "n1", "data").state == "bound"
    assert claim_on(verdict, "n2", "data").reason == ConflictReason.NODE_AFFINITY


def test_a_bound_pod_with_volumes_in_another_zone_is_reported() -> None:
    verdict = explained(*BOUND, pod_body(claims=["data"], node="n2", phase="Running"))
    assert (
        verdict.verdict
        == f"default/pod-1 is on n2, but its volumes cannot be used there: {ConflictReason.NODE_AFFINITY}."
    )
    assert not verdict.ok


@pytest.mark.req("T34.explain")
def test_a_pod_created_with_node_name_reports_that_no_volume_is_selected() -> None:
    verdict = explained(
        class_body(),
        claim_body(name="data"),
        volume_body(name="v1", node="n1"),
        node_body(name="n1"),
        pod_body(claims=["data"], node="n1"),
    )
    assert "its claim default/data is not bound: a pod created with nodeName bypasses the scheduler" in verdict.verdict
    assert not verdict.ok


def test_what_concerns_only_new_pods_does_not_count_for_a_placed_one() -> None:
    verdict = explained(node_body(name="n1", unschedulable=True), pod_body(node="n1", phase="Running"))
    assert verdict.ok


def test_a_placed_pod_is_not_in_its_own_way() -> None:
    verdict = explained(node_body(name="n1", allocatable={"cpu": "2"}), pod_body(node="n1", requests={"cpu": "2"}))
    assert verdict.nodes["n1"].fits


def test_a_node_that_was_not_listed_is_named() -> None:
    verdict = explained(node_body(name="n1"), pod_body(node="n9"))
    assert "is on n9, which is not among the listed nodes" in verdict.verdict
    assert not verdict.ok


def test_an_available_volume_is_selected_on_its_node() -> None:
    verdict = explained(
        class_body(),
        claim_body(name="data"),
        volume_body(name="v1", node="n1"),
        node_body(name="n1"),
        node_body(name="n2"),
        pod_body(claims=["data"]),
    )
    assert claim_on(verdict, "n1", "data").volume == "v1"
    assert reasons(verdict, "n2") == [("VolumeBinding", ConflictReason.NO_VOLUME)]


AT = "2026-11-02T10:00:00Z"
NOT_BOUND = "error processing PVC default/data: PVC is not bound"


def placed(*, ready: bool) -> Body:
    conditions = [{"type": "Ready", "status": "True"}] if ready else []
    return pod_body(node="n1", conditions=conditions)


def test_the_last_event_of_the_kubelet_comes_with_its_meaning() -> None:
    pod = placed(ready=False)
    verdict = explained(
        node_body(name="n1"), pod, event_body(pod, "FailedMount", NOT_BOUND, at=AT, component="kubelet")
    )
    first, second = verdict.notes
    assert first == f"kubelet reported at {AT}: {NOT_BOUND}"
    assert second.startswith("  meaning: The pod has a node and its claim has no volume")
    assert "Create the pod without nodeName" in second


def test_past_events_are_not_reported() -> None:
    pod = placed(ready=True)
    assert explained(node_body(name="n1"), pod, event_body(pod, "FailedMount", NOT_BOUND, at=AT)).notes == ()


def test_scheduling_events_of_a_bound_pod_are_not_reported() -> None:
    pod = placed(ready=False)
    assert explained(node_body(name="n1"), pod, event_body(pod, "FailedScheduling", "x", at=AT)).notes == ()


def test_events_of_the_new_form_name_their_teller_elsewhere() -> None:
    pod = pod_body()
    event = event_body(pod, "FailedScheduling", "0/1 nodes are available: 1 Too many pods.", at="")
    event |= {"reportingComponent": "default-scheduler", "eventTime": AT, "firstTimestamp": None, "lastTimestamp": None}
    assert explained(node_body(), pod, event).notes == (
        f"default-scheduler reported at {AT}: 0/1 nodes are available: 1 Too many pods.",
    )


def test_nominated_node_without_victims_is_only_expected() -> None:
    verdict = explained(node_body(name="n1"), pod_body(nominated_node="n1"))
    assert verdict.notes == ("nominated to node n1",)


def test_victims_of_preemption_are_named() -> None:
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim = pod_body(name="low", node="n1", deleting=True, conditions=[evicted], priority=-1)
    leaving = pod_body(name="leaving", node="n1", deleting=True)
    verdict = explained(node_body(name="n1"), pod_body(nominated_node="n1"), victim, leaving)
    assert verdict.notes == ("default/low is being evicted for it on n1",)


def test_a_scheduler_with_events_counts_as_running() -> None:
    waiting = pod_body(scheduler="second")
    assert not explained(node_body(), waiting).ok
    other = event_body(pod_body(name="other"), "Scheduled", "x", at=AT, component="second")
    assert explained(node_body(), waiting, other).ok
    looked_at = pod_body(scheduler="second", conditions=[{"type": "PodScheduled", "status": "False"}])
    claim = claim_body(name="data")
    assert explained(node_body(), class_body(), claim, looked_at).ok


@pytest.mark.req("T34.explain")
def test_a_pod_with_node_name_reports_why_its_node_has_no_volume() -> None:
    pod = pod_body(claims=["data"], node="n1")
    text = "claims data cannot be bound for the pod's preset node n1: it has none"
    event = event_body(pod, well_known.PRESET_NODE_FAILED, text, at="2026-11-02T09:00:00Z")
    bodies = (class_body(provisioner="disks.example.com"), claim_body(name="data"), node_body(name="n1"), pod, event)
    assert text in explained(*bodies).verdict
    assert text in claim_report(*bodies).verdict


@pytest.mark.req("T50.told")
@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param({well_known.ZONE: "c"}, "they have no common zone", id="no overlap"),
        pytest.param({well_known.ZONE: "a"}, "the pod cannot run in zone b", id="one of two zones"),
        pytest.param({}, "the pod could run in every one of them", id="every zone"),
    ],
)
def test_notes_contain_whether_the_pod_can_run_in_every_zone_of_its_class(selector: dict[str, str], text: str) -> None:
    nodes = [node_body(name=f"in-{zone}", zone=zone) for zone in "abc"]
    zones = [{well_known.ZONE: ("a", "b")}]
    made = class_body(name="made", provisioner="disks.example.com", allowed_topologies=zones)
    pod = pod_body(claims=["data"], node_selector=selector)
    verdict = explained(*nodes, made, claim_body(name="data", storage_class="made"), pod)
    assert any(text in note for note in verdict.notes)
