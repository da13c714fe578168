"""How many members of a group fit at most, per domain, and what limits them: the certificate of a refusal.

Each limit is a supply that node sets have (free volumes, bytes of a segment) and a demand per member. Per kind of
members, one vector has how many fit on each node by every limit; supplies of several nodes then cut the sums, joined
where they overlap. All of it only ever overestimates, so that a bound below the need is a proof.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Final, NamedTuple

import numpy as np

from mooring.api import quantity
from mooring.volumes.capacity import CapacitySegment
from mooring.volumes.group.members import GroupProblem, MemberKind
from mooring.volumes.group.outcome import DomainShortage, Shortage, ShortageCode, ShortagePlace
from mooring.volumes.group.supply import MANY, CapacityStock, Counts, Limit, SlotCache, Supply, SupplyPlace, VolumeStock
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.shortage import topology_text
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, mask_of, slots_of, union

#: Places that a certificate names.
MAX_LISTED_PLACES: Final = 16


class MemberFit(NamedTuple):
    """What a member finds by itself, before siblings: counts by slot, each only ever too high."""

    nodes: NodeSet
    #: By resource, how many members like this one a node has enough for.
    resources: Mapping[str, Counts]
    #: What rejected other nodes; a `Decision` in the scheduler.
    detail: object = None


class _Family(NamedTuple):
    """Claims that the same volumes do for, apart from size."""

    storage_class: str
    shape: object
    selector: object
    tracked: bool


#: Claims by family.
_Families = Mapping[_Family, Sequence[ClaimRequirements]]

#: Claims whose capacity is tracked, by the pool that they take from.
_Pools = Mapping[str, Sequence[ClaimRequirements]]


@dataclass(slots=True, eq=False)
class _KindBounds:
    kind: MemberKind
    fit: MemberFit
    families: _Families
    pools: _Pools
    limits: list[Limit]
    #: By slot, what the least of all limits leaves.
    caps: Counts
    _most: dict[NodeSet, int] = field(default_factory=dict)

    def most_members(self, domain: NodeSet) -> int:
        most = self._most.get(domain)
        if most is None:
            nodes = domain & self.fit.nodes
            most = min(len(self.kind.members), int(self.caps[mask_of(nodes, len(self.caps))].sum()))
            for limit in self.limits:
                most = limit.most_members(self.caps, nodes, most)
            self._most[domain] = most
        return most


class GroupBounds:
    """Upper bounds for a problem on the state as it is now."""

    def __init__(self, problem: GroupProblem, volumes: VolumeState, topology: TopologyIndex) -> None:
        """Kinds are added one by one, in their order."""
        self._problem = problem
        self._volumes = volumes
        self._topology = topology
        self._width = topology.width
        volumes.provisioners.charges.refresh()
        self._segments: dict[str, list[tuple[CapacitySegment, NodeSet]]] = {}
        for segment in volumes.provisioners.capacity.segments():
            nodes = topology.matching(segment.segment)
            self._segments.setdefault(segment.storage_class, []).append((segment, nodes))
        self._stocks: dict[_Family, VolumeStock] = {}
        self._capacity: dict[str, CapacityStock] = {}
        self._supplies: dict[tuple[_Family, int], Supply] = {}
        self._slots = SlotCache()
        self._zeros = np.zeros(self._width, dtype=np.int64)
        self.kinds: list[_KindBounds] = []
        self._across: list[tuple[Limit, list[int]]] = []
        #: By resource that all kinds request, how many members of any kind fit on a node; None before the first.
        self._resources: dict[str, Counts] | None = None

    def add(self, kind: MemberKind, fit: MemberFit) -> None:
        """Count how many members of the next kind fit. After the last, limits of all kinds together are there too."""
        self.kinds.append(self._kind(kind, fit))
        if not kind.example.problem:
            self._resources = self._resources_across_kinds(fit)
        if 1 < len(self._problem.kinds) == len(self.kinds):
            self._across = list(self._across_kinds())

    def count_members(self, domain: NodeSet) -> Generator[None, None, int]:
        """As `most_members`, with a pause after each kind."""
        for kind in self.kinds:
            kind.most_members(domain)
            yield
        return self.most_members(domain)

    def most_members(self, domain: NodeSet) -> int:
        """How many members fit at most on the nodes of a domain."""
        by_kind = sum(kind.most_members(domain) for kind in self.kinds)
        by_limit = (_taken(limit.supply.total(domain), demands) for limit, demands in self._across)
        by_resource = (self._fitting(counts, domain) for counts in self._shared_resources.values())
        return min([by_kind, *by_limit, *by_resource])

    def caps(self, kind: MemberKind) -> Counts:
        """By slot, how many members of a kind fit at most."""
        return self.kinds[kind.position].caps

    def nodes(self, kind: MemberKind) -> NodeSet:
        """The nodes that filters leave for a kind."""
        return self.kinds[kind.position].fit.nodes

    def shortage(self, domain: NodeSet, name: str, needed: int) -> Generator[None, None, DomainShortage]:
        """What limits the members in a domain, the tightest first, with a pause after each kind."""
        found: list[Shortage] = []
        for bounds in self.kinds:
            most = bounds.most_members(domain)
            if most < len(bounds.kind.members):
                found += self._of_kind(bounds, domain, most)
            yield
        for limit, demands in self._across:
            available = limit.supply.total(domain)
            if _taken(available, demands) < needed:
                found.append(self._shortage(limit, domain, _taken(available, demands), sum(demands), available))
        for resource, counts in self._shared_resources.items():
            fits = self._fitting(counts, domain)
            if fits < needed:
                members = len(self._problem.members)
                found.append(Shortage(ShortageCode.RESOURCES, resource, members, fits, fits))
        found.sort(key=lambda one: one.members)
        return DomainShortage(name, self.most_members(domain), needed, tuple(dict.fromkeys(found)))

    def _of_kind(self, bounds: _KindBounds, domain: NodeSet, most: int) -> Iterator[Shortage]:
        kind, fit = bounds.kind, bounds.fit
        members, nodes = len(kind.members), domain & fit.nodes
        if kind.example.problem:
            yield Shortage(ShortageCode.CLAIMS, kind.example.problem, members, 0, 0)
            return
        if not nodes:
            yield Shortage(ShortageCode.NODES, "", members, 0, 0)
            return
        inside = mask_of(nodes, self._width)
        for limit in bounds.limits:
            caps = np.minimum(limit.per_node(), members)
            fits = limit.most_members(caps, nodes, members)
            if fits == most:
                yield self._shortage(limit, domain, fits, members * limit.per_member, limit.supply.total(nodes))
        for resource, counts in fit.resources.items():
            fits = min(int(np.minimum(counts, members)[inside].sum()), members)
            if fits == most:
                yield Shortage(ShortageCode.RESOURCES, resource, members, fits, fits)

    def _shortage(self, limit: Limit, nodes: NodeSet, fits: int, requested: int, available: int) -> Shortage:
        per_member = limit.per_member
        inside = [place for place in limit.supply.places() if place.nodes & nodes]
        inside.sort(key=lambda place: -place.amount)
        places = [
            ShortagePlace(self._name(place), place.amount, min(place.units // per_member, MANY))
            for place in inside[:MAX_LISTED_PLACES]
        ]
        return Shortage(
            limit.code,
            limit.subject,
            requested,
            min(available, MANY),
            fits,
            tuple(places),
            limit.size,
        )

    def _kind(self, kind: MemberKind, fit: MemberFit) -> _KindBounds:
        example = kind.example
        nodes = EMPTY if example.problem else fit.nodes
        claims = example.claims.unbound
        families, pools = self._families(claims), self._pools(claims)
        limits = [limit for family, alike in families.items() for limit in self._volume_limits(family, alike)]
        limits += self._capacity_limits(pools)
        limits += self._attach_limits(claims)
        caps = np.where(mask_of(nodes, self._width), MANY, 0)
        for counts in (*fit.resources.values(), *(limit.per_node() for limit in limits)):
            caps = np.minimum(caps, counts[: self._width])
        caps = np.minimum(np.maximum(caps, 0), len(kind.members))
        return _KindBounds(kind, fit._replace(nodes=nodes), families, pools, limits, caps)

    def _families(self, claims: Iterable[ClaimRequirements]) -> dict[_Family, list[ClaimRequirements]]:
        """Claims without a reserved volume, the largest first."""
        found: dict[_Family, list[ClaimRequirements]] = {}
        for needs in sorted(claims, key=lambda one: -one.size):
            if self._volumes.reserved_volume(needs) is None:
                tracked = self._volumes.provisioners.tracks_capacity(needs)
                family = _Family(needs.storage_class, needs.shape, needs.selector, tracked)
                found.setdefault(family, []).append(needs)
        return found

    def _volume_limits(self, family: _Family, alike: Sequence[ClaimRequirements]) -> Iterator[Limit]:
        """Of the largest few claims, each needs a volume of its own that is large enough for the smallest of them."""
        for number, needs in enumerate(alike, 1):
            if number == len(alike) or alike[number].size != needs.size:
                supply = self._volume_supply(family, needs)
                made = bool(self._volumes.provisioners.provisioner(family.storage_class))
                code = ShortageCode.CAPACITY if made else ShortageCode.VOLUMES
                yield Limit(code, family.storage_class, supply, number, quantity.to_bytes(needs.claim.request))

    def _volume_supply(self, family: _Family, needs: ClaimRequirements) -> Supply:
        """Volumes for a claim: those that exist, and those that could be provisioned."""
        known = self._supplies.get((family, needs.size))
        if known is None:
            known = self._supplies[family, needs.size] = self._counted_volumes(family, needs)
        return known

    def _counted_volumes(self, family: _Family, needs: ClaimRequirements) -> Supply:
        supply, stock = self._empty(), self._stock(family, needs)
        stock.add_to(supply, needs.size)
        supply.stocks.append((stock, needs.size))
        provisioners = self._volumes.provisioners
        allowed = provisioners.allowed(needs.storage_class)
        if allowed and not provisioners.tracks_capacity(needs):
            supply.unlimited |= allowed
        elif allowed:
            size, capacity = quantity.to_bytes(needs.claim.request), self._capacity_stock(needs.storage_class)
            capacity.add_volumes(supply, size)
            if size:
                supply.stocks.append((capacity, size))
        return supply

    def _empty(self) -> Supply:
        return Supply(self._width, self._slots, self._zeros)

    def _stock(self, family: _Family, needs: ClaimRequirements) -> VolumeStock:
        known = self._stocks.get(family)
        if known is None:
            known = self._stocks[family] = VolumeStock(self._volumes.volumes_by_reach(needs), self._width)
        return known

    def _capacity_stock(self, storage_class: str) -> CapacityStock:
        known = self._capacity.get(storage_class)
        if known is None:
            allowed = self._volumes.provisioners.allowed(storage_class)
            inside = ((segment, reach & allowed) for segment, reach in self._segments.get(storage_class, ()))
            known = self._capacity[storage_class] = CapacityStock(inside, self._width)
        return known

    def _pools(self, claims: Sequence[ClaimRequirements]) -> dict[str, list[ClaimRequirements]]:
        """Claims that take from reported capacity, by pool; without those that have a reserved volume."""
        provisioners = self._volumes.provisioners
        pools: dict[str, list[ClaimRequirements]] = {}
        for needs in claims:
            if provisioners.tracks_capacity(needs) and self._volumes.reserved_volume(needs) is None:
                pools.setdefault(provisioners.pool(needs.storage_class), []).append(needs)
        return pools

    def _capacity_limits(self, pools: _Pools) -> Iterator[Limit]:
        """Bytes: claims of all classes of a pool take from each of its segments together."""
        for pool in pools.values():
            size = sum(quantity.to_bytes(needs.claim.request) for needs in pool)
            if len(pool) > 1 and size:
                for storage_class in dict.fromkeys(needs.storage_class for needs in pool):
                    supply = self._byte_supply(storage_class, pool)
                    yield Limit(ShortageCode.CAPACITY, storage_class, supply, size, size)

    def _byte_supply(self, storage_class: str, pool: Sequence[ClaimRequirements]) -> Supply:
        supply, capacity = self._empty(), self._capacity_stock(storage_class)
        capacity.add_bytes(supply)
        supply.stocks.append((capacity, 0))
        # An existing volume spares the capacity of at most the largest claim.
        largest = max(quantity.to_bytes(needs.claim.request) for needs in pool)
        for family, alike in self._families(pool).items():
            smallest = alike[-1]
            self._stock(family, smallest).add_to(supply, smallest.size, largest)
        return supply

    def _attach_limits(self, claims: Sequence[ClaimRequirements]) -> Iterator[Limit]:
        """Volumes of a driver that a node still takes, for claims that can have none of another driver."""
        per_driver: dict[str, int] = {}
        for needs in claims:
            drivers = self._volumes.possible_volume_drivers(needs)
            if len(drivers) == 1 and self._volumes.reserved_volume(needs) is None:
                driver = next(iter(drivers))
                per_driver[driver] = per_driver.get(driver, 0) + 1
        for driver, number in per_driver.items():
            if driver and self._volumes.limits.limits(driver):
                left = np.maximum(self._volumes.limits.left(driver)[: self._width], 0)
                supply = Supply(self._width, self._slots, left.copy())
                for slot in islice(slots_of(self._topology.all), MAX_LISTED_PLACES):
                    supply.nodes_listed.append(SupplyPlace(1 << slot, int(left[slot]), int(left[slot])))
                yield Limit(ShortageCode.ATTACH_LIMIT, driver, supply, number)

    def _resources_across_kinds(self, fit: MemberFit) -> dict[str, Counts]:
        """No node has more members than of the kind that requests the least."""
        resources = {name: counts[: self._width] for name, counts in fit.resources.items()}
        if self._resources is None:
            return resources
        shared = ((name, counts, resources[name]) for name, counts in self._resources.items() if name in resources)
        return {name: most if most is own else np.maximum(most, own) for name, most, own in shared}

    @property
    def _shared_resources(self) -> Mapping[str, Counts]:
        return self._resources or {} if len(self._problem.kinds) > 1 else {}

    def _fitting(self, counts: Counts, domain: NodeSet) -> int:
        nodes = domain & union(kind.fit.nodes for kind in self.kinds)
        return int(np.minimum(counts, MANY)[mask_of(nodes, self._width)].sum())

    def _across_kinds(self) -> Iterator[tuple[Limit, list[int]]]:
        """Limits of all members together, with what each of them takes."""
        families = [bounds.families for bounds in self.kinds]
        for family in dict.fromkeys(one for found in families for one in found):
            smallest = min((needs for found in families for needs in found.get(family, ())), key=lambda one: one.size)
            demands = self._demands([len(found.get(family, ())) for found in families])
            for limit in self._volume_limits(family, [smallest]):
                yield limit, demands
        for storage_class in dict.fromkeys(family.storage_class for found in families for family in found):
            yield from self._bytes_across_kinds(storage_class)

    def _bytes_across_kinds(self, storage_class: str) -> Iterator[tuple[Limit, list[int]]]:
        pool = self._volumes.provisioners.pool(storage_class)
        taking = [bounds.pools.get(pool, ()) for bounds in self.kinds]
        every = list({(one.storage_class, one.size, one.shape): one for claims in taking for one in claims}.values())
        if pool and every:
            sizes = [sum(quantity.to_bytes(needs.claim.request) for needs in claims) for claims in taking]
            supply = self._byte_supply(storage_class, every)
            yield Limit(ShortageCode.CAPACITY, storage_class, supply, max(*sizes, 1)), self._demands(sizes)

    def _demands(self, per_kind: Sequence[int]) -> list[int]:
        """What each member takes, the least first."""
        members = zip(self._problem.kinds, per_kind, strict=True)
        return sorted(demand for kind, demand in members for _ in kind.members)

    def _name(self, place: SupplyPlace) -> str:
        """A node by its name, several by the segment's labels or by their number."""
        first = next(self._topology.names(place.nodes), "")
        if place.nodes and not place.nodes & (place.nodes - 1):
            return first
        if place.segment is not None:
            return topology_text(place.segment.segment)
        return f"{first} and {place.nodes.bit_count() - 1} other nodes"


def _taken(available: int, demands: Sequence[int]) -> int:
    """How many members, those with the least demand first, find enough."""
    return sum(total <= available for total in accumulate(demands))
