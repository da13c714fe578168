"""Where a pod's unbound claims can be served, and by what: an existing volume, or one that would be made.

Between `volume_index` and `provisioning`, which each know one half, and `state`, which asks. On every node each claim
must get a volume of its own or be one that somebody would make a volume for there; existing volumes are preferred.
Which claims get which matters where room is short or a node takes few volumes of a driver: then all ways are tried, for
all nodes at once (`ways`). Pure answers; nothing is kept and nothing is promised.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.volumes import ways
from mooring.volumes.contest import Asked
from mooring.volumes.fit import Fit
from mooring.volumes.in_tree import driver_of
from mooring.volumes.matching import Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.plan import BindingPlan, Provisioning, StaticBinding
from mooring.volumes.pod_claims import PodClaims
from mooring.volumes.provisioning import NOWHERE, Makeable, Provisioners
from mooring.volumes.shape import exact_size
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.volume_index import VolumeIndex
from mooring.volumes.ways import MADE, Source, Way

#: An existing volume, of whatever driver.
EXISTING: Final = Source(None)

#: Whether a node takes the volumes that claims would be given and have made there, beside those it has.
Takes = Callable[[PodClaims, Sequence[tuple[Claim, Volume | None]], str], bool]


class Decider:
    """Answers about claims that are not bound yet."""

    def __init__(
        self, topology: TopologyIndex, index: VolumeIndex, provisioners: Provisioners, node_takes: Takes
    ) -> None:
        self._topology = topology
        self._index = index
        self._provisioners = provisioners
        self._node_takes = node_takes

    def unserved(self, claims: PodClaims) -> tuple[NodeSet, NodeSet]:
        """The nodes where a claim finds no volume and nobody would make one, and those where only room is missing."""
        everywhere = self._topology.all
        unmatched, short = EMPTY, EMPTY
        for needs in claims.selected:
            chosen = self._topology.named(needs.claim.selected_node or "")
            makeable = self.makeable(needs)
            unmatched |= everywhere & ~(chosen & makeable.allowed)
            short |= chosen & makeable.allowed & ~makeable.nodes
        for alike in _by_class(claims.unbound):
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
        useless: list[frozenset[str]] = []
        for way in ways.of([(claim, (EXISTING, MADE)) for claim in wanting], most_given_first=True):
            given = frozenset(one.claim.claim.key for one in way.given)
            if not given or any(given >= less for less in useless):
                continue
            served = short & self._given(way.given, wanting)
            if not served:
                useless.append(given)
                continue
            short &= ~self._made(way.made, served)
            if not short:
                break
        return short

    def serving(self, way: Way, claims: PodClaims, nodes: NodeSet) -> NodeSet:
        """Those of `nodes` where unbound claims can be served in this way."""
        return self._given(way.given, claims.unbound) & self._made(way.made, nodes)

    def ways(self, claims: PodClaims) -> Iterator[Way]:
        """How claims could be served, as far as drivers make a difference. A claim that a volume is kept for takes that
        one and is left out."""
        return ways.of(
            [(claim, self.sources(claim)) for claim in claims.unbound if not self._index.reserved_for(claim)]
        )

    def sources(self, claim: Needs) -> list[Source]:
        """Where the volume of a claim may come from. Where its class allows volumes to be made is another's question:
        upstream counts the maker everywhere."""
        existing = [Source(driver) for driver in sorted(self._index.drivers(claim.storage_class))]
        maker = self._provisioners.provisioner(claim.storage_class)
        return [*existing, Source(driver_of(maker), made=True)] if maker else existing

    def _given(self, asked: Sequence[Asked], of_pod: Sequence[Needs]) -> NodeSet:
        """The nodes on which each of these claims can be given an existing volume."""
        nodes = self._topology.all
        classes = dict.fromkeys(one.claim.storage_class for one in asked)
        for storage_class in classes:
            nodes &= self._index.feasible(
                [one for one in asked if one.claim.storage_class == storage_class],
                beside=[claim for claim in of_pod if claim.storage_class == storage_class],
            )
        return nodes

    def _made(self, claims: Sequence[Needs], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` on which a volume can be made for each of these claims, beside the others'."""
        for claim in claims:
            nodes &= self.makeable(claim).nodes
        return nodes & ~self._provisioners.short_in_all(claims, nodes)

    def _unserved_alike(self, claims: Sequence[Needs]) -> tuple[NodeSet, NodeSet]:
        """For claims of one class: the nodes where not each gets a volume, existing or new, and the nodes for which
        it would take more than room to make the missing ones.

        Going down in size, a volume can be made on ever more nodes. So on each node it is the largest few that must
        find one, and there are at most as many cases as claims.
        """
        makeable = {claim.claim.key: self.makeable(claim) for claim in claims}
        descending = sorted(claims, key=lambda claim: (makeable[claim.claim.key].allowed != EMPTY, -claim.size))
        asked = [Asked(claim) for claim in descending]
        unserved, left = EMPTY, self._topology.all
        unmakeable = EMPTY
        for position, claim in enumerate(descending):
            here = left & makeable[claim.claim.key].nodes
            if here and position:
                unserved |= here & ~self._index.feasible(asked[:position], beside=claims)
            left &= ~here
            unmakeable |= ~makeable[claim.claim.key].allowed
        if left:
            unserved |= left & ~self._index.feasible(asked)
        return unserved, unmakeable

    def matches(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        """Each claim to be bound, the smallest first, with the volume it gets on this node; None where one would
        have to be made.

        Who goes without can always have one made, if the node was not rejected: among claims of a class, room is
        missing for the largest first, and of two claims that could have a volume, the larger wastes less of it.
        """
        return self._assigned([Asked(claim) for claim in claims.unbound], node)

    def plan(self, claims: PodClaims, node: str) -> BindingPlan:
        """What binding takes on a node that `rejections` does not name: the best of what there is room for and the node
        takes."""
        slot = self._topology.slot(node)
        unbound = {claim.claim.key: claim for claim in claims.unbound}
        bindings: list[StaticBinding] = []
        wanting = list(claims.selected)
        for claim, volume in self._best(claims, node):
            if volume is None:
                wanting.append(unbound[claim.key])
            else:
                bindings.append(StaticBinding(claim, volume))
        for needs in wanting:
            if not self.makeable(needs).nodes >> slot & 1:
                key = needs.claim.key
                raise ValueError(f'no volume for claim "{key}" on node "{node}", which was rejected for that')
        return BindingPlan(node, tuple(bindings), tuple(Provisioning(needs.claim) for needs in wanting))

    def _best(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        first = self.matches(claims, node)
        if self._has_room(claims, first, node) and self._node_takes(claims, first, node):
            return first
        kept = [Asked(claim) for claim in claims.unbound if self._index.reserved_for(claim)]
        there = self._topology.named(node)
        found: list[list[tuple[Claim, Volume | None]]] = []
        for way in self.ways(claims):
            given = self._assigned([*kept, *way.given], node)
            if self._made(way.made, there) and all(volume is not None for _, volume in given):
                found.append([*given, *((claim.claim, None) for claim in way.made)])
        taken = [matches for matches in found if self._node_takes(claims, matches, node)]
        return min(taken or found or [first], key=_waste)

    def _has_room(self, claims: PodClaims, matches: Sequence[tuple[Claim, Volume | None]], node: str) -> bool:
        without = {claim.key for claim, volume in matches if volume is None}
        made = [needs for needs in claims.unbound if needs.claim.key in without]
        return not self._provisioners.short_in_all(made, self._topology.named(node))

    def _assigned(self, asked: Sequence[Asked], node: str) -> list[tuple[Claim, Volume | None]]:
        ascending = sorted(asked, key=lambda one: one.claim.size)
        volumes = self._index.assignment(ascending, node)
        return [(one.claim.claim, volume) for one, volume in zip(ascending, volumes, strict=True)]

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


def _by_class(claims: Sequence[Needs]) -> list[list[Needs]]:
    found: dict[str, list[Needs]] = {}
    for claim in claims:
        found.setdefault(claim.storage_class, []).append(claim)
    return list(found.values())


def _waste(matches: Sequence[tuple[Claim, Volume | None]]) -> tuple[int, int]:
    """How many volumes would have to be made, then how much of the existing ones stays unused."""
    unused = (exact_size(volume.size) - exact_size(claim.request) for claim, volume in matches if volume is not None)
    return sum(volume is None for _, volume in matches), sum(unused)
