"""Where the stand-ins put their disks: next to the selected node, and where the class allows it."""

from collections.abc import Mapping, Sequence

import pytest

from builders import a_class, a_node
from mooring.api import keys
from mooring.api.views.node import Node
from mooring.provisioner.standins.contract import Cloud, Made, Place, Refused
from mooring.provisioner.standins.disks import LOCAL, RACK, REGIONAL, ZONAL, Disk

#: Terms of a class: label key to its values.
Allowed = Sequence[Mapping[str, Sequence[str]]]

#: Two regions: three zones in the first, one in the second; two racks per zone in the first.
NODES = {
    f"{zone}{number}": a_node(
        name=f"{zone}{number}",
        labels={keys.ZONE: zone, keys.REGION: "south" if zone == "d" else "north", keys.RACK: f"rack-{number}"},
    )
    for zone in "abcd"
    for number in (1, 2)
}
BETA = a_node(name="old", labels={keys.ZONE_BETA: "a", keys.REGION_BETA: "north"})
BOTH = a_node(name="both", labels={keys.ZONE_BETA: "a", keys.ZONE: "a", keys.REGION: "north"})
NOWHERE = a_node(name="lost")


def places(
    disk: Disk,
    *,
    node: Node | None = None,
    allowed: Allowed = (),
    nodes: Sequence[Node] = tuple(NODES.values()),
    claim: str = "data-web-0",
    parameters: Mapping[str, str] | None = None,
    trouble: Mapping[str, str] | None = None,
) -> list[dict[str, str]] | Refused:
    """The labels of each domain of the disk made, or the refusal."""

    def trouble_in(place: Place) -> str:
        return next((why for value, why in (trouble or {}).items() if value in place), "")

    answer = disk.provision(
        node,
        a_class(allowed_topologies=allowed).allowed_topologies,
        parameters=parameters or {},
        claim=claim,
        cloud=Cloud(nodes, trouble_in),
    )
    return [dict(domain.labels) for domain in answer.domains] if isinstance(answer, Made) else answer


@pytest.mark.req("T18")
@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        pytest.param(ZONAL, [{keys.ZONE: "b"}], id="zonal disk in the node's zone"),
        pytest.param(LOCAL, [{keys.HOSTNAME: "b1"}], id="disk of the node itself"),
        pytest.param(RACK, [{keys.ZONE: "b", keys.RACK: "rack-1"}], id="rack within its zone"),
    ],
)
def test_disk_in_one_domain_goes_where_the_selected_node_is(disk: Disk, expected: list[dict[str, str]]) -> None:
    assert places(disk, node=NODES["b1"]) == expected


@pytest.mark.req("T18")
@pytest.mark.parametrize(
    ("allowed", "zones"),
    [
        pytest.param((), {"b", "c"}, id="any other zone of the region"),
        pytest.param([{keys.ZONE: ["a", "b"]}], {"a", "b"}, id="the other zone that the class allows"),
        pytest.param([{keys.ZONE: ["a"]}, {keys.ZONE: ["b"]}], {"a", "b"}, id="terms are alternatives"),
        pytest.param([{keys.ZONE_BETA: ["a", "b"]}], {"a", "b"}, id="the class spells the label as it was"),
    ],
)
def test_regional_disk_takes_its_second_zone_from_what_the_class_allows(allowed: Allowed, zones: set[str]) -> None:
    made = places(REGIONAL, node=NODES["b1"], allowed=allowed)
    assert isinstance(made, list)
    assert {domain[keys.ZONE] for domain in made} == zones


@pytest.mark.req("T18")
@pytest.mark.parametrize(
    ("node", "allowed", "left"),
    [
        pytest.param("b1", [{keys.ZONE: ["b"]}], "only b remains", id="one zone allowed"),
        pytest.param("d1", (), "only d remains", id="a region with one zone"),
        pytest.param("b1", [{keys.ZONE: ["b", "d"]}], "only b remains", id="the other zone is in another region"),
        pytest.param("", [{keys.ZONE: ["b"]}], "only b remains", id="one zone allowed, no node selected"),
        pytest.param("", [{keys.ZONE: ["c", "d"]}], "only c and d remain", id="two zones of two regions"),
        pytest.param("", [{keys.ZONE: ["x", "y"]}], "none remains", id="zones that nobody is in"),
    ],
)
def test_regional_disk_needs_two_zones_in_one_region(node: str, allowed: Allowed, left: str) -> None:
    refused = places(REGIONAL, node=NODES.get(node), allowed=allowed)
    assert refused == Refused(
        f"a regional disk needs 2 zones in one region, and {left} of what the class allows", elsewhere=bool(node)
    )


