"""Where the stand-ins put their disks: next to the selected node, and where the class allows it.

The room that stand-ins play: charged per class and place, read back from volumes.
"""

from collections.abc import Mapping, Sequence

import pytest

from mooring.api import well_known
from mooring.api.views.core import Node
from mooring.api.views.storage import StorageClass
from mooring.provisioner.standins.disks import (
    LOCAL,
    RACK,
    REGIONAL,
    ZONAL,
    Cloud,
    DiskType,
    Place,
    StandInFailure,
    StandInPools,
)
from support.builders import a_class, a_node, a_volume, reachable_from

#: Terms of a class: label key to its values.
Allowed = Sequence[Mapping[str, Sequence[str]]]

#: Two regions: three zones in the first, one in the second; two racks per zone in the first.
NODES = {
    f"{zone}{number}": a_node(
        name=f"{zone}{number}",
        labels={
            well_known.ZONE: zone,
            well_known.REGION: "south" if zone == "d" else "north",
            well_known.RACK: f"rack-{number}",
        },
    )
    for zone in "abcd"
    for number in (1, 2)
}
BETA = a_node(name="old", labels={well_known.ZONE_BETA: "a", well_known.REGION_BETA: "north"})
BOTH = a_node(name="both", labels={well_known.ZONE_BETA: "a", well_known.ZONE: "a", well_known.REGION: "north"})
NOWHERE = a_node(name="lost")


def places(
    disk: DiskType,
    *,
    node: Node | None = None,
    allowed: Allowed = (),
    nodes: Sequence[Node] = tuple(NODES.values()),
    claim: str = "data-web-0",
    parameters: Mapping[str, str] | None = None,
    trouble: Mapping[str, str] | None = None,
) -> list[dict[str, str]] | StandInFailure:
    """The labels of each domain of the disk made, or the refusal."""

    def unavailable_reason(place: Place) -> str:
        return next((reason for value, reason in (trouble or {}).items() if value in place), "")

    try:
        domains = disk.provision(
            node,
            a_class(allowed_topologies=allowed).allowed_topologies,
            parameters=parameters or {},
            claim=claim,
            cloud=Cloud(nodes, unavailable_reason),
        )
    except StandInFailure as failure:
        return failure
    return [dict(domain.labels) for domain in domains]


@pytest.mark.req("T18.one-zone")
@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        pytest.param(ZONAL, [{well_known.ZONE: "b"}], id="zonal disk in the node's zone"),
        pytest.param(LOCAL, [{well_known.HOSTNAME: "b1"}], id="disk of the node itself"),
        pytest.param(RACK, [{well_known.ZONE: "b", well_known.RACK: "rack-1"}], id="rack within its zone"),
    ],
)
def test_disk_in_one_domain_goes_where_the_selected_node_is(disk: DiskType, expected: list[dict[str, str]]) -> None:
    assert places(disk, node=NODES["b1"]) == expected


@pytest.mark.req("T18.regional")
@pytest.mark.parametrize(
    ("allowed", "zones"),
    [
        pytest.param((), {"b", "c"}, id="any other zone of the region"),
        pytest.param([{well_known.ZONE: ["a", "b"]}], {"a", "b"}, id="the other zone that the class allows"),
        pytest.param([{well_known.ZONE: ["a"]}, {well_known.ZONE: ["b"]}], {"a", "b"}, id="terms are alternatives"),
        pytest.param([{well_known.ZONE_BETA: ["a", "b"]}], {"a", "b"}, id="the class spells the label as it was"),
    ],
)
def test_regional_disk_second_zone_is_allowed_by_class(allowed: Allowed, zones: set[str]) -> None:
    made = places(REGIONAL, node=NODES["b1"], allowed=allowed)
    assert isinstance(made, list)
    assert {domain[well_known.ZONE] for domain in made} == zones


