"""Plugins about resources: NodeResourcesFit, NodeResourcesBalancedAllocation, ImageLocality."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from mooring.api import quantity
from mooring.api.pod_requirements import CPU, MEMORY, PODS, Requests, requests_of, to_whole_units
from mooring.api.quantity import QuantityError
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import ADD, ALLOCATABLE, DELETE, SCALED_DOWN, UPDATE, QueueingHint
from mooring.scheduler.framework import scoring
from mooring.scheduler.framework.interface import (
    CycleState,
    NodeRejection,
    PreFilter,
    RejectionCode,
    ResourceFilter,
    Score,
    Scores,
)
from mooring.scheduler.framework.scoring import (
    ALWAYS_SCORED,
    CPU_AND_MEMORY,
    ResourceWeight,
    Strategy,
    Use,
    least_allocated,
)
from mooring.scheduler.snapshot.node_indexes import images_of
from mooring.scheduler.snapshot.resources import Need, ResourceColumns, ResourceShortfall, Slots, Vector
from mooring.volumes.topology import NodeSet, mask_of, node_set_from_mask

_MIB: Final = 1024 * 1024
#: kube-scheduler's minThreshold and maxContainerThreshold.
MIN_IMAGE_BYTES: Final = 23 * _MIB
MAX_BYTES_PER_IMAGE: Final = 1000 * _MIB


class ImageLocality(Score):
    """Prefers nodes that have the pod's images, weighted by size and by the share of nodes that have them."""

    name = "ImageLocality"
    weight = 1
    events_to_register = ()

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        snapshot, images = state.snapshot, list(images_of(state.pod))
        total = snapshot.nodes.bit_count()
        present = np.zeros(snapshot.resources.width)
        for image in images:
            sizes = snapshot.images.having(image)
            spread = sum(nodes.bit_count() for nodes in sizes.values()) / total
            for size, nodes in sizes.items():
                present += int(size * spread) * mask_of(nodes, len(present))
        if not present.any():
            return None
        maximum = MAX_BYTES_PER_IMAGE * len(images)
        counted = np.clip(present, MIN_IMAGE_BYTES, maximum) - MIN_IMAGE_BYTES
        return np.floor(scoring.MAX_NODE_SCORE * counted / (maximum - MIN_IMAGE_BYTES))


_HALF: Final = scoring.MAX_NODE_SCORE / 2


class NodeResourcesBalancedAllocation(Score):
    """Prefers nodes whose resources the pod would use more evenly."""

    name = "NodeResourcesBalancedAllocation"
    weight = 1
    events_to_register = ()

    def __init__(self, resources: Sequence[str] = (CPU, MEMORY)) -> None:
        self._resources = tuple(resources)

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        """75 if the balance does not change, up to 100 if it improves, down to 50 if it gets worse."""
        columns, requests = state.snapshot.resources, state.requests
        if isinstance(requests, str) or not any(name in requests.amounts for name in self._resources):
            return None
        names = [name for name in self._resources if name in ALWAYS_SCORED or name in requests.amounts]
        amounts = [requests.amounts.get(name, 0) for name in names]
        balance = _balance_of_two if len(names) == 2 else _balance

        def compute(slots: Slots) -> Vector:
            offered = [columns.allocatable(name)[slots] for name in names]
            used = [columns.requested(name)[slots] for name in names]
            with_pod = [column + amount for amount, column in zip(amounts, used, strict=True)]
            scores: Vector = _HALF + np.floor((_HALF + balance(offered, with_pod) - balance(offered, used)) / 2)
            return scores

        return columns.derived((self, *zip(names, amounts, strict=True)), compute)


