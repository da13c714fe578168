"""Findings about CSIStorageCapacity objects."""

import pytest

from mooring.doctor.findings import Severity
from mooring.provisioner.capacity.objects import DRIVER_LABEL
from support.builders import Body, capacity_body, claim_body, reachable_from, volume_body
from support.builders.drivers import DRIVER
from support.doctor import KEY, at, codes, driver_bodies, lease_body, made_class, only
from support.explain.clusters import event_body

ERROR, WARNING, INFO = Severity


def segment(node: str, **more: object) -> Body:
    values = {"capacity": "10Gi"} | more
    body = capacity_body(name=f"cap-{node}", topology={"matchLabels": {KEY: node}}, **values)  # type: ignore[arg-type]
    body["metadata"]["labels"] = {DRIVER_LABEL: DRIVER}
    return body


def everywhere(**more: object) -> Body:
    return capacity_body(name="cap-all", topology={}, **more)  # type: ignore[arg-type]


def csi_volume(node: str) -> Body:
    source = {"csi": {"driver": DRIVER, "volumeHandle": "v"}}
    return volume_body(storage_class="made", affinity=reachable_from(KEY, node), source=source, phase="Released")


def failed(count: int = 3, *, code: str = "ResourceExhausted") -> Body:
    message = f"failed to provision volume: rpc error: code = {code} desc = no space"
    event = event_body(claim_body(name="data"), "ProvisioningFailed", message, at=at(60), component=DRIVER)
    return event | {"count": count}


CLUSTER = (*driver_bodies("n1", "n2"), made_class())
GOOD = (*CLUSTER, segment("n1"), segment("n2"))
WAITING = claim_body(name="data", storage_class="made", size="5Gi")
SELECTED = claim_body(name="data", storage_class="made", size="5Gi", selected_node="n1")


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        pytest.param(GOOD, set(), id="one object per segment"),
        pytest.param([*CLUSTER, segment("n1")], {(WARNING, "CapacityMissing")}, id="a node without an object"),
        pytest.param(CLUSTER, {(ERROR, "CapacityMissing")}, id="no object at all"),
        pytest.param(
            [*driver_bodies("n1"), made_class(binding_mode="Immediate")],
            {(WARNING, "ImmediateBinding")},
            id="no object is needed for a class that binds at once",
        ),
        pytest.param(
            [*CLUSTER, everywhere(capacity="20Gi")], {(WARNING, "CapacitySum")}, id="one value for both nodes"
        ),
        pytest.param(
            [*CLUSTER, everywhere(capacity="20Gi", largest="10Gi")], set(), id="one value with the largest volume"
        ),
        pytest.param(
            [*driver_bodies("n1", "n2", keys=()), made_class(), everywhere(capacity="20Gi")],
            set(),
            id="one value of a driver without topology",
        ),
        pytest.param(
            [*CLUSTER, segment("n1", largest="11Gi"), segment("n2")],
            {(WARNING, "CapacityContradictory")},
            id="the largest volume is larger than the capacity",
        ),
        pytest.param(
            [*CLUSTER, segment("n1", largest="9Gi"), segment("n2")], set(), id="the largest volume is smaller"
        ),
        pytest.param(
            [*CLUSTER, segment("n1", capacity="0"), segment("n2", capacity="0")],
            {(WARNING, "CapacityZero")},
            id="zero everywhere",
        ),
        pytest.param(
            [*CLUSTER, WAITING, segment("n1", capacity="0"), segment("n2", capacity="0")],
            {(ERROR, "CapacityZero")},
            id="zero everywhere and a claim waits",
        ),
        pytest.param(
            [*CLUSTER, segment("n1", capacity="0"), segment("n2")],
            {(WARNING, "CapacityZero")},
            id="zero on a node without volumes",
        ),
        pytest.param(
            [*CLUSTER, segment("n1", capacity="0"), segment("n2"), csi_volume("n1")],
            set(),
            id="zero on a node whose volumes use it up",
        ),
        pytest.param(
            [*GOOD, capacity_body(storage_class="gone", topology={"matchLabels": {KEY: "n1"}}, capacity="1Gi")],
            {(WARNING, "CapacityForeign")},
            id="a class that does not exist",
        ),
        pytest.param(
            [*CLUSTER, segment("n1") | {"metadata": {"name": "x", "labels": {DRIVER_LABEL: "other"}}}, segment("n2")],
            {(WARNING, "CapacityForeign")},
            id="another driver's object",
        ),
        pytest.param([*GOOD, segment("n9")], {(INFO, "CapacityOfNoNode")}, id="a segment without nodes"),
        pytest.param([*GOOD, capacity_body(capacity="1Gi")], {(INFO, "CapacityOfNoNode")}, id="no nodeTopology"),
        pytest.param(
            [*GOOD, segment("n1") | {"metadata": {"name": "again", "namespace": "elsewhere"}}],
            {(WARNING, "CapacityDuplicate")},
            id="two objects for one segment",
        ),
        pytest.param(
            [*GOOD, SELECTED, failed()], {(ERROR, "CapacityOverstated"), (ERROR, "ClaimStuck")}, id="too much"
        ),
        pytest.param(
            [*GOOD, SELECTED, failed(code="Internal")], {(ERROR, "ClaimStuck")}, id="a failure for another reason"
        ),
        pytest.param(
            [*CLUSTER, segment("n1", capacity="4Gi"), segment("n2"), SELECTED, failed()],
            {(ERROR, "ClaimStuck")},
            id="enough on another node only",
        ),
        pytest.param([*GOOD, WAITING, failed(1)], set(), id="one failure on a node that is no longer selected"),
    ],
)
def test_capacity_objects_are_judged(bodies: list[Body], expected: set[tuple[Severity, str]]) -> None:
    assert codes(*bodies) == expected


@pytest.mark.parametrize(
    ("renewed", "expected"),
    [
        pytest.param(1, set(), id="runs"),
        pytest.param(600, {(ERROR, "CapacityStale"), (WARNING, "ProvisionerAbsent")}, id="does not renew its Lease"),
    ],
)
def test_values_of_a_silent_publisher_are_stale(renewed: float, expected: set[tuple[Severity, str]]) -> None:
    lease = lease_body(DRIVER.replace(".", "-"), renewed=renewed)
    # A later document replaces the Lease of the driver.
    assert codes(*GOOD, lease) == expected


def test_overstated_capacity_shows_value_and_failures() -> None:
    found = only("CapacityOverstated", *GOOD, SELECTED, failed())
    assert found.object == "CSIStorageCapacity default/cap-n1"
    assert found.evidence == (
        f"default/cap-n1 ({KEY}=n1): 10Gi",
        f"{at(60)}: ResourceExhausted for default/data (5Gi)",
    )


def test_invalid_quantities_do_not_stop_other_findings() -> None:
    assert (INFO, "CapacityOfNoNode") in codes(*CLUSTER, segment("n1", capacity="much"), segment("n2"))
