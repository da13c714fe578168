"""Whether a pod's volumes, those it has and those it would be given, are more than a node takes.

Inside the same decision as the choice of volumes: what would be bound or made on a node counts there, although the
full plan is made for the chosen node only. Mostly a class has volumes of one driver, and a count per driver settles
all nodes at once. Where the driver depends on the volume chosen, nodes close to their limit are planned one by one.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import numpy as np

from mooring.volumes import nodeset
from mooring.volumes.attach_limits import AttachLimits, Counts
from mooring.volumes.in_tree import Identity
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.topology import TopologyIndex


class Wanted(NamedTuple):
    """What a pod needs on a node: volumes known beforehand, and for each further claim the drivers it may come from.

    A further claim that may also come from no driver at all, such as a local volume, lists "" among them.
    """

    known: Collection[Identity] = ()
    further: tuple[frozenset[str], ...] = ()

    @property
    def drivers(self) -> list[str]:
        """The drivers that are needed whatever volumes are chosen, by name."""
        certain = {driver for drivers in self.further if len(drivers) == 1 for driver in drivers if driver}
        return sorted(certain | {volume.driver for volume in self.known})


def over_limit(
    wanted: Wanted,
    limits: AttachLimits,
    topology: TopologyIndex,
    planned: Callable[[str], Iterable[Identity]],
) -> NodeSet:
    """The nodes that would have too many volumes. `planned` names all a pod would have on a node that is in doubt."""
    drivers = {volume.driver for volume in wanted.known}.union(*wanted.further)
    over, doubtful = EMPTY, EMPTY
    for driver in drivers:
        if not limits.limits(driver):
            continue
        new = _new(wanted.known, driver, limits, topology)
        left = limits.left(driver)
        least = sum(drivers_of_claim == {driver} for drivers_of_claim in wanted.further)
        most = sum(driver in drivers_of_claim for drivers_of_claim in wanted.further)
        # A pod without new volumes of a driver may go where there are too many already.
        over |= nodeset.from_mask((left < new + least) & (new + least > 0))
        if most > least:
            doubtful |= nodeset.from_mask(left < new + most)
    over &= topology.all
    for slot in nodeset.slots(doubtful & topology.all & ~over):
        if _exceeds(slot, planned(topology.name(slot)), limits, topology):
            over |= 1 << slot
    return over


def _new(known: Iterable[Identity], driver: str, limits: AttachLimits, topology: TopologyIndex) -> Counts:
    """By slot, how many of the known volumes of a driver the node does not have yet."""
    mine = [volume for volume in known if volume.driver == driver]
    new = np.full(topology.width, len(mine), dtype=np.int64)
    for volume in mine:
        for name in limits.nodes_with(volume):
            if name in topology:
                new[topology.slot(name)] -= 1
    return new


def _exceeds(slot: int, volumes: Iterable[Identity], limits: AttachLimits, topology: TopologyIndex) -> bool:
    name = topology.name(slot)
    coming: dict[str, int] = {}
    for volume in dict.fromkeys(volumes):
        if name not in limits.nodes_with(volume):
            coming[volume.driver] = coming.get(volume.driver, 0) + 1
    return any(limits.limits(driver) and limits.left(driver)[slot] < count for driver, count in coming.items())
