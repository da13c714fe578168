"""Plugins that check one property of a node: name, ports, unschedulable, declared features, taints, labels."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from mooring.api import node_selectors, well_known
from mooring.api.node_selectors import NodeSelector
from mooring.api.pod_requirements import FORBIDDING, NO_SCHEDULE, host_ports, needed_by, tolerated
from mooring.api.selectors import SelectorError
from mooring.api.views.core import Node, Taint
from mooring.api.views.pods import Pod
from mooring.scheduler.cluster_events import ADD, DELETE, FEATURES, LABELS, TAINTS, UNSCHEDULABLE, UPDATE, QueueingHint
from mooring.scheduler.framework import scoring
from mooring.scheduler.framework.interface import (
    CycleState,
    NodeRejection,
    PodDependentFilter,
    PodIndependentFilter,
    PreFilter,
    RejectionCode,
    Score,
    Scores,
)
from mooring.scheduler.snapshot.pod_terms import RequiredNodes, required_of
from mooring.volumes.topology import NodeSet, mask_of, union


def _hint_features_declared(pod: Pod, node: Node) -> bool:
    return all(feature in node.status.declared_features for feature in needed_by(pod))


class NodeDeclaredFeatures(PodIndependentFilter):
    """Nodes must declare the features that the pod needs, as in a cluster of several versions."""

    name = "NodeDeclaredFeatures"
    REASON = "node(s) didn't match Pod's required features"
    events_to_register = (QueueingHint("Node", (ADD, UPDATE), _hint_features_declared, (FEATURES,)),)

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        nodes, features = state.snapshot.nodes, state.snapshot.features
        lacking = union(nodes & ~features.having(feature) for feature in needed_by(state.pod))
        if lacking:
            yield NodeRejection(lacking, self.REASON, RejectionCode.DECLARED_FEATURES, resolvable=False)


class NodeName(PodIndependentFilter):
    """A pod with `spec.nodeName` fits that node only. Such pods bypass the queue; `mooring explain` evaluates them."""

    name = "NodeName"
    REASON = "node(s) didn't match the requested node name"
    events_to_register = (QueueingHint("Node", (ADD,), lambda pod, node: node.name == pod.spec.node_name),)

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        name = state.pod.spec.node_name
        if name:
            others = state.snapshot.nodes & ~state.snapshot.topology.named(name)
            yield NodeRejection(others, self.REASON, RejectionCode.NODE_NAME, resolvable=False)


def _hint_ports_freed(pod: Pod, deleted: Pod) -> bool:
    return any(one.conflicts(other) for one in host_ports(pod) for other in host_ports(deleted))


class NodePorts(PodDependentFilter):
    """Host ports must be free on the node."""

    name = "NodePorts"
    REASON = "node(s) didn't have free ports for the requested pod ports"
    events_to_register = (QueueingHint("Pod", (DELETE,), _hint_ports_freed), QueueingHint("Node", (ADD,)))

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        taken = state.snapshot.ports.conflicting(state.pod)
        if taken:
            yield NodeRejection(taken, self.REASON, RejectionCode.HOST_PORTS)

    def pod_dependent_nodes(self, state: CycleState) -> NodeSet:
        return state.snapshot.ports.conflicting(state.pod)


#: `spec.unschedulable` as a taint.
_CORDON: Final = Taint(key=well_known.UNSCHEDULABLE, effect=NO_SCHEDULE)


def _hint_uncordoned(pod: Pod, node: Node) -> bool:
    return not node.spec.unschedulable or tolerated(pod.spec.tolerations, _CORDON)


class NodeUnschedulable(PodIndependentFilter):
    """Cordoned nodes accept only pods that tolerate the unschedulable taint."""

    name = "NodeUnschedulable"
    REASON = "node(s) were unschedulable"
    events_to_register = (QueueingHint("Node", (ADD, UPDATE), _hint_uncordoned, (UNSCHEDULABLE,)),)

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        cordoned = state.snapshot.unschedulable
        if cordoned and not tolerated(state.pod.spec.tolerations, _CORDON):
            yield NodeRejection(cordoned, self.REASON, RejectionCode.UNSCHEDULABLE, resolvable=False)


_DISCOURAGING: Final = "PreferNoSchedule"


def _hint_taints_tolerated(pod: Pod, node: Node) -> bool:
    return all(taint.effect not in FORBIDDING or tolerated(pod.spec.tolerations, taint) for taint in node.spec.taints)


class TaintToleration(PodIndependentFilter, Score):
    """Taints NoSchedule and NoExecute filter, PreferNoSchedule scores."""

    name = "TaintToleration"
    #: Since 1.35 without the taint: keys and values may be confidential.
    REASON = "node(s) had untolerated taint(s)"
    weight = 3
    events_to_register = (QueueingHint("Node", (ADD, UPDATE), _hint_taints_tolerated, (TAINTS,)),)

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        nodes = state.snapshot.untolerated_nodes(state.pod)
        if nodes:
            yield NodeRejection(nodes, self.REASON, RejectionCode.TAINT, resolvable=False)

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        """Fewer untolerated PreferNoSchedule taints score higher."""
        untolerated = [
            tainted
            for taint, tainted in state.snapshot.taints.items()
            if taint.effect == _DISCOURAGING and tainted & feasible and not tolerated(state.pod.spec.tolerations, taint)
        ]
        if not untolerated:
            return None
        counted = np.zeros(state.snapshot.resources.width)
        for tainted in untolerated:
            counted += mask_of(tainted, len(counted))
        return scoring.normalize_reversed(counted, feasible)


def _hint_node_matches(pod: Pod, node: Node) -> bool:
    try:
        return required_of(pod).matches(node)
    except SelectorError:
        # Rejected by prefilter whatever the nodes.
        return False


class NodeAffinity(PreFilter, PodIndependentFilter, Score):
    """nodeSelector and node affinity: required terms filter, preferred terms score."""

    name = "NodeAffinity"
    REASON = "node(s) didn't match Pod's node affinity/selector"
    CONFLICT = "pod affinity terms conflict"
    weight = 2
    events_to_register = (QueueingHint("Node", (ADD, UPDATE), _hint_node_matches, (LABELS,)),)

    def prefilter(self, state: CycleState) -> str | None:
        """Terms that cannot be parsed match no node."""
        try:
            required = required_of(state.pod)
        except SelectorError as error:
            return f"pod's nodeSelector cannot be parsed: {error}"
        state.write(required)
        names = required.names
        if names is None:
            return None
        state.restrict_nodes(self.name, RejectionCode.NODE_AFFINITY, sum(map(state.snapshot.topology.named, names)))
        return None if names else self.CONFLICT

    def filter(self, state: CycleState) -> Iterable[NodeRejection]:
        topology = state.snapshot.topology
        matching = state.read(RequiredNodes).matching(topology)
        if matching != topology.all:
            yield NodeRejection(topology.all & ~matching, self.REASON, RejectionCode.NODE_AFFINITY, resolvable=False)

    def score(self, state: CycleState, feasible: NodeSet) -> Scores | None:
        """The sum of the weights of the preferred terms a node matches."""
        affinity = state.pod.spec.affinity
        node_affinity = None if affinity is None else affinity.node_affinity
        if node_affinity is None or not node_affinity.preferred_during_scheduling_ignored_during_execution:
            return None
        counted = np.zeros(state.snapshot.resources.width)
        for preferred in node_affinity.preferred_during_scheduling_ignored_during_execution:
            selector = NodeSelector((node_selectors.term_from_view(preferred.preference),))
            matching = state.snapshot.topology.matching(selector)
            counted += preferred.weight * mask_of(matching, len(counted))
        return scoring.normalize(counted, feasible)
