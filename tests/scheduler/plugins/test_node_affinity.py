import random

import pytest

from mooring.api.views.core import Node
from mooring.scheduler import cluster_events
from mooring.scheduler.framework.cycle import fit_error, run_cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.plugins.node_predicates import NodeAffinity
from mooring.scheduler.registry import DEFAULT
from support.builders import Body, a_node, a_pod
from support.scheduler.snapshots import a_snapshot, refused, rejected, requeues, scored, unresolvable

NODES = a_snapshot(
    a_node(name="a1", zone="a", labels={"disk": "ssd"}),
    a_node(name="a2", zone="a", labels={"disk": "hdd"}),
    a_node(name="b1", zone="b", labels={"disk": "ssd", "gen": "7"}),
)
ZONE = "topology.kubernetes.io/zone"


def expression(key: str, operator: str, *values: str) -> Body:
    return {"key": key, "operator": operator, "values": list(values)}


def required(*terms: list[Body]) -> Body:
    whole = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": whole}}


def fields(operator: str, name: str) -> Body:
    term = {"matchFields": [expression("metadata.name", operator, name)]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.req("T21.node-affinity")
@pytest.mark.parametrize(
    ("selector", "affinity", "rejects"),
    [
        pytest.param(None, None, set(), id="asks for nothing"),
        pytest.param({"disk": "ssd"}, None, {"a2"}, id="selector"),
        pytest.param({"disk": "ssd", ZONE: "b"}, None, {"a1", "a2"}, id="selector with two labels"),
        pytest.param({"disk": "tape"}, None, {"a1", "a2", "b1"}, id="selector for a label no node has"),
        pytest.param(None, required([expression(ZONE, "In", "a")]), {"b1"}, id="one term"),
        pytest.param(
            None,
            required([expression(ZONE, "In", "b")], [expression("disk", "In", "hdd")]),
            {"a1"},
            id="terms are ORed",
        ),
        pytest.param(
            None,
            required([expression(ZONE, "In", "a"), expression("disk", "NotIn", "hdd")]),
            {"a2", "b1"},
            id="expressions are ANDed",
        ),
        pytest.param(None, required([expression("gen", "Gt", "6")]), {"a1", "a2"}, id="greater than"),
        pytest.param(
            {"disk": "ssd"},
            required([expression(ZONE, "In", "a")]),
            {"a2", "b1"},
            id="selector and term must both match",
        ),
        pytest.param(None, required(), {"a1", "a2", "b1"}, id="no term at all matches nothing"),
        pytest.param(None, fields("In", "a2"), {"a1", "b1"}, id="by name, as DaemonSet pods ask"),
        pytest.param(None, fields("NotIn", "a2"), {"a2"}, id="not by name"),
    ],
)
def test_required(selector: dict[str, str] | None, affinity: Body | None, rejects: set[str]) -> None:
    pod = a_pod(node_selector=selector, affinity=affinity)

    assert rejected(NodeAffinity(), pod, NODES) == ({NodeAffinity.REASON: rejects} if rejects else {})
    assert unresolvable(NodeAffinity(), pod, NODES) == rejects


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["a1"], None, id="one name"),
        pytest.param(["a1", "a1"], None, id="one name twice"),
        pytest.param(["a1", "b1"], NodeAffinity.CONFLICT, id="two names"),
    ],
)
def test_terms_that_contradict_themselves(names: list[str], want: str | None) -> None:
    fields = [expression("metadata.name", "In", name) for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    pod = a_pod(
        node_selector={"disk": "ssd"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    )

    assert refused(NodeAffinity(), pod, NODES) == want


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param(
            "a2", "1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].", id="one"
        ),
        pytest.param("gone", "3 node(s) didn't satisfy plugin(s) [NodeAffinity].", id="one that is gone"),
    ],
)
def test_no_other_plugin_has_a_say_about_nodes_that_are_not_named(name: str, want: str) -> None:
    nodes = [a_node(name=node, unschedulable=True) for node in ("a1", "a2", "b1")]

    decision = run_cycle(CycleState(a_pod(affinity=fields("In", name)), a_snapshot(*nodes)), DEFAULT, random.Random(0))

    assert fit_error(decision) == f"0/3 nodes are available: {want}"
    assert "NodeAffinity" in decision.unschedulable_plugins


