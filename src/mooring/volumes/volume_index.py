"""Every volume by what decides about it: class and shape, size, place, and the claim it is reserved for.

Kept by `state.VolumeState`, fed with volumes as assumed, and following the topology by itself. It answers for all
nodes at once (`feasible`) and names the volumes for one node (`assignment`), always with the verdict of
`matching.why_not` and `assignment.assign` on every pair of node and volume. It keeps no claims and promises nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from mooring.api.quantity import QuantityError
from mooring.api.views.volume import Volume
from mooring.volumes import nodeset
from mooring.volumes.affinity import Affinity, AffinityWatch, affinity
from mooring.volumes.assignment import Sized, all_served, assign
from mooring.volumes.columns import Columns, Group
from mooring.volumes.matching import AVAILABLE, Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.shape import Shape, exact_size, shape_of
from mooring.volumes.topology import NodeChange, TopologyIndex


class _Place(NamedTuple):
    """Where a free volume was entered."""

    storage_class: str
    shape: Shape
    affinity: Affinity
    volume: Sized


class VolumeIndex:
    """Volumes as the deciding sees them. What a question costs depends on the node it is about, not on the others."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._volumes: dict[str, Volume] = {}
        #: Free volumes only: Available, not reserved, not being deleted.
        self._places: dict[str, _Place] = {}
        self._columns: dict[str, dict[Shape, Columns]] = {}
        #: Names of the volumes whose claimRef names a claim, by the claim's key.
        self._reserved: dict[str, set[str]] = {}
        self._watch = AffinityWatch()
        self._touched: set[Affinity] = set()
        topology.follow(self._node_changed)

    def put(self, volume: Volume) -> str:
        """A volume is there, in this state. Answers with why it cannot be used at all, "" in the normal case."""
        self.remove(volume.name)
        try:
            exact_size(volume.size)
        except QuantityError as problem:
            return f"spec.capacity: {problem}"
        self._volumes[volume.name] = volume
        reference = volume.spec.claim_ref
        if reference is not None:
            self._reserved.setdefault(f"{reference.namespace}/{reference.name}", set()).add(volume.name)
        elif volume.status.phase == AVAILABLE and not volume.deleting:
            self._enter(volume)
        return ""

    def remove(self, name: str) -> None:
        """A volume is gone. Nothing happens when it was not there."""
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        reference = volume.spec.claim_ref
        if reference is not None:
            key = f"{reference.namespace}/{reference.name}"
            self._reserved[key].discard(name)
            if not self._reserved[key]:
                del self._reserved[key]
        place = self._places.pop(name, None)
        if place is not None:
            self._strike(place)

    def feasible(self, claims: Sequence[Needs]) -> NodeSet:
        """The nodes on which each of these claims of one storage class can have a volume of its own.

        Claims that differ only in size are settled by the columns alone: going down from the largest, the *n*-th
        needs *n* volumes of at least its size. Others are looked at exactly, on the nodes that pass as many.
        """
        self._follow_nodes()
        nodes = self._topology.all
        free: list[Needs] = []
        for claim in claims:
            reserved = self.reserved_for(claim)
            if reserved is None:
                free.append(claim)
            else:
                nodes &= self._reaching(reserved)
        by_shape: dict[Shape, list[Needs]] = {}
        for claim in free:
            by_shape.setdefault(claim.shape, []).append(claim)
        serving = [self._serving(alike[0]) for alike in by_shape.values()]
        for alike, columns in zip(by_shape.values(), serving, strict=True):
            nodes = _enough(columns, sorted((claim.size for claim in alike), reverse=True), nodes)
        shared = len(set(chain.from_iterable(serving))) < sum(map(len, serving))
        if nodes and (shared or any(claim.selector is not None for claim in free)):
            return self._exactly(free, nodes)
        return nodes

    def assignment(self, claims: Sequence[Needs], node: str) -> list[Volume | None]:
        """For each claim, in order, the volume it gets on this node; None where there is none for it.

        As many claims as possible are served, then as little size as possible is wasted. Give claims in ascending
        order of size to have Kubernetes' choice among equals.
        """
        self._follow_nodes()
        slot = self._topology.slot(node)
        candidates = [self._candidates(claim, slot, limit=len(claims)) for claim in claims]
        chosen = assign([claim.size for claim in claims], candidates)
        return [None if volume is None else self._volumes[volume.name] for volume in chosen]

    def reserved_for(self, claim: Needs) -> Volume | None:
        """The volume whose claimRef names the claim, if it does for it: no other will be taken then."""
        names = self._reserved.get(claim.claim.key, ())
        volumes = (self._volumes[name] for name in sorted(names))
        return next((volume for volume in volumes if claim.why_not(volume) is None), None)

    def _exactly(self, claims: Sequence[Needs], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` on which an assignment exists. Volumes that many nodes reach are looked at once for all
        nodes that reach the same of them; only nodes with volumes of their own are looked at one by one."""
        limit = len(claims)
        serving = [self._serving(claim) for claim in claims]
        columns = dict.fromkeys(chain.from_iterable(serving))
        wide = {group: of for of in columns for group in of.wide_groups}
        own_nodes = EMPTY
        for one in columns:
            own_nodes |= one.own_nodes
        feasible = EMPTY
        for part, groups in _parts(nodes, wide):
            shared = [
                [v for group in groups if wide[group] in served for v in self._suited(claim, group.volumes, limit)]
                for claim, served in zip(claims, serving, strict=True)
            ]
            if all_served(shared):
                feasible |= part
                continue
            for slot in nodeset.slots(part & own_nodes):
                candidates = [
                    [*common, *(v for one in served for v in self._suited(claim, one.own(slot), limit))]
                    for claim, served, common in zip(claims, serving, shared, strict=True)
                ]
                if all_served(candidates):
                    feasible |= 1 << slot
        return feasible

    def _candidates(self, claim: Needs, slot: int, *, limit: int) -> list[Sized]:
        """The volumes the claim may take on a node, ascending. Of each sequence `limit` are enough when that many
        claims compete: whoever is given a later one can have one of these instead."""
        reserved = self.reserved_for(claim)
        if reserved is not None:
            reaches = self._reaching(reserved) >> slot & 1
            return [Sized(exact_size(reserved.size), reserved.name)] if reaches else []
        sequences = (volumes for columns in self._serving(claim) for volumes in columns.reached_from(slot))
        return sorted(volume for volumes in sequences for volume in self._suited(claim, volumes, limit))

    def _suited(self, claim: Needs, volumes: Sequence[Sized], limit: int) -> list[Sized]:
        """The first volumes of an ascending sequence that do for the claim."""
        suited: list[Sized] = []
        for position in range(bisect_left(volumes, Sized(claim.size, "")), len(volumes)):
            if len(suited) == limit:
                break
            if claim.why_not(self._volumes[volumes[position].name]) is None:
                suited.append(volumes[position])
        return suited

    def _serving(self, claim: Needs) -> list[Columns]:
        shapes = self._columns.get(claim.storage_class, {})
        return [columns for shape, columns in shapes.items() if shape.serves(claim.shape)]

    def _reaching(self, volume: Volume) -> NodeSet:
        return self._topology.matching(affinity(volume), by_name=False)

    def _enter(self, volume: Volume) -> None:
        size = Sized(exact_size(volume.size), volume.name)
        place = _Place(volume.storage_class, shape_of(volume), affinity(volume), size)
        shapes = self._columns.setdefault(place.storage_class, {})
        if place.shape not in shapes:
            shapes[place.shape] = Columns()
        shapes[place.shape].add(size, place.affinity, self._reaching(volume))
        self._watch.add(place.affinity)
        self._places[volume.name] = place

    def _strike(self, place: _Place) -> None:
        shapes = self._columns[place.storage_class]
        columns = shapes[place.shape]
        columns.remove(place.volume, place.affinity)
        self._watch.discard(place.affinity)
        if not columns:
            del shapes[place.shape]
        if not shapes:
            del self._columns[place.storage_class]

    def _node_changed(self, change: NodeChange) -> None:
        self._touched |= self._watch.touched(change)

    def _follow_nodes(self) -> None:
        """Move the volumes whose nodes have changed since the last question."""
        for touched in self._touched:
            nodes = self._topology.matching(touched, by_name=False)
            for shapes in self._columns.values():
                for columns in shapes.values():
                    columns.move(touched, nodes)
        self._touched.clear()


def _enough(columns: Sequence[Columns], sizes: Sequence[int], nodes: NodeSet) -> NodeSet:
    """Those of `nodes` that reach *n* volumes of at least the *n*-th size, for every *n*; sizes are descending."""
    for wanted, size in enumerate(sizes, start=1):
        if wanted < len(sizes) and sizes[wanted] == size:
            continue  # the last of equal sizes asks for the most
        ladder = [nodes] + [EMPTY] * wanted
        for one in columns:
            ladder = _joined(ladder, one.ladder(size, wanted, nodes))
        nodes = ladder[wanted]
    return nodes


def _joined(these: Sequence[NodeSet], those: Sequence[NodeSet]) -> list[NodeSet]:
    """The ladder of two disjoint sets of volumes together."""
    joined: list[NodeSet] = []
    for wanted in range(len(these)):
        nodes = EMPTY
        for of_these in range(wanted + 1):
            nodes |= these[of_these] & those[wanted - of_these]
        joined.append(nodes)
    return joined


def _parts(nodes: NodeSet, groups: Iterable[Group]) -> Iterator[tuple[NodeSet, list[Group]]]:
    """`nodes` divided so that the nodes of a part reach the same groups, with these groups."""
    parts: list[tuple[NodeSet, list[Group]]] = [(nodes, [])]
    for group in groups:
        divided: list[tuple[NodeSet, list[Group]]] = []
        for part, reached in parts:
            if inside := part & group.nodes:
                divided.append((inside, [*reached, group]))
            if outside := part & ~group.nodes:
                divided.append((outside, reached))
        parts = divided
    return iter(parts)
