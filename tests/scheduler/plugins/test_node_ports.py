import pytest

from builders import Body, a_node, a_pod
from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.plugins.node_ports import REASON, NodePorts
from scheduler.snapshots import a_snapshot, rejected, unresolvable, wakes


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
    ("held", "wanted", "conflict"),
    [
        pytest.param([], [a_port(80)], False, id="nobody there"),
        pytest.param([a_port(80)], [], False, id="wants none"),
        pytest.param([a_port(80)], [a_port(80)], True, id="the same"),
        pytest.param([a_port(80)], [a_port(81)], False, id="another number"),
        pytest.param([a_port(80)], [a_port(80, protocol="UDP")], False, id="another protocol"),
        pytest.param([a_port(80, address="10.0.0.1")], [a_port(80, address="10.0.0.2")], False, id="other addresses"),
        pytest.param([a_port(80, address="10.0.0.1")], [a_port(80)], True, id="all addresses wanted"),
        pytest.param([a_port(80)], [a_port(80, address="10.0.0.1")], True, id="all addresses held"),
        pytest.param([a_port(80), a_port(81)], [a_port(82), a_port(81)], True, id="one of several"),
        pytest.param([a_port(0)], [a_port(0)], False, id="no port of the node at all"),
    ],
)
def test_conflicts(held: list[Body], wanted: list[Body], conflict: bool) -> None:
    snapshot = a_snapshot(a_node(name="n1"), a_node(name="n2"), listening(*held, name="there", node="n1"))
    pod = listening(*wanted)
    assert rejected(NodePorts(), pod, snapshot) == ({REASON: {"n1"}} if conflict else {})
    assert unresolvable(NodePorts(), pod, snapshot) == set()
    gone = changes.of_pod(listening(*held, name="there", node="n1"), None)
    assert wakes(NodePorts(), pod, gone) is conflict


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
    assert wakes(NodePorts(), listening(a_port(80)), changes.of_node(None, a_node()))
