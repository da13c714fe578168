from collections.abc import Mapping

import pytest

from builders import a_node, a_pod
from mooring.api.views.node import Node
from mooring.scheduler import changes
from mooring.scheduler.plugins.node_resources_fit import TOO_MANY_PODS, NodeResourcesFit, insufficient
from scheduler.snapshots import a_snapshot, refused, rejected, scored, unresolvable, wakes

NODES = a_snapshot(
    a_node(name="large", allocatable={"cpu": "8", "memory": "8Gi"}),
    a_node(name="small", allocatable={"cpu": "2", "memory": "8Gi"}),
    a_node(name="busy", allocatable={"cpu": "8", "memory": "8Gi"}),
    a_node(name="gpu", allocatable={"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}),
    a_pod(name="a", node="busy", requests={"cpu": "7", "memory": "1Gi"}),
)


@pytest.mark.req("T21.resources")
@pytest.mark.parametrize(
    ("requests", "want", "hopeless"),
    [
        pytest.param({}, {}, set(), id="asks for nothing"),
        pytest.param({"cpu": "1"}, {}, set(), id="exactly what is free is enough"),
        pytest.param({"cpu": "1001m"}, {"cpu": {"busy", "gpu"}}, {"gpu"}, id="a thousandth too much"),
        pytest.param({"cpu": "4"}, {"cpu": {"small", "busy", "gpu"}}, {"small", "gpu"}, id="too large for a node"),
        pytest.param(
            {"cpu": "3", "memory": "7.5Gi"},
            {"cpu": {"small", "busy", "gpu"}, "memory": {"busy", "gpu"}},
            {"small", "gpu"},
            id="every resource that is short is named",
        ),
        pytest.param(
            {"example.com/gpu": "1"},
            {"example.com/gpu": {"large", "small", "busy"}},
            {"large", "small", "busy"},
            id="a resource few nodes have",
        ),
        pytest.param(
            {"example.com/tpu": "1"},
            {"example.com/tpu": {"large", "small", "busy", "gpu"}},
            {"large", "small", "busy", "gpu"},
            id="a resource no node has",
        ),
        pytest.param({"example.com/tpu": "0"}, {}, set(), id="none of a resource no node has"),
    ],
)
def test_fit(requests: Mapping[str, str], want: dict[str, set[str]], hopeless: set[str]) -> None:
    pod = a_pod(requests=requests)

    assert rejected(NodeResourcesFit(), pod, NODES) == {insufficient(name): nodes for name, nodes in want.items()}
    assert unresolvable(NodeResourcesFit(), pod, NODES) == hopeless


def test_a_node_takes_only_so_many_pods() -> None:
    nodes = a_snapshot(
        a_node(name="full", allocatable={"pods": "1"}), a_node(name="free"), a_pod(name="other", node="full")
    )

    assert rejected(NodeResourcesFit(), a_pod(), nodes) == {TOO_MANY_PODS: {"full"}}


def test_an_amount_nobody_understands_is_refused_with_the_reason() -> None:
    said = refused(NodeResourcesFit(), a_pod(requests={"cpu": "one core"}), NODES)

    assert said is not None
    assert 'quantity "one core"' in said


def test_the_emptier_node_scores_higher() -> None:
    nodes = a_snapshot(
        a_node(name="empty", allocatable={"cpu": "4", "memory": "8Gi"}),
        a_node(name="half", allocatable={"cpu": "4", "memory": "8Gi"}),
        a_node(name="cpu-only", allocatable={"cpu": "4", "memory": "0"}),
        a_pod(name="other", node="half", requests={"cpu": "2", "memory": "4Gi"}),
    )

    scores = scored(NodeResourcesFit(), a_pod(requests={"cpu": "1", "memory": "2Gi"}), nodes)
    assert scores == {"empty": 75, "half": 25, "cpu-only": 75}


def test_pods_that_ask_for_nothing_still_make_a_node_fuller() -> None:
    nodes = a_snapshot(
        a_node(name="one"), a_node(name="none"), *(a_pod(name=f"idle-{n}", node="one") for n in range(10))
    )
    scores = scored(NodeResourcesFit(), a_pod(), nodes)

    assert scores is not None
    assert scores["none"] > scores["one"]


@pytest.mark.req("T26.node")
@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, a_node(allocatable={"cpu": "4"}), True, id="a node large enough comes"),
        pytest.param(None, a_node(allocatable={"cpu": "3"}), False, id="a node too small comes"),
        pytest.param(a_node(allocatable={"cpu": "3"}), a_node(allocatable={"cpu": "4"}), True, id="a node grows"),
        pytest.param(a_node(), a_node(labels={"x": "y"}), False, id="something else changes"),
        pytest.param(None, a_node(allocatable={"cpu": "many"}), False, id="a node nobody understands comes"),
    ],
)
def test_wakes(before: Node | None, after: Node, want: bool) -> None:
    pod = a_pod(requests={"cpu": "4"})

    assert wakes(NodeResourcesFit(), pod, changes.of_node(before, after)) is want


def test_a_pod_that_leaves_its_node_wakes_and_one_without_a_node_does_not() -> None:
    pod = a_pod(name="waiting")

    assert wakes(NodeResourcesFit(), pod, changes.of_pod(a_pod(node="n"), None))
    assert wakes(NodeResourcesFit(), pod, changes.of_pod(a_pod(node="n"), a_pod(node="n", phase="Succeeded")))
    assert not wakes(NodeResourcesFit(), pod, changes.of_pod(a_pod(), None))
    assert not wakes(NodeResourcesFit(), pod, changes.of_pod(None, a_pod(node="n")))
