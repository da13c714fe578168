"""Which nodes are lost, and how fast their pods may be moved."""

import pytest

from mooring.api import kinds, well_known
from mooring.api.views.core import Lease, Node
from mooring.controllers.node_health import HeartbeatTracker, grace_seconds, unknown_conditions, zone_eviction_rates
from support.builders import Body, a_node

NOW = "2026-01-01T00:00:00Z"


def a_lease(renewed: str, *, lasts: int = 40) -> Lease:
    body = f'{{"metadata": {{"name": "n"}}, "spec": {{"renewTime": "{renewed}", "leaseDurationSeconds": {lasts}}}}}'
    return kinds.LEASE.decode(body.encode())


def test_a_node_is_silent_while_its_lease_does_not_change() -> None:
    silence, node = HeartbeatTracker(), a_node()
    assert silence.observe(node, a_lease("1"), now=100.0) == 0.0
    assert silence.observe(node, a_lease("1"), now=130.0) == 30.0
    assert silence.observe(node, a_lease("2"), now=140.0) == 0.0
    assert list(silence.missing(50.0, now=150.0)) == []
    assert list(silence.missing(50.0, now=191.0)) == [node.name]
    silence.forget(node.name)
    assert silence.observe(node, a_lease("2"), now=200.0) == 0.0


def test_node_without_lease_is_judged_by_its_conditions() -> None:
    silence = HeartbeatTracker()
    silence.observe(a_node(ready=False), None, now=0.0)
    assert silence.observe(a_node(ready=False), None, now=40.0) == 40.0
    assert silence.observe(a_node(ready=True), None, now=50.0) == 0.0


@pytest.mark.parametrize(
    ("node", "lease", "want"),
    [
        pytest.param(a_node(), a_lease("1"), 50.0, id="a kubelet's lease"),
        pytest.param(a_node(), a_lease("1", lasts=200), 210.0, id="a lease that lasts longer"),
        pytest.param(a_node(), None, 50.0, id="no lease"),
        pytest.param(Node(metadata=a_node().metadata), None, 60.0, id="never reported"),
    ],
)
def test_how_long_a_node_may_be_silent(node: Node, lease: Lease | None, want: float) -> None:
    assert grace_seconds(node, lease) == want


def test_conditions_of_a_silent_node() -> None:
    said = {row["type"]: (row["reason"], row["message"]) for row in unknown_conditions(a_node(), now=NOW)}
    assert said["Ready"] == ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    assert said["DiskPressure"] == ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
    assert set(said) == {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}


def zone(name: str, *, well: int = 0, ill: int = 0) -> list[Node]:
    labels: Body = {well_known.ZONE: name}
    return [a_node(name=f"{name}-{i}", labels=labels, ready=i < well) for i in range(well + ill)]


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param(zone("a", well=2, ill=1), {"/a": 0.1}, id="one of three"),
        pytest.param(zone("a", well=1, ill=2), {"/a": 0.1}, id="two are too few to be a disruption"),
        pytest.param(zone("a", well=2, ill=3), {"/a": 0.0}, id="most of a small zone"),
        pytest.param(zone("a", well=20, ill=40), {"/a": 0.01}, id="most of a large zone"),
        pytest.param(zone("a", ill=3) + zone("b", well=1), {"/a": 0.1, "/b": 0.1}, id="all of one zone"),
        pytest.param(zone("a", ill=3) + zone("b", ill=1), None, id="all of every zone"),
        pytest.param([], {}, id="no nodes"),
    ],
)
def test_how_fast_pods_are_moved(nodes: list[Node], want: dict[str, float] | None) -> None:
    assert zone_eviction_rates(nodes) == want
