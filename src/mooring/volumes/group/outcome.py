"""Outcome of a decision about a group of pods: a plan, or a refusal with its certificate. Pure values.

A certificate names, for every domain, the bound that is below the need: free volumes of a class, capacity of its
segments, attach limits, resources. A refusal without one means that no plan was found, not that there is none.
`certificate_lines` is its text. Reported capacity and free volumes are public; claims of others appear only in sums.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mooring.api.views.pods import Pod
from mooring.volumes.binding import BindingPlan
from mooring.volumes.shortage import readable_size

#: kube-scheduler's text for a group that cannot reach its minCount.
CANNOT_BE_SATISFIED: Final = "minCount ({}) cannot be satisfied: {} scheduled, {} remaining"
#: kube-scheduler's texts for groups with a topology constraint.
DOMAINS_DIFFER: Final = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: {}"
NO_PLACEMENTS: Final = "no feasible placements found"


class RefusalCode(enum.Enum):
    """Why a group gets no plan."""

    #: Fewer members fit than are needed, in every domain: the certificate shows it.
    SHORT = "Short"
    #: No plan was found, although no bound rules one out.
    NOT_FOUND = "NotFound"
    #: There are too few members.
    NOT_ENOUGH_MEMBERS = "NotEnoughMembers"
    #: Members that are placed already are in several domains of the topology constraint.
    DOMAINS_DIFFER = "DomainsDiffer"
    #: No node has the label of the topology constraint.
    NO_DOMAIN = "NoDomain"


class ShortageCode(enum.Enum):
    """What there is too little of."""

    RESOURCES = "Resources"
    VOLUMES = "Volumes"
    CAPACITY = "Capacity"
    ATTACH_LIMIT = "AttachLimit"
    SHARED_CLAIM = "SharedClaim"
    #: Filters of the members reject the nodes.
    NODES = "Nodes"
    #: Claims of a member cannot be decided; the subject is the reason.
    CLAIMS = "Claims"


class ShortagePlace(NamedTuple):
    """A segment, a node or a volume's topology: what it has, and for how many members that is enough."""

    name: str
    amount: int
    members: int


class Shortage(NamedTuple):
    """One bound on the members that fit in a domain."""

    code: ShortageCode
    #: The class, driver, resource or claim.
    subject: str
    #: Volumes or members, as the code has it, that the group needs and that there are.
    requested: int
    available: int
    #: Members that fit at most.
    members: int
    places: tuple[ShortagePlace, ...] = ()
    #: Bytes of the volumes of one member that are counted here; 0 where bytes do not matter.
    size: int = 0


class DomainShortage(NamedTuple):
    """How many members fit at most in a domain, and what limits them, the tightest first."""

    #: The value of the constraint's label; "" for a group without constraint.
    domain: str
    members: int
    needed: int
    shortages: tuple[Shortage, ...] = ()


@dataclass(frozen=True)
class GroupRefusal:
    """The group stays pending as a whole; nothing is reserved for it."""

    code: RefusalCode
    #: kube-scheduler's text.
    message: str
    scheduled: int = 0
    remaining: int = 0
    #: Whether there is certainly no plan.
    exact: bool = False
    looks: int = 0
    certificate: tuple[DomainShortage, ...] = ()
    #: By uid of members that do not fit, what rejected them: a `Decision` in the scheduler.
    rejected: Mapping[str, object] = field(default_factory=dict)
    #: The uids of members that a node was found for.
    fitted: frozenset[str] = frozenset()

    @property
    def classes(self) -> frozenset[str]:
        """The storage classes whose volumes or capacity would help."""
        return self._subjects(ShortageCode.VOLUMES) | self._subjects(ShortageCode.CAPACITY)

    @property
    def drivers(self) -> frozenset[str]:
        return self._subjects(ShortageCode.ATTACH_LIMIT)

    @property
    def claims(self) -> frozenset[str]:
        """The keys of shared claims that keep members together."""
        return self._subjects(ShortageCode.SHARED_CLAIM)

    @property
    def resources(self) -> frozenset[str]:
        return self._subjects(ShortageCode.RESOURCES)

    @property
    def domains(self) -> frozenset[str]:
        return frozenset(one.domain for one in self.certificate if one.domain)

    def _subjects(self, code: ShortageCode) -> frozenset[str]:
        return frozenset(
            shortage.subject for domain in self.certificate for shortage in domain.shortages if shortage.code is code
        )


class MemberPlan(NamedTuple):
    """A member with its node and what binding it takes; claims that it shares with siblings are not in it."""

    pod: Pod
    #: As `VolumeState.assume` returned it.
    plan: BindingPlan

    @property
    def node(self) -> str:
        return self.plan.node


