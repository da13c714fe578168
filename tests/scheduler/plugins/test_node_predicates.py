import pytest

from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.node_predicates import NodePorts, TaintToleration
from support.builders import Body, a_node, a_pod
from support.scheduler.snapshots import a_snapshot, rejected, requeues, scored, unresolvable


def a_port(number: int, *, protocol: str = "TCP", address: str = "") -> Body:
    return {"containerPort": 80, "hostPort": number, "protocol": protocol} | ({"hostIP": address} if address else {})


def listening(*ports: Body, name: str = "pod-1", node: str = "", init: Body | None = None) -> Pod:
    return a_pod(
        name=name,
        node=node,
        containers=[{"name": "main", "ports": list(ports)}],
        init_containers=[] if init is None else [init],
    )


@pytest.mark.parametrize(
    ("held", "requested", "conflict"),
    [
        pytest.param([], [a_port(80)], False, id="no pods there"),
        pytest.param([a_port(80)], [], False, id="wants none"),
        pytest.param([a_port(80)], [a_port(80)], True, id="the same"),
        pytest.param([a_port(80)], [a_port(81)], False, id="another number"),
        pytest.param([a_port(80)], [a_port(80, protocol="UDP")], False, id="another protocol"),
        pytest.param([a_port(80, address="10.0.0.1")], [a_port(80, address="10.0.0.2")], False, id="other addresses"),
        pytest.param([a_port(80, address="10.0.0.1")], [a_port(80)], True, id="all addresses requested"),
        pytest.param([a_port(80)], [a_port(80, address="10.0.0.1")], True, id="all addresses held"),
        pytest.param([a_port(80), a_port(81)], [a_port(82), a_port(81)], True, id="one of several"),
        pytest.param([a_port(0)], [a_port(0)], False, id="no port of the node at all"),
    ],
)
def test_conflicts(held: list[Body], requested: list[Body], conflict: bool) -> None:
    snapshot = a_snapshot(a_node(name="n1"), a_node(name="n2"), listening(*held, name="there", node="n1"))
    pod = listening(*requested)
    assert rejected(NodePorts(), pod, snapshot) == ({NodePorts.REASON: {"n1"}} if conflict else {})
    assert unresolvable(NodePorts(), pod, snapshot) == set()
    gone = cluster_events.pod_event(listening(*held, name="there", node="n1"), None)
    assert requeues(NodePorts(), pod, gone) is conflict


@pytest.mark.parametrize(("policy", "conflict"), [("Always", True), ("", False)])
def test_init_containers_hold_ports_only_if_they_stay(policy: str, conflict: bool) -> None:
    init: Body = {"name": "init", "ports": [a_port(80)]} | ({"restartPolicy": policy} if policy else {})
    snapshot = a_snapshot(a_node(name="n1"), listening(a_port(80), name="there", node="n1"))
    assert bool(rejected(NodePorts(), listening(init=init), snapshot)) is conflict


def test_a_port_is_free_again_when_the_last_holder_is_gone() -> None:
    holders = [listening(a_port(80), name=name, node="n1") for name in "ab"]
    snapshot = a_snapshot(a_node(name="n1"), *holders)
    snapshot.observe_pod(holders[0], None)
    assert rejected(NodePorts(), listening(a_port(80)), snapshot)
    snapshot.observe_pod(holders[1], None)
    assert not rejected(NodePorts(), listening(a_port(80)), snapshot)


def test_a_new_node_has_all_its_ports() -> None:
    assert requeues(NodePorts(), listening(a_port(80)), cluster_events.node_event(None, a_node()))


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Body:
    return {"key": key, "value": value, "effect": effect}


def tolerating(*keys: str, effect: str = "") -> list[Body]:
    return [{"key": key, "operator": "Exists"} | ({"effect": effect} if effect else {}) for key in keys]


NODES = a_snapshot(
    a_node(name="clean"),
    a_node(name="no-new", taints=[taint("a")]),
    a_node(name="no-pods", taints=[taint("b", "NoExecute")]),
    a_node(name="rather-not", taints=[taint("c", "PreferNoSchedule")]),
    a_node(name="twice", taints=[taint("a"), taint("b", "NoExecute")]),
)


@pytest.mark.req("T21.taints")
@pytest.mark.parametrize(
    ("tolerations", "want"),
    [
        pytest.param([], {"no-new", "no-pods", "twice"}, id="tolerates nothing"),
        pytest.param(tolerating("a"), {"no-pods", "twice"}, id="tolerates one taint"),
        pytest.param(tolerating("a", "b"), set(), id="tolerates all"),
        pytest.param(
            tolerating("a", effect="NoExecute"), {"no-new", "no-pods", "twice"}, id="tolerates another effect"
        ),
    ],
)
def test_untolerated_taints_keep_pods_away(tolerations: list[Body], want: set[str]) -> None:
    pod = a_pod(tolerations=tolerations)

    assert rejected(TaintToleration(), pod, NODES) == ({TaintToleration.REASON: want} if want else {})
    assert unresolvable(TaintToleration(), pod, NODES) == want


def test_each_node_is_counted_once_whatever_it_carries() -> None:
    said = rejected(TaintToleration(), a_pod(), NODES)

    assert list(said) == [TaintToleration.REASON]


def test_fewer_unwelcome_taints_score_higher() -> None:
    soft = "PreferNoSchedule"
    nodes = a_snapshot(
        a_node(name="none"),
        a_node(name="one", taints=[taint("a", soft)]),
        a_node(name="two", taints=[taint("a", soft), taint("b", soft)]),
    )

    assert scored(TaintToleration(), a_pod(), nodes) == {"none": 100, "one": 50, "two": 0}
    assert scored(TaintToleration(), a_pod(tolerations=tolerating("b")), nodes) == {"none": 100, "one": 0, "two": 0}
    assert scored(TaintToleration(), a_pod(tolerations=tolerating("a", "b")), nodes) is None


@pytest.mark.req("T26.node")
@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, a_node(), True, id="a clean node comes"),
        pytest.param(None, a_node(taints=[taint("a")]), False, id="a tainted node comes"),
        pytest.param(a_node(taints=[taint("a")]), a_node(), True, id="the taint goes"),
        pytest.param(a_node(taints=[taint("a"), taint("b")]), a_node(taints=[taint("a")]), False, id="one of two goes"),
        pytest.param(a_node(), a_node(unschedulable=True), False, id="something else changes"),
    ],
)
def test_wakes(before: Node | None, after: Node, want: bool) -> None:
    assert requeues(TaintToleration(), a_pod(), cluster_events.node_event(before, after)) is want
