"""The safety rules of held volumes, one fact at a time; the models in tests/model explore them in every order."""

from typing import Any

import pytest
from msgspec import structs

from mooring.volumes.binding import HoldState
from mooring.volumes.holds.transitions import (
    BeginRollback,
    ClaimFacts,
    ClearSelectedNode,
    Close,
    DeleteOrphan,
    DeleteStorage,
    HoldSnapshot,
    IgnoreOrphan,
    Intent,
    IntentPhase,
    Nothing,
    OpenAttempt,
    OrphanStep,
    ProvisioningStep,
    RejectRollback,
    RemoveVolume,
    RollbackStep,
    VolumeFacts,
    after_refusal,
    may_commit,
    may_roll_back,
    next_orphan_step,
    next_provisioning_step,
    next_rollback_step,
)

CREATED = Intent(2, "node-1", IntentPhase.CREATED)
CREATING = Intent(2, "node-1", IntentPhase.CREATING)
FAILED = Intent(2, "node-1", IntentPhase.FAILED)
OVER = Intent(2, "node-1", IntentPhase.ROLLED_BACK)
CLAIM = ClaimFacts("u1", selected_node="node-1")
HELD = VolumeFacts("pv-1", HoldState.HELD, "node-1", attempt=2, handle="h")
LEAVING = structs.replace(HELD, state=HoldState.ROLLING_BACK)
SNAPSHOT = HoldSnapshot(CLAIM, HELD, CREATED)


def claim(**facts: Any) -> ClaimFacts:  # noqa: ANN401 - fields of ClaimFacts
    return structs.replace(CLAIM, **facts)


def volume(**facts: Any) -> VolumeFacts:  # noqa: ANN401 - fields of VolumeFacts
    return structs.replace(HELD, **facts)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="held by the attempt on record"),
        pytest.param({"claim": None}, False, id="claim deleted"),
        pytest.param({"claim": claim(deleting=True)}, False, id="claim terminating"),
        pytest.param({"claim": claim(volume_name="pv-2")}, False, id="claim bound elsewhere"),
        pytest.param({"claim": claim(volume_name="pv-1")}, True, id="claim names the volume"),
        pytest.param({"volume": None}, False, id="no volume"),
        pytest.param({"volume": LEAVING}, False, id="volume in rollback"),
        pytest.param({"volume": volume(deleting=True)}, False, id="volume terminating"),
        pytest.param({"volume": volume(attempt=1)}, False, id="volume of another attempt"),
        pytest.param({"intent": None}, False, id="no record"),
        pytest.param({"intent": CREATING}, False, id="open attempt"),
        pytest.param({"intent": OVER}, False, id="attempt rolled back"),
        pytest.param({"volume": volume(static=True, attempt=0), "intent": None}, True, id="existing volume"),
    ],
)
def test_volume_may_be_committed(changes: dict[str, Any], expected: bool) -> None:
    assert may_commit(structs.replace(SNAPSHOT, **changes)) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, True, id="held"),
        pytest.param({"claim": None, "intent": None}, True, id="nothing else is known of it"),
        pytest.param({"claim": claim(volume_name="pv-1")}, False, id="claim names the volume"),
        pytest.param({"volume": LEAVING}, False, id="in rollback already"),
        pytest.param({"volume": volume(attached=True)}, False, id="attached"),
        pytest.param({"volume": None}, False, id="no volume"),
    ],
)
def test_volume_may_be_rolled_back(changes: dict[str, Any], expected: bool) -> None:
    assert may_roll_back(structs.replace(SNAPSHOT, **changes)) is expected


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        pytest.param(HoldSnapshot(CLAIM, None, None), OpenAttempt(Intent(1, "node-1", IntentPhase.CREATING)), id="new"),
        pytest.param(
            HoldSnapshot(CLAIM, None, FAILED), OpenAttempt(Intent(3, "node-1", IntentPhase.CREATING)), id="next attempt"
        ),
        pytest.param(HoldSnapshot(claim(selected_node=""), None, FAILED), Nothing(), id="no node"),
        pytest.param(HoldSnapshot(claim(deleting=True), None, None), Nothing(), id="claim terminating"),
        pytest.param(HoldSnapshot(claim(volume_name="pv-9"), None, None), Nothing(), id="claim bound"),
        pytest.param(HoldSnapshot(CLAIM, None, CREATED), OpenAttempt(CREATING), id="object lost"),
        pytest.param(HoldSnapshot(None, None, CREATED), Nothing(), id="object and claim lost"),
        pytest.param(HoldSnapshot(CLAIM, HELD, CREATING), Close(CREATED), id="saved"),
        pytest.param(HoldSnapshot(CLAIM, volume(attempt=1), CREATING), Nothing(), id="volume of another attempt"),
    ],
)
def test_provisioning_steps(snapshot: HoldSnapshot, expected: ProvisioningStep) -> None:
    assert next_provisioning_step(snapshot) == expected


