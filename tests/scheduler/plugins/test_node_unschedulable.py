import pytest

from mooring.api import well_known
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.node_predicates import NodeUnschedulable
from support.builders import a_node, a_pod
from support.scheduler.snapshots import a_snapshot, rejected, requeues, unresolvable

TOLERANT = [{"key": well_known.UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}]
NODES = a_snapshot(a_node(name="open"), a_node(name="cordoned", unschedulable=True))


def test_cordoned_nodes_are_rejected() -> None:
    assert rejected(NodeUnschedulable(), a_pod(), NODES) == {NodeUnschedulable.REASON: {"cordoned"}}
    assert unresolvable(NodeUnschedulable(), a_pod(), NODES) == {"cordoned"}


def test_pods_that_tolerate_it_may_go_there() -> None:
    assert rejected(NodeUnschedulable(), a_pod(tolerations=TOLERANT), NODES) == {}


@pytest.mark.req("T26.node")
@pytest.mark.parametrize(
    ("pod", "before", "after", "want"),
    [
        pytest.param(a_pod(), None, a_node(), True, id="an open node comes"),
        pytest.param(a_pod(), None, a_node(unschedulable=True), False, id="a cordoned node comes"),
        pytest.param(a_pod(), a_node(unschedulable=True), a_node(), True, id="uncordoned"),
        pytest.param(a_pod(), a_node(), a_node(unschedulable=True), False, id="cordoned"),
        pytest.param(a_pod(tolerations=TOLERANT), None, a_node(unschedulable=True), True, id="cordoned but tolerated"),
        pytest.param(a_pod(), a_node(), a_node(labels={"x": "y"}), False, id="relabelled"),
    ],
)
def test_wakes(pod: Pod, before: Node | None, after: Node, want: bool) -> None:
    assert requeues(NodeUnschedulable(), pod, cluster_events.node_event(before, after)) is want
