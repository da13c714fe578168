"""What a search has reserved so far: members on nodes, and volumes for their claims.

`Placements` is what the search asks its caller: filters and scores, which see all that is reserved. The scheduler's
(`scheduler.framework.group_cycle`) run its plugins on the snapshot; `VolumePlacements` looks at volumes alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from mooring.api.views.pods import Pod
from mooring.volumes.binding import BindingPlan, OutOfSync
from mooring.volumes.group.bounds import MemberFit
from mooring.volumes.group.members import ONE_POD, GroupMember, SharedClaim, refreshed_claims
from mooring.volumes.group.shared_claims import SharedPlace
from mooring.volumes.group.supply import Counts
from mooring.volumes.in_tree import disks_with_drivers
from mooring.volumes.scoring import preference
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, mask_of, union


class Examined(NamedTuple):
    """The nodes that a member passes its filters on, and what rejected the others."""

    nodes: NodeSet
    detail: object = None


class Placements(Protocol):
    """Filters, scores and the state that both read."""

    volumes: VolumeState
    topology: TopologyIndex

    def fit_alone(self, member: GroupMember) -> MemberFit:
        """What the member finds by itself."""

    def examine(self, member: GroupMember, within: NodeSet) -> Examined:
        """Run the member's filters, with its own claims, beside all that is reserved."""

    def choose(self, member: GroupMember, examined: Examined) -> str:
        """The name of the best of the examined nodes."""

    def binding_plan(self, member: GroupMember, node: str) -> BindingPlan:
        """The best plan for an examined node."""

    def add(self, member: GroupMember, node: str) -> None:
        """Count the member on a node."""

    def remove(self, member: GroupMember, node: str) -> None:
        """Undo `add`."""


class VolumePlacements:
    """Placements by volumes alone; nodes and how many members fit there by other resources are the caller's."""

    def __init__(
        self,
        volumes: VolumeState,
        topology: TopologyIndex,
        *,
        nodes_for: Callable[[Pod], NodeSet] | None = None,
        resources: Callable[[Pod], Mapping[str, Counts]] | None = None,
    ) -> None:
        """`nodes_for` says where a pod can run now, members that were added included; `resources` by name how many like
        it fit on each node."""
        self.volumes = volumes
        self.topology = topology
        self._nodes_for = nodes_for
        self._resources = resources

    def fit_alone(self, member: GroupMember) -> MemberFit:
        return MemberFit(self._allowed(member) & ~self._bound_elsewhere(member), self._by_resource(member))

    def examine(self, member: GroupMember, within: NodeSet) -> Examined:
        nodes = within & self._allowed(member)
        if not nodes or self._is_in_use(member):
            return Examined(EMPTY)
        rejections = self.volumes.rejections(member.claims)
        nodes &= ~union(rejected for rejected, _ in rejections)
        if nodes:
            nodes &= ~(self.volumes.over_limit(member.pod, member.claims) | self.volumes.disk_conflicts(member.pod))
        return Examined(nodes, rejections)

    def choose(self, member: GroupMember, examined: Examined) -> str:
        if not member.claims.unbound:
            return next(self.topology.names(examined.nodes))
        width = self.topology.width
        scores = preference(self.volumes.fits(member.claims), width)
        return self.topology.name(int(np.where(mask_of(examined.nodes, width), scores, -np.inf).argmax()))

    def binding_plan(self, member: GroupMember, node: str) -> BindingPlan:
        return BindingPlan(node) if member.claims.all_bound else self.volumes.plan(member.claims, node)

    def add(self, member: GroupMember, node: str) -> None:
        self.volumes.add_pod(member.pod, node)

    def remove(self, member: GroupMember, node: str) -> None:
        self.volumes.remove_pod(member.pod, node)

    def _allowed(self, member: GroupMember) -> NodeSet:
        return self.topology.all if self._nodes_for is None else self._nodes_for(member.pod)

    def _by_resource(self, member: GroupMember) -> Mapping[str, Counts]:
        return {} if self._resources is None else self._resources(member.pod)

    def _bound_elsewhere(self, member: GroupMember) -> NodeSet:
        bound = msgspec.structs.replace(member.claims, unbound=(), provisioning=())
        return union(nodes for nodes, _ in self.volumes.rejections(bound))

    def _is_in_use(self, member: GroupMember) -> bool:
        claims = ((key, self.volumes.claim(key)) for key in member.pod.claim_keys)
        return any(
            claim is not None and ONE_POD in claim.spec.access_modes and self.volumes.in_use(key)
            for key, claim in claims
        )


@dataclass(slots=True, eq=False)
class Reserved:
    """A plan, and the objects as they will read once it is written."""

    plan: BindingPlan
    promised: BindingPlan

    def holds(self, volumes: VolumeState) -> bool:
        """Whether all of it is still promised, or written by now."""
        for binding in self.promised.static:
            known = volumes.volume(binding.volume.name)
            if known is None or known.spec.claim_ref != binding.volume.spec.claim_ref:
                return False
        for provisioning in self.promised.provision:
            claim = volumes.claim(provisioning.claim.key)
            if claim is None or claim.uid != provisioning.claim.uid or claim.selected_node != self.promised.node:
                return False
        return True


