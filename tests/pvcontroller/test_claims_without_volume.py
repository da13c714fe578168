"""The claim machine, for claims that name no volume: which one is found, or what the claim waits for."""

from typing import Any

import pytest

from mooring.api.kinds import CLAIM
from support.builders import Body
from support.pvcontroller.fake_cluster import FakeCluster
from support.pvcontroller.pair import BOUND, BY_CONTROLLER, NO_CLASS, USED, claim, mine, volume


@pytest.mark.parametrize(
    ("bodies", "expected_claim", "expected_volume", "expected_events"),
    [
        pytest.param([volume()], BOUND, USED, [], id="a free volume of the right size is bound"),
        pytest.param(
            [volume(size="500Mi")], "Pending", "Available", [NO_CLASS], id="a volume that is too small is left alone"
        ),
        pytest.param([volume(phase="Pending")], "Pending", "Pending", [NO_CLASS], id="a volume not yet Available"),
        pytest.param([volume(phase="Released")], "Pending", "Released", [NO_CLASS], id="a Released volume"),
        pytest.param([volume(phase="Failed")], "Pending", "Failed", [NO_CLASS], id="a Failed volume"),
        pytest.param([volume(deleting=True)], "Pending", "Available", [NO_CLASS], id="a volume being deleted"),
        pytest.param([volume(mode="Block")], "Pending", "Available", [NO_CLASS], id="a volume of another mode"),
        pytest.param([volume(storage_class="gold")], "Pending", "Available", [NO_CLASS], id="a volume with a class"),
        pytest.param(
            [volume(size="10Gi", claim_ref=mine()), volume(name="volume-0")],
            BOUND,
            "Bound to claim-1",
            [],
            id="a volume reserved by name wins over a smaller one, and stays the user's choice",
        ),
        pytest.param(
            [volume(size="10Gi", claim_ref=mine("claim-1-uid")), volume(name="volume-0")],
            BOUND,
            "Bound to claim-1",
            [],
            id="a volume reserved by name and uid wins over a smaller one",
        ),
        pytest.param(
            [volume(storage_class="gold", phase="Pending", claim_ref=mine())],
            BOUND,
            "Bound to claim-1",
            [],
            id="a reserved volume need be neither of the class nor Available",
        ),
        pytest.param(
            [volume(size="500Mi", claim_ref=mine())],
            "Pending",
            "Available for claim-1",
            [NO_CLASS],
            id="a reserved volume must still be large enough",
        ),
        pytest.param(
            [volume(claim_ref=mine("another-uid"))],
            "Pending",
            "Available to claim-1",
            [NO_CLASS],
            id="a volume reserved for an earlier claim of the name",
        ),
        pytest.param(
            [volume(claim_ref=mine("claim-1-uid"), annotations=BY_CONTROLLER)],
            BOUND,
            USED,
            [],
            id="a crash after the volume was reserved",
        ),
        pytest.param(
            [volume(claim_ref=mine("claim-1-uid"), annotations=BY_CONTROLLER, phase="Bound")],
            BOUND,
            USED,
            [],
            id="a crash after the volume's phase was written",
        ),
    ],
)
@pytest.mark.req("T42.PC7", "T42.PC12")
def test_claim_that_names_no_volume(
    bodies: list[Body], expected_claim: str, expected_volume: str, expected_events: list[str]
) -> None:
    cluster = FakeCluster(claim(), *bodies)
    events = cluster.settle(CLAIM, "default/claim-1")
    assert (cluster.claim(), cluster.volume(), events) == (expected_claim, expected_volume, expected_events)


@pytest.mark.req("T42.PC7", "T42.PC13")
def test_phase_bound_without_a_volume_is_corrected() -> None:
    body = claim(phase="Bound")
    body["status"] |= {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    cluster = FakeCluster(body)
    assert cluster.settle(CLAIM, "default/claim-1") == [NO_CLASS]
    assert cluster.bodies[CLAIM, "default/claim-1"]["status"] == {"phase": "Pending"}


@pytest.mark.parametrize(
    ("requested", "bodies", "chosen"),
    [
        pytest.param({}, [volume(size="10Gi"), volume(name="volume-2")], "volume-2", id="the smallest that does"),
        pytest.param(
            {"selector": {"matchLabels": {"disk": "ssd"}}},
            [volume(), volume(name="volume-2", size="9Gi", labels={"disk": "ssd"})],
            "volume-2",
            id="one the selector matches",
        ),
        pytest.param(
            {"storage_class": "gold"},
            [volume(), volume(name="volume-2", size="9Gi", storage_class="gold")],
            "volume-2",
            id="one of the class, even if the class does not exist",
        ),
        pytest.param(
            {"storage_class": None},
            [volume(storage_class="gold"), volume(name="volume-2", size="9Gi")],
            "volume-2",
            id="one without class for a claim that names none",
        ),
        pytest.param(
            {"mode": "Block"},
            [volume(), volume(name="volume-2", size="9Gi", mode="Block")],
            "volume-2",
            id="one of the mode",
        ),
        pytest.param(
            {},
            [volume(access_modes=["ReadWriteOnce", "ReadOnlyMany"]), volume(name="volume-2", size="9Gi")],
            "volume-2",
            id="one with fewer access modes before a smaller one",
        ),
    ],
)
@pytest.mark.req("T42.PC31", "T5.static")
def test_which_volume_is_taken(requested: dict[str, Any], bodies: list[Body], chosen: str) -> None:
    cluster = FakeCluster(claim(**requested), *bodies)
    cluster.settle(CLAIM, "default/claim-1")
    assert cluster.claim() == f"Bound to {chosen} by controller"


@pytest.mark.req("T42.PC7")
def test_selector_that_cannot_be_understood_is_no_reason_to_bind() -> None:
    broken = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    step = FakeCluster(claim(selector=broken), volume()).enqueue_claim("default/claim-1")
    assert step.write is None
    assert "Near" in step.problem
