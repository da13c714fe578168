"""Segments: the union over nodes, and which changes may touch it."""

import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from builders import a_node
from mooring.api.kinds import CSI_NODE
from mooring.api.views.storage import CsiNode
from mooring.provisioner.segments import FixedSegment, Segment, union
from provisioner.paper_driver import DRIVER


def listed(name: str, keys: Sequence[str] | None, driver: str = DRIVER) -> CsiNode:
    drivers = [] if keys is None else [{"name": driver, "nodeID": name, "topologyKeys": list(keys)}]
    return CSI_NODE.decode(msgspec.json.encode({"metadata": {"name": name}, "spec": {"drivers": drivers}}))


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
    known = {name: a_node(name=name, labels=labels) for name, labels in nodes.items()}
    assert union(DRIVER, csi_nodes, known.get) == frozenset(want)


@pytest.mark.req("C5.segment")
def test_a_nodes_own_segment_is_sorted() -> None:
    labels = {"zone": "z", "rack": "r"}
    for _ in range(3):
        items = list(labels.items())
        random.Random(0).shuffle(items)
        assert FixedSegment(dict(items)).segments() == frozenset({(("rack", "r"), ("zone", "z"))})
