"""Members of a group by kind, and the late claims that several of them share.

Members of one kind request the same of a node and of storage, so one count per node serves all of them. A late claim
that two members use is no member's own: one volume is chosen for it, and all users go where it is reached.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec

from mooring.api.views.pods import Pod
from mooring.volumes.binding import PodClaims
from mooring.volumes.in_tree import identity_of
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.state import VolumeState

ONE_POD: Final = "ReadWriteOncePod"
ONE_NODE: Final = "ReadWriteOnce"

NOT_PINNED: Final[Mapping[str, str]] = MappingProxyType({})

_ENCODER: Final = msgspec.json.Encoder()


@dataclass(slots=True, eq=False)
class MemberKind:
    """Members that request the same."""

    position: int
    members: "list[GroupMember]" = field(default_factory=list)

    @property
    def example(self) -> "GroupMember":
        return self.members[0]


@dataclass(slots=True, eq=False)
class GroupMember:
    """A pod of the group that is to be scheduled."""

    pod: Pod
    #: In the order in which members were given.
    position: int
    #: Its own claims, without those it shares.
    claims: PodClaims
    #: The keys of the late claims that it shares with other members.
    shared: tuple[str, ...]
    kind: MemberKind
    #: Why its claims cannot be decided; "" in the normal case.
    problem: str = ""

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def is_late(self) -> bool:
        """Whether volumes are to be bound or provisioned for it."""
        return bool(self.shared or self.claims.unbound or self.claims.provisioning)


@dataclass(slots=True, eq=False)
class SharedClaim:
    """A late claim that several members use."""

    needs: ClaimRequirements
    users: list[GroupMember] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self.needs.claim.key

    @property
    def single_user(self) -> bool:
        return ONE_POD in self.needs.claim.spec.access_modes

    @property
    def single_attachment(self) -> bool:
        """Whether a volume that is attached can be on one node only."""
        return frozenset(self.needs.claim.spec.access_modes) <= {ONE_NODE, ONE_POD}


@dataclass(slots=True, eq=False)
class GroupProblem:
    """What is to be decided: members in order, and how many of them are needed."""

    members: list[GroupMember]
    kinds: list[MemberKind]
    shared: list[SharedClaim]
    min_count: int
    #: How many members are bound or assumed.
    placed: int

    @property
    def need(self) -> int:
        """How many members a plan must have, at least one."""
        return max(self.min_count - self.placed, 1)

    @property
    def is_late(self) -> bool:
        """Whether any volume is to be bound or provisioned; if not, kube-scheduler's result is the right one."""
        return any(member.is_late for member in self.members)


def group_problem(
    volumes: VolumeState,
    pods: Sequence[Pod],
    *,
    min_count: int,
    placed: int = 0,
    pinned: Mapping[str, str] = NOT_PINNED,
) -> GroupProblem:
    """The members in the order given, by kind. `pinned` names by uid the only node that members may have, which their
    filters have to see to."""
    found = [volumes.claims_of(pod) for pod in pods]
    shared = _shared_claims(found)
    kinds: dict[object, MemberKind] = {}
    members: list[GroupMember] = []
    for position, (pod, claims) in enumerate(zip(pods, found, strict=True)):
        problem = claims if isinstance(claims, str) else ""
        own, keys = (PodClaims(), ()) if isinstance(claims, str) else _without(claims, shared)
        likeness = (_spec(pod), pinned.get(pod.uid), own.disks, problem, keys, _claim_shapes(own, volumes))
        kind = kinds.setdefault(likeness, MemberKind(len(kinds)))
        member = GroupMember(pod, position, own, keys, kind, problem)
        kind.members.append(member)
        members.append(member)
        for key in keys:
            shared[key].users.append(member)
    return GroupProblem(members, list(kinds.values()), list(shared.values()), min_count, placed)


def refreshed_claims(member: GroupMember, volumes: VolumeState) -> PodClaims | str:
    """The member's own claims as they are now."""
    claims = volumes.claims_of(member.pod)
    if isinstance(claims, str):
        return claims
    return _leaving_out(claims, frozenset(member.shared))


def refresh_shared_claims(problem: GroupProblem, volumes: VolumeState) -> None:
    """Take shared claims as they are now. One that is no longer late keeps its last state, which nothing matches."""
    for claim in problem.shared:
        claims = volumes.claims_of(claim.users[0].pod)
        late = () if isinstance(claims, str) else (*claims.unbound, *claims.provisioning)
        claim.needs = next((needs for needs in late if needs.claim.key == claim.key), claim.needs)


def _shared_claims(found: Iterable[PodClaims | str]) -> dict[str, SharedClaim]:
    seen: dict[str, ClaimRequirements] = {}
    shared: dict[str, SharedClaim] = {}
    for claims in found:
        if isinstance(claims, str):
            continue
        for needs in (*claims.unbound, *claims.provisioning):
            key = needs.claim.key
            if key in seen and key not in shared:
                shared[key] = SharedClaim(seen[key])
            seen.setdefault(key, needs)
    return shared


def _without(claims: PodClaims, shared: dict[str, SharedClaim]) -> tuple[PodClaims, tuple[str, ...]]:
    if not shared:
        return claims, ()
    keys = tuple(needs.claim.key for needs in (*claims.unbound, *claims.provisioning) if needs.claim.key in shared)
    return _leaving_out(claims, frozenset(keys)), keys


def _leaving_out(claims: PodClaims, keys: frozenset[str]) -> PodClaims:
    if not keys:
        return claims
    return msgspec.structs.replace(
        claims,
        unbound=tuple(needs for needs in claims.unbound if needs.claim.key not in keys),
        provisioning=tuple(needs for needs in claims.provisioning if needs.claim.key not in keys),
    )


def _spec(pod: Pod) -> bytes:
    """All of the spec that filters and scores read, without the names of claims."""
    volumes = tuple(
        volume for volume in pod.spec.volumes if volume.persistent_volume_claim is None and volume.ephemeral is None
    )
    return _ENCODER.encode(msgspec.structs.replace(pod.spec, volumes=volumes, scheduling_group=None))


def _claim_shapes(claims: PodClaims, volumes: VolumeState) -> tuple[object, ...]:
    """What decides where claims can be served; equal for claims that differ in name only."""
    shapes: list[object] = []
    for needs in claims.unbound:
        reserved = volumes.reserved_volume(needs)
        name = "" if reserved is None else reserved.name
        tracked = volumes.provisioners.tracks_capacity(needs)
        shapes.append((needs.storage_class, needs.size, needs.shape, needs.selector, name, tracked))
    shapes += ((needs.storage_class, needs.size, needs.claim.selected_node) for needs in claims.provisioning)
    for claim in claims.bound:
        volume = volumes.volume(claim.spec.volume_name)
        identity = None if volume is None else identity_of(volume)
        reach = None if volume is None else volumes.reaching(volume)
        shapes.append((reach, "" if identity is None else identity.driver))
    return tuple(shapes)
