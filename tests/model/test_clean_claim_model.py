"""A used volume is never unbound, in any interleaving with marks, crashes and delays; and each rule is needed."""

from dataclasses import replace
from typing import Final

import pytest

from mooring.pvcontroller.actions import DetachVolume, EndRollback, ReleaseVolume, SetClaimVolumeName
from support.model.clean_claim_model import CleanClaimModel, Rules, State, violation
from support.model.exploration import dead_ends, explore

KINDS: Final = [pytest.param(True, id="provisioned"), pytest.param(False, id="existing")]


@pytest.mark.level("m")
@pytest.mark.req("T40.only-clean", "R2.model")
@pytest.mark.parametrize("provisioned", KINDS)
def test_invariants_hold_in_every_reachable_state(provisioned: bool) -> None:
    explored = explore(State(), CleanClaimModel(provisioned=provisioned).successors, violation)
    assert not explored.violation, str(explored)
    assert explored.states > 1000


@pytest.mark.parametrize("provisioned", KINDS)
def test_claim_can_be_bound_from_every_state(provisioned: bool) -> None:
    count, steps = dead_ends(
        State(), CleanClaimModel(provisioned=provisioned).successors, lambda state: state.claim.phase == "Bound"
    )
    assert count == 0, "; ".join(steps)


def without(*writes: type) -> Rules:
    return replace(Rules(), live_checks=Rules().live_checks - set(writes))


MUTATIONS: Final[dict[str, Rules]] = {
    "unconditional writes": replace(Rules(), compares=False),
    "server unbinds dirty claims": replace(Rules(), server_requires_clean=False),
    "users set Clean on bound claims": replace(Rules(), clean_only_without_volume=False),
    "users end a rollback": replace(Rules(), mark_is_guarded=False),
    "nodes use volumes without marking the claim": replace(Rules(), node_marks_dirty_first=False),
    "volume released without a live check": without(DetachVolume, ReleaseVolume),
    "rollback ended without a live check": without(EndRollback),
    "claim bound without a live check": without(SetClaimVolumeName),
}


@pytest.mark.parametrize("rules", [pytest.param(rules, id=name) for name, rules in MUTATIONS.items()])
def test_every_rule_is_needed(rules: Rules) -> None:
    found = [
        explore(State(), CleanClaimModel(provisioned=provisioned, rules=rules).successors, violation)
        for provisioned in (True, False)
    ]
    assert any(explored.violation for explored in found), "the model does not detect the mutation"