@pytest.mark.req("T18")
def test_replicas_spread_over_the_allowed_zones_when_nobody_chose_a_node() -> None:
    allowed = [{keys.ZONE: ["a", "b", "c"]}]
    made = [places(ZONAL, allowed=allowed, claim=f"data-web-{n}") for n in range(3)]
    assert sorted(zone[keys.ZONE] for one in made if isinstance(one, list) for zone in one) == ["a", "b", "c"]
    assert places(ZONAL, allowed=allowed, claim="log-web-1") == made[1], "claims of one pod land together"


def test_regional_disk_without_a_node_stays_in_one_region() -> None:
    for number in range(5):
        made = places(REGIONAL, claim=f"data-web-{number}")
        assert isinstance(made, list)
        assert len(made) == 2
        assert "d" not in {domain[keys.ZONE] for domain in made}


@pytest.mark.parametrize(
    ("node", "allowed", "key"),
    [
        pytest.param(BETA, (), keys.ZONE_BETA, id="the only spelling the node has"),
        pytest.param(BOTH, (), keys.ZONE, id="today's spelling of two"),
        pytest.param(BOTH, [{keys.ZONE_BETA: ["a"]}], keys.ZONE_BETA, id="the class's spelling of two"),
        pytest.param(NODES["a1"], [{keys.ZONE_BETA: ["a"]}], keys.ZONE, id="not a spelling the node lacks"),
    ],
)
def test_volume_is_spelled_so_that_its_node_reaches_it(node: Node, allowed: Allowed, key: str) -> None:
    assert places(ZONAL, node=node, allowed=allowed) == [{key: "a"}]


@pytest.mark.parametrize(
    ("disk", "node", "allowed", "why"),
    [
        pytest.param(ZONAL, NOWHERE, (), "does not say where it is", id="node without a zone"),
        pytest.param(ZONAL, NODES["c1"], [{keys.ZONE: ["a"]}], "is in c, which the class does not allow", id="zone"),
        pytest.param(
            RACK, NODES["a2"], [{keys.ZONE: ["a"], keys.RACK: ["rack-1"]}], "is in a/rack-2, which", id="rack"
        ),
    ],
)
def test_refusal_of_a_node_gives_the_choice_back(disk: Disk, node: Node, allowed: Allowed, why: str) -> None:
    refused = places(disk, node=node, allowed=allowed)
    assert isinstance(refused, Refused)
    assert why in refused.why
    assert refused.elsewhere


@pytest.mark.parametrize("node", [pytest.param(None, id="no node"), pytest.param(NODES["a1"], id="a node")])
def test_class_that_names_labels_a_disk_does_not_know_is_refused_for_good(node: Node | None) -> None:
    refused = places(ZONAL, node=node, allowed=[{"foo.io/rack": ["r"]}])
    assert isinstance(refused, Refused)
    assert '"foo.io/rack"' in refused.why
    assert not refused.elsewhere


@pytest.mark.req("T4")
def test_rack_labels_are_the_parameters_to_name() -> None:
    nodes = [
        a_node(name=f"{zone}-{rack}", labels={"zone": zone, "rack": rack}) for zone in "ab" for rack in ("r1", "r2")
    ]
    allowed = [{"zone": ["a"], "rack": ["r1"]}, {"zone": ["b"], "rack": ["r1", "r2"]}]
    parameters = {"topologyKeys": "zone, rack"}
    made = [places(RACK, node=node, nodes=nodes, allowed=allowed, parameters=parameters, claim="c") for node in nodes]
    assert made[0] == [{"zone": "a", "rack": "r1"}]
    assert isinstance(made[1], Refused)
    assert made[2:] == [[{"zone": "b", "rack": "r1"}], [{"zone": "b", "rack": "r2"}]]


def test_trouble_in_a_place_is_a_reason_to_look_elsewhere() -> None:
    assert places(ZONAL, node=NODES["a1"], trouble={"a": "full"}) == Refused("full", elsewhere=True)
    for number in range(3):
        made = places(ZONAL, allowed=[{keys.ZONE: ["a", "b"]}], trouble={"a": "full"}, claim=f"data-web-{number}")
        assert made == [{keys.ZONE: "b"}], "without a node the troubled zone is passed over"
    assert isinstance(places(ZONAL, allowed=[{keys.ZONE: ["a"]}], trouble={"a": "full"}), Refused)
    assert isinstance(
        places(REGIONAL, node=NODES["b1"], allowed=[{keys.ZONE: ["a", "b"]}], trouble={"a": "full"}), Refused
    )
