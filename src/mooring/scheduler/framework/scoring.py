"""Score normalization and kube-scheduler's resource scoring strategies, for all nodes at once. Pure.

Fractions are dropped where kube-scheduler drops them: ties depend on it.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from mooring.api.pod_requirements import CPU, EPHEMERAL_STORAGE, MEMORY
from mooring.scheduler.framework.interface import Scores
from mooring.scheduler.snapshot.resources import Vector
from mooring.volumes.scoring import UtilizationShape
from mooring.volumes.topology import NodeSet, mask_of

MAX_NODE_SCORE: Final = 100.0


def normalize(counted: Vector, feasible: NodeSet) -> Scores:
    """The maximum gets 100 and others their share; all 0 if the maximum is."""
    most = float(counted[mask_of(feasible, len(counted))].max(initial=0.0))
    return np.floor(counted * MAX_NODE_SCORE / most) if most > 0 else np.zeros_like(counted)


def normalize_reversed(counted: Vector, feasible: NodeSet) -> Scores:
    """The maximum gets 0, zero gets 100."""
    return MAX_NODE_SCORE - normalize(counted, feasible)


def normalize_min_max(counted: Vector, feasible: NodeSet) -> Scores:
    """The minimum gets 0, the maximum 100; all 0 if they are equal."""
    among = counted[mask_of(feasible, len(counted))]
    least, most = float(among.min()), float(among.max())
    if most == least:
        return np.zeros_like(counted)
    return np.floor(MAX_NODE_SCORE * ((counted - least) / (most - least)))


class ResourceWeight(NamedTuple):
    resource: str
    weight: int = 1


#: Scored for every pod; other resources only for pods that request them.
ALWAYS_SCORED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
#: kube-scheduler's default.
CPU_AND_MEMORY: Final = (ResourceWeight(CPU), ResourceWeight(MEMORY))


class Use(NamedTuple):
    """One resource on all nodes, with the pod's request included."""

    requested: Vector
    allocatable: Vector
    weight: int


#: Scores, 0 to 100 by slot, for the scored resources; those of a slot depend on no other slot.
Strategy = Callable[[Sequence[Use]], Scores]


def least_allocated(uses: Sequence[Use]) -> Scores:
    """Prefers nodes with more free resources."""
    free = [_percent(use.allocatable - use.requested, use.allocatable) for use in uses]
    return _mean(uses, [np.maximum(percent, 0, out=percent) for percent in free])


def most_allocated(uses: Sequence[Use]) -> Scores:
    """Prefers nodes with less free resources."""
    return _mean(uses, [_percent(np.minimum(use.requested, use.allocatable), use.allocatable) for use in uses])


class RequestedToCapacityRatio:
    """Scores by a ramp over the utilization; a resource with score 0 does not count."""

    def __init__(self, ramp: UtilizationShape) -> None:
        self._ramp = ramp

    def __call__(self, uses: Sequence[Use]) -> Scores:
        total, weights = np.zeros(len(uses[0].requested)), np.zeros(len(uses[0].requested))
        for use in uses:
            full = use.requested > use.allocatable
            percent = np.where(full, MAX_NODE_SCORE, _percent(use.requested, use.allocatable)).astype(np.int64)
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
    percent = part * MAX_NODE_SCORE
    percent /= np.maximum(whole, 1)
    return np.floor(percent, out=percent)
