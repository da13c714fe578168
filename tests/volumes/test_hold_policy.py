"""When a held volume is committed, rolled back or waited for, one fact at a time."""

from typing import Any

import pytest
from msgspec import structs

from mooring.volumes.binding import HoldState
from mooring.volumes.holds.policy import (
    MAX_RETRY_BACKOFF_SECONDS,
    ClaimState,
    Commit,
    HoldTimeouts,
    RollBack,
    RollbackReason,
    Verdict,
    Wait,
    retry_backoff,
    verdict,
)
from mooring.volumes.holds.transitions import ClaimFacts, HoldSnapshot, Intent, IntentPhase, VolumeFacts

NODE = "node-1"
TIMEOUTS = HoldTimeouts(sibling=15.0, failed_sibling=5.0, unused=60.0, hold=600.0)


def state(name: str, **changes: Any) -> ClaimState:  # noqa: ANN401 - fields of ClaimState and HoldSnapshot
    """A claim whose volume is held on the node."""
    claim = ClaimFacts(name, selected_node=NODE)
    volume = VolumeFacts(f"pv-{name}", HoldState.HELD, NODE, attempt=1)
    facts = {"claim": claim, "volume": volume, "intent": Intent(1, NODE, IntentPhase.CREATED)}
    facts |= {key: changes.pop(key) for key in list(changes) if key in facts}
    return ClaimState(name, HoldSnapshot(**facts), **{"reaches": lambda node: node == NODE, **changes})  # type: ignore[arg-type]


def waiting(selected: str, **changes: Any) -> ClaimState:  # noqa: ANN401 - fields of ClaimState
    """A claim without volume that has been without its siblings' node for long."""
    given = {"volume": None, "intent": None, "unassigned_seconds": 100.0, **changes}
    return state("b", claim=ClaimFacts("b", selected_node=selected), **given)


HELD = state("a")
TERMINATING = state("a", claim=ClaimFacts("a", selected_node=NODE, deleting=True))
MISPLACED = state("a", reaches=lambda _: False)
FAILED_HERE = Intent(1, NODE, IntentPhase.FAILED)


@pytest.mark.parametrize(
    ("held", "sibling", "expected"),
    [
        pytest.param(HELD, state("b"), Commit(), id="both held"),
        pytest.param(HELD, waiting("", bound=True), Commit(), id="the other bound and reachable"),
        pytest.param(MISPLACED, state("b"), RollBack(RollbackReason.MISPLACED), id="not reachable from its node"),
        pytest.param(TERMINATING, state("b"), RollBack(RollbackReason.CLAIM_GONE), id="claim terminating"),
        pytest.param(
            HELD, state("b", claim=ClaimFacts("b", selected_node="node-2")), Wait(600.0), id="the other moves elsewhere"
        ),
        pytest.param(HELD, waiting(""), RollBack(RollbackReason.SIBLING_FAILED, "b"), id="the other gets none"),
        pytest.param(HELD, waiting("", provisioning=True), Wait(600.0), id="the other is being provisioned"),
        pytest.param(HELD, waiting(NODE), Wait(600.0), id="the other is requested on the node"),
        pytest.param(HELD, waiting("", unassigned_seconds=4.0), Wait(11.0), id="the other may follow"),
        pytest.param(
            HELD, waiting("", unassigned_seconds=4.0, intent=FAILED_HERE), Wait(1.0), id="the other failed on the node"
        ),
        pytest.param(
            HELD,
            waiting("", bound=True, reaches=lambda _: False),
            RollBack(RollbackReason.SIBLING_ELSEWHERE, "b"),
            id="the other bound elsewhere",
        ),
    ],
)
def test_verdict_on_a_pod_with_two_claims(held: ClaimState, sibling: ClaimState, expected: Verdict) -> None:
    assert verdict(held, [[held, sibling]], held_seconds=0.0, unused_seconds=0.0, timeouts=TIMEOUTS) == expected


@pytest.mark.parametrize(
    ("held_seconds", "timeouts", "expected"),
    [
        pytest.param(599.0, TIMEOUTS, Wait(1.0), id="almost too long"),
        pytest.param(600.0, TIMEOUTS, RollBack(RollbackReason.TOO_LONG), id="too long"),
        pytest.param(
            0.0, structs.replace(TIMEOUTS, draining=True), RollBack(RollbackReason.DRAINED), id="without the gate"
        ),
    ],
)
def test_incomplete_group_is_not_held_without_end(
    held_seconds: float, timeouts: HoldTimeouts, expected: Verdict
) -> None:
    groups = [[HELD, waiting(NODE)]]
    assert verdict(HELD, groups, held_seconds=held_seconds, unused_seconds=0.0, timeouts=timeouts) == expected


def test_attempts_for_one_claim_slow_down() -> None:
    pauses = [retry_backoff(attempt) for attempt in range(1, 20)]
    assert pauses[0] < pauses[3] < pauses[6] < pauses[-1] == MAX_RETRY_BACKOFF_SECONDS
