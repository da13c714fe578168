"""For which nodes a claim could have a volume made: the class's provisioner, the places it allows, the free storage.

Kept by `state.VolumeState`, which asks about the claims no existing volume does for. It knows classes, drivers and
what drivers report of their capacity; making volumes is somebody else's work.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from mooring.api import keys, node_selector, quantity
from mooring.api.views.storage import CsiDriver, StorageCapacity, StorageClass
from mooring.volumes import nodeset
from mooring.volumes.capacity import CapacityView
from mooring.volumes.charges import Charges
from mooring.volumes.columns import Sizes
from mooring.volumes.matching import Needs
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.packing import Looks, Wish, fit_together
from mooring.volumes.topology import TopologyIndex
from mooring.volumes.zone_parameters import allowed_topologies

LOOKED_AT: Final = 64
"""Nodes in several segments of one class that one decision looks at one by one. Drivers report segments that overlap
only by mistake, and a look costs as much as a tenth of a decision."""


class Makeable(NamedTuple):
    """Where a volume could be made for a claim: the class allows these nodes, and these of them have the room."""

    allowed: NodeSet
    nodes: NodeSet


NOWHERE = Makeable(EMPTY, EMPTY)


class Provisioners:
    """Classes and what their provisioners can do, where."""

    def __init__(self, topology: TopologyIndex) -> None:
        self._topology = topology
        self.classes: dict[str, StorageClass] = {}
        self.capacity = CapacityView(topology)
        self.charges = Charges(topology, self.capacity, self.pool)
        #: The slot from which nodes in several segments are looked at next.
        self._next_look = 0
        self._tracking: set[str] = set()
        self._required: set[str] = set()

    def observe_class(self, name: str, now: StorageClass | None) -> None:
        before = self.pool(name)
        if now is None:
            self.classes.pop(name, None)
        else:
            self.classes[name] = now
        self.capacity.observe_class(name, now)
        if self.pool(name) != before:
            self.charges.regroup()

    def observe_driver(self, name: str, now: CsiDriver | None) -> None:
        """Only drivers that ask for it have their capacity checked, or keep pods off nodes that lack them."""
        _keep(self._tracking, name, wanted=now is not None and now.spec.storage_capacity)
        _keep(self._required, name, wanted=now is not None and now.spec.prevent_pod_scheduling_if_missing)

    def observe_capacity(self, key: str, now: StorageCapacity | None) -> str:
        """Answers with why an object cannot be used, "" in the normal case."""
        before = self.capacity.room(key)
        problem = self.capacity.observe(key, now)
        self.charges.published(key, before)
        return problem

    def is_required(self, driver: str) -> bool:
        """Whether a driver wants pods with its volumes kept off nodes that lack it."""
        return driver in self._required

    def provisioner(self, storage_class: str) -> str:
        """Who makes volumes of a class; "" where nobody does."""
        found = self.classes.get(storage_class)
        return "" if found is None or found.provisioner == keys.NO_PROVISIONER else found.provisioner

    def pool(self, storage_class: str) -> str:
        """What volumes of a class are taken from, as far as counting goes: all classes of a driver take from one,
        unless they say that theirs is another. "" where nobody makes any."""
        provisioner = self.provisioner(storage_class)
        if not provisioner:
            return ""
        named = self.classes[storage_class].metadata.annotations.get(keys.CAPACITY_POOL, "")
        return f"{provisioner} {named}" if named else provisioner

    def allowed(self, storage_class: str) -> NodeSet:
        """The nodes for which the class lets somebody make volumes."""
        if not self.provisioner(storage_class):
            return EMPTY
        topologies = node_selector.topologies_from_view(allowed_topologies(self.classes[storage_class]))
        return self._topology.allowed(topologies)

    def tracks_capacity(self, claim: Needs) -> bool:
        """Whether free storage is looked at: the driver wants it, and the claim says how much it needs."""
        asks = "storage" in claim.claim.spec.resources.requests
        return asks and self.provisioner(claim.storage_class) in self._tracking

    def makeable(self, claim: Needs) -> Makeable:
        """Where a volume could be made for a claim."""
        allowed = self.allowed(claim.storage_class)
        if not allowed or not self.tracks_capacity(claim):
            return Makeable(allowed, allowed)
        size = quantity.to_bytes(claim.claim.request)
        return Makeable(allowed, allowed & self.capacity.enough(claim.storage_class, size))

    def short_in_all(self, claims: Iterable[Needs], nodes: NodeSet) -> NodeSet:
        """Those of `nodes` on which volumes for all these claims together would be more than is left of what a driver
        reports: beside each other, whatever their classes, and beside what volumes in flight will take.

        Of nodes that are in several segments of a class, those that report enough are looked at one by one, LOOKED_AT
        at most."""
        by_pool: dict[str, list[Needs]] = {}
        for claim in claims:
            if self.tracks_capacity(claim):
                by_pool.setdefault(self.pool(claim.storage_class), []).append(claim)
        short = EMPTY
        for alike in by_pool.values():
            self.charges.refresh()
            wishes = [Wish(claim.storage_class, quantity.to_bytes(claim.claim.request)) for claim in alike]
            short |= self._short_of_pool(wishes, nodes & ~short)
        return short

    def _short_of_pool(self, wishes: Sequence[Wish], nodes: NodeSet) -> NodeSet:
        size = sum(wish.size for wish in wishes)
        short, several = EMPTY, EMPTY
        for storage_class in dict.fromkeys(wish.storage_class for wish in wishes):
            short |= nodes & ~self.capacity.enough_in_all(storage_class, size, volumes=len(wishes))
            several |= nodes & self.capacity.several(storage_class)
        return short & ~several | (several & ~self._fitting(wishes, several) if several else EMPTY)

    def _fitting(self, wishes: Sequence[Wish], nodes: NodeSet) -> NodeSet:
        """Those of `nodes`, which are in several segments, on which there is room for all wishes beside each other.

        Where all that is reported is too little nothing is looked at. Of the others a few are, each time the next few:
        should they not do, another attempt looks further.
        """
        reported = np.zeros(self._topology.width)
        for storage_class in dict.fromkeys(wish.storage_class for wish in wishes):
            reported += self.capacity.left_in_all(storage_class, self._topology.width)
        nodes &= nodeset.from_mask(reported >= sum(wish.size for wish in wishes))
        slots = list(nodeset.slots(nodes))
        first = bisect_left(slots, self._next_look)
        fitting, looks = EMPTY, Looks()
        for slot in [*slots[first:], *slots[:first]][:LOOKED_AT]:
            if fit_together(wishes, tuple(self.capacity.rooms_at(self._topology.name(slot))), looks):
                fitting |= 1 << slot
            self._next_look = slot + 1
        return fitting

    def free(self, claim: Needs, width: int) -> Sizes | None:
        """By slot, the free bytes that a volume for the claim would be taken from; None where nobody keeps count."""
        if not self.tracks_capacity(claim):
            return None
        self.charges.refresh()
        return self.capacity.free(claim.storage_class, width)


def _keep(names: set[str], name: str, *, wanted: bool) -> None:
    if wanted:
        names.add(name)
    else:
        names.discard(name)