class SharedClaimPlan(NamedTuple):
    """A late claim that several members use: one volume, which the nodes of all of them reach."""

    claim: str
    #: The uids of the members that use it.
    users: tuple[str, ...]
    #: Of this claim only; its node is the one of a user.
    plan: BindingPlan


@dataclass(frozen=True)
class GroupPlan:
    """Nodes and volumes for at least the quorum; all of it is reserved."""

    #: By uid of the pod, in the order in which members were given.
    members: Mapping[str, MemberPlan]
    shared: tuple[SharedClaimPlan, ...] = ()
    #: The value of the topology constraint's label; "" without constraint.
    domain: str = ""
    #: The uids of members beyond the quorum that found no node, with what rejected them as in GroupRefusal.
    leftover: Mapping[str, object] = field(default_factory=dict)
    #: What a reader of the plan should know.
    notes: tuple[str, ...] = ()
    looks: int = 0

    @property
    def late_claims(self) -> int:
        """The volumes that are to be bound or provisioned."""
        plans = [*(one.plan for one in self.members.values()), *(one.plan for one in self.shared)]
        return sum(len(plan.static) + len(plan.provision) for plan in plans)


def quorum_message(min_count: int, scheduled: int) -> tuple[str, int]:
    """kube-scheduler's text where its loop ends: as soon as those that are left are too few; and how many are left."""
    remaining = max(min_count - 1 - scheduled, 0)
    return CANNOT_BE_SATISFIED.format(min_count, scheduled, remaining), remaining


#: Shortages of a domain and places of a shortage that are named.
MAX_LISTED_SHORTAGES: Final = 3
MAX_NAMED_PLACES: Final = 5


def certificate_lines(refusal: GroupRefusal) -> list[str]:
    """A line for each domain; a group without topology constraint has one for each shortage."""
    if refusal.code not in (RefusalCode.SHORT, RefusalCode.NOT_FOUND):
        return [refusal.message]
    lines = [line for domain in refusal.certificate for line in _domain_lines(domain)]
    if refusal.code is RefusalCode.NOT_FOUND:
        lines.insert(0, f"no plan was found in {refusal.looks} looks, although no bound rules one out")
    return lines


def _domain_lines(domain: DomainShortage) -> Iterator[str]:
    told = [shortage_text(one) for one in domain.shortages if one.members < domain.needed or domain.domain]
    told = list(dict.fromkeys(told))[:MAX_LISTED_SHORTAGES]
    if domain.domain:
        reasons = "; ".join(told)
        fits = f"{domain.domain}: {domain.members} of {domain.needed} members fit"
        yield f"{fits}: {reasons}" if reasons and domain.members < domain.needed else fits
    else:
        yield from told


def shortage_text(shortage: Shortage) -> str:
    """One shortage, with the places that have most."""
    places = ", ".join(_place_text(shortage, number) for number in range(min(len(shortage.places), MAX_NAMED_PLACES)))
    more = len(shortage.places) - MAX_NAMED_PLACES
    if more > 0:
        places += f" and {more} more"
    text = _summary(shortage)
    return f"{text}: {places}" if places else text


def _summary(shortage: Shortage) -> str:
    subject, requested, available = shortage.subject, shortage.requested, shortage.available
    match shortage.code:
        case ShortageCode.VOLUMES:
            return f"class {subject}: {requested} volumes requested, {available} free"
        case ShortageCode.CAPACITY if shortage.places and requested <= _MANY_VOLUMES:
            return f"class {subject}: {requested} volumes of {readable_size(shortage.size)}"
        case ShortageCode.CAPACITY:
            return f"class {subject}: {readable_size(shortage.size)} for each member, enough for {shortage.members}"
        case ShortageCode.ATTACH_LIMIT:
            return f"driver {subject}: {requested} volumes requested, nodes take {available} more"
        case ShortageCode.SHARED_CLAIM:
            nodes = "1 node" if available == 1 else f"{available} nodes"
            users = f"{shortage.members} of {requested} users"
            return f"claim {subject}: its volume is reached from {nodes}, where {users} fit"
        case ShortageCode.RESOURCES:
            return f"{subject}: enough for {available} of {requested} members"
        case ShortageCode.NODES:
            return f"no node passes the filters of {requested} members"
        case ShortageCode.CLAIMS:
            return f"{requested} members: {subject}"


#: Above this a figure counts bytes and not volumes.
_MANY_VOLUMES: Final = 2**24


def _place_text(shortage: Shortage, number: int) -> str:
    place = shortage.places[number]
    if shortage.code is ShortageCode.CAPACITY:
        return f"{place.name} {readable_size(place.amount)}: {place.members}"
    return f"{place.name}: {place.members}"