def _balance(offered: Sequence[Vector], used: Sequence[Vector]) -> Vector:
    """100 minus the standard deviation of the used shares, of the resources that the node has."""
    there = np.array(offered) > 0
    shares = np.where(there, np.minimum(np.array(used) / np.maximum(offered, 1), 1.0), 0.0)
    counted = there.sum(axis=0)
    mean = shares.sum(axis=0) / np.maximum(counted, 1)
    squares = np.where(there, (shares - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.where(counted > 1, np.sqrt(squares / np.maximum(counted, 1)), 0.0)
    balance: Vector = np.floor((1 - deviation) * scoring.MAX_NODE_SCORE)
    return balance


def _balance_of_two(offered: Sequence[Vector], used: Sequence[Vector]) -> Vector:
    """The same for two resources, in kube-scheduler's arithmetic for two (the last bit decides a point), and in place:
    this is half the cost of a decision without volumes."""
    first, second = (np.minimum(u / np.maximum(o, 1), 1.0) for o, u in zip(offered, used, strict=True))
    first -= second
    np.abs(first, out=first)
    first /= 2
    one_only = (offered[0] <= 0) | (offered[1] <= 0)
    first[one_only] = 0
    np.subtract(1, first, out=first)
    first *= scoring.MAX_NODE_SCORE
    return np.floor(first, out=first)


TOO_MANY_PODS: Final = "Too many pods"


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


def _hint_node_large_enough(pod: Pod, node: Node) -> bool:
    """Whether the pod would fit the empty node."""
    offered = node.status.allocatable
    try:
        requests = requests_of(pod).amounts
        return all(
            to_whole_units(name, quantity.to_milli(offered.get(name, 0))) >= amount for name, amount in requests.items()
        )
    except QuantityError:
        # Of the pod, rejected by prefilter, or of the node.
        return False


class NodeResourcesFit(PreFilter, ResourceFilter, Score):
    """Requests must fit the free resources of the node; a scoring strategy prefers free or used nodes."""

    name = "NodeResourcesFit"
    weight = 1
    events_to_register = (
        QueueingHint("Pod", (UPDATE, DELETE), updated_fields=(SCALED_DOWN,)),
        QueueingHint("Node", (ADD, UPDATE), _hint_node_large_enough, (ALLOCATABLE,)),
    )

    def __init__(
        self,
        *,
        strategy: Strategy = least_allocated,
        resources: Sequence[ResourceWeight] = CPU_AND_MEMORY,
        ignored: Iterable[str] = (),
        ignored_groups: Iterable[str] = (),
    ) -> None:
        """`resources` are scored by the strategy. Extended resources that are ignored, by name or by group (the part
        before the slash), are not filtered."""
        self._strategy = strategy
        self._resources = tuple(resources)
        self._ignored = frozenset(ignored)
        self._ignored_groups = frozenset(ignored_groups)

    def prefilter(self, state: CycleState) -> str | None:
        return state.requests if isinstance(state.requests, str) else None

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        nodes, columns = state.snapshot.nodes, state.snapshot.resources
        full = node_set_from_mask(columns.requested(PODS) + 1 > columns.allocatable(PODS)) & nodes
        if full:
            yield NodeRejection(full, TOO_MANY_PODS, RejectionCode.POD_COUNT)
        for resource, amount in _requests(state).amounts.items():
            if self._ignores(resource):
                continue
            offered = columns.allocatable(resource)
            lacking = node_set_from_mask(columns.requested(resource) + amount > offered) & nodes
            if lacking:
                # Where the pod would not even fit an empty node, evicting others cannot help.
                hopeless = node_set_from_mask(offered < amount) & lacking
                short = NodeRejection(lacking & ~hopeless, insufficient(resource), RejectionCode.RESOURCE, resource)
                yield short
                yield short._replace(nodes=hopeless, resolvable=False)

    def resource_shortfalls(self, state: CycleState) -> ResourceShortfall:
        columns = state.snapshot.resources

        def need(resource: str, amount: int, reason: str) -> Need:
            return Need(resource, reason, columns.requested(resource) + amount - columns.allocatable(resource))

        amounts = _requests(state).amounts
        wanted = [(resource, amount) for resource, amount in amounts.items() if not self._ignores(resource)]
        needs = [need(resource, amount, insufficient(resource)) for resource, amount in wanted]
        return ResourceShortfall([need(PODS, 1, TOO_MANY_PODS), *needs])

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        requests = _requests(state)
        counted = [one for one in self._resources if one.resource in ALWAYS_SCORED or one.resource in requests.amounts]
        if not counted:
            return None
        columns, amounts = state.snapshot.resources, [_scored(requests, one.resource) for one in counted]

        def compute(slots: Slots) -> Vector:
            return self._strategy(
                [_use(columns, amount, one, slots) for amount, one in zip(amounts, counted, strict=True)]
            )

        return columns.derived((self, *zip(counted, amounts, strict=True)), compute)

    def _ignores(self, resource: str) -> bool:
        group, slash, _ = resource.partition("/")
        return bool(slash) and (resource in self._ignored or group in self._ignored_groups)


def _scored(requests: Requests, resource: str) -> int:
    """Containers that ask for no CPU or memory weigh something when nodes are compared."""
    if resource == CPU:
        return requests.scored_cpu
    return requests.scored_memory if resource == MEMORY else requests.amounts.get(resource, 0)


def _use(columns: ResourceColumns, amount: int, weighed: ResourceWeight, slots: Slots) -> Use:
    resource = weighed.resource
    if resource == CPU:
        used = columns.scored_cpu
    else:
        used = columns.scored_memory if resource == MEMORY else columns.requested(resource)
    return Use(used[slots] + amount, columns.allocatable(resource)[slots], weighed.weight)


def _requests(state: CycleState) -> Requests:
    """What `prefilter` let pass."""
    requests = state.requests
    assert not isinstance(requests, str), requests
    return requests
