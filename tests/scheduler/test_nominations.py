from collections.abc import Callable

import pytest

from builders import a_node, a_pod
from mooring.api.pod_requests import CPU
from mooring.api.views.pod import Pod
from mooring.scheduler.nominations import Nominations
from scheduler.snapshots import a_snapshot

pytestmark = pytest.mark.req("T22.nominated")

SNAPSHOT = a_snapshot(a_node(name="n1"))


def used(nominations: Nominations, priority: int) -> float:
    with nominations.counted(SNAPSHOT, a_pod(name="asking", priority=priority)):
        return float(SNAPSHOT.resources.requested(CPU)[0])


def test_who_is_as_important_counts_the_nominated_as_there() -> None:
    nominations = Nominations()
    nominations.put(a_pod(name="important", priority=10, requests={"cpu": "1"}), "n1")
    assert [used(nominations, priority) for priority in (0, 10, 11)] == [1000, 1000, 0]
    assert SNAPSHOT.resources.requested(CPU)[0] == 0


def test_a_pod_does_not_count_itself() -> None:
    nominations = Nominations()
    nominations.put(a_pod(name="asking", priority=10, requests={"cpu": "1"}), "n1")
    assert used(nominations, 10) == 0


def test_whoever_is_on_a_node_by_now_is_not_counted_twice() -> None:
    there = a_pod(name="there", node="n1", requests={"cpu": "1"}, priority=10)
    snapshot = a_snapshot(a_node(name="n1"), there)
    nominations = Nominations()
    nominations.put(there, "n1")
    with nominations.counted(snapshot, a_pod()) as some:
        assert not some
        assert snapshot.resources.requested(CPU)[0] == 1000
    assert snapshot.resources.requested(CPU)[0] == 1000


@pytest.mark.parametrize(
    ("after", "node"),
    [
        pytest.param(a_pod(nominated_node="n2"), "n2", id="moved"),
        pytest.param(a_pod(), "", id="taken back"),
        pytest.param(a_pod(nominated_node="n1", node="n1"), "", id="placed"),
        pytest.param(a_pod(nominated_node="n1", deleting=True), "", id="on its way out"),
        pytest.param(a_pod(nominated_node="n1", phase="Failed"), "", id="finished"),
        pytest.param(None, "", id="gone"),
    ],
)
def test_the_status_says_what_holds(after: object, node: str) -> None:
    before = a_pod(nominated_node="n1")
    nominations = Nominations()
    nominations.observe(None, before)
    assert nominations.node_of(before) == "n1"
    nominations.observe(before, after)  # type: ignore[arg-type]  # pods and None, in a table
    assert nominations.node_of(before) == node


def test_what_the_api_does_not_say_yet_stands() -> None:
    pod = a_pod()
    nominations = Nominations()
    nominations.put(pod, "n1")
    nominations.observe(pod, a_pod(labels={"a": "b"}))
    assert nominations.node_of(pod) == "n1"
    assert nominations.node_of(a_pod(uid="another")) == ""


def test_the_less_important_step_back() -> None:
    nominations = Nominations()
    for name, priority, node in (("a", 1, "n1"), ("b", 5, "n1"), ("c", 1, "n2")):
        nominations.put(a_pod(name=name, priority=priority), node)
    assert [one.name for one in nominations.less_important(a_pod(name="x", priority=5), "n1")] == ["a"]


def promised(node: str = "n1", **more: object) -> Pod:
    return a_pod(name="promised", nominated_node=node, **more)


@pytest.mark.parametrize(
    ("then", "ended"),
    [
        pytest.param(lambda n: n.observe(promised(), None), True, id="gone"),
        pytest.param(lambda n: n.observe(promised(), promised(phase="Failed")), True, id="finished"),
        pytest.param(lambda n: n.observe(promised(), promised(deleting=True)), True, id="leaving"),
        pytest.param(lambda n: n.observe(promised(), promised("")), True, id="promised nothing any more"),
        pytest.param(lambda n: n.observe(promised(), promised("n2")), True, id="promised another"),
        pytest.param(lambda n: n.observe(promised(), promised(labels={"a": "b"})), False, id="promised it still"),
        pytest.param(lambda n: n.observe(promised(), promised(node="n2")), True, id="on another"),
        pytest.param(lambda n: n.observe(promised(), promised(node="n1")), False, id="there"),
        pytest.param(lambda n: n.taken(promised(), "n2"), True, id="on its way to another"),
        pytest.param(lambda n: n.taken(promised(), "n1"), False, id="on its way there"),
        pytest.param(lambda n: n.put(promised(), "n2"), True, id="given another"),
        pytest.param(lambda n: n.remove(promised()), True, id="turned away"),
        pytest.param(lambda n: n.remove(a_pod(name="other")), False, id="another was turned away"),
    ],
)
def test_whose_promise_has_ended_is_told_once(then: Callable[[Nominations], object], ended: bool) -> None:
    nominations = Nominations()
    nominations.observe(None, promised())
    assert nominations.ended() == []
    then(nominations)
    assert [pod.name for pod in nominations.ended()] == (["promised"] if ended else [])
    assert nominations.ended() == []
