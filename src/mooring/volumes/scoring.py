"""Scores of nodes for a pod's volumes, 0 to 100 by slot, from an estimate of what each claim would get there.

`preference` is Mooring's: existing volumes first, then little waste, then free capacity. `utilization` is
kube-scheduler's VolumeCapacityPriority. The estimate takes the smallest volume left for each claim in ascending
order of size; where claims compete, the plan for the chosen node may differ.
"""

import enum
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api import well_known
from mooring.api.node_selectors import NodeSelector, term_from_view
from mooring.api.views.pods import PreferredNodeTerm
from mooring.api.views.storage import StorageClass, Volume
from mooring.volumes import topology
from mooring.volumes.columns import AffinityGroup, Columns, SizedVolume, Sizes, cell
from mooring.volumes.matching import ClaimRequirements
from mooring.volumes.topology import NodeSet, TopologyIndex

#: On nodes where no volume is left for a claim.
NO_VOLUME: Final = -1

_NO_SIZE: Final = np.iinfo(np.int64).max

#: Where a column is read and written.
_Slots = slice | npt.NDArray[np.intp]


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
        self.slots: _Slots = slice(width)
        #: The row above which nothing is taken yet; None while all are there.
        self._below: npt.NDArray[np.intp] | None = None
        self._asked = 0

    def smallest(self, size: int, asked_before: int) -> Sizes:
        """By slot, the smallest volume of at least `size` that the node has not taken yet."""
        self._asked = cell(size, up=True)
        if self._below is None:
            smallest: Sizes = np.where(self._cells >= self._asked, self._cells, _NO_SIZE).min(axis=0)
            return smallest
        row = self._row()
        found: Sizes = np.where(row >= 0, self._cells[row, np.arange(len(row))], _NO_SIZE)
        return found

    def take(self, where: npt.NDArray[np.bool_]) -> None:
        """These nodes take what `smallest` last offered."""
        row = self._row()
        below = len(self._cells) if self._below is None else self._below
        self._below = np.where(where, row, below)

    def _row(self) -> npt.NDArray[np.intp]:
        """By slot, the row of what `smallest` last offered; below zero where there is none."""
        rows: npt.NDArray[np.intp] = np.count_nonzero(self._cells >= self._asked, axis=0)
        if self._below is not None:
            rows = np.minimum(rows, self._below)
        rows -= 1
        return rows


class _Shared:
    """Volumes that many nodes reach: one list, ascending, and each node's place in it."""

    def __init__(self, group: AffinityGroup) -> None:
        self._volumes = group.volumes
        self.slots: _Slots = group.slots
        #: Of each node, the place of what it took last; None while all are there.
        self._taken: Sizes | None = None
        self._first = 0

    def smallest(self, size: int, asked_before: int) -> Sizes | int:
        self._first = first = bisect_left(self._volumes, SizedVolume(size, ""))
        if self._taken is None:
            return cell(self._volumes[first].size) if first < len(self._volumes) else _NO_SIZE
        # No node is further on than the number of claims before this one.
        near = [cell(volume.size) for volume in self._volumes[first : first + asked_before + 1]]
        offset = np.minimum(np.maximum(self._taken + 1, first) - first, len(near))
        found: Sizes = np.array([*near, _NO_SIZE], dtype=np.int64)[offset]
        return found

    def take(self, where: npt.NDArray[np.bool_]) -> None:
        taken = np.full(len(where), -1, dtype=np.int64) if self._taken is None else self._taken
        self._taken = np.where(where, np.maximum(taken + 1, self._first), taken)


class AvailableBySize:
    """What is on offer while the claims of one pod are looked at one after the other, the smallest first."""

    def __init__(self, width: int, uses: Counter[Columns]) -> None:
        """`uses` counts how often `best` will be called with each of the columns."""
        self._width = width
        self._left = uses
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
        for offer, sizes in zip(offers, found, strict=True):
            best[offer.slots] = np.minimum(best[offer.slots], sizes)
        self._left.subtract(serving)
        if any(self._left[columns] for columns in serving):
            left = best != _NO_SIZE
            for offer, sizes in zip(offers, found, strict=True):
                chosen = left[offer.slots] & (sizes == best[offer.slots])
                offer.take(chosen)
                left[offer.slots] &= ~chosen
        self._asked += 1
        best[best == _NO_SIZE] = NO_VOLUME
        return best

    def _of(self, columns: Columns) -> list[_PerNode | _Shared]:
        if columns not in self._offers:
            rows = [_PerNode(columns, self._width)] if columns.has_rows else []
            self._offers[columns] = [*rows, *(_Shared(group) for group in columns.wide_groups)]
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


