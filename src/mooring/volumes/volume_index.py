"""Every volume by what decides about it: class and shape, size, place, and the claim it is reserved for.

Kept by `state.VolumeState`, fed with volumes as assumed, and following the topology by itself. It answers for all
nodes at once (`feasible`) and names the volumes for one node (`assignment`), always with the verdict of
`matching.why_not` and `assignment.assign` on every pair of node and volume. It keeps no claims and promises nothing.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

from mooring.api.quantity import QuantityError
from mooring.api.views.volume import Volume
from mooring.volumes import nodeset
from mooring.volumes.affinity import affinity
from mooring.volumes.assignment import Sized, all_served, assign
from mooring.volumes.columns import cell
from mooring.volumes.contest import Asked, TooManySets, feasible
from mooring.volumes.fit import Fit, Offers
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.matching import Needs, is_free
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.shape import exact_size, positive_size
from mooring.volumes.topology import TopologyIndex

LOOKS: Final = 100
"""Nodes looked at one by one where the claims of a pod differ in more ways than can be settled for all at once."""


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
            key = f"{reference.namespace}/{reference.name}"
            self._reserved[key].discard(name)
            if not self._reserved[key]:
                del self._reserved[key]
        self._free.remove(name)

    def feasible(self, asked: Sequence[Asked], *, beside: Sequence[Needs] = ()) -> NodeSet:
        """The nodes on which each of these claims of one storage class can have a volume of its own.

        `beside` are further claims of the class that the same pod has: a caller that asks about some after others names
        all of them, so that what labels pick is kept once.
        """
        nodes = self._topology.all
        free: list[Asked] = []
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

    def assignment(self, asked: Sequence[Asked], node: str) -> list[Volume | None]:
        """For each claim, in order, the volume it gets on this node; None where there is none for it.

        As many claims as possible are served, then as little size as possible is wasted. Give claims in ascending
        order of size to have Kubernetes' choice among equals.
        """
        slot = self._topology.slot(node)
        candidates = [self._candidates(one, slot, limit=len(asked)) for one in asked]
        chosen = assign([one.claim.size for one in asked], candidates)
        return [None if volume is None else self._volumes[volume.name] for volume in chosen]

    def fits(self, claims: Sequence[Needs], width: int) -> list[Fit]:
        """For each claim, in ascending order of size, about what it would get on every node."""
        offers = Offers(width)
        fits: list[Fit] = []
        for claim in claims:
            reserved = self.reserved_for(claim)
            if reserved is None:
                sizes = offers.best(claim.size, self._free.serving(claim))
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

    def _looked_at(self, asked: Sequence[Asked], nodes: NodeSet) -> NodeSet:
        """Those of the first `nodes` on which an assignment exists; others are not looked at and do not count."""
        found = EMPTY
        for slot in islice(nodeset.slots(nodes), LOOKS):
            if all_served([self._candidates(one, slot, limit=len(asked)) for one in asked]):
                found |= 1 << slot
        return found

    def _candidates(self, asked: Asked, slot: int, *, limit: int) -> list[Sized]:
        """The volumes the claim may take on a node, ascending. Of each sequence `limit` are enough when that many
        claims compete: whoever is given a later one can have one of these instead."""
        claim = asked.claim
        reserved = self.reserved_for(claim)
        if reserved is not None:
            reaches = self.reaching(reserved) >> slot & 1
            return [Sized(exact_size(reserved.size), reserved.name)] if reaches else []
        sequences = (
            volumes for columns in self._free.serving(claim, asked.driver) for volumes in columns.reached_from(slot)
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
