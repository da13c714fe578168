"""Where a pod's unbound claims can be satisfied: by existing volumes, by provisioning, or by a mix of both.

`Provisioners` knows classes, drivers and reported capacity; `Decider` combines it with `volume_index`. Where the
choice of source matters (capacity is short, or a node takes few volumes of a driver) all combinations are tried, for
all nodes at once. Claims that share a segment of a pool must fit there together; a search settles nodes in several
segments. Pure.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Final, NamedTuple, TypeVar

import numpy as np

from mooring.api import node_selectors, quantity, well_known
from mooring.api.views.storage import Claim, CsiDriver, StorageCapacity, StorageClass, Volume
from mooring.volumes import topology
from mooring.volumes.binding import BindingPlan, PodClaims, Provisioning, StaticBinding
from mooring.volumes.capacity import CapacitySegment, CapacityView
from mooring.volumes.charges import Charges
from mooring.volumes.columns import Sizes
from mooring.volumes.free_volumes import VolumeQuery
from mooring.volumes.in_tree import allowed_topologies, driver_of
from mooring.volumes.matching import ClaimRequirements, exact_size
from mooring.volumes.scoring import Fit
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex
from mooring.volumes.volume_index import VolumeIndex

T = TypeVar("T")

#: Places tried in one decision before it is taken that there is no capacity for all: on a single node enough for five
#: claims in four segments, whatever the figures. The first tries put large volumes where most is left, so that it is
#: odd figures that take long.
MAX_SEARCH_STEPS: Final = 2000


def grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


class SearchBudget:
    """How many more places are tried, on all nodes together."""

    def __init__(self) -> None:
        self.left = MAX_SEARCH_STEPS


class ProvisionRequest(NamedTuple):
    """A volume to be provisioned."""

    storage_class: str
    size: int


def fit_together(
    requests: Sequence[ProvisionRequest], segments: Sequence[CapacitySegment], budget: SearchBudget | None = None
) -> bool:
    """Whether there is a room for each wish in which it fits beside the others; `rooms` are those of one node. All
    wishes take from one pool. Never says yes in error, but no where finding out would take more looks."""
    return _Search(sorted(requests, key=lambda request: -request.size), segments, budget or SearchBudget()).succeeds()


class _Search:
    def __init__(
        self, requests: Sequence[ProvisionRequest], segments: Sequence[CapacitySegment], budget: SearchBudget
    ) -> None:
        self._requests = requests
        self._looks = budget
        self._choices = [_choices(request, segments) for request in requests]
        self._segments = {
            storage_class: [segment.segment for segment in segments if segment.storage_class == storage_class]
            for storage_class in {request.storage_class for request in requests}
        }
        self._chosen: list[CapacitySegment] = []

    def succeeds(self) -> bool:
        place = len(self._chosen)
        if place == len(self._requests):
            return True
        for segment in self._choices[place]:
            if not self._looks.left:
                return False
            self._looks.left -= 1
            self._chosen.append(segment)
            # What is too much by now gets no less: nothing further on needs a look.
            if all(map(self._bears, self._chosen)) and self.succeeds():
                return True
            self._chosen.pop()
        return False

    def _bears(self, segment: CapacitySegment) -> bool:
        known = self._segments[segment.storage_class]
        load = [
            request.size
            for request, chosen in zip(self._requests, self._chosen, strict=False)
            if chosen.segment == segment.segment or chosen.segment not in known
        ]
        return sum(load) <= (segment.available_to_one_volume if len(load) == 1 else segment.left)


def _choices(request: ProvisionRequest, segments: Sequence[CapacitySegment]) -> list[CapacitySegment]:
    fitting = [
        segment
        for segment in segments
        if segment.storage_class == request.storage_class and segment.limit >= request.size
    ]
    return sorted(fitting, key=lambda segment: -segment.left)


MAX_CHECKED_NODES: Final = 64
"""Nodes in several segments of one class that one decision looks at one by one. Drivers report segments that overlap
only by mistake, and a look costs as much as a tenth of a decision."""


class Provisionable(NamedTuple):
    """Where a volume could be made for a claim: the class allows these nodes, and these of them have the room."""

    allowed: NodeSet
    nodes: NodeSet


NOT_PROVISIONABLE = Provisionable(EMPTY, EMPTY)


class Provisioners:
    """Classes and what their provisioners can do, where."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self.classes: dict[str, StorageClass] = {}
        self.capacity = CapacityView(topology)
        self.charges = Charges(topology, self.capacity, self.pool)
        #: The slot from which nodes in several segments are looked at next.
        self._next_look = 0
        self._drivers: dict[str, CsiDriver] = {}
        #: Whether every node counts as having enough capacity.
        self.ignores_capacity: Callable[[], bool] = lambda: False

    def observe_class(self, name: str, now: StorageClass | None) -> None:
        before = self.pool(name)
        if now is None:
            self.classes.pop(name, None)
        else:
            self.classes[name] = now
        self.capacity.observe_class(name, now)
        if self.pool(name) != before:
            self.charges.recompute()

    def observe_driver(self, name: str, now: CsiDriver | None) -> None:
        """Only drivers that ask for it have their capacity checked, or keep pods off nodes that lack them."""
        if now is None:
            self._drivers.pop(name, None)
        else:
            self._drivers[name] = now

    def observe_capacity(self, key: str, now: StorageCapacity | None) -> str:
        """Answers with why an object cannot be used, "" in the normal case."""
        before = self.capacity.segment(key)
        problem = self.capacity.observe(key, now)
        self.charges.published(key, before)
        return problem

    def reports_capacity(self, driver: str) -> bool:
        """Whether a driver has its capacity checked."""
        known = self._drivers.get(driver)
        return known is not None and known.spec.storage_capacity and not self.ignores_capacity()

    def attaches(self, driver: str) -> bool:
        """Whether volumes of a driver are attached to a node, so that ReadWriteOnce means one node at a time."""
        known = self._drivers.get(driver)
        return bool(driver) and (known is None or known.spec.attach_required)

    def is_required(self, driver: str) -> bool:
        """Whether a driver wants pods with its volumes kept off nodes that lack it."""
        known = self._drivers.get(driver)
        return known is not None and known.spec.prevent_pod_scheduling_if_missing

    def provisioner(self, storage_class: str) -> str:
        """The provisioner of a class; "" where it has none."""
        found = self.classes.get(storage_class)
        return "" if found is None or found.provisioner == well_known.NO_PROVISIONER else found.provisioner

    def pool(self, storage_class: str) -> str:
        """What volumes of a class are charged to; "" without provisioner."""
        found = self.classes.get(storage_class)
        return "" if found is None else found.capacity_pool

    def allowed(self, storage_class: str) -> NodeSet:
        """The nodes for which the class allows provisioning."""
        if not self.provisioner(storage_class):
            return EMPTY
        topologies = node_selectors.topologies_from_view(allowed_topologies(self.classes[storage_class]))
        return self._topology.allowed(topologies)

    def tracks_capacity(self, claim: ClaimRequirements) -> bool:
        """Whether free storage is looked at: the driver wants it, and the claim says how much it needs."""
        driver = self._drivers.get(self.provisioner(claim.storage_class))
        asks = "storage" in claim.claim.spec.resources.requests
        return asks and driver is not None and driver.spec.storage_capacity and not self.ignores_capacity()

    def provisionable(self, claim: ClaimRequirements) -> Provisionable:
        """Where a volume could be provisioned for a claim."""
        allowed = self.allowed(claim.storage_class)
        if not allowed or not self.tracks_capacity(claim):
            return Provisionable(allowed, allowed)
        size = quantity.to_bytes(claim.claim.request)
        return Provisionable(allowed, allowed & self.capacity.nodes_with_capacity(claim.storage_class, size))

    def insufficient_for_all(self, claims: Iterable[ClaimRequirements], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` on which volumes for all these claims together would be more than is left of what a driver
        reports: beside each other, whatever their classes, and beside what volumes in flight will take.

        Of nodes in several segments of a class, up to MAX_CHECKED_NODES that report enough are looked at one by one."""
        short = EMPTY
        for alike in grouped(
            filter(self.tracks_capacity, claims), lambda claim: self.pool(claim.storage_class)
        ).values():
            self.charges.refresh()
            requests = [ProvisionRequest(one.storage_class, quantity.to_bytes(one.claim.request)) for one in alike]
            short |= self._short_of_pool(requests, nodes & ~short)
        return short

    def _short_of_pool(self, requests: Sequence[ProvisionRequest], nodes: NodeSet) -> NodeSet:
        size = sum(request.size for request in requests)
        short, several = EMPTY, EMPTY
        for storage_class in dict.fromkeys(request.storage_class for request in requests):
            short |= nodes & ~self.capacity.nodes_with_total_capacity(storage_class, size, volumes=len(requests))
            several |= nodes & self.capacity.nodes_in_several_segments(storage_class)
        return short & ~several | (several & ~self._fitting(requests, several) if several else EMPTY)

    def _fitting(self, requests: Sequence[ProvisionRequest], nodes: NodeSet) -> NodeSet:
        """Those of `nodes`, which are in several segments, on which there is room for all wishes beside each other.

        Where all that is reported is too little nothing is looked at. Of the others a few are, each time the next few:
        should they not do, another attempt looks further.
        """
        reported = np.zeros(self._topology.width)
        for storage_class in dict.fromkeys(request.storage_class for request in requests):
            reported += self.capacity.total_available(storage_class, self._topology.width)
        nodes &= topology.node_set_from_mask(reported >= sum(request.size for request in requests))
        slots = list(topology.slots_of(nodes))
        first = bisect_left(slots, self._next_look)
        fitting, budget = EMPTY, SearchBudget()
        for slot in [*slots[first:], *slots[:first]][:MAX_CHECKED_NODES]:
            if fit_together(requests, tuple(self.capacity.segments_at(self._topology.name(slot))), budget):
                fitting |= 1 << slot
            self._next_look = slot + 1
        return fitting

    def free(self, claim: ClaimRequirements, width: int, *, as_reported: bool) -> Sizes | None:
        """By slot, the free bytes that a volume for the claim would be taken from; None if not tracked. As reported,
        what is in flight is not subtracted."""
        if not self.tracks_capacity(claim):
            return None
        if as_reported:
            return self.capacity.reported(claim.storage_class, quantity.to_bytes(claim.claim.request), width)
        self.charges.refresh()
        return self.capacity.free(claim.storage_class, width)


MAX_SOURCE_COMBINATIONS: Final = 64
"""Ways that are all listed: six claims with two choices each."""


class VolumeOrigin(NamedTuple):
    """Where a volume comes from."""

    #: Of existing volumes, None for any and "" for such as no driver has to attach.
    driver: str | None
    made: bool = False


#: A volume provisioned by the class's provisioner.
PROVISIONED: Final = VolumeOrigin(None, made=True)


class SourceCombination(NamedTuple):
    """Existing volumes for some claims, new ones for the others."""

    given: tuple[VolumeQuery, ...]
    made: tuple[ClaimRequirements, ...]
    #: Of all the volumes.
    drivers: tuple[str, ...]


def source_combinations(
    choices: Sequence[tuple[ClaimRequirements, Sequence[VolumeOrigin]]], *, most_given_first: bool = False
) -> Iterator[SourceCombination]:
    """The ways to serve claims from these sources. With `most_given_first` the first makes as few volumes as possible
    and the next ones as many."""
    claims = [claim for claim, _ in choices]
    sources = [list(found) for _, found in choices]
    few = math.prod(map(len, sources)) <= MAX_SOURCE_COMBINATIONS
    listed = list(
        product(*sources) if few else islice(dict.fromkeys(_extremes(claims, sources)), MAX_SOURCE_COMBINATIONS)
    )
    if most_given_first:
        listed.sort(key=lambda chosen: sum(source.made for source in chosen), reverse=True)
        listed = [*listed[-1:], *listed[:-1]]
    return (_way(claims, chosen) for chosen in listed)


def _way(claims: Sequence[ClaimRequirements], chosen: Sequence[VolumeOrigin]) -> SourceCombination:
    pairs = list(zip(claims, chosen, strict=True))
    return SourceCombination(
        tuple(VolumeQuery(claim, source.driver) for claim, source in pairs if not source.made),
        tuple(claim for claim, source in pairs if source.made),
        tuple(source.driver for source in chosen if source.driver),
    )


def _extremes(
    claims: Sequence[ClaimRequirements], sources: Sequence[Sequence[VolumeOrigin]]
) -> Iterator[tuple[VolumeOrigin, ...]]:
    """All claims from one source as far as they can, but for the largest or the smallest few, which take another."""
    order = sorted(range(len(claims)), key=lambda position: claims[position].size)
    known = dict.fromkeys(source for found in sources for source in found)
    for usual, other in product(known, known):
        for number in range(len(order) + 1 if usual != other else 1):
            for few in (order[:number], order[len(order) - number :]):
                kept = [other if position in few else usual for position in range(len(order))]
                yield tuple(
                    source if source in found else found[0] for source, found in zip(kept, sources, strict=True)
                )


#: An existing volume, of whatever driver.
EXISTING: Final = VolumeOrigin(None)

#: Whether a node takes the volumes that claims would be given and have provisioned there, beside those it has.
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

    def infeasible_nodes(self, claims: PodClaims) -> tuple[NodeSet, NodeSet]:
        """Nodes without a matching or provisionable volume, and nodes that only lack storage capacity."""
        everywhere = self._topology.all
        unmatched, short = EMPTY, EMPTY
        for needs in claims.provisioning:
            chosen = self._topology.named(needs.claim.selected_node or "")
            provisionable = self.provisionable(needs)
            unmatched |= everywhere & ~(chosen & provisionable.allowed)
            short |= chosen & provisionable.allowed & ~provisionable.nodes
        for alike in grouped(claims.unbound, lambda claim: claim.storage_class).values():
            infeasible_nodes, unmakeable = self._infeasible_for_class(alike)
            unmatched |= infeasible_nodes & unmakeable
            short |= infeasible_nodes & ~unmakeable
        short |= self._insufficient_for_all(claims.unbound, everywhere & ~unmatched & ~short)
        return unmatched, short & ~unmatched

    def _insufficient_for_all(self, claims: Sequence[ClaimRequirements], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` where each claim could be served, but not all of them together, for lack of capacity.

        Where capacity for all of them is left there is nothing to look at; elsewhere existing volumes may take some. A
        claim that a volume is kept for takes that one, and no capacity.
        """
        wanting = [claim for claim in claims if self._index.reserved_for(claim) is None]
        short = self._provisioners.insufficient_for_all(wanting, nodes)
        if not short or not any(self._index.drivers(claim.storage_class) for claim in wanting):
            return short
        useless: list[frozenset[str]] = []
        for way in source_combinations([(claim, (EXISTING, PROVISIONED)) for claim in wanting], most_given_first=True):
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

    def serving(self, way: SourceCombination, claims: PodClaims, nodes: NodeSet) -> NodeSet:
        """Those of `nodes` where unbound claims can be served in this way."""
        return self._given(way.given, claims.unbound) & self._made(way.made, nodes)

    def ways(self, claims: PodClaims) -> Iterator[SourceCombination]:
        """How claims could be served, as far as drivers make a difference. A claim that a volume is kept for takes that
        one and is left out."""
        return source_combinations(
            [(claim, self.sources(claim)) for claim in claims.unbound if not self._index.reserved_for(claim)]
        )

    def sources(self, claim: ClaimRequirements) -> list[VolumeOrigin]:
        """Where the volume of a claim may come from. Where its class allows volumes to be made is another's question:
        upstream counts the maker everywhere."""
        existing = [VolumeOrigin(driver) for driver in sorted(self._index.drivers(claim.storage_class))]
        maker = self._provisioners.provisioner(claim.storage_class)
        return [*existing, VolumeOrigin(driver_of(maker), made=True)] if maker else existing

    def _given(self, asked: Sequence[VolumeQuery], of_pod: Sequence[ClaimRequirements]) -> NodeSet:
        """The nodes on which each of these claims can be given an existing volume."""
        nodes = self._topology.all
        for storage_class, alike in grouped(asked, lambda one: one.claim.storage_class).items():
            beside = [claim for claim in of_pod if claim.storage_class == storage_class]
            nodes &= self._index.feasible(alike, beside=beside)
        return nodes

    def _made(self, claims: Sequence[ClaimRequirements], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` on which a volume can be provisioned for each of these claims, beside the others'."""
        for claim in claims:
            nodes &= self.provisionable(claim).nodes
        return nodes & ~self._provisioners.insufficient_for_all(claims, nodes)

    def _infeasible_for_class(self, claims: Sequence[ClaimRequirements]) -> tuple[NodeSet, NodeSet]:
        """For claims of one class: the nodes where not each gets a volume, existing or new, and the nodes for which
        it would take more than capacity to make the missing ones.

        Going down in size, a volume can be made on ever more nodes. So on each node it is the largest few that must
        find one, and there are at most as many cases as claims.
        """
        provisionable = {claim.claim.key: self.provisionable(claim) for claim in claims}
        descending = sorted(claims, key=lambda claim: (provisionable[claim.claim.key].allowed != EMPTY, -claim.size))
        asked = [VolumeQuery(claim) for claim in descending]
        infeasible_nodes, left = EMPTY, self._topology.all
        unmakeable = EMPTY
        for position, claim in enumerate(descending):
            here = left & provisionable[claim.claim.key].nodes
            if here and position:
                infeasible_nodes |= here & ~self._index.feasible(asked[:position], beside=claims)
            left &= ~here
            unmakeable |= ~provisionable[claim.claim.key].allowed
        if left:
            infeasible_nodes |= left & ~self._index.feasible(asked)
        return infeasible_nodes, unmakeable

    def matches(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        """Each claim to be bound, the smallest first, with its volume on this node; None for one to be provisioned.

        Who goes without can always have one made, if the node was not rejected: among claims of a class, room is
        missing for the largest first, and of two claims that could have a volume, the larger wastes less of it.
        """
        return self._assigned([VolumeQuery(claim) for claim in claims.unbound], node)

    def plan(self, claims: PodClaims, node: str) -> BindingPlan:
        """What binding takes on a node that `rejections` does not name: the best that the node has room for."""
        planned = self._planned(claims, self._best(claims, node), node)
        if isinstance(planned, str):
            raise ValueError(f'no volume for claim "{planned}" on node "{node}", which was rejected for that')
        return planned

    def plans(self, claims: PodClaims, node: str) -> Iterator[BindingPlan]:
        """Several plans for a node that `rejections` does not name: the best; the one that leaves volumes of wide reach
        to others; and one for each choice of existing and new volumes. Some may be equal."""
        yield self.plan(claims, node)
        if not claims.unbound:
            return
        kept = [VolumeQuery(claim) for claim in claims.unbound if self._index.reserved_for(claim)]
        there = self._topology.named(node)
        matched = [self._assigned([VolumeQuery(claim) for claim in claims.unbound], node, narrowest=True)]
        for way in self.ways(claims):
            if self._made(way.made, there):
                given = self._assigned([*kept, *way.given], node, narrowest=True)
                if all(volume is not None for _, volume in given):
                    matched.append([*given, *((claim.claim, None) for claim in way.made)])
        for matches in matched:
            if self._has_capacity(claims, matches, node) and self._node_takes(claims, matches, node):
                planned = self._planned(claims, matches, node)
                if not isinstance(planned, str):
                    yield planned

    def _planned(
        self, claims: PodClaims, matches: Sequence[tuple[Claim, Volume | None]], node: str
    ) -> BindingPlan | str:
        """The plan for these volumes, or the key of a claim that no volume can be provisioned for on the node."""
        slot = self._topology.slot(node)
        unbound = {claim.claim.key: claim for claim in claims.unbound}
        bindings = tuple(StaticBinding(claim, volume) for claim, volume in matches if volume is not None)
        made = [*claims.provisioning, *(unbound[claim.key] for claim, volume in matches if volume is None)]
        for needs in made:
            if not self.provisionable(needs).nodes >> slot & 1:
                return needs.claim.key
        return BindingPlan(node, bindings, tuple(Provisioning(needs.claim) for needs in made))

    def _best(self, claims: PodClaims, node: str) -> list[tuple[Claim, Volume | None]]:
        first = self.matches(claims, node)
        if self._has_capacity(claims, first, node) and self._node_takes(claims, first, node):
            return first
        kept = [VolumeQuery(claim) for claim in claims.unbound if self._index.reserved_for(claim)]
        there = self._topology.named(node)
        found: list[list[tuple[Claim, Volume | None]]] = []
        for way in self.ways(claims):
            given = self._assigned([*kept, *way.given], node)
            if self._made(way.made, there) and all(volume is not None for _, volume in given):
                found.append([*given, *((claim.claim, None) for claim in way.made)])
        taken = [matches for matches in found if self._node_takes(claims, matches, node)]
        return min(taken or found or [first], key=_waste)

    def _has_capacity(self, claims: PodClaims, matches: Sequence[tuple[Claim, Volume | None]], node: str) -> bool:
        without = {claim.key for claim, volume in matches if volume is None}
        made = [needs for needs in claims.unbound if needs.claim.key in without]
        return not self._provisioners.insufficient_for_all(made, self._topology.named(node))

    def _assigned(
        self, asked: Sequence[VolumeQuery], node: str, *, narrowest: bool = False
    ) -> list[tuple[Claim, Volume | None]]:
        ascending = sorted(asked, key=lambda one: one.claim.size)
        index = self._index
        volumes = (index.narrowest_assignment if narrowest else index.assignment)(ascending, node)
        return [(one.claim.claim, volume) for one, volume in zip(ascending, volumes, strict=True)]

    def fits(self, claims: PodClaims, *, as_reported: bool = False) -> list[Fit]:
        """For each unbound claim, going up in size, about what it would get on every node."""
        width = self._topology.width
        ascending = sorted(claims.unbound, key=lambda claim: claim.size)
        return [
            fit._replace(free=self._provisioners.free(fit.claim, width, as_reported=as_reported))
            for fit in self._index.fits(ascending, width)
        ]

    def provisionable(self, claim: ClaimRequirements) -> Provisionable:
        """Where a volume could be made for a claim. One for which a volume is reserved waits for that one: the PV
        controller binds no other. Where a node was selected, that volume is the one made for it."""
        reserved = self._index.reserved_for(claim)
        if reserved is None:
            return self._provisioners.provisionable(claim)
        if claim.claim.selected_node is None:
            return NOT_PROVISIONABLE
        reached = self._index.reaching(reserved)
        return Provisionable(reached, reached)


def _waste(matches: Sequence[tuple[Claim, Volume | None]]) -> tuple[int, int]:
    """How many volumes would have to be provisioned, then how much of the existing ones stays unused."""
    unused = (exact_size(volume.size) - exact_size(claim.request) for claim, volume in matches if volume is not None)
    return sum(volume is None for _, volume in matches), sum(unused)
