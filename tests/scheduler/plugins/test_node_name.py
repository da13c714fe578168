import pytest

from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.node_predicates import NodeName
from support.builders import a_node, a_pod
from support.scheduler.snapshots import a_snapshot, rejected, requeues

NODES = a_snapshot(a_node(name="n1"), a_node(name="n2"))


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param("", {}, id="names no node"),
        pytest.param("n1", {NodeName.REASON: {"n2"}}, id="names a node"),
        pytest.param("n9", {NodeName.REASON: {"n1", "n2"}}, id="names a node that is not there"),
    ],
)
def test_a_pod_that_names_its_node_goes_nowhere_else(node: str, want: dict[str, set[str]]) -> None:
    assert rejected(NodeName(), a_pod(node=node), NODES) == want


@pytest.mark.parametrize(("name", "want"), [("n9", True), ("n8", False)])
def test_only_that_node_wakes_it(name: str, want: bool) -> None:
    assert requeues(NodeName(), a_pod(node="n9"), cluster_events.node_event(None, a_node(name=name))) is want
