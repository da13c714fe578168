"""What keeps a group of pods from getting half of its volumes: the checks before every swap. Pure.

Safety rests on these functions, on the transitions in `group_record`, and on the order of reads, whatever two
coordinators, schedulers and provisioners with different observed state decide:

1. A marked volume is committed only under a record that lists its claim, of the volume's epoch: `may_commit_in_group`.
2. It is not rolled back while such a record lists it, unless its claim is deleted or has another volume:
   `may_roll_back_in_group`.
3. Before it is rolled back the record says so: the caller reads the volume, then the record, then swaps the volume.
4. The list is written under the version of a record that was read before all else: `claims_to_commit`. So a rollback
   that the record does not announce cannot be missed, and one that it does makes the swap fail.
5. A record that lists claims never goes back, and is complete only when none of their volumes is held.
6. Epochs grow; a volume of another epoch than its member's is never committed.
7. The rules for a single volume apply as well (`transitions`).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from mooring.volumes.binding import HoldState
from mooring.volumes.holds import transitions
from mooring.volumes.holds.group_record import LISTS, UNMARKED, GroupMark, GroupPhase, RecordedMember, StoredGroup
from mooring.volumes.holds.transitions import HoldSnapshot


class ClaimHold(msgspec.Struct, frozen=True):
    """A late-bound claim and its volume by live reads."""

    snapshot: HoldSnapshot
    mark: GroupMark = UNMARKED
    #: Whether its volume can be used from a node.
    reaches: Callable[[str], bool] = lambda _: False

    @property
    def committed(self) -> bool:
        """Its volume is the claim's own."""
        volume, claim = self.snapshot.volume, self.snapshot.claim
        if volume is None or claim is None or claim.volume_name not in ("", volume.name):
            return False
        return volume.state is HoldState.COMMITTED

    @property
    def held(self) -> bool:
        volume = self.snapshot.volume
        return volume is not None and volume.state is HoldState.HELD


class LivePod(msgspec.Struct, frozen=True):
    """A pod of the group that waits to be scheduled."""

    uid: str
    #: Uids of all its late-bound claims; None where one of its claims does not exist.
    claims: frozenset[str] | None = frozenset()


class LiveGroup(msgspec.Struct, frozen=True):
    """A group by live reads: the record first, everything else after it."""

    stored: StoredGroup
    #: The PodGroup's; None where it does not exist, or is another one of the same name.
    min_count: int | None
    #: By uid: those that wait, neither deleted nor gated.
    waiting: Mapping[str, LivePod] = {}
    #: How many members are bound to nodes.
    placed: int = 0
    #: Value of the topology key on nodes of bound members; empty without a constraint.
    placed_domains: frozenset[str] = frozenset()
    #: By uid.
    claims: Mapping[str, ClaimHold] = {}
    #: Value of the topology key on a node; "" for all nodes without a constraint.
    domain_of: Callable[[str], str] = lambda _: ""


def may_commit_in_group(snapshot: HoldSnapshot, mark: GroupMark, stored: StoredGroup | None) -> bool:
    """Gates 1 and 7."""
    claim = snapshot.claim
    if claim is None or stored is None or not is_listed(claim.uid, mark, stored):
        return False
    return transitions.may_commit(snapshot)


def is_listed(claim: str, mark: GroupMark, stored: StoredGroup) -> bool:
    record = stored.record
    if record.phase not in LISTS or stored.uid != mark.record:
        return False
    return claim in record.listed and record.is_current(claim, mark.epoch)


def may_roll_back_in_group(claim_uid: str, snapshot: HoldSnapshot, mark: GroupMark, stored: StoredGroup | None) -> bool:
    """Gates 2, 3 and 7. `stored` is None where there is no record, and was read after the volume."""
    if not transitions.may_roll_back(snapshot):
        return False
    if stored is None or is_stale(claim_uid, mark, stored):
        return True
    if snapshot.claim is None or snapshot.bound_elsewhere:
        return True
    if stored.record.phase in LISTS:
        return claim_uid not in stored.record.listed
    return stored.record.phase is not GroupPhase.HOLDING


def is_stale(claim_uid: str, mark: GroupMark, stored: StoredGroup) -> bool:
    """Whether the volume belongs to another record or epoch than its claim's members, or these leave (gates 3, 6)."""
    return stored.uid != mark.record or not stored.record.is_current(claim_uid, mark.epoch)


def claims_to_commit(live: LiveGroup) -> frozenset[str] | None:
    """The claims of all members that have everything; None unless these are a quorum (gates 4 and 7).

    The swap that lists them carries the version of `live.stored`.
    """
    stored = live.stored
    if stored.record.phase is not GroupPhase.HOLDING or live.min_count is None:
        return None
    complete = [member for member in stored.record.staying if is_complete(member, live)]
    if not complete or live.placed + len(complete) < live.min_count:
        return None
    if len(domains(complete, live)) > 1:
        return None
    wanted = {claim for member in complete for claim in _late_claims(member, live)}
    return frozenset(claim for claim in wanted if live.claims[claim].held)


def domains(members: Iterable[RecordedMember], live: LiveGroup) -> frozenset[str]:
    """Values of the topology key that the members and those that are bound have."""
    return live.placed_domains | {live.domain_of(member.node) for member in members}


def is_complete(member: RecordedMember, live: LiveGroup) -> bool:
    """Whether the pod waits and has a volume for each of its late-bound claims: its own, or held for this entry."""
    if member.pod in live.stored.record.leaving:
        return False
    pod = live.waiting.get(member.pod)
    if pod is None or pod.claims is None:
        return False
    return all(_is_ready(claim, member, live) for claim in _late_claims(member, live))


def _late_claims(member: RecordedMember, live: LiveGroup) -> frozenset[str]:
    """By the pod, which the record may have been written before all was known of."""
    pod = live.waiting.get(member.pod)
    return pod.claims if pod is not None and pod.claims is not None else frozenset()


def _is_ready(claim: str, member: RecordedMember, live: LiveGroup) -> bool:
    hold = live.claims.get(claim)
    if hold is None or not hold.reaches(member.node):
        return False
    if hold.committed:
        return True
    stored, volume, facts = live.stored, hold.snapshot.volume, hold.snapshot.claim
    if volume is None or facts is None or not hold.held or not transitions.may_commit(hold.snapshot):
        return False
    if not volume.static and facts.selected_node != volume.node:
        return False
    users = stored.record.by_claim.get(claim, ())
    if not any(user.epoch == hold.mark.epoch and user.node == volume.node for user in users):
        return False
    return hold.mark.record == stored.uid


def may_leave_group(claim_uid: str, mark: GroupMark, stored: StoredGroup | None) -> bool:
    """Whether a held volume may lose its marks and be decided by its pod alone: its group has its list, and does not
    need this one. A volume that was never entered may where there is nothing to enter it into."""
    if mark == UNMARKED:
        return stored is None or stored.record.phase in LISTS
    if stored is None or is_stale(claim_uid, mark, stored):
        return False
    return stored.record.phase in LISTS and claim_uid not in stored.record.listed
