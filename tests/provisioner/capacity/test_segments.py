"""Whose the published objects are: the pod, or who manages it, at any level.

Segments: the union over nodes, and which changes may touch it.
"""

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kinds import CSI_NODE, NODE, POD, REPLICA_SET, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import CsiNode
from mooring.provisioner.capacity.segments import (
    FixedSegment,
    NodeSegments,
    OwnerNotFound,
    Segment,
    owner_of,
    segment_of,
)
from support.builders import a_node
from support.csi_drivers.recording import DRIVER
from support.partial_control_plane import Plane, run_plane


@pytest.mark.req("C8.owner", "C6.owner")
def test_owners_are_looked_up_through_their_controllers() -> None:
    def owned(kind: str, name: str, uid: str) -> list[dict[str, object]]:
        return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}]

    async def scenario(plane: Plane) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        replica_set = await plane.create(
            REPLICA_SET,
            {
                "metadata": {
                    "name": "rs",
                    "namespace": "default",
                    "ownerReferences": owned("Deployment", "deploy", "d-1"),
                },
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
            },
        )
        pod = await plane.create(
            POD,
            {
                "metadata": {
                    "name": "p",
                    "namespace": "default",
                    "ownerReferences": owned("ReplicaSet", "rs", replica_set.uid),
                },
                "spec": template["spec"],
            },
        )
        found = [await owner_of(plane.client, pod="p", namespace="default", level=level) for level in range(-1, 3)]
        assert [each and (each.kind, each.uid) for each in found] == [
            None,
            ("Pod", pod.uid),
            ("ReplicaSet", replica_set.uid),
            ("Deployment", "d-1"),
        ]
        assert all(each is None or each.controller for each in found)
        with pytest.raises(OwnerNotFound, match="cannot look up pod default/gone"):
            await owner_of(plane.client, pod="gone", namespace="default", level=0)

    run_plane([], scenario)


def listed(name: str, keys: Sequence[str] | None, driver: str = DRIVER) -> CsiNode:
    drivers = [] if keys is None else [{"name": driver, "nodeID": name, "topologyKeys": list(keys)}]
    return CSI_NODE.decode(msgspec.json.encode({"metadata": {"name": name}, "spec": {"drivers": drivers}}))


class Kept:
    """An informer, as far as segments need one."""

    def __init__(self) -> None:
        self.kept: dict[str, ApiObject] = {}
        self._handlers: list[Callable[[ApiObject | None, ApiObject | None], None]] = []

    def get(self, name: str) -> ApiObject | None:
        return self.kept.get(name)

    def on_change(self, handler: Callable[[ApiObject | None, ApiObject | None], None]) -> None:
        for item in self.kept.values():
            handler(None, item)
        self._handlers.append(handler)

    def put(self, after: ApiObject | None, name: str = "") -> None:
        name = after.name if after is not None else name
        before = self.kept.pop(name, None)
        if after is not None:
            self.kept[name] = after
        for handler in self._handlers if (before, after) != (None, None) else ():
            handler(before, after)


class Seen:
    def __init__(self) -> None:
        self._kinds = {NODE.kind: Kept(), CSI_NODE.kind: Kept()}

    def of(self, kind: Kind[ApiObject]) -> Kept:
        return self._kinds[kind.kind]


def labelled(**nodes: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
    return nodes


@pytest.mark.parametrize(
    ("csi_nodes", "nodes", "want"),
    [
        pytest.param([], labelled(), [], id="no nodes"),
        pytest.param([listed("a", ["zone"])], labelled(a={"zone": "z"}), [(("zone", "z"),)], id="one node"),
        pytest.param(
            [listed("a", ["zone"]), listed("b", ["zone"])],
            labelled(a={"zone": "z"}, b={"zone": "z"}),
            [(("zone", "z"),)],
            id="two nodes of one zone are one segment",
        ),
        pytest.param(
            [listed("a", ["zone", "rack"])],
            labelled(a={"zone": "z", "rack": "r", "other": "x"}),
            [(("rack", "r"), ("zone", "z"))],
            id="several keys, sorted",
        ),
        pytest.param([listed("a", ["zone", "rack"])], labelled(a={"zone": "z"}), [], id="a label is still missing"),
        pytest.param([listed("a", ["zone"])], labelled(), [], id="a CSINode whose node is not there"),
        pytest.param([listed("a", None)], labelled(a={"zone": "z"}), [], id="a node without the driver"),
        pytest.param([listed("a", ["zone"], "other")], labelled(a={"zone": "z"}), [], id="another driver's"),
        pytest.param([listed("a", [])], labelled(a={}), [()], id="a driver without keys: the whole cluster"),
    ],
)
@pytest.mark.req("C6.union")
def test_union(csi_nodes: list[CsiNode], nodes: dict[str, Mapping[str, str]], want: list[Segment]) -> None:
    seen = Seen()
    segments = NodeSegments(seen, DRIVER)
    for name, labels in nodes.items():
        seen.of(NODE).put(a_node(name=name, labels=labels))
    for csi_node in csi_nodes:
        seen.of(CSI_NODE).put(csi_node)
    assert segments.segments() == frozenset(want)
    assert NodeSegments(seen, DRIVER).segments() == frozenset(want), "also for one that comes later"


CHANGES = st.tuples(
    st.sampled_from("abc"),
    st.none() | st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from("xy")),
    st.none() | st.lists(st.sampled_from(["zone", "rack"]), unique=True),
)


@given(st.lists(CHANGES, max_size=30))
def test_segments_are_the_union_over_nodes_after_any_history(
    history: list[tuple[str, dict[str, str] | None, list[str] | None]],
) -> None:
    seen = Seen()
    segments = NodeSegments(seen, DRIVER)
    told: list[frozenset[Segment]] = [segments.segments()]
    segments.on_change(lambda: told.append(segments.segments()))
    for name, labels, keys in history:
        seen.of(NODE).put(None if labels is None else a_node(name=name, labels=labels), name)
        seen.of(CSI_NODE).put(listed(name, keys), name)
        nodes, csi_nodes = seen.of(NODE).kept, seen.of(CSI_NODE).kept
        found = {segment_of(DRIVER, csi_nodes[each], nodes.get(each)) for each in csi_nodes}
        assert segments.segments() == found - {None}
        assert told[-1] == segments.segments()


def test_heartbeats_are_no_news() -> None:
    seen = Seen()
    segments = NodeSegments(seen, DRIVER)
    seen.of(CSI_NODE).put(listed("a", ["zone"]))
    seen.of(NODE).put(a_node(name="a", labels={"zone": "z"}))
    told: list[str] = []
    segments.on_change(lambda: told.append("changed"))
    seen.of(NODE).put(a_node(name="a", labels={"zone": "z"}, version="9"))
    seen.of(NODE).put(a_node(name="a", labels={"zone": "z", "other": "label"}))
    seen.of(NODE).put(a_node(name="b", labels={"zone": "z"}))
    assert told == []
    seen.of(NODE).put(a_node(name="a", labels={"zone": "y"}))
    assert told == ["changed"]


@pytest.mark.req("C5.segment")
def test_a_nodes_own_segment_is_sorted() -> None:
    labels = {"zone": "z", "rack": "r"}
    for _ in range(3):
        items = list(labels.items())
        random.Random(0).shuffle(items)
        assert FixedSegment(dict(items)).segments() == frozenset({(("rack", "r"), ("zone", "z"))})
