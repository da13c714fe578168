from collections.abc import Mapping

import msgspec
import pytest

from mooring.api.kinds import NODE
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.scheduler import cluster_events
from mooring.scheduler.plugins.node_resources import TOO_MANY_PODS, ImageLocality, NodeResourcesFit, insufficient
from support.builders import Body, a_node, a_pod, node_body
from support.scheduler.snapshots import a_snapshot, refused, rejected, requeues, scored, unresolvable

MIB = 1024 * 1024


def with_images(name: str, **sizes: int) -> Node:
    """A node with images `example.com/<name>:1` of so many MiB."""
    body = node_body(name=name, uid=f"{name}-uid", version="1")
    body["status"]["images"] = [
        {"names": [f"example.com/{image}@sha256:0", f"example.com/{image}:1"], "sizeBytes": size * MIB}
        for image, size in sizes.items()
    ]
    return NODE.decode(msgspec.json.encode(body))


def using(*images: str, volumes: tuple[Body, ...] = ()) -> Pod:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    return a_pod(containers=containers, volumes=volumes)


@pytest.mark.parametrize(
    ("nodes", "pod", "want"),
    [
        pytest.param(
            [with_images("n1", web=250), a_node(name="n2")],
            using("example.com/web:1"),
            {"n1": 100 * (125 - 23) // (1000 - 23), "n2": 0},
            id="half the nodes have it, so half of it counts",
        ),
        pytest.param(
            [with_images("n1", web=250), with_images("n2", web=250)],
            using("example.com/web:1"),
            {"n1": 100 * (250 - 23) // (1000 - 23), "n2": 100 * (250 - 23) // (1000 - 23)},
            id="all have it",
        ),
        pytest.param(
            [with_images("n1", web=40), a_node(name="n2")],
            using("example.com/web:1"),
            {"n1": 0, "n2": 0},
            id="too small to matter",
        ),
        pytest.param(
            [with_images("n1", web=9000, db=9000)],
            using("example.com/web:1", "example.com/db:1"),
            {"n1": 100},
            id="more than counts",
        ),
        pytest.param(
            [with_images("n1", web=1000, db=1000)],
            using("example.com/web:1", "example.com/other:1"),
            {"n1": 100 * (1000 - 23) // (2000 - 23)},
            id="one of two",
        ),
        pytest.param(
            [with_images("n1", web=500)],
            using("example.com/none:1", volumes=({"name": "v", "image": {"reference": "example.com/web:1"}},)),
            {"n1": 100 * (500 - 23) // (2000 - 23)},
            id="an image volume counts, and widens the range",
        ),
        pytest.param([with_images("n1", web=500)], using("example.com/none:1"), None, id="no node has it"),
        pytest.param([with_images("n1", web=500)], using("example.com/web"), None, id="another tag"),
    ],
)
def test_scores(nodes: list[Node], pod: Pod, want: dict[str, int] | None) -> None:
    assert scored(ImageLocality(), pod, a_snapshot(*nodes)) == want


def test_an_image_without_a_tag_is_the_latest() -> None:
    body = node_body(name="n1", uid="u", version="1")
    body["status"]["images"] = [{"names": ["localhost:5000/web:latest"], "sizeBytes": 500 * MIB}, {"names": None}]
    snapshot = a_snapshot(NODE.decode(msgspec.json.encode(body)))
    assert scored(ImageLocality(), using("localhost:5000/web"), snapshot) == {"n1": 100 * (500 - 23) // (1000 - 23)}


def test_images_that_go_count_no_more() -> None:
    before, after = with_images("n1", web=500), a_node(name="n1")
    snapshot = a_snapshot(before)
    snapshot.observe_node(before, after)
    assert scored(ImageLocality(), using("example.com/web:1"), snapshot) is None
    snapshot.observe_node(after, before)
    snapshot.observe_node(before, None)
    assert not snapshot.images.having("example.com/web:1")


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


def test_invalid_quantity_is_refused_with_the_reason() -> None:
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
        pytest.param(None, a_node(allocatable={"cpu": "many"}), False, id="an invalid node is added"),
    ],
)
def test_wakes(before: Node | None, after: Node, want: bool) -> None:
    pod = a_pod(requests={"cpu": "4"})

    assert requeues(NodeResourcesFit(), pod, cluster_events.node_event(before, after)) is want


def test_a_pod_that_leaves_its_node_wakes_and_one_without_a_node_does_not() -> None:
    pod = a_pod(name="waiting")

    assert requeues(NodeResourcesFit(), pod, cluster_events.pod_event(a_pod(node="n"), None))
    assert requeues(
        NodeResourcesFit(), pod, cluster_events.pod_event(a_pod(node="n"), a_pod(node="n", phase="Succeeded"))
    )
    assert not requeues(NodeResourcesFit(), pod, cluster_events.pod_event(a_pod(), None))
    assert not requeues(NodeResourcesFit(), pod, cluster_events.pod_event(None, a_pod(node="n")))
