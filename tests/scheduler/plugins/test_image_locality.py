import msgspec
import pytest

from builders import Body, a_node, a_pod, node_body
from mooring.api.kinds import NODE
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.scheduler.plugins.image_locality import ImageLocality
from scheduler.snapshots import a_snapshot, scored

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
            {"n1": 100 * (500 - 23) // (1000 - 23)},
            id="an image volume counts, without widening the range",
        ),
        pytest.param([with_images("n1", web=500)], using("example.com/none:1"), None, id="nobody has it"),
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
