"""NodeResourcesBalancedAllocation: nodes whose resources the pod would bring closer to equal use are preferred.

A node that runs out of one while another lies idle wastes what is idle. Compared is how unequal the shares in use are
with the pod and without it; a pod that requests nothing changes nothing and has no opinion. It only prefers.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from mooring.api.pod_requests import CPU, EPHEMERAL_STORAGE, MEMORY
from mooring.scheduler import scores
from mooring.scheduler.columns import Vector
from mooring.scheduler.contract import Cycle, Hint, Score, Scores
from mooring.volumes.nodeset import NodeSet

_HALF: Final = scores.HIGHEST / 2
#: What the pod does not ask for is out of the comparison, but for what every node has.
_USUAL: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


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
        balance = _balance_of_two if len(names) == 2 else _balance
        return _HALF + np.floor((_HALF + balance(offered, with_pod) - balance(offered, used)) / 2)


def _balance(offered: Sequence[Vector], used: Sequence[Vector]) -> Vector:
    """100 less the standard deviation of the shares in use; a resource that a node does not offer has no share."""
    there = np.array(offered) > 0
    shares = np.where(there, np.minimum(np.array(used) / np.maximum(offered, 1), 1.0), 0.0)
    counted = there.sum(axis=0)
    mean = shares.sum(axis=0) / np.maximum(counted, 1)
    squares = np.where(there, (shares - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.where(counted > 1, np.sqrt(squares / np.maximum(counted, 1)), 0.0)
    balance: Vector = np.floor((1 - deviation) * scores.HIGHEST)
    return balance


def _balance_of_two(offered: Sequence[Vector], used: Sequence[Vector]) -> Vector:
    """The same for two, in kube-scheduler's arithmetic for two (the last bit decides a point), and in place: this is
    half of what a decision without volumes costs."""
    first, second = (np.minimum(u / np.maximum(o, 1), 1.0) for o, u in zip(offered, used, strict=True))
    first -= second
    np.abs(first, out=first)
    first /= 2
    one_only = (offered[0] <= 0) | (offered[1] <= 0)
    first[one_only] = 0
    np.subtract(1, first, out=first)
    first *= scores.HIGHEST
    return np.floor(first, out=first)


_contract: Score = NodeResourcesBalancedAllocation()
