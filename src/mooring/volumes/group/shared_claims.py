"""Where the volume of a claim that members share can be, and where its users can go then.

An existing volume is reached from the nodes of its affinity, one to be provisioned from the nodes with the same
values of the driver's topology keys. A ReadWriteOnce volume that is attached is on one node at a time, so its users
go to one node; kube-scheduler lets them start on several, where they wait for the attachment.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Final

import numpy as np

from mooring.volumes.binding import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.group.bounds import GroupBounds
from mooring.volumes.group.members import GroupProblem, SharedClaim
from mooring.volumes.group.outcome import Shortage, ShortageCode, ShortagePlace
from mooring.volumes.in_tree import driver_of, identity_of
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, mask_of, slots_of

#: Places per claim, and combinations of places of several claims, that a search tries: those with most users first.
MAX_PLACES: Final = 32
MAX_COMBINATIONS: Final = 64


@dataclass(frozen=True, eq=False, slots=True)
class SharedPlace:
    """A volume for a shared claim, or a place to provision it."""

    claim: SharedClaim
    #: Where users can be.
    nodes: NodeSet
    #: How many users fit there at most.
    users: int
    plan: BindingPlan


class SharedPlaces:
    """The places of the shared claims of a group, within the nodes of a domain."""

    def __init__(
        self, problem: GroupProblem, bounds: GroupBounds, volumes: VolumeState, topology: TopologyIndex
    ) -> None:
        self._problem = problem
        self._bounds = bounds
        self._volumes = volumes
        self._topology = topology

    def combinations(self, domain: NodeSet) -> Iterator[tuple[SharedPlace, ...]]:
        """A place for each shared claim, those with the most users first; without shared claims, one empty choice. A
        claim without any place is left out: its users find no node."""
        choices = [self.of(claim, domain)[:MAX_PLACES] for claim in self._problem.shared]
        return islice(product(*(places for places in choices if places)), MAX_COMBINATIONS)

    def most_members(self, places: Sequence[SharedPlace], domain: NodeSet) -> int:
        """How many members fit at most with the shared claims in these places."""
        within = {place.claim.key: place.nodes for place in places}
        fitting: dict[int, int] = {}
        for bounds in self._bounds.kinds:
            nodes = domain
            for key in bounds.kind.example.shared:
                nodes &= within.get(key, EMPTY)
            fitting[bounds.kind.position] = bounds.most_members(nodes)
        total = sum(fitting.values())
        # Of the users of a ReadWriteOncePod claim one fits; with several such claims, the one with most users counts.
        users = [
            sum(fitting[kind.position] for kind in self._problem.kinds if claim.key in kind.example.shared)
            for claim in self._problem.shared
            if claim.single_user
        ]
        return total - max([0, *(count - 1 for count in users)])

    def upper_bound(self, domain: NodeSet) -> int:
        """How many members fit at most, wherever the volumes of shared claims are; also where not all are tried."""
        places = [self.of(claim, domain) for claim in self._problem.shared]
        if all(len(found) <= MAX_PLACES for found in places) and prod(map(len, places)) <= MAX_COMBINATIONS:
            return max((self.most_members(one, domain) for one in self.combinations(domain)), default=0)
        members = len(self._problem.members)
        return min(
            members - len(claim.users) + max((place.users for place in found), default=0)
            for claim, found in zip(self._problem.shared, places, strict=True)
        )

    def shortages(self, domain: NodeSet, needed: int) -> Iterator[Shortage]:
        """The shared claims because of which fewer members fit than are needed."""
        for claim in self._problem.shared:
            places = self.of(claim, domain)
            others = len(self._problem.members) - len(claim.users)
            most = max((place.users for place in places), default=0)
            if most + others < needed:
                named = tuple(
                    ShortagePlace(next(self._topology.names(place.nodes), ""), place.nodes.bit_count(), place.users)
                    for place in places[:MAX_PLACES]
                )
                reached = max((place.nodes.bit_count() for place in places), default=0)
                yield Shortage(ShortageCode.SHARED_CLAIM, claim.key, len(claim.users), reached, most, named)

    def of(self, claim: SharedClaim, domain: NodeSet) -> list[SharedPlace]:
        """All places of a claim, the one where most users fit first."""
        found = [
            SharedPlace(claim, nodes, self._users(claim, nodes), plan)
            for reach, plan in self._reaches(claim)
            for nodes in self._split(claim, reach & domain, plan)
        ]
        # Existing volumes before those to be provisioned.
        found.sort(key=lambda place: (-place.users, not place.plan.static, place.plan.node))
        return [place for place in found if place.nodes]

    def _reaches(self, claim: SharedClaim) -> Iterator[tuple[NodeSet, BindingPlan]]:
        """Volumes and places to provision one, each with the nodes that reach it."""
        needs, volumes = claim.needs, self._volumes
        reserved = volumes.reserved_volume(needs)
        if reserved is not None:
            yield volumes.reaching(reserved), self._static(claim, reserved.name)
            return
        selected = needs.claim.selected_node
        if selected is None:
            for suited in volumes.suited_volumes(needs):
                yield suited.nodes, self._static(claim, suited.smallest)
        rest = volumes.provisionable(needs)
        rest &= self._topology.all if selected is None else self._topology.named(selected)
        while rest:
            slot = (rest & -rest).bit_length() - 1
            reach = volumes.provisioned_reach(needs.storage_class, self._topology.name(slot)) | 1 << slot
            for name in self._one_per_segment(needs.storage_class, rest & reach):
                yield reach, BindingPlan(name, (), (Provisioning(needs.claim),))
            rest &= ~reach

    def _one_per_segment(self, storage_class: str, nodes: NodeSet) -> Iterator[str]:
        """Of nodes that would reach the volume equally, one for each set of segments that capacity is taken from."""
        capacity = self._volumes.provisioners.capacity
        seen: set[frozenset[str]] = set()
        for name in islice(self._topology.names(nodes), MAX_PLACES):
            keys = frozenset(one.key for one in capacity.segments_at(name) if one.storage_class == storage_class)
            if keys not in seen:
                seen.add(keys)
                yield name

    def _static(self, claim: SharedClaim, name: str) -> BindingPlan:
        volume = self._volumes.volume(name)
        assert volume is not None, name
        return BindingPlan("", (StaticBinding(claim.needs.claim, volume),))

    def _split(self, claim: SharedClaim, nodes: NodeSet, plan: BindingPlan) -> Iterable[NodeSet]:
        """Node by node where all users have to be on one."""
        if not (claim.single_attachment and self._attaches(claim, plan)):
            return (nodes,)
        # The nodes with most users are enough: of others, none would be tried.
        users = np.zeros(self._topology.width, dtype=np.int64)
        for bounds in self._bounds.kinds:
            if claim.key in bounds.kind.example.shared:
                users += bounds.caps
        ranked = sorted(slots_of(nodes), key=lambda slot: (-int(users[slot]), slot))
        return [1 << slot for slot in ranked[: MAX_PLACES + 1]]

    def _attaches(self, claim: SharedClaim, plan: BindingPlan) -> bool:
        if plan.static:
            identity = identity_of(plan.static[0].volume)
            return identity is not None and self._volumes.provisioners.attaches(identity.driver)
        provisioner = self._volumes.provisioners.provisioner(claim.needs.storage_class)
        return self._volumes.provisioners.attaches(driver_of(provisioner) or provisioner)

    def _users(self, claim: SharedClaim, nodes: NodeSet) -> int:
        if claim.single_user:
            return 1
        total = 0
        for bounds in self._bounds.kinds:
            if claim.key in bounds.kind.example.shared:
                inside = mask_of(nodes & bounds.fit.nodes, self._topology.width)
                total += min(len(bounds.kind.members), int(bounds.caps[inside].sum()))
        return total
