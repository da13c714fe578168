"""Scores of nodes for a pod's volumes, 0 to 100 by slot, from an estimate of what each claim would get there.

`preference` is Mooring's: existing volumes first, then little waste, then free capacity. `utilization` is
kube-scheduler's VolumeCapacityPriority. The estimate takes the smallest volume left for each claim in ascending
order of size; where claims compete, the plan for the chosen node may differ.
"""

import enum
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api import well_known
from mooring.api.views.storage import StorageClass
from mooring.volumes import topology
from mooring.volumes.columns import AffinityGroup, Columns, SizedVolume, Sizes, cell
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.topology import NodeSet

#: On nodes where no volume is left for a claim.
NO_VOLUME: Final = -1

_NO_SIZE: Final = np.iinfo(np.int64).max


class Fit(NamedTuple):
    """What one claim would get, in bytes by slot."""

    claim: ClaimRequirements
    requested: int
    #: The size of the volume it would take; NO_VOLUME where one would have to be provisioned.
    sizes: Sizes
    #: Free capacity where a volume would be provisioned; None where no capacity is tracked.
    free: Sizes | None = None


class _PerNode:
    """Volumes that few nodes reach: a column per node, descending, from which each takes the smallest that is left."""

    def __init__(self, columns: Columns, width: int) -> None:
        self._cells = columns.cells(width)
        self._slots = np.arange(width)
        #: The row above which nothing is taken yet.
        self._below = np.full(width, len(self._cells), dtype=np.intp)
        self._row = self._below

    def smallest(self, size: int, asked_before: int) -> Sizes:
        """By slot, the smallest volume of at least `size` that the node has not taken yet."""
        sufficient = np.count_nonzero(self._cells >= cell(size, up=True), axis=0)
        self._row = np.minimum(sufficient, self._below) - 1
        found: Sizes = np.where(self._row >= 0, self._cells[self._row, self._slots], _NO_SIZE)
        return found

    def take(self, where: npt.NDArray[np.bool_]) -> None:
        """These nodes take what `smallest` last offered."""
        self._below = np.where(where, self._row, self._below)


class _Shared:
    """Volumes that many nodes reach: one list, ascending, and each node's place in it."""

    def __init__(self, group: AffinityGroup, width: int) -> None:
        self._volumes = group.volumes
        self._reach = topology.mask_of(group.nodes, width)
        self._taken = np.full(width, -1, dtype=np.int64)
        self._place = self._taken

    def smallest(self, size: int, asked_before: int) -> Sizes:
        first = bisect_left(self._volumes, SizedVolume(size, ""))
        # No node is further on than the number of claims before this one.
        near = [cell(volume.size) for volume in self._volumes[first : first + asked_before + 1]]
        self._place = np.maximum(self._taken + 1, first)
        offset = np.minimum(self._place - first, len(near))
        found: Sizes = np.where(self._reach, np.array([*near, _NO_SIZE], dtype=np.int64)[offset], _NO_SIZE)
        return found

    def take(self, where: npt.NDArray[np.bool_]) -> None:
        self._taken = np.where(where, self._place, self._taken)


class AvailableBySize:
    """What is on offer while the claims of one pod are looked at one after the other, the smallest first."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._offers: dict[Columns, list[_PerNode | _Shared]] = {}
        self._asked = 0

    def reserved(self, size: int, nodes: NodeSet) -> Sizes:
        """What a claim gets for which a volume is reserved."""
        return np.where(topology.mask_of(nodes, self._width), cell(size), NO_VOLUME)

    def best(self, size: int, serving: Sequence[Columns]) -> Sizes:
        """By slot, the smallest volume for a claim of this size, which is taken then; NO_VOLUME where there is none."""
        offers = [offer for columns in serving for offer in self._of(columns)]
        best: Sizes = np.full(self._width, _NO_SIZE, dtype=np.int64)
        found = [offer.smallest(size, self._asked) for offer in offers]
        for sizes in found:
            best = np.minimum(best, sizes)
        left = best != _NO_SIZE
        for offer, sizes in zip(offers, found, strict=True):
            chosen = left & (sizes == best)
            offer.take(chosen)
            left &= ~chosen
        self._asked += 1
        best[best == _NO_SIZE] = NO_VOLUME
        return best

    def _of(self, columns: Columns) -> list[_PerNode | _Shared]:
        if columns not in self._offers:
            shared = [_Shared(group, self._width) for group in columns.wide_groups]
            self._offers[columns] = [_PerNode(columns, self._width), *shared]
        return self._offers[columns]


Scores = npt.NDArray[np.float64]

MAX_SCORE: Final = 100

#: kube-scheduler's scores in a ramp go to 10.
_MAX_SHAPE_SCORE: Final = 10


class CapacityPolicy(enum.Enum):
    """Which nodes are best for a pod's volumes."""

    #: `preference`, with new volumes where most stays free.
    SPREAD = "Spread"
    #: `preference`, with new volumes where least stays free, so that capacity for large volumes is kept elsewhere.
    PACK = "Pack"
    #: `utilization`.
    KUBE_SCHEDULER = "kube-scheduler"


_POLICIES: Final = {policy.value: policy for policy in CapacityPolicy}


