"""When a group is committed or given up, and what becomes of each of its held volumes: liveness only. Pure.

`group_gates` guards every write. A group is committed as soon as a quorum of its members has all volumes; it is given
up when that is impossible, or has been unlikely for long enough. Of two groups that each hold what the other lacks,
one yields.
"""

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from mooring.backoff import exponential_backoff
from mooring.volumes.holds import group_gates
from mooring.volumes.holds.group_gates import ClaimHold, LiveGroup
from mooring.volumes.holds.group_record import (
    LISTS,
    UNMARKED,
    GiveUpReason,
    GroupPhase,
    RecordedMember,
    StoredGroup,
)


class GroupTimeouts(msgspec.Struct, frozen=True):
    """How long what is only likely is waited for, in seconds."""

    #: A member whose volume was requested, and is not any more: then what else it holds is rolled back, so that its
    #: scheduler may choose another node.
    failed_member: float = 5.0
    #: The same, until the whole group is given up; members or a PodGroup that do not exist.
    grace: float = 15.0
    #: A member whose volumes were not requested yet: the scheduler may have many to write.
    unrequested_member: float = 60.0
    #: All in all: below kube-scheduler's bindTimeoutSeconds of 600, so that its PreBind still waits.
    hold: float = 540.0
    #: Holding ends: nothing that is not complete now is waited for.
    draining: bool = False


class Contender(msgspec.Struct, frozen=True):
    """A group that is holding, as another group sees it."""

    uid: str
    priority: int
    #: Creation time of the PodGroup.
    created: str
    #: Storage classes of the volumes that it holds, and of the claims for which it gets none.
    holds: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()

    @property
    def rank(self) -> tuple[int, str, str]:
        """The lowest goes first: higher priority, older, smaller uid."""
        return -self.priority, self.created, self.uid


class HoldProgress(msgspec.Struct, frozen=True):
    """What a verdict takes into account beside the live group."""

    held_seconds: float = 0.0
    #: How long the PodGroup has been missing; 0 if it exists.
    missing_seconds: float = 0.0
    #: By uid of pods that wait, in the record or not: since when a claim has neither volume nor provisioner, or a
    #: volume that the member's node does not reach.
    adrift: Mapping[str, float] = {}
    #: Of these, the pods whose volumes had been requested before.
    requested: frozenset[str] = frozenset()
    #: Itself among the groups that hold.
    own: Contender | None = None
    contenders: tuple[Contender, ...] = ()


class CommitGroup(msgspec.Struct, frozen=True):
    """A quorum has everything."""


class GiveUpGroup(msgspec.Struct, frozen=True):
    reason: GiveUpReason


class LetLeave(msgspec.Struct, frozen=True):
    """The quorum does not need these members, and they get no further here."""

    pods: frozenset[str]


class WaitForGroup(msgspec.Struct, frozen=True):
    """Nothing yet; look again in so many seconds, or when something changes."""

    seconds: float


GroupVerdict: TypeAlias = CommitGroup | GiveUpGroup | LetLeave | WaitForGroup


def group_verdict(live: LiveGroup, progress: HoldProgress, timeouts: GroupTimeouts) -> GroupVerdict:
    """For a group that is holding."""
    record = live.stored.record
    left = timeouts.hold - progress.held_seconds
    if live.min_count is None:
        missing = timeouts.grace - progress.missing_seconds
        if missing <= 0 or timeouts.draining:
            return GiveUpGroup(GiveUpReason.NotEnoughMembers)
        return WaitForGroup(min(missing, left))
    if group_gates.claims_to_commit(live) is not None:
        return CommitGroup()
    if timeouts.draining:
        return GiveUpGroup(GiveUpReason.Drained)
    if left <= 0:
        return GiveUpGroup(GiveUpReason.TooLong)
    if reason := _impossible(live):
        return GiveUpGroup(reason)
    if gone := frozenset(member.pod for member in record.staying if member.pod not in live.waiting):
        return LetLeave(gone)
    return _judge_failing(live, progress, timeouts, left)


def _impossible(live: LiveGroup) -> GiveUpReason | None:
    record = live.stored.record
    assert live.min_count is not None
    too_few = GiveUpReason.MinCountRaised if live.min_count > record.min_count else GiveUpReason.NotEnoughMembers
    if live.placed + len(live.waiting) < live.min_count:
        return too_few
    where = group_gates.domains(record.staying, live)
    if len(where) > 1 or (record.domain and where - {record.domain}):
        return GiveUpReason.DomainLost
    return None


