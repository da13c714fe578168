"""All volumes by class, shape, size, topology and reserving claim.

Kept by the scheduler's `state.VolumeState`, fed with volumes as assumed, and by the PV controller's `BindingCache`.
Gives feasible nodes for all nodes at once, the assignment for one node, and the best volume wherever it is, always
with the result of `matching.first_mismatch` on every pair. Holds no claims and assumes nothing.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from mooring.api.quantity import QuantityError
from mooring.api.views.storage import Claim, Volume
from mooring.multimap import Multimap
from mooring.volumes import topology
from mooring.volumes.columns import SizedVolume, all_assigned, assign, cell
from mooring.volumes.free_volumes import AvailableVolumes, TooManySets, VolumeQuery, feasible
from mooring.volumes.matching import ClaimRequirements, exact_size, is_free, is_reserved_for, positive_size
from mooring.volumes.scoring import AvailableBySize, Fit
from mooring.volumes.topology import EMPTY, Affinity, NodeSet, TopologyIndex, affinity_of

MAX_CHECKED_NODES: Final = 100
"""Nodes looked at one by one where the claims of a pod differ in more ways than can be settled for all at once."""

#: More than any size: reach outweighs it.
_REACH_UNIT: Final = 2**128


class SuitedVolumes(NamedTuple):
    """Free volumes that the same nodes reach and that do for a claim."""

    nodes: NodeSet
    number: int
    #: The name of the smallest.
    smallest: str


class VolumeIndex:
    """Volumes as the deciding sees them. What a question costs depends on the node it is about, not on the others."""

    def __init__(self, topology: TopologyIndex, affinity: Callable[[Volume], Affinity] = affinity_of) -> None:
        self._topology = topology
        self._affinity = affinity
        self._volumes: dict[str, Volume] = {}
        #: Available, not reserved, not being deleted.
        self._free = AvailableVolumes(topology, affinity)
        #: Names of the volumes whose claimRef names a claim, by the claim's key.
        self._reserved: Multimap[str, str] = Multimap()

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
            self._reserved.add(f"{reference.namespace}/{reference.name}", volume.name)
        elif is_free(volume):
            self._free.add(volume)
        return ""

    def remove(self, name: str) -> None:
        """A volume is gone. Nothing happens when it was not there."""
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        reference = volume.spec.claim_ref
        if reference is not None:
            self._reserved.discard(f"{reference.namespace}/{reference.name}", name)
        self._free.remove(name)

    def is_free(self, name: str) -> bool:
        """Whether a claim that the volume of this name is not reserved for may take it."""
        return name in self._free

    def best(self, claim: ClaimRequirements, *, reserved_only: bool) -> Volume | None:
        """The volume that the PV controller binds, wherever it is; with `reserved_only` none that is free.

        Access modes decide first: a free volume with fewer is taken before a reserved one that can do more. Of free
        ones with the same modes it is the smallest; ties by name.
        """
        found = [volume for volume in self._reserved_volumes(claim.claim) if claim.first_mismatch(volume) is None]
        if not reserved_only:
            sequences = (group.volumes for columns in self._free.serving(claim) for group in columns.groups)
            free = (volume.name for volumes in sequences for volume in self._suited(claim, volumes, limit=1))
            found += [self._volumes[name] for name in free]
        return min(found, key=_binding_order, default=None)

    def feasible(self, asked: Sequence[VolumeQuery], *, beside: Sequence[ClaimRequirements] = ()) -> NodeSet:
        """The nodes on which each of these claims of one storage class can have a volume of its own.

        `beside` are further claims of the class that the same pod has: a caller that asks about some after others names
        all of them, so that what labels pick is kept once.
        """
        nodes = self._topology.all
        free: list[VolumeQuery] = []
        for one in asked:
            reserved = self.reserved_for(one.claim)
            if reserved is None:
                free.append(one)
            else:
                nodes &= self.reaching(reserved)
        if not free:
            return nodes
        offered = self._free.offered(free[0].claim.storage_class, [*(one.claim for one in free), *beside])
        try:
            return feasible(free, offered, nodes, self._topology.width)
        except TooManySets as left:
            return self._looked_at(free, left.nodes)

    def assignment(self, asked: Sequence[VolumeQuery], node: str) -> list[Volume | None]:
        """For each claim, in order, the volume it gets on this node; None where there is none for it.

        As many claims as possible are served, then as little size as possible is wasted. Give claims in ascending
        order of size to have Kubernetes' choice among equals.
        """
        slot = self._topology.slot(node)
        candidates = [self._candidates(one, slot, limit=len(asked)) for one in asked]
        chosen = assign([one.claim.size for one in asked], candidates)
        return [None if volume is None else self._volumes[volume.name] for volume in chosen]

    def narrowest_assignment(self, asked: Sequence[VolumeQuery], node: str) -> list[Volume | None]:
        """As `assignment`, but volumes that few nodes reach are taken first: those that many reach are left for pods on
        other nodes. Waste decides among equals."""
        slot = self._topology.slot(node)
        candidates = [
            sorted(self._by_reach(volume) for volume in self._candidates(one, slot, limit=len(asked), whole_rows=True))
            for one in asked
        ]
        chosen = assign([0] * len(asked), candidates)
        return [None if volume is None else self._volumes[volume.name] for volume in chosen]

    def suited_volumes(self, claim: ClaimRequirements) -> Iterator[SuitedVolumes]:
        """The free volumes that do for a claim by the nodes that reach them; nodes may repeat."""
        for columns in self._free.serving(claim):
            for group in columns.groups:
                first = bisect_left(group.volumes, SizedVolume(claim.size, ""))
                if first < len(group.volumes) and group.nodes:
                    yield SuitedVolumes(group.nodes, len(group.volumes) - first, group.volumes[first].name)

    def volumes_by_reach(self, claim: ClaimRequirements) -> Iterator[tuple[NodeSet, list[int]]]:
        """Sizes of the free volumes that do for a claim in all but size, ascending, by the nodes that reach them; nodes
        may repeat."""
        for columns in self._free.serving(claim):
            for group in columns.groups:
                yield group.nodes, [volume.size for volume in group.volumes]

    def fits(self, claims: Sequence[ClaimRequirements], width: int) -> list[Fit]:
        """For each claim, in ascending order of size, about what it would get on every node."""
        kept = [self.reserved_for(claim) for claim in claims]
        served = [
            self._free.serving(claim) if reserved is None else [] for claim, reserved in zip(claims, kept, strict=True)
        ]
        offers = AvailableBySize(width, Counter(columns for serving in served for columns in serving))
        fits: list[Fit] = []
        for claim, reserved, serving in zip(claims, kept, served, strict=True):
            if reserved is None:
                sizes = offers.best(claim.size, serving)
            else:
                sizes = offers.reserved(exact_size(reserved.size), self.reaching(reserved))
            fits.append(Fit(claim, cell(claim.size, up=True), sizes))
        return fits

    def reserved_for(self, claim: ClaimRequirements) -> Volume | None:
        """The volume whose claimRef names the claim, if it does for it: no other will be taken then."""
        volumes = self._reserved_volumes(claim.claim)
        return (
            None if not volumes else next((volume for volume in volumes if claim.first_mismatch(volume) is None), None)
        )

    def _reserved_volumes(self, claim: Claim) -> list[Volume]:
        names = self._reserved.get(claim.key)
        return [] if names is None else [self._volumes[name] for name in sorted(names)]

    def reserved_regardless_of_match(self, claim: Claim) -> Volume | None:
        """A volume that is reserved for a claim, whether it matches the claim's requirements or not."""
        return next((volume for volume in self._reserved_volumes(claim) if is_reserved_for(volume, claim)), None)

    def drivers(self, storage_class: str) -> Collection[str]:
        """The drivers that free volumes of a class have; "" for volumes that no driver knows."""
        return self._free.drivers(storage_class)

    def reaching(self, volume: Volume) -> NodeSet:
        """The nodes that can use a volume."""
        return self._topology.matching(self._affinity(volume))

    def _looked_at(self, asked: Sequence[VolumeQuery], nodes: NodeSet) -> NodeSet:
        """Those of the first `nodes` on which an assignment exists; others are not looked at and do not count."""
        found = EMPTY
        for slot in islice(topology.slots_of(nodes), MAX_CHECKED_NODES):
            if all_assigned([self._candidates(one, slot, limit=len(asked)) for one in asked]):
                found |= 1 << slot
        return found

    def _by_reach(self, volume: SizedVolume) -> SizedVolume:
        """Sorts by the number of nodes that reach the volume, then by its size."""
        reach = self.reaching(self._volumes[volume.name]).bit_count()
        return SizedVolume(reach * _REACH_UNIT + volume.size, volume.name)

    def _candidates(self, asked: VolumeQuery, slot: int, *, limit: int, whole_rows: bool = False) -> list[SizedVolume]:
        """The volumes the claim may take on a node, ascending. Of each sequence `limit` are enough when that many
        claims compete: a claim that is assigned a later one can have one of these instead. That does not hold where
        the nodes that reach a volume matter, unless they are the same for the sequence: `whole_rows`."""
        claim = asked.claim
        reserved = self.reserved_for(claim)
        if reserved is not None:
            reaches = self.reaching(reserved) >> slot & 1
            return [SizedVolume(exact_size(reserved.size), reserved.name)] if reaches else []
        suited: list[SizedVolume] = []
        for columns in self._free.serving(claim, asked.driver):
            # The first sequence is the row, in which volumes of various reach are.
            for position, volumes in enumerate(columns.reached_from(slot)):
                most = len(volumes) if whole_rows and not position else limit
                suited += self._suited(claim, volumes, most)
        return sorted(suited)

    def _suited(self, claim: ClaimRequirements, volumes: Sequence[SizedVolume], limit: int) -> list[SizedVolume]:
        """The first volumes of an ascending sequence that do for the claim."""
        suited: list[SizedVolume] = []
        for position in range(bisect_left(volumes, SizedVolume(claim.size, "")), len(volumes)):
            if len(suited) == limit:
                break
            if claim.first_mismatch(self._volumes[volumes[position].name]) is None:
                suited.append(volumes[position])
        return suited


def _binding_order(volume: Volume) -> tuple[int, list[str], int, str]:
    modes = sorted(set(volume.spec.access_modes))
    is_reserved = volume.spec.claim_ref is not None
    return len(modes), modes, -1 if is_reserved else exact_size(volume.size), volume.name
