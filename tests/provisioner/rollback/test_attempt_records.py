"""Records of attempts: one schema for held and other attempts, also as earlier versions wrote it; and production takes
the very steps after a refusal that the model explores.
"""

from collections.abc import Mapping

import pytest

from mooring.provisioner.rollback import attempts
from mooring.volumes.holds import transitions
from mooring.volumes.holds.transitions import (
    ClaimFacts,
    HoldSnapshot,
    Intent,
    IntentPhase,
    MalformedIntent,
    from_data,
    to_data,
)
from provisioner.rollback import test_lost_nodes
from provisioner.rollback.test_held_provisioning import TIGHT, choose, play
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane


@pytest.mark.parametrize("phase", IntentPhase)
@pytest.mark.parametrize("attempt", [0, 1, 7])
def test_intent_survives_its_record(attempt: int, phase: IntentPhase) -> None:
    intent = Intent(attempt, "node-1", phase)
    assert from_data(to_data(intent)) == intent
    assert ("attempt" in to_data(intent)) is intent.held, "earlier versions take a number for a held attempt"


@pytest.mark.parametrize(
    ("stored", "held"),
    [
        pytest.param({"claim": "default/c", "node": "n", "phase": "Creating", "plan": "{}"}, False, id="not held"),
        pytest.param({"attempt": "2", "node": "n", "phase": "RolledBack", "plan": "{}"}, True, id="held"),
    ],
)
def test_records_of_earlier_versions_are_read(stored: Mapping[str, str], held: bool) -> None:
    assert from_data(stored).held is held


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param({}, id="empty"),
        pytest.param({"node": "n"}, id="no phase"),
        pytest.param({"phase": "Creating"}, id="no node"),
        pytest.param({"attempt": "0", "node": "n", "phase": "Creating"}, id="attempt 0 as a number"),
        pytest.param({"attempt": "-1", "node": "n", "phase": "Creating"}, id="negative attempt"),
        pytest.param({"attempt": "x", "node": "n", "phase": "Creating"}, id="no number"),
    ],
)
def test_other_config_maps_are_not_records(stored: Mapping[str, str]) -> None:
    with pytest.raises(MalformedIntent):
        from_data(stored)


class Steps:
    """Stands in for `after_refusal` and writes down what it was asked and what it answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[tuple[bool, str]] = []
        monkeypatch.setattr(attempts, "after_refusal", self._decide)

    def _decide(self, situation: HoldSnapshot, *, reschedule: bool) -> transitions.ProvisioningStep:
        step = transitions.after_refusal(situation, reschedule=reschedule)
        self.taken.append((reschedule, type(step).__name__))
        return step


def test_provisioner_follows_the_model_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.pass_time(20.0)

    play(FakeCsiDriver(TIGHT), scenario)
    assert steps.taken[:2] == [(True, "ClearSelectedNode"), (True, "Close")]


def test_lost_storage_takes_the_steps_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    test_lost_nodes.test_storage_lost_annotation_clears_claims_of_deleted_node(made=False)
    assert steps.taken[-2:] == [(True, "ClearSelectedNode"), (True, "Close")]


def test_node_stays_selected_where_it_is_not_to_blame() -> None:
    situation = HoldSnapshot(ClaimFacts("uid", "node-1"), None, Intent(1, "node-1", IntentPhase.CREATING))
    assert transitions.after_refusal(situation, reschedule=False) == transitions.Close(
        Intent(1, "node-1", IntentPhase.FAILED)
    )
    assert transitions.after_refusal(situation, reschedule=True) == transitions.ClearSelectedNode("node-1")