@pytest.mark.parametrize(
    ("snapshot", "reschedule", "expected"),
    [
        pytest.param(HoldSnapshot(CLAIM, None, CREATING), True, ClearSelectedNode("node-1"), id="other node first"),
        pytest.param(HoldSnapshot(CLAIM, None, CREATING), False, Close(FAILED), id="same node"),
        pytest.param(
            HoldSnapshot(claim(selected_node="node-2"), None, CREATING), True, Close(FAILED), id="node changed"
        ),
        pytest.param(HoldSnapshot(CLAIM, HELD, CREATED), True, Nothing(), id="the attempt has a volume"),
        pytest.param(HoldSnapshot(CLAIM, None, None), True, Nothing(), id="no record"),
    ],
)
def test_steps_after_a_final_failure(snapshot: HoldSnapshot, reschedule: bool, expected: ProvisioningStep) -> None:
    assert after_refusal(snapshot, reschedule=reschedule) == expected


@pytest.mark.parametrize(
    ("snapshot", "storage_deleted", "expected"),
    [
        pytest.param(SNAPSHOT, False, Nothing(), id="held"),
        pytest.param(
            HoldSnapshot(CLAIM, volume(deleting=True), CREATED), False, BeginRollback(), id="deleted by a user"
        ),
        pytest.param(HoldSnapshot(CLAIM, volume(state=HoldState.COMMITTED), CREATED), True, Nothing(), id="committed"),
        pytest.param(HoldSnapshot(CLAIM, LEAVING, CREATED), False, DeleteStorage("h"), id="storage first"),
        pytest.param(HoldSnapshot(CLAIM, LEAVING, CREATED), True, ClearSelectedNode("node-1"), id="then the node"),
        pytest.param(HoldSnapshot(claim(selected_node=""), LEAVING, CREATED), True, Close(OVER), id="then the record"),
        pytest.param(HoldSnapshot(claim(selected_node=""), LEAVING, OVER), True, RemoveVolume(), id="the object last"),
        pytest.param(HoldSnapshot(claim(volume_name="pv-1"), LEAVING, CREATED), False, RejectRollback(), id="used"),
        *(
            pytest.param(
                HoldSnapshot(CLAIM, structs.replace(LEAVING, **facts), CREATED), False, RejectRollback(), id=name
            )
            for name, facts in {
                "attached": {"attached": True},
                "without marks": {"marked": False},
                "existing": {"static": True},
            }.items()
        ),
    ],
)
def test_rollback_steps(snapshot: HoldSnapshot, storage_deleted: bool, expected: RollbackStep) -> None:
    assert next_rollback_step(snapshot, storage_deleted=storage_deleted) == expected


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        pytest.param(SNAPSHOT, Nothing(), id="it has an object"),
        pytest.param(HoldSnapshot(CLAIM, None, CREATING), Nothing(), id="open attempt"),
        pytest.param(
            HoldSnapshot(CLAIM, None, FAILED), OpenAttempt(Intent(3, "node-1", IntentPhase.CREATING)), id="adopted"
        ),
        pytest.param(HoldSnapshot(None, None, FAILED), DeleteOrphan(), id="claim deleted, attempt closed"),
        pytest.param(HoldSnapshot(None, None, None), IgnoreOrphan(), id="nothing is known"),
        pytest.param(HoldSnapshot(None, None, CREATED), IgnoreOrphan(), id="may have been used"),
        pytest.param(HoldSnapshot(claim(volume_name="pv-1"), None, FAILED), IgnoreOrphan(), id="the claim's own"),
    ],
)
def test_orphan_steps(snapshot: HoldSnapshot, expected: OrphanStep) -> None:
    assert next_orphan_step(snapshot, name="pv-1", node="node-1") == expected
