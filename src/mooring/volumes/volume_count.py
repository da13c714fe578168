"""Whether a pod's volumes, those it has and those it would be given, are more than a node takes.

Inside the same decision as the choice of volumes: what would be bound or made on a node counts there, although the
full plan is made for the chosen node only. Mostly a class has volumes of one driver, and a count per driver settles
all nodes at once. Where the driver depends on the volume chosen, all choices are looked at, each for all nodes that are
close to their limit.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
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


class Choice(NamedTuple):
    """One way to serve the further claims: where that can be done, and the drivers of the volumes it takes."""

    nodes: NodeSet
    drivers: tuple[str, ...]


def over_limit(
    wanted: Wanted,
    limits: AttachLimits,
    topology: TopologyIndex,
    choices: Callable[[NodeSet], Iterable[Choice]],
) -> NodeSet:
    """The nodes that would have too many volumes, whichever are chosen. `choices` says which there are on nodes in
    doubt; one on which the further claims cannot be served at all is not refused here for what they would take."""
    drivers = {volume.driver for volume in wanted.known}.union(*wanted.further)
    over, doubtful = EMPTY, EMPTY
    room: dict[str, Counts] = {}
    for driver in drivers:
        if not limits.limits(driver):
            continue
        new = _new(wanted.known, driver, limits, topology)
        room[driver] = limits.left(driver) - new
        least = sum(drivers_of_claim == {driver} for drivers_of_claim in wanted.further)
        most = sum(driver in drivers_of_claim for drivers_of_claim in wanted.further)
        # A pod without new volumes of a driver may go where there are too many already.
        over |= nodeset.from_mask((room[driver] < least) & (new + least > 0))
        if most > least:
            doubtful |= nodeset.from_mask(room[driver] < most)
    over &= topology.all
    return over | _in_excess(doubtful & topology.all & ~over, room, choices)


def _in_excess(nodes: NodeSet, room: Mapping[str, Counts], choices: Callable[[NodeSet], Iterable[Choice]]) -> NodeSet:
    """Those of `nodes` that can serve the pod in some way, but in none with few enough volumes."""
    if not nodes:
        return EMPTY
    served, fitting = EMPTY, EMPTY
    for choice in choices(nodes):
        served |= choice.nodes
        within = choice.nodes & ~fitting
        for driver, count in Counter(choice.drivers).items():
            if within and driver in room:
                within &= nodeset.from_mask(room[driver] >= count)
        fitting |= within
        if not nodes & ~fitting:
            break
    return nodes & served & ~fitting


def _new(known: Iterable[Identity], driver: str, limits: AttachLimits, topology: TopologyIndex) -> Counts:
    """By slot, how many of the known volumes of a driver the node does not have yet."""
    mine = [volume for volume in known if volume.driver == driver]
    new = np.full(topology.width, len(mine), dtype=np.int64)
    for volume in mine:
        for name in limits.nodes_with(volume):
            if name in topology:
                new[topology.slot(name)] -= 1
    return new


def exceeds(volumes: Iterable[Identity], node: str, limits: AttachLimits, topology: TopologyIndex) -> bool:
    """Whether these volumes are too many for a node, beside those it has."""
    slot = topology.slot(node)
    coming = Counter(one.driver for one in dict.fromkeys(volumes) if node not in limits.nodes_with(one))
    return any(limits.limits(driver) and limits.left(driver)[slot] < count for driver, count in coming.items())
