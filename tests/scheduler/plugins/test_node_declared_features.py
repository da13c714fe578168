import pytest

from mooring.api.pod_requirements import RESTART_ALL, USERS_ON_HOST_NETWORK
from mooring.api.views.core import Node
from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.node_predicates import NodeDeclaredFeatures
from support.builders import Body, a_node, a_pod
from support.scheduler.snapshots import a_snapshot, rejected, requeues, unresolvable

NODES = a_snapshot(
    a_node(name="old"), a_node(name="new", features=[RESTART_ALL]), a_node(name="other", features=["SomethingElse"])
)
PLUGIN = NodeDeclaredFeatures()


def with_rule(action: str) -> list[Body]:
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": [1]}}]
    return [{"name": "c", "image": "i", "restartPolicyRules": rules}]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, set(), id="needs nothing"),
        pytest.param({"containers": with_rule("Restart")}, set(), id="restarts by itself"),
        pytest.param({"containers": with_rule("RestartAllContainers")}, {"old", "other"}, id="restarts all"),
        pytest.param({"init_containers": with_rule("RestartAllContainers")}, {"old", "other"}, id="at its start"),
        pytest.param({"more_spec": {"hostNetwork": True}}, set(), id="on the host's network"),
        pytest.param({"more_spec": {"hostUsers": False}}, set(), id="with users of its own"),
        pytest.param({"more_spec": {"hostNetwork": True, "hostUsers": True}}, set(), id="as the host in both"),
        pytest.param(
            {"more_spec": {"hostNetwork": True, "hostUsers": False}},
            {"old", "new", "other"},
            id="with users of its own on the host's network",
        ),
    ],
)
def test_nodes_that_do_not_say_they_can_are_rejected(spec: Body, want: set[str]) -> None:
    assert rejected(PLUGIN, a_pod(**spec), NODES) == ({NodeDeclaredFeatures.REASON: want} if want else {})
    assert unresolvable(PLUGIN, a_pod(**spec), NODES) == want


@pytest.mark.req("T26.node")
@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, a_node(features=[RESTART_ALL]), True, id="a node that can comes"),
        pytest.param(None, a_node(features=[USERS_ON_HOST_NETWORK]), False, id="one that cannot"),
        pytest.param(a_node(), a_node(features=[RESTART_ALL]), True, id="one learns it"),
        pytest.param(a_node(features=[RESTART_ALL]), a_node(), False, id="one forgets it"),
        pytest.param(a_node(), a_node(labels={"x": "y"}), False, id="relabelled"),
    ],
)
def test_wakes(before: Node | None, after: Node, want: bool) -> None:
    pod = a_pod(containers=with_rule("RestartAllContainers"))
    assert requeues(PLUGIN, pod, cluster_events.node_event(before, after)) is want
