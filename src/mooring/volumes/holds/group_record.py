"""The record of a group of pods whose volumes are held: what it contains, how it is stored, how it may change. Pure.

One ConfigMap `group-<uid of the PodGroup>` in the hold namespace, changed by compare-and-swap only:

           scheduler, or the coordinator                 coordinator: one swap
    IDLE ───────────────────────────► HOLDING ───────────────────────────► COMMITTING ──► COMMITTED
      ▲                                  │  the quorum cannot be reached     every listed volume is committed
      └───────── GIVING_UP ◄─────────────┘                                   COMMITTED ──► HOLDING, next epoch
        no volume is held

The epoch grows whenever holding begins and whenever a member enters, and a member keeps the epoch of its entry. The uid
of the ConfigMap and the epoch mark every volume that is held for the member, so that a volume of an earlier entry is
never taken for one of the present. `group_gates` says which change is safe, `group_policy` when it is made.
"""

import enum
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec
from msgspec import structs

#: On the record, on intents and on held volumes of a group: the uid of the PodGroup.
GROUP_LABEL: Final = "mooring.dev/group"
#: On a held volume: the uid of the record, and the epoch in which its member entered.
GROUP_RECORD: Final = "hold.mooring.dev/group"
GROUP_EPOCH: Final = "hold.mooring.dev/epoch"


class GroupPhase(enum.Enum):
    IDLE = "Idle"
    #: Volumes of the members are held; nothing is committed.
    HOLDING = "Holding"
    #: The listed volumes are being committed. There is no way back.
    COMMITTING = "Committing"
    COMMITTED = "Committed"
    #: Held volumes are being rolled back.
    GIVING_UP = "GivingUp"


#: Phases whose list of claims is final.
LISTS: Final = frozenset({GroupPhase.COMMITTING, GroupPhase.COMMITTED})


class GiveUpReason(enum.Enum):
    """Why a group's volumes were rolled back, in the words of the event."""

    NotEnoughMembers = "fewer pods than its minCount are left or can still be scheduled"
    MemberFailed = "the volumes of a member could not be provisioned or held"
    DomainLost = "its members are not on nodes with one value of the topology key any more"
    MinCountRaised = "its minCount was raised above the number of members that have their volumes"
    Superseded = "a group that goes first needs what it holds"
    TooLong = "not all of its members got their volumes in time"
    Drained = "volumes are not held any longer, and not all of its members have theirs"


class MemberClaim(msgspec.Struct, frozen=True):
    uid: str
    #: The existing volume that was chosen for it; "" where one is provisioned.
    volume: str = ""


class RecordedMember(msgspec.Struct, frozen=True):
    #: Uid of the pod.
    pod: str
    node: str
    #: In which it entered, and with which its held volumes are marked.
    epoch: int
    claims: tuple[MemberClaim, ...] = ()


class GroupMark(msgspec.Struct, frozen=True):
    """What a held volume says about its group; both empty where it was not entered into a record yet."""

    record: str = ""
    epoch: int = 0


UNMARKED: Final = GroupMark()


class GroupRecord(msgspec.Struct, frozen=True, dict=True):
    namespace: str
    name: str
    #: Of the PodGroup.
    uid: str
    epoch: int = 0
    phase: GroupPhase = GroupPhase.IDLE
    min_count: int = 1
    #: Value of the topology key that the members share.
    domain: str = ""
    #: In the order of their uids.
    members: tuple[RecordedMember, ...] = ()
    #: Uids of members whose volumes are rolled back while the others stay.
    leaving: frozenset[str] = frozenset()
    #: Uids of claims that are to be committed; from COMMITTING on.
    listed: frozenset[str] = frozenset()
    #: Those of them whose volume was taken or deleted by another client.
    lost: frozenset[str] = frozenset()
    #: When holding began, in seconds since 1970.
    since: float = 0.0
    #: Name of a GiveUpReason; of the last time.
    reason: str = ""
    #: Holding does not begin before, in seconds since 1970.
    not_before: float = 0.0
    #: How often in a row the group was given up.
    count: int = 0

    @cached_property
    def by_pod(self) -> Mapping[str, RecordedMember]:
        return {member.pod: member for member in self.members}

    @cached_property
    def by_claim(self) -> Mapping[str, tuple[RecordedMember, ...]]:
        """The members that use a claim and do not leave."""
        found: dict[str, tuple[RecordedMember, ...]] = {}
        for member in self.staying:
            for claim in member.claims:
                found[claim.uid] = (*found.get(claim.uid, ()), member)
        return found

    @cached_property
    def staying(self) -> tuple[RecordedMember, ...]:
        return tuple(member for member in self.members if member.pod not in self.leaving)

    def is_current(self, claim: str, epoch: int) -> bool:
        """Whether a volume of this epoch is the one that a member of the record waits for."""
        return any(member.epoch == epoch for member in self.by_claim.get(claim, ()))


class StoredGroup(msgspec.Struct, frozen=True):
    """A record as it was read: the ConfigMap's own uid, and its resourceVersion for the swap."""

    record: GroupRecord
    uid: str
    version: str = ""


def begin(
    record: GroupRecord, members: Iterable[RecordedMember], *, min_count: int, domain: str, now: float
) -> GroupRecord | None:
    """Holding, in a new epoch (gate 6); None while volumes of the last one may be held."""
    if record.phase not in (GroupPhase.IDLE, GroupPhase.COMMITTED):
        return None
    epoch = record.epoch + 1
    return structs.replace(
        record,
        epoch=epoch,
        phase=GroupPhase.HOLDING,
        min_count=min_count,
        domain=domain,
        members=_ordered(structs.replace(member, epoch=epoch) for member in members),
        leaving=frozenset(),
        listed=frozenset(),
        lost=frozenset(),
        since=now,
        reason="",
    )