@pytest.mark.req("T18.too-few-zones")
@pytest.mark.parametrize(
    ("node", "allowed", "left"),
    [
        pytest.param("b1", [{well_known.ZONE: ["b"]}], "only b remains", id="one zone allowed"),
        pytest.param("d1", (), "only d remains", id="a region with one zone"),
        pytest.param("b1", [{well_known.ZONE: ["b", "d"]}], "only b remains", id="the other zone is in another region"),
        pytest.param("", [{well_known.ZONE: ["b"]}], "only b remains", id="one zone allowed, no node selected"),
        pytest.param("", [{well_known.ZONE: ["c", "d"]}], "only c and d remain", id="two zones of two regions"),
        pytest.param("", [{well_known.ZONE: ["x", "y"]}], "none remains", id="zones without nodes"),
    ],
)
def test_regional_disk_needs_two_zones_in_one_region(node: str, allowed: Allowed, left: str) -> None:
    failure = places(REGIONAL, node=NODES.get(node), allowed=allowed)
    assert isinstance(failure, StandInFailure)
    assert failure.reason == f"a regional disk needs 2 zones in one region, and {left} of what the class allows"
    assert failure.reschedule == bool(node)


@pytest.mark.req("T18.immediate")
def test_replicas_spread_over_allowed_zones_without_node() -> None:
    allowed = [{well_known.ZONE: ["a", "b", "c"]}]
    made = [places(ZONAL, allowed=allowed, claim=f"data-web-{n}") for n in range(3)]
    assert sorted(zone[well_known.ZONE] for one in made if isinstance(one, list) for zone in one) == ["a", "b", "c"]
    assert places(ZONAL, allowed=allowed, claim="log-web-1") == made[1], "claims of one pod land together"


def test_regional_disk_without_a_node_stays_in_one_region() -> None:
    for number in range(5):
        made = places(REGIONAL, claim=f"data-web-{number}")
        assert isinstance(made, list)
        assert len(made) == 2
        assert "d" not in {domain[well_known.ZONE] for domain in made}


@pytest.mark.parametrize(
    ("node", "allowed", "key"),
    [
        pytest.param(BETA, (), well_known.ZONE_BETA, id="the only spelling the node has"),
        pytest.param(BOTH, (), well_known.ZONE, id="today's spelling of two"),
        pytest.param(BOTH, [{well_known.ZONE_BETA: ["a"]}], well_known.ZONE_BETA, id="the class's spelling of two"),
        pytest.param(NODES["a1"], [{well_known.ZONE_BETA: ["a"]}], well_known.ZONE, id="not a spelling the node lacks"),
    ],
)
def test_volume_is_spelled_so_that_its_node_reaches_it(node: Node, allowed: Allowed, key: str) -> None:
    assert places(ZONAL, node=node, allowed=allowed) == [{key: "a"}]


@pytest.mark.parametrize(
    ("disk", "node", "allowed", "reason"),
    [
        pytest.param(ZONAL, NOWHERE, (), "does not say where it is", id="node without a zone"),
        pytest.param(
            ZONAL, NODES["c1"], [{well_known.ZONE: ["a"]}], "is in c, which the class does not allow", id="zone"
        ),
        pytest.param(
            RACK,
            NODES["a2"],
            [{well_known.ZONE: ["a"], well_known.RACK: ["rack-1"]}],
            "is in a/rack-2, which",
            id="rack",
        ),
    ],
)
def test_refusal_of_a_node_gives_the_choice_back(disk: DiskType, node: Node, allowed: Allowed, reason: str) -> None:
    failure = places(disk, node=node, allowed=allowed)
    assert isinstance(failure, StandInFailure)
    assert reason in failure.reason
    assert failure.reschedule


@pytest.mark.parametrize("node", [pytest.param(None, id="no node"), pytest.param(NODES["a1"], id="a node")])
def test_class_with_unknown_topology_labels_is_refused(node: Node | None) -> None:
    failure = places(ZONAL, node=node, allowed=[{"foo.io/rack": ["r"]}])
    assert isinstance(failure, StandInFailure)
    assert '"foo.io/rack"' in failure.reason
    assert not failure.reschedule


