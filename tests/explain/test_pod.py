"""Whole explanations: every plugin's reasons for every node, and the one sentence above them."""

import pytest

from builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from explain.worlds import claim_on, explained, reasons
from mooring.explain.pod import DELETED, FINISHED, GATED
from mooring.volumes.state import AFFINITY_CONFLICT, NOTHING_TO_BIND

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


def test_a_pod_that_fits_nowhere_is_told_as_kube_scheduler_tells_it() -> None:
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
    assert verdict.verdict == f"default/pod-1 would not be tried: {reason}."
    assert not verdict.ok


BOUND = (
    class_body(),
    claim_body(name="data", volume="v1", bound=True),
    volume_body(name="v1", node="n1", phase="Bound"),
    node_body(name="n1"),
    node_body(name="n2"),
)


def test_a_placed_pod_whose_volumes_are_there_is_fine() -> None:
    verdict = explained(*BOUND, pod_body(claims=["data"], node="n1", phase="Running"))
    assert verdict.verdict == "default/pod-1 is on n1, and its volumes can be used there."
    assert verdict.node_name == "n1"
    assert verdict.ok
    assert claim_on(verdict, "n1", "data").state == "bound"
    assert claim_on(verdict, "n2", "data").reason == AFFINITY_CONFLICT


def test_a_placed_pod_whose_volumes_are_elsewhere_is_told_so() -> None:
    verdict = explained(*BOUND, pod_body(claims=["data"], node="n2", phase="Running"))
    assert verdict.verdict == f"default/pod-1 is on n2, but its volumes cannot be used there: {AFFINITY_CONFLICT}."
    assert not verdict.ok


@pytest.mark.req("T34.explain")
def test_a_pod_placed_past_the_scheduler_is_told_that_nobody_chooses_its_volumes() -> None:
    verdict = explained(
        class_body(),
        claim_body(name="data"),
        volume_body(name="v1", node="n1"),
        node_body(name="n1"),
        pod_body(claims=["data"], node="n1"),
    )
    assert "its claim default/data is not bound: who is placed past the scheduler" in verdict.verdict
    assert not verdict.ok


def test_what_concerns_only_new_pods_does_not_count_for_a_placed_one() -> None:
    verdict = explained(node_body(name="n1", unschedulable=True), pod_body(node="n1", phase="Running"))
    assert verdict.ok


def test_a_placed_pod_is_not_in_its_own_way() -> None:
    verdict = explained(node_body(name="n1", allocatable={"cpu": "2"}), pod_body(node="n1", requests={"cpu": "2"}))
    assert verdict.nodes["n1"].fits


def test_a_node_that_was_not_listed_is_named() -> None:
    verdict = explained(node_body(name="n1"), pod_body(node="n9"))
    assert "is on n9, which is not among the given nodes" in verdict.verdict
    assert not verdict.ok


def test_volumes_promised_to_nobody_are_shown_with_the_node() -> None:
    verdict = explained(
        class_body(),
        claim_body(name="data"),
        volume_body(name="v1", node="n1"),
        node_body(name="n1"),
        node_body(name="n2"),
        pod_body(claims=["data"]),
    )
    assert claim_on(verdict, "n1", "data").volume == "v1"
    assert reasons(verdict, "n2") == [("VolumeBinding", NOTHING_TO_BIND)]