def test_nothing_is_rejected_where_a_pod_names_the_only_node() -> None:
    pod = a_pod(affinity=fields("In", "a1"))

    decision = run_cycle(CycleState(pod, a_snapshot(a_node(name="a1"))), DEFAULT, random.Random(0))

    assert decision.node == "a1"
    assert not decision.rejected


def test_a_term_that_names_no_node_is_no_contradiction() -> None:
    two_names = [expression("metadata.name", "In", name) for name in ("a1", "b1")]
    terms = {"nodeSelectorTerms": [{"matchFields": two_names}, {"matchExpressions": [expression(ZONE, "In", "a")]}]}
    pod = a_pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})

    assert refused(NodeAffinity(), pod, NODES) is None
    assert rejected(NodeAffinity(), pod, NODES) == {NodeAffinity.REASON: {"b1"}}


def test_a_node_selector_that_cannot_be_understood_is_refused_with_the_reason() -> None:
    said = refused(NodeAffinity(), a_pod(node_selector={"not a key": "x"}), NODES)

    assert said is not None
    assert "not a key" in said


@pytest.mark.parametrize("bad", [expression("disk", "Like", "s*"), expression("gen", "Gt", "new")])
def test_an_affinity_that_cannot_be_understood_matches_no_node(bad: Body) -> None:
    pod = a_pod(affinity=required([bad]))

    assert refused(NodeAffinity(), pod, NODES) is None
    assert rejected(NodeAffinity(), pod, NODES) == {NodeAffinity.REASON: {"a1", "a2", "b1"}}


def test_one_bad_term_does_not_hide_a_good_one() -> None:
    pod = a_pod(affinity=required([expression("gen", "Gt", "new")], [expression(ZONE, "In", "b")]))

    assert rejected(NodeAffinity(), pod, NODES) == {NodeAffinity.REASON: {"a1", "a2"}}


def preferred(*weighted: tuple[int, Body]) -> Body:
    terms = [{"weight": weight, "preference": {"matchExpressions": [one]}} for weight, one in weighted]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_preference_that_cannot_be_parsed_matches_no_node() -> None:
    affinity = preferred((30, expression("gen", "Gt", "new")), (10, expression("disk", "In", "ssd")))

    assert scored(NodeAffinity(), a_pod(affinity=affinity), NODES) == {"a1": 100, "a2": 0, "b1": 100}


def test_preferences_score_by_the_weights_of_matching_terms() -> None:
    affinity = preferred((30, expression(ZONE, "In", "a")), (10, expression("disk", "In", "ssd")))

    assert scored(NodeAffinity(), a_pod(affinity=affinity), NODES) == {"a1": 100, "a2": 75, "b1": 25}
    assert scored(NodeAffinity(), a_pod(), NODES) is None


@pytest.mark.req("T26.node")
@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, a_node(labels={"disk": "ssd"}), True, id="a matching node comes"),
        pytest.param(None, a_node(), False, id="another node comes"),
        pytest.param(a_node(), a_node(labels={"disk": "ssd"}), True, id="a node gets the label"),
        pytest.param(
            a_node(labels={"disk": "ssd"}),
            a_node(labels={"disk": "ssd"}, unschedulable=True),
            False,
            id="not its labels",
        ),
    ],
)
def test_wakes(before: Node | None, after: Node, want: bool) -> None:
    pod = a_pod(node_selector={"disk": "ssd"})

    assert requeues(NodeAffinity(), pod, cluster_events.node_event(before, after)) is want


def test_no_event_requeues_an_invalid_pod() -> None:
    pod = a_pod(node_selector={"not a key": "x"})

    assert not requeues(NodeAffinity(), pod, cluster_events.node_event(None, a_node()))