def enter(record: GroupRecord, member: RecordedMember) -> GroupRecord | None:
    """With a member that is new, or comes back with another plan: the epoch grows, so that no volume that it had before
    counts, and no rollback that was decided before meets one that it gets now (gate 6)."""
    known = record.by_pod.get(member.pod)
    if record.phase is not GroupPhase.HOLDING or (known is not None and member.pod not in record.leaving):
        return None
    epoch = record.epoch + 1
    others = (each for each in record.members if each.pod != member.pod)
    return structs.replace(
        record,
        epoch=epoch,
        members=_ordered((*others, structs.replace(member, epoch=epoch))),
        leaving=record.leaving - {member.pod},
    )


def leave(record: GroupRecord, pods: Iterable[str]) -> GroupRecord | None:
    """Without these members, whose volumes may be rolled back from now on (gate 3)."""
    leaving = record.leaving | (set(pods) & record.by_pod.keys())
    if record.phase is not GroupPhase.HOLDING or leaving == record.leaving:
        return None
    return structs.replace(record, leaving=leaving)


def give_up(record: GroupRecord, reason: GiveUpReason) -> GroupRecord | None:
    """Only while nothing is committed (gate 5)."""
    if record.phase is not GroupPhase.HOLDING:
        return None
    return structs.replace(record, phase=GroupPhase.GIVING_UP, reason=reason.name)


def end(record: GroupRecord, *, now: float, backoff: float) -> GroupRecord | None:
    """No volume is held any more: the group may be decided again after the pause."""
    if record.phase is not GroupPhase.GIVING_UP:
        return None
    return structs.replace(
        record,
        phase=GroupPhase.IDLE,
        members=(),
        leaving=frozenset(),
        not_before=now + backoff,
        count=record.count + 1,
    )


def list_claims(record: GroupRecord, claims: Iterable[str]) -> GroupRecord | None:
    """The one swap that commits. `group_gates.claims_to_commit` returns the claims."""
    if record.phase is not GroupPhase.HOLDING:
        return None
    return structs.replace(record, phase=GroupPhase.COMMITTING, listed=frozenset(claims))


def lose(record: GroupRecord, claims: Iterable[str]) -> GroupRecord | None:
    """Note listed claims that will not get their volume because another client took or deleted it."""
    lost = record.lost | (record.listed & set(claims))
    if record.phase is not GroupPhase.COMMITTING or lost == record.lost:
        return None
    return structs.replace(record, lost=lost)


def complete(record: GroupRecord, *, held: Iterable[str]) -> GroupRecord | None:
    """`held`: claims with a volume that is held for them. None while one of the listed has (gate 5)."""
    if record.phase is not GroupPhase.COMMITTING or not record.listed.isdisjoint(held):
        return None
    return structs.replace(record, phase=GroupPhase.COMMITTED, count=0, not_before=0.0)


def _ordered(members: Iterable[RecordedMember]) -> tuple[RecordedMember, ...]:
    return tuple(sorted(members, key=lambda member: member.pod))


class MalformedGroup(ValueError):
    """The ConfigMap was not written by this protocol."""


_PREFIX: Final = "group-"


def record_name(group_uid: str) -> str:
    return f"{_PREFIX}{group_uid}"


def is_record_name(name: str) -> bool:
    return name.startswith(_PREFIX)


class _StoredMember(msgspec.Struct, omit_defaults=True):
    node: str
    epoch: int
    #: Uid -> name of the existing volume, or "".
    claims: dict[str, str] = {}


_MEMBERS: Final = msgspec.json.Decoder(dict[str, _StoredMember])
_UIDS: Final = msgspec.json.Decoder(list[str])


def group_data(record: GroupRecord) -> dict[str, str]:
    """The ConfigMap's data."""
    members = {
        each.pod: _StoredMember(each.node, each.epoch, {claim.uid: claim.volume for claim in each.claims})
        for each in record.members
    }
    return {
        "group": f"{record.namespace}/{record.name}/{record.uid}",
        "epoch": str(record.epoch),
        "phase": record.phase.value,
        "minCount": str(record.min_count),
        "domain": record.domain,
        "members": msgspec.json.encode(members).decode(),
        "leaving": _uids(record.leaving),
        "listed": _uids(record.listed),
        "lost": _uids(record.lost),
        "since": repr(record.since),
        "reason": record.reason,
        "not-before": repr(record.not_before),
        "count": str(record.count),
    }


def group_from_data(data: Mapping[str, str]) -> GroupRecord:
    """Raises MalformedGroup."""
    try:
        namespace, name, uid = data["group"].split("/")
        members = _MEMBERS.decode(data["members"])
        return GroupRecord(
            namespace,
            name,
            uid,
            int(data["epoch"]),
            GroupPhase(data["phase"]),
            int(data["minCount"]),
            data.get("domain", ""),
            _ordered(
                RecordedMember(pod, each.node, each.epoch, tuple(MemberClaim(*claim) for claim in each.claims.items()))
                for pod, each in members.items()
            ),
            frozenset(_UIDS.decode(data["leaving"])),
            frozenset(_UIDS.decode(data["listed"])),
            frozenset(_UIDS.decode(data.get("lost", "[]"))),
            float(data["since"]),
            data.get("reason", ""),
            float(data["not-before"]),
            int(data["count"]),
        )
    except (KeyError, ValueError, msgspec.DecodeError) as problem:
        raise MalformedGroup(f"not the record of a group: {problem}") from problem


def _uids(uids: frozenset[str]) -> str:
    return msgspec.json.encode(sorted(uids)).decode()