class Reservations:
    """Members with a node, and shared claims with a volume."""

    def __init__(self, placements: Placements) -> None:
        self._at = placements
        self.placed: dict[GroupMember, Reserved] = {}
        self.shared: dict[str, Reserved] = {}
        self._reach: dict[str, NodeSet] = {}
        self._domain: NodeSet = EMPTY

    def begin(self, domain: NodeSet, places: Iterable[SharedPlace]) -> bool:
        """Reserve the volumes of shared claims; False, with nothing reserved, if one of them has changed."""
        self._domain = domain
        self._reach = {place.claim.key: place.nodes for place in places}
        for place in places:
            if not self.reserve_shared(place.claim.key, place.plan):
                self.undo()
                return False
        for member in {member: None for place in places for member in place.claim.users}:
            self._count_shared(member)
        return True

    def undo(self) -> None:
        """Give back all of it."""
        for member in [*self.placed]:
            self.withdraw(member)
        for reserved in self.shared.values():
            self._at.volumes.restore(reserved.promised)
        self.shared.clear()

    def examine(self, member: GroupMember) -> Examined:
        nodes = EMPTY if member.problem else self._domain
        for key in member.shared:
            nodes &= self._reach.get(key, EMPTY)
        return self._at.examine(member, nodes)

    def reserve_best(self, member: GroupMember, examined: Examined) -> bool:
        """Reserve the best of the examined nodes. A member whose claims have changed is examined once more."""
        node = self._at.choose(member, examined)
        if self.reserve(member, self._at.binding_plan(member, node)):
            return True
        if not self.refresh(member):
            return False
        examined = self.examine(member)
        if not examined.nodes:
            return False
        return self.reserve(member, self._at.binding_plan(member, self._at.choose(member, examined)))

    def refresh(self, member: GroupMember) -> bool:
        """Take a member's claims as they are now; False where they cannot be decided any more."""
        claims = refreshed_claims(member, self._at.volumes)
        member.problem = claims if isinstance(claims, str) else ""
        if isinstance(claims, str):
            return False
        member.claims = claims
        self._count_shared(member)
        return True

    def _count_shared(self, member: GroupMember) -> None:
        """Volumes of shared claims count against the limits of the member's node, as disks that it names itself do."""
        if member.shared:
            shared = (self._at.volumes.volume_identity(key) for key in member.shared)
            disks = (*disks_with_drivers(member.pod), *(one for one in shared if one is not None))
            member.claims = msgspec.structs.replace(member.claims, disks=disks)

    def reserve(self, member: GroupMember, plan: BindingPlan) -> bool:
        """False, with nothing reserved, if an object of the plan has changed."""
        try:
            promised = plan if plan.empty else self._at.volumes.assume(plan)
        except OutOfSync:
            return False
        self._at.add(member, plan.node)
        self.placed[member] = Reserved(plan, promised)
        return True

    def withdraw(self, member: GroupMember) -> BindingPlan:
        reserved = self.placed.pop(member)
        self._at.remove(member, reserved.plan.node)
        if not reserved.promised.empty:
            self._at.volumes.restore(reserved.promised)
        return reserved.plan

    def reserve_shared(self, key: str, plan: BindingPlan) -> bool:
        try:
            self.shared[key] = Reserved(plan, self._at.volumes.assume(plan))
        except OutOfSync:
            return False
        return True

    def settle_shared(self, claim: SharedClaim) -> None:
        """Provision a shared volume for the node of a user, where one of them is on a node that allows it. Without
        users there is nothing to bind or to provision."""
        reserved = self.shared.get(claim.key)
        if reserved is None:
            return
        volumes = self._at.volumes
        nodes = [self.placed[member].plan.node for member in claim.users if member in self.placed]
        if not nodes:
            volumes.restore(self.shared.pop(claim.key).promised)
        elif not reserved.plan.provision:
            reserved.promised = msgspec.structs.replace(reserved.promised, node=nodes[0])
        elif reserved.plan.node not in nodes:
            volumes.restore(self.shared.pop(claim.key).promised)
            able = volumes.provisionable(claim.needs)
            node = next((name for name in nodes if able & self._at.topology.named(name)), reserved.plan.node)
            self.reserve_shared(claim.key, msgspec.structs.replace(reserved.plan, node=node))

    def stale(self) -> tuple[str, ...]:
        """The uids of members whose reservation no longer holds, because an object that it relies on has changed."""
        volumes, topology = self._at.volumes, self._at.topology
        shared = {key for key, reserved in self.shared.items() if not reserved.holds(volumes)}
        return tuple(
            member.uid
            for member, reserved in self.placed.items()
            if reserved.plan.node not in topology or not reserved.holds(volumes) or not shared.isdisjoint(member.shared)
        )
