"""Scores of all nodes, brought to the common scale of 0 to 100 the way kube-scheduler does it.

Two of the ways a plugin can normalise what it counted, used by several plugins. Fractions are dropped as upstream
drops them: which nodes tie depends on it.
"""

from typing import Final

import numpy as np

from mooring.scheduler.columns import Vector
from mooring.scheduler.contract import Scores
from mooring.volumes.nodeset import NodeSet, to_mask

HIGHEST: Final = 100.0


def most_is_best(counted: Vector, feasible: NodeSet) -> Scores:
    """The node with the most gets 100, the others their share of it; nothing anywhere is 0 everywhere."""
    most = _largest(counted, feasible)
    return np.floor(counted * HIGHEST / most) if most > 0 else np.zeros_like(counted)


def least_is_best(counted: Vector, feasible: NodeSet) -> Scores:
    """The node with the most gets 0; nodes with nothing get 100."""
    return HIGHEST - most_is_best(counted, feasible)


def between_least_and_most(counted: Vector, feasible: NodeSet) -> Scores:
    """The node with the least gets 0, the one with the most 100; all alike get 0."""
    among = counted[to_mask(feasible, len(counted))]
    least, most = float(among.min()), float(among.max())
    if most == least:
        return np.zeros_like(counted)
    return np.floor(HIGHEST * ((counted - least) / (most - least)))


def _largest(counted: Vector, feasible: NodeSet) -> float:
    return float(counted[to_mask(feasible, len(counted))].max(initial=0.0))
