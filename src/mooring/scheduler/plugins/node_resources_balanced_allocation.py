"""NodeResourcesBalancedAllocation: nodes whose resources the pod would bring closer to equal use are preferred.

A node that runs out of one while another lies idle wastes what is idle. Compared is how unequal the shares in use are
with the pod and without it; a pod that requests nothing changes nothing and has no opinion. It only prefers.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from mooring.api.pod_requests import CPU, EPHEMERAL_STORAGE, MEMORY
from mooring.scheduler import scores
from mooring.scheduler.columns import Vector
from mooring.scheduler.contract import Cycle, Hint, Score, Scores
from mooring.volumes.nodeset import NodeSet

_HALF: Final = scores.HIGHEST / 2
#: What the pod does not ask for is out of the comparison, but for what every node has.
_USUAL: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})

_Mask = npt.NDArray[np.bool_]


class NodeResourcesBalancedAllocation:
    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    weight: ClassVar[int] = 1
    #: It rejects nobody.
    wakes_on: ClassVar[tuple[Hint, ...]] = ()

    def __init__(self, resources: Sequence[str] = (CPU, MEMORY)) -> None:
        self._resources = tuple(resources)

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        """75 where the balance stays as it is, up to 100 where it gets better and down to 50 where worse."""
        columns, requests = cycle.snapshot.resources, cycle.requests
        if isinstance(requests, str) or not any(name in requests.amounts for name in self._resources):
            return None
        names = [name for name in self._resources if name in _USUAL or name in requests.amounts]
        offered = [columns.allocatable(name) for name in names]
        used = [columns.requested(name) for name in names]
        with_pod = [column + requests.amounts.get(name, 0) for name, column in zip(names, used, strict=True)]
        return _HALF + np.floor((_HALF + _balance(offered, with_pod) - _balance(offered, used)) / 2)


def _balance(offered: Sequence[Vector], used: Sequence[Vector]) -> Vector:
    """100 less the standard deviation of the shares in use; a resource that a node does not offer has no share."""
    there = np.array(offered) > 0
    shares = np.where(there, np.minimum(np.array(used) / np.maximum(offered, 1), 1.0), 0.0)
    balance: Vector = np.floor((1 - _deviation(shares, there)) * scores.HIGHEST)
    return balance


def _deviation(shares: Vector, there: _Mask) -> Vector:
    if len(shares) == 2:
        # The same as below, in the arithmetic kube-scheduler uses for two: the last bit decides a point.
        return np.where(there.all(axis=0), np.abs((shares[0] - shares[1]) / 2), 0.0)
    counted = there.sum(axis=0)
    mean = shares.sum(axis=0) / np.maximum(counted, 1)
    squares = np.where(there, (shares - mean) ** 2, 0.0).sum(axis=0)
    return np.where(counted > 1, np.sqrt(squares / np.maximum(counted, 1)), 0.0)


_contract: Score = NodeResourcesBalancedAllocation()
