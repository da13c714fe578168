"""A used volume is never taken from its claim, whoever marks, crashes or is late; and each rule is needed for it."""

from dataclasses import replace
from typing import Final

import pytest

from model.clean_claim_model import CleanClaimModel, Rules, State, wrong
from model.exploration import dead_ends, explore
from mooring.pvcontroller.intents import EndRollback, ForsakeVolume, PointClaim, ReleaseVolume

KINDS: Final = [pytest.param(True, id="a volume made for it"), pytest.param(False, id="a volume that was there")]


@pytest.mark.level("m")
@pytest.mark.req("T40", "R2")
@pytest.mark.parametrize("made", KINDS)
def test_nothing_bad_is_reachable(made: bool) -> None:
    explored = explore(State(), CleanClaimModel(made=made).successors, wrong)
    assert not explored.violation, str(explored)
    assert explored.states > 1000


@pytest.mark.parametrize("made", KINDS)
def test_from_every_state_the_claim_can_be_bound(made: bool) -> None:
    count, steps = dead_ends(State(), CleanClaimModel(made=made).successors, lambda state: state.claim.phase == "Bound")
    assert count == 0, "; ".join(steps)


def without(*writes: type) -> Rules:
    return replace(Rules(), second_looks=Rules().second_looks - set(writes))


MUTATIONS: Final[dict[str, Rules]] = {
    "writes do not compare": replace(Rules(), compares=False),
    "the server lets used claims go": replace(Rules(), server_wants_clean=False),
    "anybody may call a bound claim clean": replace(Rules(), clean_only_without_volume=False),
    "anybody may end a rollback": replace(Rules(), mark_is_guarded=False),
    "nodes use volumes without a word": replace(Rules(), node_says_so_first=False),
    "a volume is let go on old news of its claim": without(ForsakeVolume, ReleaseVolume),
    "a rollback ends on old news of its volume": without(EndRollback),
    "a claim is completed on old news of its volume": without(PointClaim),
}


@pytest.mark.parametrize("rules", [pytest.param(rules, id=name) for name, rules in MUTATIONS.items()])
def test_every_rule_is_needed(rules: Rules) -> None:
    found = [explore(State(), CleanClaimModel(made=made, rules=rules).successors, wrong) for made in (True, False)]
    assert any(explored.violation for explored in found), "the model does not notice"
