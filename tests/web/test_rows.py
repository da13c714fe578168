"""Where storage is drawn: the smallest place that encloses all nodes that reach it."""

import pytest

from mooring.api import well_known
from mooring.volumes.topology import affinity_of
from mooring.web.rows import NOWHERE, LocationIndex, StorageLocation
from support.builders import a_capacity, a_node, a_volume, reachable_from
from support.builders.objects import Body


def places(*nodes: tuple[str, str, str]) -> LocationIndex:
    made = LocationIndex()
    for name, zone, rack in nodes:
        made.observe(None, a_node(name=name, zone=zone, labels={well_known.RACK: rack} if rack else {}))
    return made


THREE = (("n1", "zone-a", "r1"), ("n2", "zone-a", "r1"), ("n3", "zone-b", "r1"))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, StorageLocation("cluster", nodes=3), id="no affinity: from everywhere"),
        pytest.param(
            reachable_from(well_known.HOSTNAME, "n1"),
            StorageLocation("node", "zone-a", "r1", "n1", 1),
            id="a disk of one node",
        ),
        pytest.param(
            reachable_from(well_known.HOSTNAME, "n1", "n2"),
            StorageLocation("rack", "zone-a", "r1", nodes=2),
            id="two nodes of a rack",
        ),
        pytest.param(
            reachable_from(well_known.HOSTNAME, "n1", "n3"),
            StorageLocation("cluster", nodes=2),
            id="two nodes of different zones",
        ),
        pytest.param(
            reachable_from(well_known.ZONE, "zone-a"), StorageLocation("zone", "zone-a", nodes=2), id="a zone"
        ),
        pytest.param(
            reachable_from(well_known.ZONE, "zone-b"),
            StorageLocation("zone", "zone-b", nodes=1),
            id="a zone that has one node",
        ),
        pytest.param(
            reachable_from(well_known.ZONE, "zone-a", "zone-b"), StorageLocation("cluster", nodes=3), id="two zones"
        ),
        pytest.param(reachable_from(well_known.HOSTNAME, "lost"), NOWHERE, id="a node that is gone"),
    ],
)
def test_the_place_of_a_volume(selector: Body | None, expected: StorageLocation) -> None:
    assert places(*THREE).of(affinity_of(a_volume(affinity=selector))) == expected


@pytest.mark.parametrize(
    ("topology", "level"),
    [
        pytest.param(None, "nowhere", id="no selector"),
        pytest.param({}, "cluster", id="an empty one"),
        pytest.param({"matchLabels": {well_known.HOSTNAME: "n1"}}, "node", id="a node's own"),
        pytest.param({"matchLabels": {well_known.ZONE: "zone-a"}}, "zone", id="a zone's"),
        pytest.param({"matchExpressions": [{"key": "x", "operator": "Perhaps"}]}, "nowhere", id="an unknown operator"),
    ],
)
def test_the_place_of_a_pool(topology: Body | None, level: str) -> None:
    segment = a_capacity(topology=topology, capacity="1Gi").node_topology
    assert places(*THREE).of_segment(segment).level == level


def test_racks_of_one_name_in_two_zones_are_two_racks() -> None:
    both = reachable_from(well_known.RACK, "r1")
    assert places(*THREE).of(affinity_of(a_volume(affinity=both))).level == "cluster"


def test_places_follow_the_nodes() -> None:
    known = places(*THREE)
    local = affinity_of(a_volume(node="n1"))
    assert known.of(local).level == "node"
    known.observe(a_node(name="n1", zone="zone-a"), None)
    assert known.of(local) == NOWHERE


def test_another_label_may_name_the_rack() -> None:
    known = LocationIndex(rack_label="example.com/rack")
    known.observe(None, a_node(name="n1", zone="z", labels={"example.com/rack": "r7"}))
    assert known.of(affinity_of(a_volume(node="n1"))).rack == "r7"