#: Longer annotations are not read: an object may have 256 KiB of them.
MAX_PREFERRED_AFFINITY_CHARACTERS: Final = 4096
PREFERRED_AFFINITY_CACHE_SIZE: Final = 256


class PreferredNodes(NamedTuple):
    """Nodes from which a volume is used best: a soft constraint."""

    weight: int
    selector: NodeSelector


def preferred_nodes(volume: Volume) -> tuple[PreferredNodes, ...]:
    """The preferred node affinity of a volume; empty where it has none or an invalid one."""
    parsed = _preferred(volume.metadata.annotations.get(well_known.PREFERRED_NODE_AFFINITY, ""))
    return () if isinstance(parsed, str) else parsed


def preferred_nodes_problem(volume: Volume) -> str:
    """What is wrong with the preferred node affinity of a volume, which does not count then; "" in the normal case."""
    parsed = _preferred(volume.metadata.annotations.get(well_known.PREFERRED_NODE_AFFINITY, ""))
    return f"annotation {well_known.PREFERRED_NODE_AFFINITY}: {parsed}" if isinstance(parsed, str) else ""


@lru_cache(maxsize=PREFERRED_AFFINITY_CACHE_SIZE)
def _preferred(text: str) -> tuple[PreferredNodes, ...] | str:
    if not text:
        return ()
    if len(text) > MAX_PREFERRED_AFFINITY_CHARACTERS:
        return f"longer than {MAX_PREFERRED_AFFINITY_CHARACTERS} characters"
    try:
        terms = msgspec.json.decode(text, type=tuple[PreferredNodeTerm, ...])
    except msgspec.DecodeError as error:
        return str(error)
    found = tuple(PreferredNodes(one.weight, NodeSelector((term_from_view(one.preference),))) for one in terms)
    if any(not 1 <= one.weight <= MAX_SCORE for one in found):
        return f"every weight must be in the range 1-{MAX_SCORE}"
    problems = [problem for one in found for term in one.selector.terms for problem in term.problems]
    return problems[0] if problems else found


def preferred_affinity(volumes: Iterable[Volume], topology_index: TopologyIndex) -> Scores:
    """By slot, the weights of the preferred terms of these volumes that the node matches."""
    counted: Scores = np.zeros(topology_index.width)
    for volume in volumes:
        for preferred in preferred_nodes(volume):
            counted += preferred.weight * topology.mask_of(topology_index.matching(preferred.selector), len(counted))
    return counted


def preference(fits: Sequence[Fit], width: int, policy: CapacityPolicy = CapacityPolicy.SPREAD) -> Scores:
    """Each existing volume counts twice as much as all closeness together, so that no closeness outweighs one.

    Closeness is, for a volume, the share of it that was asked for; for one to be made, the share of the free storage
    that stays free, or that is taken, as the policy says; on average over the claims.
    """
    existing = np.zeros(width)
    closeness = np.zeros(width)
    for fit in fits:
        there = fit.sizes != NO_VOLUME
        somewhere = bool(there.any())
        if somewhere:
            existing += there
            closeness += _share(fit.requested, fit.sizes) * there
        if fit.free is not None:
            liked = _share(fit.requested, fit.free)
            if policy is not CapacityPolicy.PACK:
                np.subtract(1.0, liked, out=liked)
            liked *= fit.free > 0
            if somewhere:
                liked *= ~there
            closeness += liked
    claims = len(fits)
    existing *= 2
    closeness /= claims
    existing += closeness
    existing *= MAX_SCORE / (2 * claims + 1)
    return existing


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
    share: Scores = max(requested, 0) / np.maximum(sizes, 1)
    return np.minimum(share, 1.0, out=share)
