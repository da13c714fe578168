"""Where storage is drawn: the smallest place that encloses all nodes that reach it."""

import pytest

from builders import a_capacity, a_node, a_volume, reachable_from
from builders.objects import Body
from mooring.api import keys
from mooring.volumes.affinity import affinity
from mooring.web.places import NOWHERE, Place, Places


def places(*nodes: tuple[str, str, str]) -> Places:
    made = Places()
    for name, zone, rack in nodes:
        made.observe(None, a_node(name=name, zone=zone, labels={keys.RACK: rack} if rack else {}))
    return made


THREE = (("n1", "zone-a", "r1"), ("n2", "zone-a", "r1"), ("n3", "zone-b", "r1"))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, Place("cluster", nodes=3), id="no affinity: from everywhere"),
        pytest.param(
            reachable_from(keys.HOSTNAME, "n1"), Place("node", "zone-a", "r1", "n1", 1), id="a disk of one node"
        ),
        pytest.param(
            reachable_from(keys.HOSTNAME, "n1", "n2"), Place("rack", "zone-a", "r1", nodes=2), id="two nodes of a rack"
        ),
        pytest.param(
            reachable_from(keys.HOSTNAME, "n1", "n3"), Place("cluster", nodes=2), id="two nodes of different zones"
        ),
        pytest.param(reachable_from(keys.ZONE, "zone-a"), Place("zone", "zone-a", nodes=2), id="a zone"),
        pytest.param(
            reachable_from(keys.ZONE, "zone-b"), Place("zone", "zone-b", nodes=1), id="a zone that has one node"
        ),
        pytest.param(reachable_from(keys.ZONE, "zone-a", "zone-b"), Place("cluster", nodes=3), id="two zones"),
        pytest.param(reachable_from(keys.HOSTNAME, "lost"), NOWHERE, id="a node that is gone"),
    ],
)
def test_the_place_of_a_volume(selector: Body | None, expected: Place) -> None:
    assert places(*THREE).of(affinity(a_volume(affinity=selector))) == expected


@pytest.mark.parametrize(
    ("topology", "level"),
    [
        pytest.param(None, "nowhere", id="no selector"),
        pytest.param({}, "cluster", id="an empty one"),
        pytest.param({"matchLabels": {keys.HOSTNAME: "n1"}}, "node", id="a node's own"),
        pytest.param({"matchLabels": {keys.ZONE: "zone-a"}}, "zone", id="a zone's"),
        pytest.param(
            {"matchExpressions": [{"key": "x", "operator": "Perhaps"}]}, "nowhere", id="one nobody understands"
        ),
    ],
)
def test_the_place_of_a_pool(topology: Body | None, level: str) -> None:
    segment = a_capacity(topology=topology, capacity="1Gi").node_topology
    assert places(*THREE).of_segment(segment).level == level


def test_racks_of_one_name_in_two_zones_are_two_racks() -> None:
    both = reachable_from(keys.RACK, "r1")
    assert places(*THREE).of(affinity(a_volume(affinity=both))).level == "cluster"


def test_places_follow_the_nodes() -> None:
    known = places(*THREE)
    local = affinity(a_volume(node="n1"))
    assert known.of(local).level == "node"
    known.observe(a_node(name="n1", zone="zone-a"), None)
    assert known.of(local) == NOWHERE


def test_another_label_may_name_the_rack() -> None:
    known = Places(rack_label="example.com/rack")
    known.observe(None, a_node(name="n1", zone="z", labels={"example.com/rack": "r7"}))
    assert known.of(affinity(a_volume(node="n1"))).rack == "r7"