def class_policy(storage_class: StorageClass | None) -> CapacityPolicy | None:
    """The policy that a class has chosen for its claims; None for the scheduler's."""
    return None if storage_class is None else _POLICIES.get(_chosen(storage_class))


def policy_problem(storage_class: StorageClass) -> str:
    """What is wrong with the choice of a class, which does not count then; "" in the normal case."""
    chosen = _chosen(storage_class)
    if not chosen or chosen in _POLICIES:
        return ""
    return f"annotation {well_known.CAPACITY_POLICY}: {chosen!r} is not one of {', '.join(_POLICIES)}"


def _chosen(storage_class: StorageClass) -> str:
    return storage_class.metadata.annotations.get(well_known.CAPACITY_POLICY, "")


def preference(fits: Sequence[Fit], width: int, policy: CapacityPolicy = CapacityPolicy.SPREAD) -> Scores:
    """Each existing volume counts twice as much as all closeness together, so that no closeness outweighs one.

    Closeness is, for a volume, the share of it that was asked for; for one to be made, the share of the free storage
    that stays free, or that is taken, as the policy says; on average over the claims.
    """
    existing = np.zeros(width)
    closeness = np.zeros(width)
    for fit in fits:
        there = fit.sizes != NO_VOLUME
        existing += there
        closeness += np.where(there, _share(fit.requested, fit.sizes), 0.0)
        if fit.free is not None:
            taken = _share(fit.requested, fit.free)
            liked = taken if policy is CapacityPolicy.PACK else 1.0 - taken
            closeness += np.where(there | (fit.free <= 0), 0.0, liked)
    claims = len(fits)
    scores: Scores = MAX_SCORE / (2 * claims + 1) * (2 * existing + closeness / claims)
    return scores


class UtilizationShapePoint(NamedTuple):
    """At this much use, in percent, this score, 0 to 10."""

    utilization: int
    score: int


class UtilizationShape:
    """From use in percent to a score, straight between the points and level outside them."""

    def __init__(self, points: Sequence[UtilizationShapePoint]) -> None:
        """ValueError says which rule the points break."""
        if not points:
            raise ValueError("shape: at least one point must be specified")
        for before, after in pairwise(points):
            if after.utilization <= before.utilization:
                raise ValueError("shape: utilization values must be sorted in increasing order")
        for point in points:
            if not 0 <= point.utilization <= MAX_SCORE:
                raise ValueError(f"shape: utilization {point.utilization} is not between 0 and {MAX_SCORE}")
            if not 0 <= point.score <= _MAX_SHAPE_SCORE:
                raise ValueError(f"shape: score {point.score} is not between 0 and {_MAX_SHAPE_SCORE}")
        factor = MAX_SCORE // _MAX_SHAPE_SCORE
        self._points = [(point.utilization, point.score * factor) for point in points]

    def __call__(self, percent: Sizes) -> Sizes:
        first, last = self._points[0], self._points[-1]
        scores: Sizes = np.where(percent <= first[0], first[1], last[1])
        for (x0, y0), (x1, y1) in pairwise(self._points):
            # Towards zero, as Go divides.
            slope = np.trunc((y1 - y0) * (percent - x0) / (x1 - x0)).astype(np.int64)
            scores = np.where((percent > x0) & (percent <= x1), y0 + slope, scores)
        return scores


#: kube-scheduler's default: the emptier the better.
EMPTIEST_FIRST: Final = UtilizationShape((UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)))


def utilization(fits: Sequence[Fit], ramp: UtilizationShape, width: int) -> Scores:
    """kube-scheduler's score: the ramp at each class's use, averaged over the classes of a node.

    Where a node has an existing volume for some claim, only such claims count; elsewhere those whose free storage is
    known. Classes weigh the same whatever their size.
    """
    some_existing = np.zeros(width, dtype=np.bool_)
    for fit in fits:
        some_existing |= fit.sizes != NO_VOLUME
    total, classes = np.zeros(width), np.zeros(width)
    for storage_class in dict.fromkeys(fit.claim.storage_class for fit in fits):
        # Floats: two volumes of exabytes are beyond 64 bits, and percents of smaller ones come out exact.
        requested, capacity = np.zeros(width), np.zeros(width)
        counted = np.zeros(width, dtype=np.bool_)
        for fit in (one for one in fits if one.claim.storage_class == storage_class):
            there = fit.sizes != NO_VOLUME
            requested[there] += fit.requested
            capacity[there] += fit.sizes[there]
            counted |= there
            if fit.free is not None:
                made = ~some_existing
                requested[made] += fit.requested
                capacity[made] = fit.free[made]
                counted |= made
        full = (capacity == 0) | (requested > capacity)
        percent = np.where(full, MAX_SCORE, requested * MAX_SCORE // np.maximum(capacity, 1)).astype(np.int64)
        total += np.where(counted, ramp(percent), 0)
        classes += counted
    scores: Scores = np.floor(total / np.maximum(classes, 1) + 0.5)
    return scores


def _share(requested: int, sizes: Sizes) -> Scores:
    share: Scores = np.clip(requested / np.maximum(sizes, 1), 0.0, 1.0)
    return share
