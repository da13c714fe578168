"""Model of a group of two pods with two claims each, two coordinators without a lease, and crashes at every point.

The rules are the production ones (`mooring.volumes.holds.group_record` and `group_gates`). The coordinators decide
anything that the rules permit, at any time, and every read and every swap is a step of its own. The scheduler begins
and re-enters, provisioners save volumes with marks that may be out of date by then, pods and claims are deleted, and
minCount is raised. A swap whose object has changed since it was read fails; such an operation is dropped from the
state at the moment of the change, because it has no other effect.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec import structs

from mooring.volumes.binding import HoldState
from mooring.volumes.holds import group_gates, group_record
from mooring.volumes.holds.group_gates import ClaimHold, LiveGroup, LivePod
from mooring.volumes.holds.group_record import (
    GiveUpReason,
    GroupMark,
    GroupPhase,
    GroupRecord,
    MemberClaim,
    RecordedMember,
    StoredGroup,
)
from mooring.volumes.holds.transitions import ClaimFacts, HoldSnapshot, Intent, IntentPhase, VolumeFacts

#: Uid of the record's ConfigMap.
RECORD: Final = "r"
MEMBERS: Final = ("p0", "p1")
#: By claim: the member it belongs to.
OWNER: Final = {"c0": 0, "c1": 0, "c2": 1, "c3": 1}
CLAIMS: Final = tuple(OWNER)
NODES: Final = ("A", "B")

HELD, COMMITTED, ROLLING_BACK = HoldState.HELD, HoldState.COMMITTED, HoldState.ROLLING_BACK


class Pv(NamedTuple):
    state: HoldState
    epoch: int


class Snapshot:
    """A record that equals itself alone: hashed once, not with every state."""

    def __init__(self, record: GroupRecord) -> None:
        self.record = record
        self.stored = StoredGroup(record, RECORD)


@cache
def snapshot_of(record: GroupRecord) -> Snapshot:
    return Snapshot(record)


class State(NamedTuple):
    at: Snapshot = snapshot_of(GroupRecord("ns", "g", "u"))
    volumes: tuple[Pv | None, ...] = (None,) * len(CLAIMS)
    #: What each of the two coordinators is doing, lost in a crash.
    doing: tuple[tuple[Any, ...] | None, ...] = (None, None)
    #: A volume that a provisioner is about to save: the claim's number, and the epoch that it read.
    saving: tuple[int, int] | None = None
    min_count: int = 2
    #: Members whose pod was deleted, and deleted claims.
    deleted_pods: frozenset[int] = frozenset()
    deleted_claims: frozenset[int] = frozenset()
    #: Claims that a list has promised so far.
    promised: frozenset[str] = frozenset()
    problem: str = ""
    deletions_left: int = 1
    raises_left: int = 0

    @property
    def record(self) -> GroupRecord:
        return self.at.record


@dataclass(frozen=True)
class Rules:
    """The protocol, or a mutation of it."""

    begin: Callable[..., GroupRecord | None] = group_record.begin
    enter: Callable[..., GroupRecord | None] = group_record.enter
    give_up: Callable[..., GroupRecord | None] = group_record.give_up
    complete: Callable[..., GroupRecord | None] = group_record.complete
    may_commit: Callable[..., bool] = group_gates.may_commit_in_group
    may_roll_back: Callable[..., bool] = group_gates.may_roll_back_in_group
    claims_to_commit: Callable[[LiveGroup], frozenset[str] | None] = group_gates.claims_to_commit
    #: The record is read before the volumes.
    record_first: bool = True
    #: A volume that is rolled back is read before the record.
    volume_first: bool = True
    epochs: int = 1


def members() -> tuple[RecordedMember, ...]:
    return tuple(
        RecordedMember(pod, NODES[number], 0, tuple(MemberClaim(claim) for claim in CLAIMS if OWNER[claim] == number))
        for number, pod in enumerate(MEMBERS)
    )


#: Operations whose swap is of the record.
ON_RECORD: Final = frozenset({"read record", "list", "end", "ended", "complete", "completed"})


class PodGroupModel:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self._scheduler(state)
        yield from self._provisioner(state)
        yield from self._environment(state)
        for number in (0, 1):
            for name, after in self._coordinator(state, number):
                yield f"coordinator {number}: {name}", after
            if state.doing[number] is not None:
                yield f"coordinator {number} crashes", _does(state, number, None)

    def _scheduler(self, state: State) -> Iterator[tuple[str, State]]:
        record = state.record
        if record.epoch < self._rules.epochs:
            begun = self._rules.begin(record, members(), min_count=state.min_count, domain="", now=0.0)
            if begun is not None and not state.deleted_pods:
                yield "holding begins", _recorded(state, begun)
            for member in members():
                entered = self._rules.enter(record, member)
                if entered is not None:
                    yield f"{member.pod} enters again", _recorded(state, entered)

    def _provisioner(self, state: State) -> Iterator[tuple[str, State]]:
        record = state.record
        if state.saving is not None:
            number, epoch = state.saving
            done = state._replace(saving=None)
            if state.volumes[number] is None and number not in state.deleted_claims:
                yield f"c{number} is held", _changed(done, number, Pv(HELD, epoch))
            else:
                yield f"c{number} is not saved", done
            return
        if record.phase is not GroupPhase.HOLDING:
            return
        for number, claim in enumerate(CLAIMS):
            if state.volumes[number] is None and number not in state.deleted_claims:
                epoch = record.by_pod[MEMBERS[OWNER[claim]]].epoch
                yield f"c{number} is provisioned", state._replace(saving=(number, epoch))

    def _environment(self, state: State) -> Iterator[tuple[str, State]]:
        for number, volume in enumerate(state.volumes):
            if volume is not None and volume.state is ROLLING_BACK:
                yield f"the volume of c{number} is deleted", _changed(state, number, None)
        if state.deletions_left and state.record.phase is not GroupPhase.IDLE:
            fewer = state._replace(deletions_left=state.deletions_left - 1)
            yield "pod p0 is deleted", fewer._replace(deleted_pods=frozenset({0}))
            yield "claim c0 is deleted", fewer._replace(deleted_claims=frozenset({0}))
        if state.raises_left:
            yield "minCount is raised", state._replace(min_count=state.min_count + 1, raises_left=0)

    def _coordinator(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        idle = _does(state, number, None)
        match state.doing[number]:
            case None:
                yield from self._begins(state, number)
            case ("read record", int(least)):
                claims = self._rules.claims_to_commit(live(state))
                if claims is not None:
                    yield "reads the volumes", _does(state, number, ("list", claims, least))
            case ("volumes read", claims, int(least)):
                yield "reads the record", _does(state, number, ("list", claims, least))
            case ("list", claims, int(least)):
                listed = group_record.list_claims(state.record, claims)
                if listed is not None:
                    yield "lists", _recorded(promise(idle, claims, least), listed)
            case ("end",):
                if not any(volume is not None and volume.state is HELD for volume in state.volumes):
                    yield "finds nothing held", _does(state, number, ("ended",))
            case ("ended",):
                ended = group_record.end(state.record, now=0.0, backoff=0.0)
                if ended is not None:
                    # Without the count, which no rule reads, so that the number of states is finite.
                    yield "ends", _recorded(idle, structs.replace(ended, count=0))
            case ("complete",):
                held = frozenset(
                    claim
                    for claim, volume in zip(CLAIMS, state.volumes, strict=True)
                    if volume and volume.state is HELD
                )
                yield "looks what is held", _does(state, number, ("completed", held))
            case ("completed", held):
                completed = self._rules.complete(state.record, held=held)
                if completed is not None:
                    yield "completes", _recorded(idle, completed)
            case ("roll", int(which)):
                if self._may_roll_back(state, which):
                    yield f"reads the record for c{which}", _does(state, number, ("rolls", which))
            case ("permitted", int(which)):
                yield f"reads c{which}", _does(state, number, ("rolls", which))
            case ("rolls", int(which)):
                yield f"rolls back c{which}", _swapped(idle, which, ROLLING_BACK)
            case ("give", int(which)):
                volume = state.volumes[which]
                assert volume is not None
                mark = GroupMark(RECORD, volume.epoch)
                if self._rules.may_commit(hold_of(state, which).snapshot, mark, state.at.stored):
                    yield f"reads the record to commit c{which}", _does(state, number, ("gives", which))
            case ("gives", int(which)):
                yield f"commits c{which}", given(_swapped(idle, which, COMMITTED), which)

    def _begins(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        record = state.record
        given_up = self._rules.give_up(record, GiveUpReason.TooLong)
        if given_up is not None:
            yield "gives up", _recorded(state, given_up)
        for pod in MEMBERS:
            left = group_record.leave(record, (pod,))
            if left is not None and record.epoch < self._rules.epochs:
                yield f"lets {pod} leave", _recorded(state, left)
        if record.phase is GroupPhase.HOLDING:
            if self._rules.record_first:
                yield "reads the record", _does(state, number, ("read record", state.min_count))
            else:
                claims = self._rules.claims_to_commit(live(state))
                if claims is not None:
                    yield "reads the volumes first", _does(state, number, ("volumes read", claims, state.min_count))
        if record.phase is GroupPhase.GIVING_UP:
            yield "is about to end", _does(state, number, ("end",))
        if record.phase is GroupPhase.COMMITTING:
            yield "is about to complete", _does(state, number, ("complete",))
        for which, volume in enumerate(state.volumes):
            if volume is None or volume.state is not HELD:
                continue
            if self._rules.volume_first:
                yield f"reads c{which}", _does(state, number, ("roll", which))
            elif self._may_roll_back(state, which):
                yield f"reads the record for c{which} first", _does(state, number, ("permitted", which))
            if record.phase is not GroupPhase.IDLE:
                yield f"reads c{which} to commit it", _does(state, number, ("give", which))

    def _may_roll_back(self, state: State, which: int) -> bool:
        volume = state.volumes[which]
        if volume is None:
            return False
        mark = GroupMark(RECORD, volume.epoch)
        return self._rules.may_roll_back(CLAIMS[which], hold_of(state, which).snapshot, mark, state.at.stored)


def _does(state: State, number: int, what: tuple[Any, ...] | None) -> State:
    doing = list(state.doing)
    doing[number] = what
    return state._replace(doing=_sorted(doing))


def _sorted(doing: Iterable[tuple[Any, ...] | None]) -> tuple[tuple[Any, ...] | None, ...]:
    """The coordinators are alike: which of them does what makes no difference."""
    return tuple(sorted(doing, key=_order))


@cache
def _order(doing: tuple[Any, ...] | None) -> str:
    return str(doing)


def _recorded(state: State, record: GroupRecord) -> State:
    """The record is swapped: swaps of it that were decided before fail."""
    doing = tuple(None if each is not None and each[0] in ON_RECORD else each for each in state.doing)
    return state._replace(at=snapshot_of(record), doing=_sorted(doing))


def _changed(state: State, which: int, volume: Pv | None) -> State:
    """A volume changes: swaps of it that were decided before fail."""
    volumes = list(state.volumes)
    volumes[which] = volume
    on_volume = ("roll", "rolls", "give", "gives")
    doing = tuple(
        None if each is not None and each[0] in on_volume and each[1] == which else each for each in state.doing
    )
    return state._replace(volumes=tuple(volumes), doing=_sorted(doing))


def _swapped(state: State, which: int, into: HoldState) -> State:
    volume = state.volumes[which]
    if volume is None or volume.state is not HELD:
        return state
    return _changed(state, which, volume._replace(state=into))


def promise(state: State, claims: frozenset[str], least: int) -> State:
    """Some coordinator has swapped the record to its list: notes what must come true from now on."""
    complete = 0
    for number in range(len(MEMBERS)):
        own = [which for which, claim in enumerate(CLAIMS) if OWNER[claim] == number]
        has_all = all(
            (volume := state.volumes[which]) is not None and volume.state in (HELD, COMMITTED) for which in own
        )
        counted = any(CLAIMS[which] in claims for which in own)
        if counted and not has_all and not state.deleted_claims:
            return state._replace(problem="a member was counted that does not have all its volumes")
        complete += has_all and (counted or all(_is_committed(state, which) for which in own))
    if complete < least and not state.deleted_claims:
        return state._replace(problem="fewer members than minCount were committed")
    return state._replace(promised=state.promised | claims)


def given(state: State, which: int) -> State:
    if CLAIMS[which] not in state.promised:
        return state._replace(problem="a volume was committed although its group did not have all of its volumes")
    return state


def _is_committed(state: State, which: int) -> bool:
    volume = state.volumes[which]
    return volume is not None and volume.state is COMMITTED


def violation(state: State) -> str:
    """The violated invariant, or "" if all hold."""
    if state.problem:
        return state.problem
    for which, claim in enumerate(CLAIMS):
        if claim in state.promised and which not in state.deleted_claims:
            volume = state.volumes[which]
            if volume is None or volume.state is ROLLING_BACK:
                return "a volume was rolled back after its group was committed"
    return ""


def settled(state: State) -> bool:
    """All volumes of the group are committed, or none is held and the group may be decided again."""
    held = any(volume is not None and volume.state is not COMMITTED for volume in state.volumes)
    return not held and state.record.phase in (GroupPhase.IDLE, GroupPhase.COMMITTED)


def hold_of(state: State, which: int) -> ClaimHold:
    return _hold(which, state.volumes[which], which in state.deleted_claims)


@cache
def _hold(which: int, volume: Pv | None, deleted: bool) -> ClaimHold:
    node = NODES[OWNER[CLAIMS[which]]]
    name, facts, mark = f"v{which}", None, GroupMark()
    committed = volume is not None and volume.state is COMMITTED
    claim = None if deleted else ClaimFacts(CLAIMS[which], node, name if committed else "")
    if volume is not None:
        facts, mark = VolumeFacts(name, volume.state, node, 1, "h"), GroupMark(RECORD, volume.epoch)
    return ClaimHold(HoldSnapshot(claim, facts, Intent(1, node, IntentPhase.CREATED)), mark, lambda at: at == node)


def live(state: State) -> LiveGroup:
    return _live(state.at, state.volumes, state.min_count, state.deleted_pods, state.deleted_claims)


@cache
def _live(
    at: Snapshot,
    volumes: tuple[Pv | None, ...],
    min_count: int,
    deleted_pods: frozenset[int],
    deleted_claims: frozenset[int],
) -> LiveGroup:
    own = {
        number: frozenset(claim for claim in CLAIMS if OWNER[claim] == number)
        for number in range(len(MEMBERS))
        if number not in deleted_pods
    }
    waiting = {
        MEMBERS[number]: LivePod(MEMBERS[number], None if any(int(c[1]) in deleted_claims for c in claims) else claims)
        for number, claims in own.items()
    }
    holds = {claim: _hold(which, volumes[which], which in deleted_claims) for which, claim in enumerate(CLAIMS)}
    return LiveGroup(at.stored, min_count, waiting, 0, frozenset(), holds)
