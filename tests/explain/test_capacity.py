"""What drivers report, and the many ways in which that can be of no use."""

import pytest

from mooring.api import well_known
from mooring.explain.results import CapacityReport
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    pod_body,
)
from support.builders.drivers import DRIVER
from support.explain.clusters import claim_on, explained

HERE = {"matchLabels": {well_known.ZONE: "a"}}
THERE = {"matchLabels": {well_known.ZONE: "b"}}
SENSELESS = {"matchExpressions": [{"key": "x", "operator": "Near"}]}


def capacity_reports(*capacities: Body, others: tuple[Body, ...] = (), size: str = "8Gi") -> tuple[CapacityReport, ...]:
    verdict = explained(
        node_body(name="n1", zone="a"),
        class_body(name="made", provisioner=DRIVER),
        driver_body(tracks_capacity=True),
        claim_body(name="data", storage_class="made", size=size),
        pod_body(claims=["data"]),
        *capacities,
        *others,
    )
    return claim_on(verdict, "n1", "data").capacity_reports


@pytest.mark.parametrize(
    ("capacity", "problem", "detail", "missing"),
    [
        pytest.param(capacity_body(topology=HERE, capacity="0"), "ZERO", "reports 0, 8Gi", "8Gi", id="nothing is left"),
        pytest.param(
            capacity_body(topology=HERE, capacity="3Gi"),
            "TOO_SMALL",
            "reports 3Gi, 8Gi",
            "5Gi",
            id="too little is left",
        ),
        pytest.param(
            capacity_body(topology=HERE, capacity="3Gi", largest="2Gi"),
            "TOO_SMALL",
            "reports maximumVolumeSize 2Gi of 3Gi, 8Gi requested: 6Gi short",
            "6Gi",
            id="too little in every way",
        ),
        pytest.param(
            capacity_body(topology=HERE, largest="2Gi"),
            "TOO_SMALL",
            "reports maximumVolumeSize 2Gi, 8Gi",
            "6Gi",
            id="a maximum",
        ),
        pytest.param(
            capacity_body(topology=HERE, capacity="99Gi", largest="2Gi"),
            "MAXIMUM",
            "no volume may be larger than 2Gi",
            "",
            id="enough, but not for one",
        ),
        pytest.param(capacity_body(topology=HERE), "NO_FIGURE", "reports neither", "", id="no figure"),
        pytest.param(
            capacity_body(topology=HERE, capacity="much"), "UNREADABLE", 'quantity "much"', "", id="no quantity"
        ),
        pytest.param(capacity_body(capacity="99Gi"), "NO_TOPOLOGY", "no node can use its 99Gi", "", id="for no node"),
    ],
)
def test_one_object_of_no_use(capacity: Body, problem: str, detail: str, missing: str) -> None:
    [room] = capacity_reports(capacity)
    assert (room.capacity, room.problem, room.missing) == ("default/capacity-1", problem, missing)
    assert detail in room.detail


def test_no_object_at_all() -> None:
    [room] = capacity_reports()
    assert (room.capacity, room.problem) == ("", "MISSING")
    assert room.detail == f"driver {DRIVER} has published no CSIStorageCapacity for class made"


@pytest.mark.parametrize("elsewhere", [THERE, SENSELESS], ids=["another zone", "a selector that makes no sense"])
def test_an_object_for_other_nodes(elsewhere: Body) -> None:
    missing, other = capacity_reports(capacity_body(topology=elsewhere, capacity="99Gi"))
    assert missing.problem == "MISSING"
    assert missing.detail.endswith("for this node, only one for another segment")
    assert (other.problem, other.capacity) == ("ELSEWHERE", "default/capacity-1")


def test_objects_for_several_other_places_are_counted() -> None:
    many = [capacity_body(name=f"c{each}", topology=THERE, capacity="99Gi") for each in range(9)]
    missing, *others = capacity_reports(*many)
    assert missing.detail.endswith("for this node, only 9 for other segments")
    assert len(others) < len(many)


def test_volumes_in_flight_reduce_the_capacity() -> None:
    coming = claim_body(name="coming", storage_class="made", size="6Gi", selected_node="n1", uid="coming-uid")
    capacity = capacity_body(topology=HERE, capacity="10Gi", largest="10Gi")
    [room] = capacity_reports(capacity, others=(coming,))
    assert (room.problem, room.missing) == ("IN_FLIGHT", "4Gi")
    assert room.detail == "reports 10Gi less 6Gi in flight, 8Gi requested: 4Gi short"


def test_the_nearest_comes_first() -> None:
    found = capacity_reports(
        capacity_body(name="a", topology=HERE, capacity="0"),
        capacity_body(name="b", topology=THERE, capacity="99Gi"),
        capacity_body(name="c", topology={}, capacity="3Gi"),
    )
    assert [(room.capacity, room.segment) for room in found] == [
        ("default/c", "everywhere"),
        ("default/a", f"{well_known.ZONE}=a"),
        ("default/b", f"{well_known.ZONE}=b"),
    ]


def test_figures_of_a_provisioner_that_is_gone_may_be_stale() -> None:
    verdict = explained(
        node_body(name="n1", zone="a"),
        csi_node_body(name="n1"),
        class_body(name="made", provisioner=DRIVER),
        driver_body(tracks_capacity=True),
        claim_body(name="data", storage_class="made", size="8Gi"),
        capacity_body(topology=HERE, capacity="3Gi"),
        pod_body(claims=["data"]),
    )
    assert verdict.notes == (
        f"capacity reported by {DRIVER} may be stale: its provisioner is not running: no Lease, not registered on any "
        "node, its CSIDriver exists",
    )
