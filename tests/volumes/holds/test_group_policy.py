"""When a group is committed or given up, and which of two groups yields."""

from typing import Any

import pytest
from msgspec import structs

from mooring.volumes.binding import HoldState
from mooring.volumes.holds import group_record
from mooring.volumes.holds.group_gates import ClaimHold, LiveGroup, LivePod, may_leave_group
from mooring.volumes.holds.group_policy import (
    CommitGroup,
    Contender,
    GiveUpGroup,
    GroupTimeouts,
    HoldProgress,
    LetLeave,
    VolumeStep,
    WaitForGroup,
    group_backoff,
    group_verdict,
    volume_step,
    yields_to,
)
from mooring.volumes.holds.group_record import (
    UNMARKED,
    GiveUpReason,
    GroupMark,
    GroupPhase,
    GroupRecord,
    MalformedGroup,
    MemberClaim,
    RecordedMember,
    StoredGroup,
)
from mooring.volumes.holds.transitions import ClaimFacts, HoldSnapshot, Intent, IntentPhase, VolumeFacts

MARK = GroupMark("r", 1)


def hold(claim: str, node: str, *, state: HoldState = HoldState.HELD, mark: GroupMark = MARK) -> ClaimHold:
    facts = VolumeFacts(f"v-{claim}", state, node, 1, "h")
    snapshot = HoldSnapshot(ClaimFacts(claim, node), facts, Intent(1, node, IntentPhase.CREATED))
    return ClaimHold(snapshot, mark, lambda at: at == node)


def unbound(claim: str) -> ClaimHold:
    return ClaimHold(HoldSnapshot(ClaimFacts(claim), None, None))


def begun(**changes: Any) -> StoredGroup:  # noqa: ANN401
    """Two members, `p0` with `c0` on A and `p1` with `c1` on B."""
    members = [RecordedMember(f"p{n}", "AB"[n], 0, (MemberClaim(f"c{n}"),)) for n in range(2)]
    record = group_record.begin(GroupRecord("ns", "g", "u"), members, min_count=2, domain="", now=0.0)
    assert record is not None
    return StoredGroup(structs.replace(record, **changes), "r")


def live(*holds: ClaimHold, min_count: int | None = 2, pods: int = 2, **changes: Any) -> LiveGroup:  # noqa: ANN401
    waiting = {f"p{n}": LivePod(f"p{n}", frozenset({f"c{n}"})) for n in range(pods)}
    claims = {each.snapshot.claim.uid: each for each in holds if each.snapshot.claim is not None}
    return LiveGroup(begun(**changes), min_count, waiting, 0, frozenset(), claims)


BOTH = (hold("c0", "A"), hold("c1", "B"))
HALF = (hold("c0", "A"), unbound("c1"))


@pytest.mark.parametrize(
    ("group", "progress", "expected"),
    [
        pytest.param(live(*BOTH), HoldProgress(), CommitGroup(), id="all have their volumes"),
        pytest.param(live(*HALF), HoldProgress(), WaitForGroup(540.0), id="one has none yet"),
        pytest.param(
            live(hold("c0", "A"), hold("c1", "B", mark=GroupMark("r", 7))),
            HoldProgress(),
            WaitForGroup(540.0),
            id="a volume of another epoch does not count",
        ),
        pytest.param(
            live(hold("c0", "A"), hold("c1", "A")), HoldProgress(), WaitForGroup(540.0), id="held for another node"
        ),
        pytest.param(live(*HALF), HoldProgress(540.0), GiveUpGroup(GiveUpReason.TooLong), id="too long"),
        pytest.param(live(*BOTH), HoldProgress(600.0), CommitGroup(), id="complete at last, after too long"),
        pytest.param(
            live(*BOTH, pods=1), HoldProgress(), GiveUpGroup(GiveUpReason.NotEnoughMembers), id="a pod is gone"
        ),
        pytest.param(
            live(*BOTH, min_count=3), HoldProgress(), GiveUpGroup(GiveUpReason.MinCountRaised), id="minCount was raised"
        ),
        pytest.param(live(*BOTH, min_count=None), HoldProgress(), WaitForGroup(15.0), id="no PodGroup for the moment"),
        pytest.param(
            live(*BOTH, min_count=None),
            HoldProgress(missing_seconds=15.0),
            GiveUpGroup(GiveUpReason.NotEnoughMembers),
            id="no PodGroup any more",
        ),
        pytest.param(
            live(*HALF),
            HoldProgress(adrift={"p1": 15.0}, requested=frozenset({"p1"})),
            GiveUpGroup(GiveUpReason.MemberFailed),
            id="a member gets no volume",
        ),
        pytest.param(
            live(*HALF),
            HoldProgress(adrift={"p1": 15.0}),
            WaitForGroup(45.0),
            id="a member whose volume was not requested",
        ),
        pytest.param(
            live(*HALF, min_count=1), HoldProgress(adrift={"p1": 1.0}), CommitGroup(), id="the quorum does without it"
        ),
        pytest.param(live(*BOTH, domain="r1"), HoldProgress(), CommitGroup(), id="domains are the gate's business"),
    ],
)
def test_verdict(group: LiveGroup, progress: HoldProgress, expected: object) -> None:
    assert group_verdict(group, progress, GroupTimeouts()) == expected