@pytest.mark.req("T4.semantics")
def test_rack_labels_are_the_parameters_to_name() -> None:
    nodes = [
        a_node(name=f"{zone}-{rack}", labels={"zone": zone, "rack": rack}) for zone in "ab" for rack in ("r1", "r2")
    ]
    allowed = [{"zone": ["a"], "rack": ["r1"]}, {"zone": ["b"], "rack": ["r1", "r2"]}]
    parameters = {"topologyKeys": "zone, rack"}
    made = [places(RACK, node=node, nodes=nodes, allowed=allowed, parameters=parameters, claim="c") for node in nodes]
    assert made[0] == [{"zone": "a", "rack": "r1"}]
    assert isinstance(made[1], StandInFailure)
    assert made[2:] == [[{"zone": "b", "rack": "r1"}], [{"zone": "b", "rack": "r2"}]]


def test_trouble_in_a_place_is_a_reason_to_look_elsewhere() -> None:
    failure = places(ZONAL, node=NODES["a1"], trouble={"a": "full"})
    assert isinstance(failure, StandInFailure)
    assert (failure.reason, failure.reschedule) == ("full", True)
    for number in range(3):
        made = places(ZONAL, allowed=[{well_known.ZONE: ["a", "b"]}], trouble={"a": "full"}, claim=f"data-web-{number}")
        assert made == [{well_known.ZONE: "b"}], "without a node the troubled zone is passed over"
    assert isinstance(places(ZONAL, allowed=[{well_known.ZONE: ["a"]}], trouble={"a": "full"}), StandInFailure)
    assert isinstance(
        places(REGIONAL, node=NODES["b1"], allowed=[{well_known.ZONE: ["a", "b"]}], trouble={"a": "full"}),
        StandInFailure,
    )


GI = 2**30
A, B = frozenset({"a"}), frozenset({"b"})


def small(capacity: str = "10Gi", unavailable: str = "") -> StorageClass:
    return a_class(name="disks", parameters={"capacityPerDomain": capacity, "unavailableIn": unavailable})


def test_a_place_is_full_when_its_volumes_fill_it() -> None:
    pools = StandInPools()
    pools.charge("v1", "disks", [A], 7 * GI)
    assert pools.unavailable_reason(A, small(), 3 * GI) == ""
    assert "not enough storage in a" in pools.unavailable_reason(A, small(), 3 * GI + 1)
    assert pools.unavailable_reason(B, small(), 10 * GI) == ""
    pools.release("v1")
    pools.release("v1")
    assert pools.unavailable_reason(A, small(), 10 * GI) == ""


def test_a_volume_counts_once_however_often_it_is_seen() -> None:
    pools = StandInPools()
    volume = a_volume(name="v1", size="6Gi", storage_class="disks", affinity=reachable_from(well_known.ZONE, "a", "b"))
    pools.charge("v1", "disks", [A, B], 6 * GI)
    pools.observe(volume)
    pools.observe(volume)
    for place in (A, B):
        assert pools.unavailable_reason(place, small(), 4 * GI) == ""
        assert pools.unavailable_reason(place, small(), 5 * GI) != ""


@pytest.mark.parametrize(
    ("named", "trouble"),
    [
        pytest.param("a", True, id="the place"),
        pytest.param("b, a", True, id="among others"),
        pytest.param("b", False, id="another place"),
        pytest.param("", False, id="none"),
    ],
)
def test_nothing_is_made_where_the_class_says_so(named: str, trouble: bool) -> None:
    assert bool(StandInPools().unavailable_reason(A, small(unavailable=named), 1)) == trouble


def test_unlimited_capacity_without_parameters() -> None:
    assert StandInPools().unavailable_reason(A, a_class(), 2**60) == ""
