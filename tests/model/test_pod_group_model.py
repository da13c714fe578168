"""A group of pods gets all volumes of a quorum or none, whatever two coordinators do; and every gate is needed."""

import os
from typing import Final

import pytest
from msgspec import structs

from mooring.volumes.holds import group_gates, group_record, transitions
from mooring.volumes.holds.group_gates import LiveGroup
from mooring.volumes.holds.group_record import (
    GiveUpReason,
    GroupMark,
    GroupPhase,
    GroupRecord,
    RecordedMember,
    StoredGroup,
)
from mooring.volumes.holds.transitions import HoldSnapshot
from support.model.exploration import dead_ends, explore
from support.model.pod_group_model import PodGroupModel, Rules, State, settled, violation

#: `make soak` explores more epochs and deletions at once.
SOAK: Final = "MOORING_SOAK_SECONDS" in os.environ

#: Two pods with two claims each. Each row is explored completely.
CASES: Final = [
    pytest.param(State(), Rules(epochs=1), id="a pod or a claim is deleted"),
    pytest.param(State(deletions_left=0), Rules(epochs=2), id="members leave and enter again, or the group does"),
    pytest.param(
        State(min_count=1, raises_left=1, deletions_left=0), Rules(epochs=1), id="minCount is raised from 1 to 2"
    ),
    *([pytest.param(State(), Rules(epochs=2), id="all of these")] if SOAK else []),
]


@pytest.mark.level("m")
@pytest.mark.req("G2.committed")
@pytest.mark.parametrize(("start", "rules"), CASES)
def test_no_group_gets_half_of_its_volumes_in_any_reachable_state(start: State, rules: Rules) -> None:
    explored = explore(start, PodGroupModel(rules).successors, violation)
    assert not explored.violation, str(explored)
    assert explored.states > 10_000, "the model explores too few states"


@pytest.mark.level("m")
def test_every_state_leads_to_a_complete_group_or_to_none() -> None:
    stuck, way = dead_ends(State(), PodGroupModel(Rules(epochs=1)).successors, settled)
    assert not stuck, f"{stuck} states, the nearest after: " + "; ".join(way)


def commits_without_list(snapshot: HoldSnapshot, mark: GroupMark, stored: StoredGroup | None) -> bool:
    return stored is not None and transitions.may_commit(snapshot)


def rolls_back_listed(claim: str, snapshot: HoldSnapshot, mark: GroupMark, stored: StoredGroup | None) -> bool:
    if stored is not None and stored.record.phase in group_record.LISTS:
        return transitions.may_roll_back(snapshot)
    return group_gates.may_roll_back_in_group(claim, snapshot, mark, stored)


def rolls_back_unannounced(claim: str, snapshot: HoldSnapshot, mark: GroupMark, stored: StoredGroup | None) -> bool:
    if stored is not None and stored.record.phase is GroupPhase.HOLDING:
        return transitions.may_roll_back(snapshot)
    return group_gates.may_roll_back_in_group(claim, snapshot, mark, stored)


def _with_record(live: LiveGroup, **fields: object) -> LiveGroup:
    stored = structs.replace(live.stored, record=structs.replace(live.stored.record, **fields))
    return structs.replace(live, stored=stored)


def lists_leaving_members(live: LiveGroup) -> frozenset[str] | None:
    return group_gates.claims_to_commit(_with_record(live, leaving=frozenset()))


def lists_below_quorum(live: LiveGroup) -> frozenset[str] | None:
    return group_gates.claims_to_commit(structs.replace(live, min_count=1))


def lists_by_recorded_quorum(live: LiveGroup) -> frozenset[str] | None:
    return group_gates.claims_to_commit(structs.replace(live, min_count=live.stored.record.min_count))


def lists_incomplete_members(live: LiveGroup) -> frozenset[str] | None:
    """Every claim that is held, of any member."""
    held = frozenset(claim for claim, hold in live.claims.items() if hold.held)
    return held if held and live.stored.record.phase is GroupPhase.HOLDING else None


def lists_any_epoch(live: LiveGroup) -> frozenset[str] | None:
    record = live.stored.record
    current = {member.pod: member.epoch for member in record.members}
    owners = {claim.uid: current[member.pod] for member in record.members for claim in member.claims}
    claims = {
        uid: structs.replace(hold, mark=GroupMark(live.stored.uid, owners[uid])) if hold.held else hold
        for uid, hold in live.claims.items()
    }
    return group_gates.claims_to_commit(structs.replace(live, claims=claims))


def gives_up_committed_groups(record: GroupRecord, reason: GiveUpReason) -> GroupRecord | None:
    if record.phase is GroupPhase.COMMITTING:
        return structs.replace(record, phase=GroupPhase.GIVING_UP)
    return group_record.give_up(record, reason)


def completes_early(record: GroupRecord, *, held: frozenset[str]) -> GroupRecord | None:
    return group_record.complete(record, held=())


def begins_in_the_same_epoch(record: GroupRecord, members: tuple[RecordedMember, ...], **facts: object) -> object:
    begun = group_record.begin(record, members, **facts)  # type: ignore[arg-type]
    return begun if begun is None or record.epoch == 0 else _without_growth(begun, record)


def enters_in_the_same_epoch(record: GroupRecord, member: RecordedMember) -> object:
    entered = group_record.enter(record, member)
    return entered if entered is None else _without_growth(entered, record)


def _without_growth(after: GroupRecord, before: GroupRecord) -> GroupRecord:
    members = tuple(structs.replace(each, epoch=min(each.epoch, before.epoch)) for each in after.members)
    return structs.replace(after, epoch=before.epoch, members=members)


MUTATIONS: Final[dict[str, tuple[Rules, State]]] = {
    "1: commit without list": (Rules(may_commit=commits_without_list), State()),
    "2: rollback of listed volumes": (Rules(may_roll_back=rolls_back_listed), State()),
    "3: rollback that the record does not announce": (Rules(may_roll_back=rolls_back_unannounced), State()),
    "3: record read before the volume": (Rules(volume_first=False, epochs=2), State(deletions_left=0)),
    "4: volumes read before the record": (Rules(record_first=False, epochs=2), State(deletions_left=0)),
    "4: leaving members listed": (Rules(claims_to_commit=lists_leaving_members, epochs=2), State(deletions_left=0)),
    "4: list below the quorum": (Rules(claims_to_commit=lists_below_quorum), State()),
    "4: quorum as it was when holding began": (
        Rules(claims_to_commit=lists_by_recorded_quorum),
        State(min_count=1, raises_left=1, deletions_left=0),
    ),
    "4: incomplete members listed": (Rules(claims_to_commit=lists_incomplete_members), State()),
    "5: list given up": (Rules(give_up=gives_up_committed_groups), State()),
    "5: complete while volumes are held": (Rules(complete=completes_early, epochs=2), State(deletions_left=0)),
    "6: epoch stays when holding begins": (Rules(begin=begins_in_the_same_epoch, epochs=2), State(deletions_left=0)),
    "6: epoch stays when a member enters": (Rules(enter=enters_in_the_same_epoch, epochs=2), State(deletions_left=0)),
    "6: volumes of any epoch listed": (Rules(claims_to_commit=lists_any_epoch, epochs=2), State(deletions_left=0)),
}


@pytest.mark.level("m")
@pytest.mark.parametrize(("rules", "start"), [pytest.param(*row, id=name) for name, row in MUTATIONS.items()])
def test_every_gate_is_needed(rules: Rules, start: State) -> None:
    explored = explore(start, PodGroupModel(rules).successors, violation)
    assert explored.violation, "the model does not detect the mutation"