def test_member_that_holds_a_part_leaves_before_the_group_gives_up() -> None:
    members = [RecordedMember("p0", "A", 1, (MemberClaim("c0"), MemberClaim("c1")))]
    record = structs.replace(begun().record, members=tuple(members))
    waiting = {"p0": LivePod("p0", frozenset({"c0", "c1"})), "p1": LivePod("p1", frozenset())}
    group = LiveGroup(StoredGroup(record, "r"), 2, waiting, 0, frozenset(), {"c0": BOTH[0], "c1": unbound("c1")})
    progress = HoldProgress(adrift={"p0": 5.0}, requested=frozenset({"p0"}))
    assert group_verdict(group, progress, GroupTimeouts()) == LetLeave(frozenset({"p0"}))


OLDER = Contender("u1", 0, "2026-01-01", frozenset({"fast"}), frozenset({"fast"}))


@pytest.mark.parametrize(
    ("other", "yields"),
    [
        pytest.param(Contender("u0", 0, "2026-01-02", OLDER.holds, OLDER.lacks), True, id="younger"),
        pytest.param(Contender("u0", 0, "2025-12-31", OLDER.holds, OLDER.lacks), False, id="older"),
        pytest.param(Contender("u2", 0, "2026-01-01", OLDER.holds, OLDER.lacks), True, id="as old, larger uid"),
        pytest.param(Contender("u0", 5, "2026-01-02", OLDER.holds, OLDER.lacks), False, id="younger, higher priority"),
        pytest.param(Contender("u0", 0, "2026-01-02", frozenset({"slow"}), OLDER.lacks), False, id="of another class"),
        pytest.param(Contender("u0", 0, "2026-01-02", OLDER.holds, frozenset()), False, id="lacks nothing"),
    ],
)
def test_group_that_goes_later_yields(other: Contender, yields: bool) -> None:
    """Case G54."""
    assert yields_to(other, OLDER) is yields


def test_group_waits_for_one_that_yields() -> None:
    younger = Contender("u2", 0, "2026-01-02", OLDER.holds, OLDER.lacks)
    facts: dict[str, Any] = {"adrift": {"p1": 15.0}, "requested": frozenset({"p1"})}
    first = HoldProgress(**facts, own=OLDER, contenders=(OLDER, younger))
    assert group_verdict(live(*HALF), first, GroupTimeouts()) == WaitForGroup(5.0)
    second = HoldProgress(**facts, own=younger, contenders=(OLDER, younger))
    assert group_verdict(live(*HALF), second, GroupTimeouts()) == GiveUpGroup(GiveUpReason.Superseded)


@pytest.mark.parametrize(
    ("phase", "listed", "mark", "expected"),
    [
        pytest.param(GroupPhase.HOLDING, (), MARK, VolumeStep.KEEP, id="holding"),
        pytest.param(GroupPhase.HOLDING, (), GroupMark("r", 2), VolumeStep.ROLL_BACK, id="stale"),
        pytest.param(GroupPhase.HOLDING, (), UNMARKED, VolumeStep.ADOPT, id="without marks"),
        pytest.param(GroupPhase.COMMITTING, ("c0",), MARK, VolumeStep.COMMIT, id="listed"),
        pytest.param(GroupPhase.COMMITTING, ("c1",), MARK, VolumeStep.DETACH, id="not listed: an extra"),
        pytest.param(GroupPhase.COMMITTED, ("c1",), UNMARKED, VolumeStep.DETACH, id="a late extra"),
        pytest.param(GroupPhase.GIVING_UP, (), MARK, VolumeStep.ROLL_BACK, id="giving up"),
        pytest.param(GroupPhase.GIVING_UP, (), UNMARKED, VolumeStep.ROLL_BACK, id="giving up, without marks"),
    ],
)
def test_step_of_a_held_volume(
    phase: GroupPhase, listed: tuple[str, ...], mark: GroupMark, expected: VolumeStep
) -> None:
    stored = begun(phase=phase, listed=frozenset(listed))
    assert volume_step("c0", hold("c0", "A", mark=mark), stored, needs_record=True) is expected


def test_without_a_record_marked_volumes_are_rolled_back() -> None:
    """Crash point C16."""
    assert volume_step("c0", hold("c0", "A"), None, needs_record=True) is VolumeStep.ROLL_BACK
    assert not may_leave_group("c0", MARK, None)


def test_pause_doubles_up_to_five_minutes() -> None:
    assert [group_backoff(count) for count in (0, 1, 2, 3, 9, 10, 99)] == [0, 1, 2, 4, 256, 300, 300]


def test_record_is_read_as_it_was_written() -> None:
    record = begun(leaving=frozenset({"p1"}), listed=frozenset({"c0"}), reason="TooLong", count=3).record
    assert group_record.group_from_data(group_record.group_data(record)) == record


@pytest.mark.parametrize("data", [{}, {"group": "a/b"}, {"group": "a/b/c", "epoch": "x"}])
def test_malformed_record_is_recognised(data: dict[str, str]) -> None:
    with pytest.raises(MalformedGroup):
        group_record.group_from_data(data)


def test_transitions_are_refused_in_other_phases() -> None:
    for phase in GroupPhase:
        record = begun(phase=phase).record
        is_holding = phase is GroupPhase.HOLDING
        assert (group_record.give_up(record, GiveUpReason.TooLong) is not None) is is_holding
        assert (group_record.list_claims(record, ()) is not None) is is_holding
        assert (group_record.leave(record, ("p0",)) is not None) is is_holding
        assert (group_record.complete(record, held=()) is not None) is (phase is GroupPhase.COMMITTING)
        assert (group_record.end(record, now=0.0, backoff=1.0) is not None) is (phase is GroupPhase.GIVING_UP)
        begins = phase in (GroupPhase.IDLE, GroupPhase.COMMITTED)
        assert (group_record.begin(record, (), min_count=1, domain="", now=0.0) is not None) is begins
