import pytest

from builders import Body, a_node, a_pod
from mooring.api.views.node import Node
from mooring.scheduler import changes
from mooring.scheduler.plugins.taint_toleration import REASON, TaintToleration
from scheduler.snapshots import a_snapshot, rejected, scored, unresolvable, wakes


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

    assert rejected(TaintToleration(), pod, NODES) == ({REASON: want} if want else {})
    assert unresolvable(TaintToleration(), pod, NODES) == want


def test_each_node_is_counted_once_whatever_it_carries() -> None:
    said = rejected(TaintToleration(), a_pod(), NODES)

    assert list(said) == [REASON]


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
    assert wakes(TaintToleration(), a_pod(), changes.of_node(before, after)) is want
