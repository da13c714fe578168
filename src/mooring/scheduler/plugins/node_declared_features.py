"""NodeDeclaredFeatures: a pod that needs what not every node can do goes to nodes that say they can.

While a cluster is upgraded, its nodes are of several versions. Nodes declare such features in their status; what a pod
needs is read off its spec (`api.node_features`).
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api.node_features import needed_by
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, Rejection, RejectionCode
from mooring.volumes.nodeset import EMPTY, NodeSet

REASON: Final = "node(s) didn't match Pod's required features"


def _can(pod: Pod, change: Change) -> bool:
    node = change.object
    return isinstance(node, Node) and all(feature in node.status.declared_features for feature in needed_by(pod))


class NodeDeclaredFeatures:
    name: ClassVar[str] = "NodeDeclaredFeatures"
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Node", frozenset({changes.ADD}), _can),
        Hint("Node", frozenset({changes.UPDATE}), _can, frozenset({changes.FEATURES})),
    )

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        lacking = EMPTY
        for feature in needed_by(cycle.pod):
            lacking |= cycle.snapshot.nodes & ~cycle.snapshot.features.having(feature)
        if lacking:
            yield Rejection(lacking, REASON, RejectionCode.DECLARED_FEATURES, resolvable=False)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return EMPTY


_contract: HeedsPods = NodeDeclaredFeatures()
