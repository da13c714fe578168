"""NodeResourcesFit: what a pod requests must be free on the node; how full a node should be is a strategy's to say."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from mooring.api import quantity
from mooring.api.pod_requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Requests, requests_of, whole
from mooring.api.quantity import QuantityError
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import AddsUp, Change, Cycle, Hint, PreFilter, Rejection, RejectionCode, Score, Scores
from mooring.scheduler.resource_strategies import CPU_AND_MEMORY, Strategy, Use, Weighed, least_allocated
from mooring.scheduler.room import Need, Room
from mooring.volumes.nodeset import NodeSet, from_mask

TOO_MANY_PODS: Final = "Too many pods"

#: Resources that every node has; others count in a score only for pods that ask for them.
_USUAL: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


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
        Hint("Pod", frozenset({changes.UPDATE}), parts=frozenset({changes.SCALED_DOWN})),
        Hint("Node", frozenset({changes.ADD}), _large_enough),
        Hint("Node", frozenset({changes.UPDATE}), _large_enough, frozenset({changes.ALLOCATABLE})),
    )

    def __init__(
        self,
        *,
        strategy: Strategy = least_allocated,
        resources: Sequence[Weighed] = CPU_AND_MEMORY,
        ignored: Iterable[str] = (),
        ignored_groups: Iterable[str] = (),
    ) -> None:
        """`resources` are scored by the strategy; extended resources that are `ignored`, by name or by the part of it
        before the slash, are somebody else's to check."""
        self._strategy = strategy
        self._resources = tuple(resources)
        self._ignored = frozenset(ignored)
        self._ignored_groups = frozenset(ignored_groups)

    def prefilter(self, cycle: Cycle) -> str | None:
        return cycle.requests if isinstance(cycle.requests, str) else None

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        nodes, columns = cycle.snapshot.nodes, cycle.snapshot.resources
        full = from_mask(columns.requested(PODS) + 1 > columns.allocatable(PODS)) & nodes
        if full:
            yield Rejection(full, TOO_MANY_PODS, RejectionCode.POD_COUNT)
        for resource, amount in _requests(cycle).amounts.items():
            if self._ignores(resource):
                continue
            offered = columns.allocatable(resource)
            lacking = from_mask(columns.requested(resource) + amount > offered) & nodes
            if lacking:
                # Where the pod would not even fit an empty node, evicting others cannot help.
                hopeless = from_mask(offered < amount) & lacking
                short = Rejection(lacking & ~hopeless, insufficient(resource), RejectionCode.RESOURCE, resource)
                yield short
                yield short._replace(nodes=hopeless, resolvable=False)

    def room(self, cycle: Cycle) -> Room:
        columns = cycle.snapshot.resources

        def need(resource: str, amount: int, reason: str) -> Need:
            return Need(resource, reason, columns.requested(resource) + amount - columns.allocatable(resource))

        amounts = _requests(cycle).amounts
        wanted = [(resource, amount) for resource, amount in amounts.items() if not self._ignores(resource)]
        return Room(
            [
                need(PODS, 1, TOO_MANY_PODS),
                *(need(resource, amount, insufficient(resource)) for resource, amount in wanted),
            ]
        )

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        requests = _requests(cycle)
        counted = [one for one in self._resources if one.resource in _USUAL or one.resource in requests.amounts]
        return self._strategy([_use(cycle, requests, one) for one in counted]) if counted else None

    def _ignores(self, resource: str) -> bool:
        group, slash, _ = resource.partition("/")
        return bool(slash) and (resource in self._ignored or group in self._ignored_groups)


def _use(cycle: Cycle, requests: Requests, weighed: Weighed) -> Use:
    """Containers that ask for no CPU or memory weigh something when nodes are compared."""
    columns, resource = cycle.snapshot.resources, weighed.resource
    offered = columns.allocatable(resource)
    if resource == CPU:
        return Use(columns.scored_cpu + requests.scored_cpu, offered, weighed.weight)
    if resource == MEMORY:
        return Use(columns.scored_memory + requests.scored_memory, offered, weighed.weight)
    return Use(columns.requested(resource) + requests.amounts.get(resource, 0), offered, weighed.weight)


def _requests(cycle: Cycle) -> Requests:
    """What `prefilter` let pass."""
    requests = cycle.requests
    assert not isinstance(requests, str), requests
    return requests


_contract: tuple[PreFilter, AddsUp, Score] = (NodeResourcesFit(), NodeResourcesFit(), NodeResourcesFit())
