"""Which nodes a pod may go to by its own word: `nodeSelector` and the required part of its node affinity, compiled.

The plugin NodeAffinity filters by it, and PodTopologySpread leaves the other nodes out of its counts.
"""

from typing import NamedTuple

from mooring.api import node_selector
from mooring.api.label_selector import Operator, Requirement
from mooring.api.node_selector import NODE_NAME_FIELD, NodeSelector, NodeSelectorTerm
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.volumes.nodeset import NodeSet
from mooring.volumes.topology import TopologyIndex


class RequiredNodes(NamedTuple):
    """Selectors that must all match."""

    selectors: tuple[NodeSelector, ...]

    def matching(self, topology: TopologyIndex) -> NodeSet:
        nodes = topology.all
        for selector in self.selectors:
            nodes &= topology.matching(selector)
        return nodes

    def matches(self, node: Node) -> bool:
        fields = {NODE_NAME_FIELD: node.name}
        return all(selector.matches(node.metadata.labels, fields=fields) for selector in self.selectors)


def required_of(pod: Pod) -> RequiredNodes:
    """Raises SelectorError for a nodeSelector that cannot be understood."""
    selectors: list[NodeSelector] = []
    if pod.spec.node_selector:
        labels = (Requirement.checked(key, Operator.IN, (v,)) for key, v in pod.spec.node_selector.items())
        selectors.append(NodeSelector((NodeSelectorTerm(tuple(sorted(labels))),)))
    affinity = pod.spec.affinity
    node_affinity = None if affinity is None else affinity.node_affinity
    if node_affinity is not None:
        required = node_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            selectors.append(node_selector.from_view(required.node_selector_terms))
    return RequiredNodes(tuple(selectors))
