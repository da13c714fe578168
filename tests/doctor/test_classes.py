"""Findings about StorageClasses and CSI drivers."""

import pytest

from mooring.api import well_known
from mooring.doctor.findings import Severity
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    class_body,
    csi_node_body,
    driver_body,
    node_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.doctor import KEY, codes, driver_bodies, lease_body, made_class, only, with_topology

ERROR, WARNING, INFO = Severity

UNTRACKED = driver_bodies("n1", tracks_capacity=None)
WITHOUT_TOPOLOGY = driver_bodies("n1", tracks_capacity=None, keys=())
ZONES = [node_body(name="n1", zone="a"), node_body(name="n2", zone="b")]
LOCAL_VOLUME = volume_body(node="n1")


def zoned(*zones: str, **more: object) -> Body:
    return class_body(allowed_topologies=[{well_known.ZONE: zones}], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([*WITHOUT_TOPOLOGY, made_class(binding_mode="Immediate")], set(), id="a driver without topology"),
        pytest.param(
            [*UNTRACKED, made_class(binding_mode="Immediate")], {(WARNING, "ImmediateBinding")}, id="node topology"
        ),
        pytest.param(
            [node_body(name="n1"), LOCAL_VOLUME, class_body(binding_mode="Immediate")],
            {(WARNING, "ImmediateBinding")},
            id="local volumes",
        ),
        pytest.param(
            [node_body(name="n1"), volume_body(), class_body(binding_mode="Immediate")],
            set(),
            id="volumes of all nodes",
        ),
        pytest.param([node_body(name="n1"), LOCAL_VOLUME, class_body()], set(), id="local volumes, bound with the pod"),
        pytest.param(
            [*ZONES, zoned("a", binding_mode="Immediate")], {(WARNING, "ImmediateBinding")}, id="allowedTopologies"
        ),
        pytest.param(
            [
                with_topology(csi_node_body(name="n1", limits={DRIVER: None}), well_known.REGION),
                node_body(name="n1"),
                driver_body(),
                lease_body(DRIVER.replace(".", "-")),
                made_class(binding_mode="Immediate"),
            ],
            set(),
            id="topology of a whole region",
        ),
    ],
)
def test_immediate_binding_with_topology_is_reported(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(*bodies) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(zoned("a", "b"), set(), id="every zone has nodes"),
        pytest.param(zoned("a", "z"), {(WARNING, "ClassTopologyMissing")}, id="one zone has none"),
        pytest.param(zoned("z"), {(ERROR, "ClassTopologyMissing")}, id="no zone has any"),
        pytest.param(
            class_body(allowed_topologies=[{well_known.ZONE: ["a"], well_known.HOSTNAME: ["n2"]}]),
            {(ERROR, "ClassTopologyMissing")},
            id="labels of two nodes",
        ),
        pytest.param(class_body(), set(), id="no allowedTopologies"),
    ],
)
def test_topologies_without_nodes_are_reported(body: Body, expected: set[tuple[Severity, str]]) -> None:
    assert codes(*ZONES, body) == expected


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param(UNTRACKED, {(INFO, "CapacityNotTracked")}, id="volumes on nodes"),
        pytest.param(WITHOUT_TOPOLOGY, set(), id="volumes everywhere"),
        pytest.param(
            [*UNTRACKED, capacity_body(topology={"matchLabels": {KEY: "n1"}}, capacity="1Gi")],
            {(WARNING, "CapacityNotTracked")},
            id="published and not used",
        ),
        pytest.param(
            [*driver_bodies("n1"), capacity_body(topology={"matchLabels": {KEY: "n1"}}, capacity="1Gi")],
            set(),
            id="published and used",
        ),
    ],
)
def test_drivers_without_capacity_tracking_are_reported(
    bodies: list[Body], expected: set[tuple[Severity, str]]
) -> None:
    assert codes(*bodies, made_class()) == expected


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param([], {(WARNING, "ProvisionerAbsent")}, id="no trace of the driver"),
        pytest.param(
            [claim_body(storage_class="made", selected_node="n1")],
            {(ERROR, "ProvisionerAbsent"), (ERROR, "ClaimStuck")},
            id="no trace, and a claim waits",
        ),
        pytest.param([lease_body(DRIVER.replace(".", "-"))], set(), id="its Lease is renewed"),
    ],
)
def test_classes_of_absent_drivers_are_reported(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    others = [node_body(name="n1"), csi_node_body(name="n1", limits={"other.example.com": None})]
    assert codes(*others, made_class(), *bodies) == expected


def unregistered(**node: object) -> list[Body]:
    other = csi_node_body(name="n2", limits={"other.example.com": None})
    return [*WITHOUT_TOPOLOGY, node_body(name="n2", **node), other, made_class()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param(unregistered(), {(WARNING, "DriverNotOnNode")}, id="a node without the driver"),
        pytest.param(unregistered(unschedulable=True), set(), id="a cordoned node"),
        pytest.param(unregistered(taints=[{"key": "only", "effect": "NoSchedule"}]), set(), id="a tainted node"),
        pytest.param([*unregistered(), driver_body(required=True)], set(), id="the driver is required"),
        pytest.param(
            [
                *driver_bodies("n1"),
                *unregistered()[-3:],
                capacity_body(topology={"matchLabels": {KEY: "n1"}}, capacity="1"),
            ],
            set(),
            id="the driver reports topology",
        ),
    ],
)
def test_schedulable_nodes_without_driver_are_reported(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(*bodies) == expected


def test_missing_zone_is_named() -> None:
    found = only("ClassTopologyMissing", *ZONES, zoned("a", "z"))
    assert found.evidence == (f"without a node: {well_known.ZONE}=z",)
