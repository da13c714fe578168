"""The claim machine, for claims that name a volume: bound by their user, half-way, or for long."""

from typing import Any

import pytest

from mooring.api.kinds import CLAIM, VOLUME
from mooring.pvcontroller.actions import ReserveVolume, SetClaimStatus, SetClaimVolumeName, SetVolumePhase
from support.builders import Body, claim_ref
from support.pvcontroller.fake_cluster import FakeCluster
from support.pvcontroller.pair import BOUND, BY_CONTROLLER, USED, claim, mine, theirs, volume


@pytest.mark.parametrize(
    ("given", "bodies", "expected_claim", "expected_volume", "expected_events"),
    [
        pytest.param({}, [], "Pending to volume-1 unfinished", None, [], id="the volume is not there"),
        pytest.param({"phase": "Bound"}, [], "Pending to volume-1 unfinished", None, [], id="nor was it ever"),
        pytest.param({}, [volume(size="9Gi")], "Bound to volume-1", USED, [], id="it is free, and larger"),
        pytest.param(
            {}, [volume(claim_ref=mine())], "Bound to volume-1", "Bound to claim-1", [], id="both named each other"
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine("claim-1-uid"))],
            "Bound to volume-1",
            "Bound to claim-1",
            [],
            id="both named each other, by uid",
        ),
        pytest.param(
            {"selector": {"matchLabels": {"disk": "ssd"}}},
            [volume()],
            "Bound to volume-1",
            USED,
            [],
            id="the selector does not count",
        ),
        pytest.param({}, [volume(phase="Released")], "Bound to volume-1", USED, [], id="the phase does not count"),
        pytest.param(
            {"phase": "Bound"},
            [volume(claim_ref=theirs())],
            "Pending to volume-1 unfinished",
            "Available to other",
            ["Warning FailedBinding"],
            id="it belongs to another claim",
        ),
        pytest.param(
            {"annotations": BY_CONTROLLER, "phase": "Bound"},
            [volume(claim_ref=theirs())],
            "Bound to volume-1 unfinished by controller",
            "Available to other",
            ["Warning FailedBinding"],
            id="it belongs to another claim, and no user had named it: nothing is touched",
        ),
    ],
)
@pytest.mark.req("T42.PC10")
def test_claim_that_names_a_volume(
    given: dict[str, Any],
    bodies: list[Body],
    expected_claim: str,
    expected_volume: str | None,
    expected_events: list[str],
) -> None:
    cluster = FakeCluster(claim(volume="volume-1", **given), *bodies)
    events = cluster.settle(CLAIM, "default/claim-1")
    assert (cluster.claim(), events) == (expected_claim, expected_events)
    if expected_volume is not None:
        assert cluster.volume() == expected_volume


@pytest.mark.parametrize(
    ("given", "named", "why"),
    [
        pytest.param({}, volume(deleting=True), 'the volume is marked for deletion "volume-1"', id="being deleted"),
        pytest.param({}, volume(size="1073741823"), "requested PV is too small", id="one byte too small"),
        pytest.param({}, volume(storage_class="gold"), "storageClassName does not match", id="another class"),
        pytest.param(
            {}, volume(attributes_class="fast"), "volumeAttributesClassName does not match", id="other attributes"
        ),
        pytest.param({}, volume(mode="Block"), "incompatible volumeMode", id="another mode"),
        pytest.param(
            {"access_modes": ["ReadWriteMany"]}, volume(), "incompatible accessMode", id="an access mode is missing"
        ),
    ],
)
@pytest.mark.req("T42.PC10")
def test_named_volume_that_will_not_do(given: dict[str, Any], named: Body, why: str) -> None:
    step = FakeCluster(claim(volume="volume-1", **given), named).enqueue_claim("default/claim-1")
    assert step.write is None
    [say] = step.events
    assert (say.type, say.reason) == ("Warning", "VolumeMismatch")
    assert say.message == f'Cannot bind to requested volume "volume-1": {why}'