def _judge_failing(live: LiveGroup, progress: HoldProgress, timeouts: GroupTimeouts, left: float) -> GroupVerdict:
    assert live.min_count is not None
    overdue: set[str] = set()
    stranded: set[str] = set()
    wait = left
    for pod, seconds in progress.adrift.items():
        patience = timeouts.grace if pod in progress.requested else timeouts.unrequested_member
        if seconds >= patience:
            overdue.add(pod)
        else:
            wait = min(wait, patience - seconds)
        if pod in progress.requested and pod in live.stored.record.by_pod and _holds_something(pod, live):
            if seconds >= timeouts.failed_member:
                stranded.add(pod)
            else:
                wait = min(wait, timeouts.failed_member - seconds)
    if stranded:
        # What it holds on its node keeps its scheduler from another one.
        return LetLeave(frozenset(stranded))
    if not overdue:
        return WaitForGroup(wait)
    if live.placed + len(live.waiting.keys() - overdue) >= live.min_count:
        return WaitForGroup(max(wait, timeouts.failed_member))
    own = progress.own
    if own is not None:
        if any(yields_to(own, contender) for contender in progress.contenders):
            return GiveUpGroup(GiveUpReason.Superseded)
        if any(yields_to(contender, own) for contender in progress.contenders):
            # The other group gives up first; what it holds is free after that.
            return WaitForGroup(min(left, timeouts.failed_member))
    return GiveUpGroup(GiveUpReason.MemberFailed)


def _holds_something(pod: str, live: LiveGroup) -> bool:
    record = live.stored.record
    member = record.by_pod[pod]
    return pod not in record.leaving and any(
        claim.uid in live.claims and live.claims[claim.uid].held for claim in member.claims
    )


def yields_to(group: Contender, other: Contender) -> bool:
    """Whether both are short, what the other lacks is held here, and the other goes first."""
    if group.uid == other.uid or not group.lacks or group.holds.isdisjoint(other.lacks):
        return False
    return other.rank < group.rank


class VolumeStep(enum.Enum):
    """What becomes of a held volume of a group."""

    KEEP = "keep"
    COMMIT = "commit"
    ROLL_BACK = "roll back"
    #: Write the marks of the record's member into it.
    ADOPT = "adopt"
    #: Remove the group's marks: the rules for its pod alone apply.
    DETACH = "detach"


def volume_step(claim_uid: str, hold: ClaimHold, stored: StoredGroup | None, *, needs_record: bool) -> VolumeStep:
    """For a volume that is held. The gates are asked again before the write. `needs_record`: a group without record
    gets one, from its scheduler or the caller."""
    mark, snapshot = hold.mark, hold.snapshot
    if mark == UNMARKED:
        if stored is None or stored.record.phase is GroupPhase.IDLE:
            return VolumeStep.KEEP if needs_record else VolumeStep.DETACH
        if stored.record.phase is GroupPhase.HOLDING:
            return VolumeStep.ADOPT if entry_of(claim_uid, hold, stored) is not None else VolumeStep.KEEP
        return VolumeStep.DETACH if stored.record.phase in LISTS else VolumeStep.ROLL_BACK
    if group_gates.may_commit_in_group(snapshot, mark, stored):
        return VolumeStep.COMMIT
    if group_gates.may_leave_group(claim_uid, mark, stored):
        return VolumeStep.DETACH
    if group_gates.may_roll_back_in_group(claim_uid, snapshot, mark, stored):
        return VolumeStep.ROLL_BACK
    return VolumeStep.KEEP


def entry_of(claim_uid: str, hold: ClaimHold, stored: StoredGroup) -> RecordedMember | None:
    """The member of the record that a held volume without marks belongs to: of its node."""
    volume = hold.snapshot.volume
    users = stored.record.by_claim.get(claim_uid, ())
    return next((user for user in users if volume is not None and user.node == volume.node), None)


#: The longest pause between two attempts of a group.
MAX_GROUP_BACKOFF_SECONDS: Final = 300.0


def group_backoff(count: int) -> float:
    """Seconds before a group is decided again after it was given up for the n-th time in a row."""
    return exponential_backoff(1.0, MAX_GROUP_BACKOFF_SECONDS, count)
