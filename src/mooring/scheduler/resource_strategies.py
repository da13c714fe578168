"""How welcome a degree of use is: kube-scheduler's three scoring strategies for resources, for all nodes at once.

Numbers in, scores out; which resources count and how much of them is used is the plugins' business. A resource that a
node does not offer has no part in that node's score. Fractions are dropped where kube-scheduler drops them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from mooring.api.pod_requests import CPU, MEMORY
from mooring.scheduler import scores
from mooring.scheduler.columns import Vector
from mooring.scheduler.contract import Scores
from mooring.volumes.scoring import Ramp


class Weighed(NamedTuple):
    """A resource and how much it counts among the others."""

    resource: str
    weight: int = 1


#: kube-scheduler's default.
CPU_AND_MEMORY: Final = (Weighed(CPU), Weighed(MEMORY))


class Use(NamedTuple):
    """One resource on all nodes, the pod included."""

    requested: Vector
    allocatable: Vector
    weight: int


class Strategy(Protocol):
    def __call__(self, uses: Sequence[Use]) -> Scores:
        """0 to 100 by slot."""
        ...


def least_allocated(uses: Sequence[Use]) -> Scores:
    """The emptier the better: spreads."""
    free = [_percent(use.allocatable - use.requested, use.allocatable) for use in uses]
    return _mean(uses, [np.maximum(percent, 0, out=percent) for percent in free])


def most_allocated(uses: Sequence[Use]) -> Scores:
    """The fuller the better: packs."""
    return _mean(uses, [_percent(np.minimum(use.requested, use.allocatable), use.allocatable) for use in uses])


class RequestedToCapacityRatio:
    """As a ramp over the use in percent says; a resource to which the ramp gives nothing does not count."""

    def __init__(self, ramp: Ramp) -> None:
        self._ramp = ramp

    def __call__(self, uses: Sequence[Use]) -> Scores:
        total, weights = np.zeros(len(uses[0].requested)), np.zeros(len(uses[0].requested))
        for use in uses:
            full = use.requested > use.allocatable
            percent = np.where(full, scores.HIGHEST, _percent(use.requested, use.allocatable)).astype(np.int64)
            score = np.where(use.allocatable > 0, self._ramp(percent), 0)
            total += score * use.weight
            weights += (score > 0) * use.weight
        return np.floor(total / np.maximum(weights, 1) + 0.5)


def _mean(uses: Sequence[Use], single: Sequence[Vector]) -> Scores:
    total, weights = np.zeros(len(single[0])), np.zeros(len(single[0]))
    for use, score in zip(uses, single, strict=True):
        offered = (use.allocatable > 0) * float(use.weight)
        score *= offered
        total += score
        weights += offered
    total /= np.maximum(weights, 1)
    return np.floor(total, out=total)


def _percent(part: Vector, whole: Vector) -> Vector:
    """Where there is nothing, nobody looks."""
    percent = part * scores.HIGHEST
    percent /= np.maximum(whole, 1)
    return np.floor(percent, out=percent)
