"""NodeResourcesFit: what a pod requests must be free on the node; the emptier node is preferred (LeastAllocated)."""

from collections.abc import Iterable
from typing import ClassVar, Final

import numpy as np

from mooring.api import quantity
from mooring.api.pod_requests import CPU, MEMORY, PODS, Requests, requests_of, whole
from mooring.api.quantity import QuantityError
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.scheduler import changes, scores
from mooring.scheduler.columns import Vector
from mooring.scheduler.contract import Change, Cycle, Filter, Hint, PreFilter, Rejection, Score, Scores
from mooring.volumes.nodeset import NodeSet, from_mask

TOO_MANY_PODS: Final = "Too many pods"


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


def _large_enough(pod: Pod, change: Change) -> bool:
    """Whether the pod would fit the node if it were empty; how full it is, the next attempt finds out."""
    if not isinstance(change.object, Node):
        return False
    offered = change.object.status.allocatable
    try:
        wanted = requests_of(pod).amounts
        return all(whole(name, quantity.to_milli(offered.get(name, 0))) >= amount for name, amount in wanted.items())
    except QuantityError:
        # A pod refused as not understandable, or a node that offers nothing readable.
        return False


class NodeResourcesFit:
    name: ClassVar[str] = "NodeResourcesFit"
    weight: ClassVar[int] = 1
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Pod", frozenset({changes.DELETE})),
        Hint("Node", frozenset({changes.ADD}), _large_enough),
        Hint("Node", frozenset({changes.UPDATE}), _large_enough, frozenset({changes.ALLOCATABLE})),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        try:
            cycle.remember(requests_of(cycle.pod))
        except QuantityError as error:
            return f"pod's resource requests cannot be understood: {error}"
        return None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        nodes, columns = cycle.snapshot.nodes, cycle.snapshot.resources
        full = from_mask(columns.requested(PODS) + 1 > columns.allocatable(PODS)) & nodes
        if full:
            yield Rejection(full, TOO_MANY_PODS)
        for resource, amount in cycle.recall(Requests).amounts.items():
            offered = columns.allocatable(resource)
            lacking = from_mask(columns.requested(resource) + amount > offered) & nodes
            if lacking:
                # Where the pod would not even fit an empty node, evicting others cannot help.
                hopeless = from_mask(offered < amount) & lacking
                yield Rejection(lacking & ~hopeless, insufficient(resource))
                yield Rejection(hopeless, insufficient(resource), resolvable=False)

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        """The mean of the free shares of CPU and memory, counting only what a node offers at all."""
        columns, requests = cycle.snapshot.resources, cycle.recall(Requests)
        cpu, memory = columns.allocatable(CPU), columns.allocatable(MEMORY)
        total = _free_share(cpu, columns.scored_cpu + requests.scored_cpu)
        total += _free_share(memory, columns.scored_memory + requests.scored_memory)
        offered = (cpu > 0).astype(np.float64) + (memory > 0)
        return np.floor(total / np.maximum(offered, 1))


def _free_share(allocatable: Vector, requested: Vector) -> Vector:
    share = np.floor((allocatable - requested) * scores.HIGHEST / np.maximum(allocatable, 1))
    return np.maximum(share, 0)


_contract: tuple[PreFilter, Filter, Score] = (NodeResourcesFit(), NodeResourcesFit(), NodeResourcesFit())
