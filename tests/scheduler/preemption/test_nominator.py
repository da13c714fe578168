from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.pod_requirements import CPU
from mooring.api.views.pods import Pod
from mooring.api.well_known import HOSTNAME, ZONE
from mooring.scheduler.preemption.nominator import Nominator
from mooring.scheduler.registry import DEFAULT
from support.builders import Body, a_claim, a_csi_node, a_node, a_pod, a_volume
from support.builders.drivers import DRIVER
from support.scheduler.snapshots import a_snapshot, rejected

pytestmark = pytest.mark.req("T22.nominated")

SNAPSHOT = a_snapshot(a_node(name="n1"))


def used(nominator: Nominator, priority: int) -> float:
    with nominator.with_nominated_pods(SNAPSHOT, a_pod(name="asking", priority=priority)):
        return float(SNAPSHOT.resources.requested(CPU)[0])


def test_nominated_pods_count_for_equal_priority() -> None:
    nominator = Nominator()
    nominator.put(a_pod(name="important", priority=10, requests={"cpu": "1"}), "n1")
    assert [used(nominator, priority) for priority in (0, 10, 11)] == [1000, 1000, 0]
    assert SNAPSHOT.resources.requested(CPU)[0] == 0


def test_a_pod_does_not_count_itself() -> None:
    nominator = Nominator()
    nominator.put(a_pod(name="asking", priority=10, requests={"cpu": "1"}), "n1")
    assert used(nominator, 10) == 0


def test_nominated_pod_bound_to_its_node_is_not_counted_twice() -> None:
    there = a_pod(name="there", node="n1", requests={"cpu": "1"}, priority=10)
    snapshot = a_snapshot(a_node(name="n1"), there)
    nominator = Nominator()
    nominator.put(there, "n1")
    with nominator.with_nominated_pods(snapshot, a_pod()) as some:
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
    nominator = Nominator()
    nominator.observe(None, before)
    assert nominator.node_of(before) == "n1"
    nominator.observe(before, after)  # type: ignore[arg-type]  # pods and None, in a table
    assert nominator.node_of(before) == node


def test_what_the_api_does_not_say_yet_stands() -> None:
    pod = a_pod()
    nominator = Nominator()
    nominator.put(pod, "n1")
    nominator.observe(pod, a_pod(labels={"a": "b"}))
    assert nominator.node_of(pod) == "n1"
    assert nominator.node_of(a_pod(uid="another")) == ""


def test_the_less_important_step_back() -> None:
    nominator = Nominator()
    for name, priority, node in (("a", 1, "n1"), ("b", 5, "n1"), ("c", 1, "n2")):
        nominator.put(a_pod(name=name, priority=priority), node)
    assert [one.name for one in nominator.less_important(a_pod(name="x", priority=5), "n1")] == ["a"]


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
        pytest.param(lambda n: n.binding_started(promised(), "n2"), True, id="on its way to another"),
        pytest.param(lambda n: n.binding_started(promised(), "n1"), False, id="on its way there"),
        pytest.param(lambda n: n.put(promised(), "n2"), True, id="given another"),
        pytest.param(lambda n: n.remove(promised()), True, id="turned away"),
        pytest.param(lambda n: n.remove(a_pod(name="other")), False, id="another was turned away"),
    ],
)
def test_released_nominations_are_returned_once(then: Callable[[Nominator], object], ended: bool) -> None:
    nominator = Nominator()
    nominator.observe(None, promised())
    assert nominator.take_released() == []
    then(nominator)
    assert [pod.name for pod in nominator.take_released()] == (["promised"] if ended else [])
    assert nominator.take_released() == []


def near(side: str, app: str, key: str) -> Body:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(app: str) -> Body:
    selector = {"matchLabels": {"app": app}}
    return {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


apps = st.sampled_from(("web", "db"))
pods = st.fixed_dictionaries(
    {"labels": apps.map(lambda app: {"app": app}), "priority": st.sampled_from((0, 10))},
    optional={
        "requests": st.sampled_from(("1", "2")).map(lambda cpu: {"cpu": cpu}),
        "affinity": st.builds(
            near, st.sampled_from(("podAffinity", "podAntiAffinity")), apps, st.sampled_from((HOSTNAME, ZONE))
        ),
        "topology_spread": apps.map(lambda app: [spread(app)]),
        "containers": st.just([{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]),
        "claims": st.sampled_from((["a"], ["b"], ["a", "b"])),
    },
)
NODES = [a_node(name=f"n{number}", zone="xy"[number % 2], allocatable={"cpu": "3", "pods": "2"}) for number in range(4)]
CLAIMS = [
    a_claim(name=name, volume=name, bound=True, access_modes=[mode])
    for name, mode in (("a", "ReadWriteOncePod"), ("b", "ReadWriteOnce"))
]
VOLUMES = [
    a_volume(name=name, phase="Bound", source={"csi": {"driver": DRIVER, "volumeHandle": name}}) for name in ("a", "b")
]
LIMITS = [a_csi_node(name=node.name, limits={DRIVER: 1}) for node in NODES]


@given(
    running=st.lists(st.tuples(pods, st.integers(0, 3)), max_size=3),
    nominated=st.lists(st.tuples(pods, st.integers(0, 4)), max_size=4),
    asking=pods,
)
def test_what_filters_say_is_what_they_say_with_the_nominated_placed_one_by_one(
    running: list[tuple[Body, int]], nominated: list[tuple[Body, int]], asking: Body
) -> None:
    placed = [a_pod(name=f"running-{n}", node=f"n{node}", **body) for n, (body, node) in enumerate(running)]
    snapshot = a_snapshot(*NODES, *CLAIMS, *VOLUMES, *LIMITS, *placed)
    pod = a_pod(name="asking", **asking)
    nominator = Nominator()
    expected = [(a_pod(name=f"nominated-{n}", **body), f"n{node}") for n, (body, node) in enumerate(nominated)]

    def rejections() -> list[dict[str, set[str]]]:
        return [rejected(plugin, pod, snapshot) for plugin in DEFAULT.filters]

    for number, (other, node) in enumerate(expected):
        nominator.put(other, node)
        if not number:
            with nominator.with_nominated_pods(snapshot, pod):
                pass  # from here on changes are followed
    with nominator.with_nominated_pods(snapshot, pod):
        together = rejections()
    alone = rejections()

    counted = [(other, node) for other, node in expected if other.spec.priority >= pod.spec.priority and node != "n4"]
    for other, node in counted:
        snapshot.assume(other, node)
    assert together == rejections()
    for other, _ in counted:
        snapshot.forget(other)
    assert alone == rejections()
