"""Where a pod's unbound claims can be served, and by what: an existing volume, or one that would be made.

Between `volume_index` and `provisioning`, which each know one half, and `state`, which asks. On every node each claim
must get a volume of its own or be one that somebody would make a volume for there; existing volumes are preferred.
Pure answers; nothing is kept and nothing is promised.
"""

from collections.abc import Sequence

from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.volumes import nodeset
from mooring.volumes.fit import Fit
from mooring.volumes.matching import Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.provisioning import NOWHERE, Makeable, Provisioners
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.volume_index import VolumeIndex


class Decider:
    """Answers about claims that are not bound yet."""

    def __init__(self, topology: TopologyIndex, index: VolumeIndex, provisioners: Provisioners) -> None:
        self._topology = topology
        self._index = index
        self._provisioners = provisioners

    def unserved(self, claims: PodClaims) -> tuple[NodeSet, NodeSet]:
        """The nodes where a claim finds no volume and nobody would make one, and those where only room is missing."""
        everywhere = self._topology.all
        unmatched, short = EMPTY, EMPTY
        for needs in claims.selected:
            chosen = self._topology.named(needs.claim.selected_node or "")
            makeable = self.makeable(needs)
            unmatched |= everywhere & ~(chosen & makeable.allowed)
            short |= chosen & makeable.allowed & ~makeable.nodes
        by_class: dict[str, list[Needs]] = {}
        for needs in claims.unbound:
            by_class.setdefault(needs.storage_class, []).append(needs)
        for alike in by_class.values():
            unserved, unmakeable = self._unserved_alike(alike)
            unmatched |= unserved & unmakeable
            short |= unserved & ~unmakeable
        short |= self._short_in_all(claims.unbound, everywhere & ~unmatched & ~short)
        return unmatched, short & ~unmatched

    def _short_in_all(self, claims: Sequence[Needs], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` where each claim could be served, but not all of them together, for want of room.

        Where room for all of them is left there is nothing to look at; elsewhere existing volumes may take some. A
        claim that a volume is kept for takes that one, and no room.
        """
        wanting = [claim for claim in claims if self._index.reserved_for(claim) is None]
        short = self._provisioners.short_in_all(wanting, nodes)
        if not short or not any(self._index.drivers(claim.storage_class) for claim in wanting):
            return short
        for slot in nodeset.slots(short):
            without = self._without_volume(wanting, self._topology.name(slot))
            short &= ~(1 << slot) | self._provisioners.short_in_all(without, 1 << slot)
        return short

    def _without_volume(self, claims: Sequence[Needs], node: str) -> list[Needs]:
        """The claims for which a volume would have to be made on a node."""
        ascending = sorted(claims, key=lambda claim: claim.size)
        volumes = self._index.assignment(ascending, node)
        return [claim for claim, volume in zip(ascending, volumes, strict=True) if volume is None]

    def _unserved_alike(self, claims: Sequence[Needs]) -> tuple[NodeSet, NodeSet]:
        """For claims of one class: the nodes where not each gets a volume, existing or new, and the nodes for which
        it would take more than room to make the missing ones.

        Going down in size, a volume can be made on ever more nodes. So on each node it is the largest few that must
        find one, and there are at most as many cases as claims.
        """
        makeable = {claim.claim.key: self.makeable(claim) for claim in claims}
        descending = sorted(claims, key=lambda claim: (makeable[claim.claim.key].allowed != EMPTY, -claim.size))
        unserved, left = EMPTY, self._topology.all
        unmakeable = EMPTY
        for position, claim in enumerate(descending):
            here = left & makeable[claim.claim.key].nodes
            if here and position:
                unserved |= here & ~self._index.feasible(descending[:position])
            left &= ~here
            unmakeable |= ~makeable[claim.claim.key].allowed
        if left:
            unserved |= left & ~self._index.feasible(descending)
        return unserved, unmakeable

    def matches(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        """Each claim to be bound, the smallest first, with the volume it gets on this node; None where one would
        have to be made.

        Who goes without can always have one made, if the node was not rejected: among claims of a class, room is
        missing for the largest first, and of two claims that could have a volume, the larger wastes less of it.
        """
        ascending = sorted(claims.unbound, key=lambda claim: claim.size)
        volumes = self._index.assignment(ascending, node)
        return [(claim.claim, volume) for claim, volume in zip(ascending, volumes, strict=True)]

    def plan(self, claims: PodClaims, node: str) -> BindingPlan:
        """What binding takes on a node that `rejections` does not name."""
        slot = self._topology.slot(node)
        unbound = {claim.claim.key: claim for claim in claims.unbound}
        bindings: list[StaticBinding] = []
        wanting = list(claims.selected)
        for claim, volume in self.matches(claims, node):
            if volume is None:
                wanting.append(unbound[claim.key])
            else:
                bindings.append(StaticBinding(claim, volume))
        for needs in wanting:
            if not self.makeable(needs).nodes >> slot & 1:
                key = needs.claim.key
                raise ValueError(f'no volume for claim "{key}" on node "{node}", which was rejected for that')
        return BindingPlan(node, tuple(bindings), tuple(Provisioning(needs.claim) for needs in wanting))

    def fits(self, claims: PodClaims) -> list[Fit]:
        """For each unbound claim, going up in size, about what it would get on every node."""
        width = self._topology.width
        ascending = sorted(claims.unbound, key=lambda claim: claim.size)
        return [
            fit._replace(free=self._provisioners.free(fit.claim, width)) for fit in self._index.fits(ascending, width)
        ]

    def makeable(self, claim: Needs) -> Makeable:
        """Where a volume could be made for a claim. One for which a volume is reserved waits for that one: whoever
        binds it would not look at another. Where a node was selected, that volume is the one made for it."""
        reserved = self._index.reserved_for(claim)
        if reserved is None:
            return self._provisioners.makeable(claim)
        if claim.claim.selected_node is None:
            return NOWHERE
        reached = self._index.reaching(reserved)
        return Makeable(reached, reached)
