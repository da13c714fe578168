"""NodeAffinity: `nodeSelector` and node affinity; required terms filter, preferred ones score."""

from collections.abc import Iterable
from typing import ClassVar, Final

import numpy as np

from mooring.api import node_selector
from mooring.api.label_selector import SelectorError
from mooring.api.node_selector import NodeSelector
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.scheduler import changes, scores
from mooring.scheduler.contract import (
    Change,
    Cycle,
    HeedsPods,
    Hint,
    PreFilter,
    Rejection,
    RejectionCode,
    Score,
    Scores,
)
from mooring.scheduler.required_nodes import RequiredNodes, required_of
from mooring.volumes.nodeset import EMPTY, NodeSet, to_mask

REASON: Final = "node(s) didn't match Pod's node affinity/selector"
CONFLICT: Final = "pod affinity terms conflict"


def _matches(pod: Pod, change: Change) -> bool:
    node = change.object
    if not isinstance(node, Node):
        return False
    try:
        wanted = required_of(pod)
    except SelectorError:
        # Refused as not understandable; no node changes that.
        return False
    return wanted.matches(node)


class NodeAffinity:
    name: ClassVar[str] = "NodeAffinity"
    weight: ClassVar[int] = 2
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Node", frozenset({changes.ADD}), _matches),
        Hint("Node", frozenset({changes.UPDATE}), _matches, frozenset({changes.LABELS})),
    )

    def prefilter(self, cycle: Cycle) -> str | None:
        """Terms that cannot be understood match no node. A nodeSelector that cannot be would not have been stored."""
        try:
            wanted = required_of(cycle.pod)
        except SelectorError as error:
            return f"pod's nodeSelector cannot be understood: {error}"
        cycle.remember(wanted)
        names = wanted.names
        if names is None:
            return None
        cycle.narrow(self.name, RejectionCode.NODE_AFFINITY, sum(map(cycle.snapshot.topology.named, names)))
        return None if names else CONFLICT

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        topology = cycle.snapshot.topology
        matching = cycle.recall(RequiredNodes).matching(topology)
        if matching != topology.all:
            yield Rejection(topology.all & ~matching, REASON, RejectionCode.NODE_AFFINITY, resolvable=False)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return EMPTY

    def score(self, cycle: Cycle, feasible: NodeSet) -> Scores | None:
        """The sum of the weights of the preferred terms a node matches."""
        affinity = cycle.pod.spec.affinity
        node_affinity = None if affinity is None else affinity.node_affinity
        if node_affinity is None or not node_affinity.preferred_during_scheduling_ignored_during_execution:
            return None
        counted = np.zeros(cycle.snapshot.resources.width)
        for preferred in node_affinity.preferred_during_scheduling_ignored_during_execution:
            selector = NodeSelector((node_selector.term_from_view(preferred.preference),))
            matching = cycle.snapshot.topology.matching(selector)
            counted += preferred.weight * to_mask(matching, len(counted))
        return scores.most_is_best(counted, feasible)


_contract: tuple[PreFilter, HeedsPods, Score] = (NodeAffinity(), NodeAffinity(), NodeAffinity())
