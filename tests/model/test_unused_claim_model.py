"""Storage that a pod had is never deleted or taken from its claim, whatever happens beside a replacement."""

from dataclasses import replace
from typing import Final

import pytest

from support.model.exploration import dead_ends, explore
from support.model.unused_claim_model import OLD, Rules, State, UnusedClaimModel, has_its_policy, is_settled, violation


@pytest.mark.level("m")
@pytest.mark.req("R8.released")
@pytest.mark.parametrize(("policy", "pods", "crashes"), [("Delete", 2, 1), ("Delete", 1, 2), ("Retain", 1, 1)])
def test_invariants_hold_in_every_reachable_state(policy: str, pods: int, crashes: int) -> None:
    explored = explore(State(), UnusedClaimModel(policy=policy, pods=pods, crashes=crashes).successors, violation)
    assert not explored.violation, str(explored)
    assert explored.states > 10_000


@pytest.mark.level("m")
@pytest.mark.req("R8.released")
def test_unused_claim_is_replaced_in_some_run() -> None:
    """Otherwise nothing would be shown above."""

    def is_replaced(state: State) -> str:
        claim = state.claim
        return "replaced" if claim is not None and claim.uid != OLD and state.volume is None else ""

    assert explore(State(), UnusedClaimModel(pods=0, crashes=0).successors, is_replaced).violation


def test_replacement_can_end_from_every_state() -> None:
    count, steps = dead_ends(State(), UnusedClaimModel(pods=1, crashes=1).successors, is_settled)
    assert count == 0, "; ".join(steps)


def test_volume_gets_its_policy_back() -> None:
    """Except if a write takes effect after its process crashed and the next one finished: then it stays retained."""
    count, steps = dead_ends(State(), UnusedClaimModel(pods=1, crashes=0).successors, has_its_policy)
    assert count == 0, "; ".join(steps)


MUTATIONS: Final[dict[str, Rules]] = {
    "unconditional writes": replace(Rules(), compares=False),
    "kubelets mount volumes of claims that are being deleted": replace(Rules(), kubelet_reads_claim=False),
    "a missed event is not noticed": replace(Rules(), lists_are_known=False),
    "the watch may be older than the deletion": replace(Rules(), waits_for_watch=False),
}


@pytest.mark.parametrize("rules", [pytest.param(rules, id=name) for name, rules in MUTATIONS.items()])
def test_every_rule_is_needed(rules: Rules) -> None:
    explored = explore(State(), UnusedClaimModel(pods=1, crashes=1, rules=rules).successors, violation)
    assert explored.violation, "the model does not detect the mutation"
