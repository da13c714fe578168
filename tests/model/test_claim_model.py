"""The hold protocol's safety, by exploring every state one claim can get into; and that each rule is needed."""

import os
from typing import Final

import msgspec
import pytest

from model.claim_model import ClaimModel, Rules, State, wrong
from model.exploration import explore
from mooring.volumes.holds import gates, provisioning, rollback, sweep
from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent, Phase
from mooring.volumes.plan import HoldState

#: `make soak` explores three attempts and two late calls.
SOAK: Final = "MOORING_SOAK_SECONDS" in os.environ


@pytest.mark.req("R2")
def test_nothing_bad_is_reachable() -> None:
    rules = Rules(attempts=3 if SOAK else 2)
    explored = explore(State(lates_left=2 if SOAK else 1), ClaimModel(rules).successors, wrong)
    assert not explored.violation, str(explored)
    assert explored.states > 10_000, "the world was not hostile enough to say anything"


def commits_whatever_the_attempt(situation: Situation) -> bool:
    """As if the record were about whatever volume is there."""
    volume = situation.volume
    if volume is None:
        return False
    about_it = Intent(volume.attempt, volume.node, Phase.CREATED)
    return gates.may_commit(msgspec.structs.replace(situation, intent=about_it))


def commits_open_attempts(situation: Situation) -> bool:
    intent = situation.intent
    if intent is not None and intent.phase is Phase.CREATING:
        return gates.may_commit(msgspec.structs.replace(situation, intent=intent.now(Phase.CREATED)))
    return gates.may_commit(situation)


def commits_deleted_objects(situation: Situation) -> bool:
    volume = situation.volume
    kept = msgspec.structs.replace(volume, deleting=False) if volume is not None else None
    return gates.may_commit(msgspec.structs.replace(situation, volume=kept))


def creates_without_a_record(situation: Situation) -> object:
    step = provisioning.next_step(situation)
    if isinstance(step, provisioning.OpenAttempt):
        return provisioning.Create(step.intent.node, step.intent.attempt)
    return step


def creates_where_the_claim_says_now(situation: Situation) -> object:
    """Does not go on with the node that an attempt was begun for."""
    step, claim = provisioning.next_step(situation), situation.claim
    if isinstance(step, provisioning.Create) and claim is not None and claim.selected_node:
        return provisioning.Create(claim.selected_node, step.attempt)
    return step


def closes_without_an_end(situation: Situation) -> object:
    """Gives an attempt up because the claim has another node by now."""
    step, claim, intent = provisioning.next_step(situation), situation.claim, situation.intent
    if not isinstance(step, provisioning.Create) or intent is None or claim is None:
        return step
    return step if claim.selected_node == intent.node else provisioning.Close(intent.now(Phase.FAILED))


def removes_the_object_first(situation: Situation, *, storage_deleted: bool) -> object:
    step = rollback.next_step(situation, storage_deleted=storage_deleted)
    return rollback.Remove() if isinstance(step, rollback.DeleteStorage) else step


def records_the_rollback_last(situation: Situation, *, storage_deleted: bool) -> object:
    step = rollback.next_step(situation, storage_deleted=storage_deleted)
    return rollback.Remove() if isinstance(step, provisioning.Close | provisioning.Unselect) else step


def gives_up_what_is_committed(situation: Situation) -> bool:
    """The unsafe wish: volumes that are bound but were never used."""
    volume = situation.volume
    return volume is not None and volume.state in (HoldState.HELD, HoldState.COMMITTED)


def deletes_orphans_at_once(situation: Situation, *, name: str, node: str) -> object:
    step = sweep.next_step(situation, name=name, node=node)
    return sweep.DeleteOrphan() if isinstance(step, provisioning.OpenAttempt) else step


def deletes_what_may_be_kept(situation: Situation, *, name: str, node: str) -> object:
    """Takes every volume without an object for one that nobody ever had."""
    step = sweep.next_step(situation, name=name, node=node)
    return sweep.DeleteOrphan() if isinstance(step, sweep.Leave) else step


MUTATIONS: Final[dict[str, Rules]] = {
    "swaps do not compare": Rules(compares=False),
    "drivers use handles again": Rules(fresh_handles=False),
    "any attempt is committed": Rules(may_commit=commits_whatever_the_attempt),
    "open attempts are committed": Rules(may_commit=commits_open_attempts),
    "deleted objects are committed": Rules(may_commit=commits_deleted_objects),
    "no record before creating": Rules(provision=creates_without_a_record),
    "an attempt moves to another node": Rules(provision=creates_where_the_claim_says_now),
    "an attempt is closed without an end": Rules(provision=closes_without_an_end),
    "the object goes before the storage": Rules(roll_back=removes_the_object_first),
    "the record is written after the object is gone": Rules(roll_back=records_the_rollback_last),
    "committed volumes are given up": Rules(may_roll_back=gives_up_what_is_committed),
    "the sweep deletes at once": Rules(sweep=deletes_orphans_at_once),
    "the sweep deletes what may be kept": Rules(sweep=deletes_what_may_be_kept),
}


@pytest.mark.parametrize("rules", [pytest.param(rules, id=name) for name, rules in MUTATIONS.items()])
def test_every_rule_is_needed(rules: Rules) -> None:
    explored = explore(State(lates_left=2), ClaimModel(rules).successors, wrong)
    assert explored.violation, "the model does not notice"
