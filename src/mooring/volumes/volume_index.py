"""Every volume by what decides about it: class and shape, size, place, and the claim it is reserved for.

Kept by `state.VolumeState`, fed with volumes as assumed, and following the topology by itself. It answers for all
nodes at once (`feasible`) and names the volumes for one node (`assignment`), always with the verdict of
`matching.why_not` and `assignment.assign` on every pair of node and volume. It keeps no claims and promises nothing.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from mooring.api.label_selector import LabelSelector
from mooring.api.quantity import QuantityError
from mooring.api.views.volume import Volume
from mooring.volumes import nodeset
from mooring.volumes.affinity import affinity
from mooring.volumes.assignment import Sized, all_served, assign
from mooring.volumes.columns import Columns, Group, cell
from mooring.volumes.fit import Fit, Offers
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.matching import AVAILABLE, Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.shape import Shape, exact_size, positive_size
from mooring.volumes.topology import TopologyIndex


class _Alike(NamedTuple):
    """Claims of one class that differ only in size, and the columns that serve them by shape."""

    sizes: list[int]
    serving: dict[Shape, Columns]

    @property
    def offered(self) -> int:
        return sum(len(columns) for columns in self.serving.values())


class VolumeIndex:
    """Volumes as the deciding sees them. What a question costs depends on the node it is about, not on the others."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self._volumes: dict[str, Volume] = {}
        #: Available, not reserved, not being deleted.
        self._free = FreeVolumes(topology)
        #: Names of the volumes whose claimRef names a claim, by the claim's key.
        self._reserved: dict[str, set[str]] = {}

    def put(self, volume: Volume) -> str:
        """A volume is there, in this state. Answers with why it cannot be used at all, "" in the normal case."""
        self.remove(volume.name)
        try:
            positive_size(volume.size)
        except QuantityError as problem:
            return f"spec.capacity: {problem}"
        self._volumes[volume.name] = volume
        reference = volume.spec.claim_ref
        if reference is not None:
            self._reserved.setdefault(f"{reference.namespace}/{reference.name}", set()).add(volume.name)
        elif volume.status.phase == AVAILABLE and not volume.deleting:
            self._free.add(volume)
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
        self._free.remove(name)

    def feasible(self, claims: Sequence[Needs]) -> NodeSet:
        """The nodes on which each of these claims of one storage class can have a volume of its own.

        Claims that differ only in size are settled by the columns alone: going down from the largest, the *n*-th
        needs *n* volumes of at least its size. Where claims that differ otherwise compete for volumes, nodes that have
        enough for each sort whatever the others take are settled too; only the rest is looked at exactly.
        """
        nodes = self._topology.all
        free: list[Needs] = []
        for claim in claims:
            reserved = self.reserved_for(claim)
            if reserved is None:
                free.append(claim)
            else:
                nodes &= self.reaching(reserved)
        groups = self._alike(free)
        for alike in groups:
            nodes = _enough(alike, nodes)
        if not nodes or not _compete(groups):
            return nodes
        sure = nodes
        before = 0
        for alike in groups:
            # Whatever the groups before took, as many volumes as they have claims, there is enough for this one.
            sure = _enough(alike, sure, spare=before)
            before += len(alike.sizes)
        doubtful = nodes & ~sure
        return sure | self._exactly(free, doubtful) if doubtful else sure

    def assignment(self, claims: Sequence[Needs], node: str) -> list[Volume | None]:
        """For each claim, in order, the volume it gets on this node; None where there is none for it.

        As many claims as possible are served, then as little size as possible is wasted. Give claims in ascending
        order of size to have Kubernetes' choice among equals.
        """
        slot = self._topology.slot(node)
        candidates = [self._candidates(claim, slot, limit=len(claims)) for claim in claims]
        chosen = assign([claim.size for claim in claims], candidates)
        return [None if volume is None else self._volumes[volume.name] for volume in chosen]

    def fits(self, claims: Sequence[Needs], width: int) -> list[Fit]:
        """For each claim, in ascending order of size, about what it would get on every node."""
        offers = Offers(width)
        fits: list[Fit] = []
        for claim in claims:
            reserved = self.reserved_for(claim)
            if reserved is None:
                sizes = offers.best(claim.size, list(self._free.serving(claim).values()))
            else:
                sizes = offers.reserved(exact_size(reserved.size), self.reaching(reserved))
            fits.append(Fit(claim, cell(claim.size, up=True), sizes))
        return fits

    def reserved_for(self, claim: Needs) -> Volume | None:
        """The volume whose claimRef names the claim, if it does for it: no other will be taken then."""
        names = self._reserved.get(claim.claim.key, ())
        volumes = (self._volumes[name] for name in sorted(names))
        return next((volume for volume in volumes if claim.why_not(volume) is None), None)

    def reserved_under(self, key: str) -> Volume | None:
        """A volume whose claimRef names the claim with this key, whether it does for it or not."""
        names = self._reserved.get(key)
        return self._volumes[min(names)] if names else None

    def drivers(self, storage_class: str) -> Collection[str]:
        """The drivers that free volumes of a class have; "" for volumes that no driver knows."""
        return self._free.drivers(storage_class)

    def reaching(self, volume: Volume) -> NodeSet:
        """The nodes that can use a volume."""
        return self._topology.matching(affinity(volume))

    def _exactly(self, claims: Sequence[Needs], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` on which an assignment exists. Volumes that many nodes reach are looked at once for all
        nodes that reach the same of them; only nodes with volumes of their own are looked at one by one."""
        limit = len(claims)
        serving = [list(self._free.serving(claim).values()) for claim in claims]
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
            reaches = self.reaching(reserved) >> slot & 1
            return [Sized(exact_size(reserved.size), reserved.name)] if reaches else []
        sequences = (
            volumes for columns in self._free.serving(claim).values() for volumes in columns.reached_from(slot)
        )
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

    def _alike(self, claims: Iterable[Needs]) -> list[_Alike]:
        """The claims by what they can be served with, those with the least choice first, sizes descending."""
        found: dict[tuple[Shape, LabelSelector | None], _Alike] = {}
        for claim in sorted(claims, key=lambda one: one.size, reverse=True):
            key = (claim.shape, claim.selector if claim.selects else None)
            if key not in found:
                found[key] = _Alike([], self._free.serving(claim))
            found[key].sizes.append(claim.size)
        return sorted(found.values(), key=lambda alike: alike.offered) if len(found) > 1 else list(found.values())


def _compete(groups: Sequence[_Alike]) -> bool:
    """Whether a volume could serve claims of two groups."""
    if len(groups) < 2:
        return False
    return len(set(chain.from_iterable(alike.serving for alike in groups))) < sum(len(a.serving) for a in groups)


def _enough(alike: _Alike, nodes: NodeSet, *, spare: int = 0) -> NodeSet:
    """Those of `nodes` that reach *n* volumes of at least the *n*-th size, for every *n*, and `spare` more."""
    sizes = alike.sizes
    for rank, size in enumerate(sizes, start=1):
        if rank < len(sizes) and sizes[rank] == size:
            continue  # the last of equal sizes asks for the most
        wanted = rank + spare
        ladder = [nodes] + [EMPTY] * wanted
        for one in alike.serving.values():
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
