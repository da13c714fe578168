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
    #: The one that is node affinity, where there is one.
    affinity: NodeSelector | None = None

    def matching(self, topology: TopologyIndex) -> NodeSet:
        nodes = topology.all
        for selector in self.selectors:
            nodes &= topology.matching(selector)
        return nodes

    def matches(self, node: Node) -> bool:
        fields = {NODE_NAME_FIELD: node.name}
        return all(selector.matches(node.metadata.labels, fields=fields) for selector in self.selectors)

    @property
    def names(self) -> frozenset[str] | None:
        """The nodes that the affinity names, where every term of it names some; none of them where terms contradict
        themselves. None where any node may do."""
        found: frozenset[str] | None = None
        for term in () if self.affinity is None else self.affinity.terms:
            names = _named(term)
            if names is None:
                return None
            found = names if found is None else found | names
        return found


def _named(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The names that a term allows; None where it names none."""
    names: frozenset[str] | None = None
    for one in term.fields:
        if one.key == NODE_NAME_FIELD and one.operator is Operator.IN:
            names = frozenset(one.values) if names is None else names & frozenset(one.values)
    return names


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
            wanted = node_selector.from_view(required.node_selector_terms)
            return RequiredNodes((*selectors, wanted), wanted)
    return RequiredNodes(tuple(selectors))
