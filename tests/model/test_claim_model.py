"""Safety of the hold protocol: every reachable state of one claim; and mutations that show that each rule is needed."""

import os
from typing import Final

import msgspec
import pytest

from mooring.volumes.binding import HoldState
from mooring.volumes.holds import transitions
from mooring.volumes.holds.transitions import HoldSnapshot, Intent, IntentPhase
from support.model.claim_model import ClaimModel, Rules, State, violation
from support.model.exploration import explore

#: `make soak` explores three attempts and two delayed calls.
SOAK: Final = "MOORING_SOAK_SECONDS" in os.environ


@pytest.mark.req("R2.model")
def test_invariants_hold_in_every_reachable_state() -> None:
    rules = Rules(attempts=3 if SOAK else 2)
    explored = explore(State(delayed_calls_left=2 if SOAK else 1), ClaimModel(rules).successors, violation)
    assert not explored.violation, str(explored)
    assert explored.states > 10_000, "the model explores too few states"


def commits_whatever_the_attempt(snapshot: HoldSnapshot) -> bool:
    """As if the intent were for the existing volume."""
    volume = snapshot.volume
    if volume is None:
        return False
    about_it = Intent(volume.attempt, volume.node, IntentPhase.CREATED)
    return transitions.may_commit(msgspec.structs.replace(snapshot, intent=about_it))


def commits_open_attempts(snapshot: HoldSnapshot) -> bool:
    intent = snapshot.intent
    if intent is not None and intent.phase is IntentPhase.CREATING:
        return transitions.may_commit(msgspec.structs.replace(snapshot, intent=intent.now(IntentPhase.CREATED)))
    return transitions.may_commit(snapshot)


def commits_deleted_objects(snapshot: HoldSnapshot) -> bool:
    volume = snapshot.volume
    kept = msgspec.structs.replace(volume, deleting=False) if volume is not None else None
    return transitions.may_commit(msgspec.structs.replace(snapshot, volume=kept))


def creates_without_a_record(snapshot: HoldSnapshot) -> object:
    step = transitions.next_provisioning_step(snapshot)
    if isinstance(step, transitions.OpenAttempt):
        return transitions.CreateStorage(step.intent.node, step.intent.attempt)
    return step


def creates_on_the_selected_node(snapshot: HoldSnapshot) -> object:
    """Ignores the node in the intent of the open attempt."""
    step, claim = transitions.next_provisioning_step(snapshot), snapshot.claim
    if isinstance(step, transitions.CreateStorage) and claim is not None and claim.selected_node:
        return transitions.CreateStorage(claim.selected_node, step.attempt)
    return step


def closes_without_an_outcome(snapshot: HoldSnapshot) -> object:
    """Closes an attempt because the selected node has changed."""
    step, claim, intent = transitions.next_provisioning_step(snapshot), snapshot.claim, snapshot.intent
    if not isinstance(step, transitions.CreateStorage) or intent is None or claim is None:
        return step
    return step if claim.selected_node == intent.node else transitions.Close(intent.now(IntentPhase.FAILED))


def removes_the_object_first(snapshot: HoldSnapshot, *, storage_deleted: bool) -> object:
    step = transitions.next_rollback_step(snapshot, storage_deleted=storage_deleted)
    return transitions.RemoveVolume() if isinstance(step, transitions.DeleteStorage) else step


def records_the_rollback_last(snapshot: HoldSnapshot, *, storage_deleted: bool) -> object:
    step = transitions.next_rollback_step(snapshot, storage_deleted=storage_deleted)
    return transitions.RemoveVolume() if isinstance(step, transitions.Close | transitions.ClearSelectedNode) else step


def rolls_back_committed_volumes(snapshot: HoldSnapshot) -> bool:
    """Unsafe: rolls back volumes that are bound but were never used."""
    volume = snapshot.volume
    return volume is not None and volume.state in (HoldState.HELD, HoldState.COMMITTED)


def deletes_orphans_at_once(snapshot: HoldSnapshot, *, name: str, node: str) -> object:
    step = transitions.next_orphan_step(snapshot, name=name, node=node)
    return transitions.DeleteOrphan() if isinstance(step, transitions.OpenAttempt) else step


def deletes_ignored_orphans(snapshot: HoldSnapshot, *, name: str, node: str) -> object:
    """Treats every volume without a PersistentVolume as never used."""
    step = transitions.next_orphan_step(snapshot, name=name, node=node)
    return transitions.DeleteOrphan() if isinstance(step, transitions.IgnoreOrphan) else step


MUTATIONS: Final[dict[str, Rules]] = {
    "unconditional writes": Rules(compares=False),
    "reused handles": Rules(fresh_handles=False),
    "commit of any attempt": Rules(may_commit=commits_whatever_the_attempt),
    "commit of open attempts": Rules(may_commit=commits_open_attempts),
    "commit of terminating volumes": Rules(may_commit=commits_deleted_objects),
    "no intent before CreateVolume": Rules(provision=creates_without_a_record),
    "attempt moves to another node": Rules(provision=creates_on_the_selected_node),
    "attempt closed without an outcome": Rules(provision=closes_without_an_outcome),
    "object deleted before storage": Rules(roll_back=removes_the_object_first),
    "rollback recorded after deletion": Rules(roll_back=records_the_rollback_last),
    "rollback of committed volumes": Rules(may_roll_back=rolls_back_committed_volumes),
    "sweep deletes at once": Rules(sweep=deletes_orphans_at_once),
    "sweep deletes ignored orphans": Rules(sweep=deletes_ignored_orphans),
}


@pytest.mark.parametrize("rules", [pytest.param(rules, id=name) for name, rules in MUTATIONS.items()])
def test_every_rule_is_needed(rules: Rules) -> None:
    explored = explore(State(delayed_calls_left=2), ClaimModel(rules).successors, violation)
    assert explored.violation, "the model does not detect the mutation"
