"""The independent search that fault runs of gangs end with: it finds the places of the specification's small cases."""

import pytest

from mooring.api import well_known
from support.builders.claims import a_claim
from support.builders.groups import a_member, a_pod_group
from support.builders.nodes import a_node
from support.builders.volumes import a_volume
from support.simulation.gangs.search import GangPlaces
from support.simulation.invariants import Facts

NODES = ("n1", "n2", "n3")


def cluster(sizes: list[str], *, storage_class: str, cpu: str = "1", volumes: dict[str, str] | None = None) -> Facts:
    """Three nodes with 8 CPUs, two zones, and a gang with a claim of each size; existing `volumes` as node: size."""
    facts = Facts()
    for number, name in enumerate(NODES):
        facts.nodes[name] = a_node(name=name, zone="ab"[number // 2], allocatable={"cpu": "8"})
    for number, size in enumerate(sizes):
        claim = a_claim(name=f"c-{number}", storage_class=storage_class, size=size)
        facts.claims[claim.key] = claim
        pod = a_member(name=f"g-{number}", claims=[f"c-{number}"], requests={"cpu": cpu})
        facts.pods[pod.key] = pod
    for node, size in (volumes or {}).items():
        facts.volumes[f"pv-{node}"] = a_volume(name=f"pv-{node}", node=node, size=size)
    return facts


@pytest.mark.parametrize(
    ("volumes", "quorum", "expected"),
    [
        pytest.param({"n1": "10Gi", "n2": "10Gi", "n3": "10Gi"}, 3, True, id="G13"),
        pytest.param({"n1": "10Gi", "n2": "10Gi"}, 3, False, id="G14"),
        pytest.param({"n1": "10Gi", "n2": "10Gi"}, 2, True, id="two of three"),
        pytest.param({"n1": "10Gi", "n2": "4Gi", "n3": "10Gi"}, 3, False, id="one is too small"),
    ],
)
def test_existing_volumes(volumes: dict[str, str], quorum: int, expected: bool) -> None:
    facts = cluster(["5Gi"] * 3, storage_class="local", volumes=volumes)
    assert GangPlaces(facts, {}, "node").could_run(a_pod_group(min_count=quorum)) is expected


def test_volumes_are_assigned_in_any_order() -> None:
    """G15: the first member must leave the larger volume to the second."""
    facts = cluster(["5Gi", "8Gi"], storage_class="local", cpu="8", volumes={"n1": "10Gi", "n2": "6Gi"})
    assert GangPlaces(facts, {}, "node").could_run(a_pod_group(min_count=2))


@pytest.mark.parametrize(
    ("pools", "topology", "expected"),
    [
        pytest.param({"n1": 150, "n2": 110, "n3": 110}, "", True, id="G22"),
        pytest.param({"n1": 150, "n2": 110, "n3": 50}, "", False, id="G24"),
        pytest.param({"n1": 300, "n2": 0, "n3": 0}, well_known.ZONE, True, id="one zone"),
        pytest.param({"n1": 100, "n2": 100, "n3": 100}, well_known.ZONE, False, id="G26: two in each zone at most"),
    ],
)
def test_pools(pools: dict[str, int], topology: str, expected: bool) -> None:
    facts = cluster(["100Gi"] * 3, storage_class="node")
    places = GangPlaces(facts, pools, "node")
    group = a_pod_group(min_count=3, topology=topology)
    assert places.could_run(group) is expected
    assert places.could_run(group) is expected, "the search leaves everything as it was"


def test_limits_count() -> None:
    facts = cluster(["1Gi"] * 3, storage_class="node")
    pools = {"n1": 10, "n2": 0, "n3": 0}
    assert GangPlaces(facts, pools, "node", limit=3).could_run(a_pod_group(min_count=3))
    assert not GangPlaces(facts, pools, "node", limit=2).could_run(a_pod_group(min_count=3))


def test_cpu_counts() -> None:
    facts = cluster(["1Gi"] * 3, storage_class="node", cpu="5")
    assert GangPlaces(facts, dict.fromkeys(NODES, 10), "node").could_run(a_pod_group(min_count=3))
    assert not GangPlaces(facts, {"n1": 10, "n2": 10}, "node").could_run(a_pod_group(min_count=3))
