"""Which of the nodes that would do is best for a pod's volumes: two ways to say it, each 0 to 100 by slot.

`preference` is Mooring's: existing volumes before new ones, then volumes that waste little, then nodes that keep much
free. `utilization` is kube-scheduler's optional scorer, whose ramp says how welcome a degree of use is. They read
`fit`s and know neither nodes nor volumes.
"""

import enum
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.volumes.columns import Sizes
from mooring.volumes.fit import NO_VOLUME, Fit

Scores = npt.NDArray[np.float64]

HIGHEST: Final = 100

#: kube-scheduler's scores in a ramp go to 10.
_RAMP_HIGHEST: Final = 10


class CapacityPolicy(enum.Enum):
    """Where volumes are best made, as far as free storage goes."""

    #: Where most stays free.
    SPREAD = "Spread"
    #: Where least stays free, so that room for large volumes is kept elsewhere.
    PACK = "Pack"


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
    scores: Scores = HIGHEST / (2 * claims + 1) * (2 * existing + closeness / claims)
    return scores


class RampPoint(NamedTuple):
    """At this much use, in percent, this score, 0 to 10."""

    utilization: int
    score: int


class Ramp:
    """From use in percent to a score, straight between the points and level outside them."""

    def __init__(self, points: Sequence[RampPoint]) -> None:
        """ValueError says which rule the points break."""
        if not points:
            raise ValueError("shape: at least one point must be specified")
        for before, after in pairwise(points):
            if after.utilization <= before.utilization:
                raise ValueError("shape: utilization values must be sorted in increasing order")
        for point in points:
            if not 0 <= point.utilization <= HIGHEST:
                raise ValueError(f"shape: utilization {point.utilization} is not between 0 and {HIGHEST}")
            if not 0 <= point.score <= _RAMP_HIGHEST:
                raise ValueError(f"shape: score {point.score} is not between 0 and {_RAMP_HIGHEST}")
        factor = HIGHEST // _RAMP_HIGHEST
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
EMPTIEST_FIRST: Final = Ramp((RampPoint(0, 10), RampPoint(100, 0)))


def utilization(fits: Sequence[Fit], ramp: Ramp, width: int) -> Scores:
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
        percent = np.where(full, HIGHEST, requested * HIGHEST // np.maximum(capacity, 1)).astype(np.int64)
        total += np.where(counted, ramp(percent), 0)
        classes += counted
    scores: Scores = np.floor(total / np.maximum(classes, 1) + 0.5)
    return scores


def _share(requested: int, sizes: Sizes) -> Scores:
    share: Scores = np.clip(requested / np.maximum(sizes, 1), 0.0, 1.0)
    return share