@pytest.mark.parametrize(
    ("given", "bodies", "expected_claim", "expected_volume", "expected_events"),
    [
        pytest.param({"volume": ""}, [], "Lost", None, ["Warning ClaimLost"], id="it names no volume any more"),
        pytest.param({}, [], "Lost to volume-1", None, ["Warning ClaimLost"], id="its volume is gone"),
        pytest.param({"phase": "Lost"}, [], "Lost to volume-1", None, [], id="that was said before"),
        pytest.param({}, [volume()], "Bound to volume-1", USED, [], id="its volume forgot it: bound again"),
        pytest.param(
            {"phase": "Lost"}, [volume()], "Bound to volume-1", USED, [], id="its volume came back: bound again"
        ),
        pytest.param(
            {"phase": "Pending", "selector": {"matchLabels": {"disk": "ssd"}}},
            [volume()],
            "Bound to volume-1",
            USED,
            [],
            id="bound again whatever the selector says",
        ),
        pytest.param(
            {"phase": "Pending"},
            [volume(claim_ref=mine("claim-1-uid"))],
            "Bound to volume-1",
            "Bound to claim-1",
            [],
            id="both phases are behind",
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine("claim-1-uid"), phase="Bound")],
            "Bound to volume-1",
            "Bound to claim-1",
            [],
            id="all is well",
        ),
        pytest.param(
            {"size": "2Gi"},
            [volume(claim_ref=mine("claim-1-uid"), phase="Bound")],
            "Bound to volume-1",
            "Bound to claim-1",
            ["Normal ExternalExpanding"],
            id="it was patched to ask for more",
        ),
        pytest.param(
            {"size": "2Gi"},
            [volume(claim_ref=mine("claim-1-uid"), phase="Bound", size="2Gi")],
            "Bound to volume-1",
            "Bound to claim-1",
            [],
            id="its volume has as much",
        ),
        pytest.param(
            {},
            [volume(claim_ref=theirs(), phase="Bound")],
            "Lost to volume-1",
            "Bound to other",
            ["Warning ClaimMisbound"],
            id="its volume is another claim's",
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine("another-uid"), phase="Bound")],
            "Lost to volume-1",
            "Bound to claim-1",
            ["Warning ClaimMisbound"],
            id="its volume belongs to an earlier claim of the name",
        ),
        pytest.param(
            {},
            [volume(claim_ref=mine())],
            "Lost to volume-1",
            "Available for claim-1",
            ["Warning ClaimMisbound"],
            id="its volume is reserved by name only",
        ),
    ],
)
@pytest.mark.req("T42.PC11", "T42.PC6")
def test_claim_that_was_bound_before(
    given: dict[str, Any],
    bodies: list[Body],
    expected_claim: str,
    expected_volume: str | None,
    expected_events: list[str],
) -> None:
    body = claim(**{"volume": "volume-1", "bound": True, **given})
    body["status"] |= {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    cluster = FakeCluster(body, *bodies)
    events = cluster.settle(CLAIM, "default/claim-1")
    assert (cluster.claim(), events) == (expected_claim, expected_events)
    if expected_volume is not None:
        assert cluster.volume() == expected_volume


@pytest.mark.req("T42.PC12")
def test_writes_of_a_binding_come_in_the_order_that_survives_a_crash() -> None:
    cluster = FakeCluster(claim(), volume())
    writes = []
    while (step := cluster.enqueue_claim("default/claim-1")).write is not None:
        writes.append(type(step.write))
        cluster.take(step)
    assert writes == [ReserveVolume, SetVolumePhase, SetClaimVolumeName, SetClaimStatus]


@pytest.mark.req("T42.PC12")
def test_reservation_carries_a_full_reference() -> None:
    cluster = FakeCluster(claim(), volume())
    cluster.settle(CLAIM, "default/claim-1")
    reference = cluster.bodies[VOLUME, "volume-1"]["spec"]["claimRef"]
    assert reference.pop("resourceVersion")
    assert reference == claim_ref(name="claim-1", uid="claim-1-uid")


@pytest.mark.req("T42.PC13")
def test_volume_without_a_size_cannot_be_reported() -> None:
    used = volume(claim_ref=mine("claim-1-uid"), phase="Bound")
    del used["spec"]["capacity"]
    cluster = FakeCluster(claim(volume="volume-1", bound=True, phase="Pending"), used)
    step = cluster.enqueue_claim("default/claim-1")
    assert (step.write, step.problem) == (None, 'PersistentVolume "volume-1" is without a storage capacity')


@pytest.mark.req("T42.PC12")
def test_crash_after_the_claim_was_pointed_at_its_volume() -> None:
    used = volume(claim_ref=mine("claim-1-uid"), annotations=BY_CONTROLLER, phase="Bound")
    cluster = FakeCluster(claim(volume="volume-1", bound=True, phase="Pending", annotations=BY_CONTROLLER), used)
    assert cluster.settle(CLAIM, "default/claim-1") == []
    assert cluster.claim() == BOUND
