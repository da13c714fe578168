"""NodeUnschedulable: cordoned nodes take only pods that tolerate being there."""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api import keys
from mooring.api.tolerations import tolerated
from mooring.api.views.node import Node, Taint
from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, Rejection, RejectionCode
from mooring.volumes.nodeset import EMPTY, NodeSet

REASON: Final = "node(s) were unschedulable"

#: What `spec.unschedulable` is, put as a taint.
_CORDON: Final = Taint(key=keys.UNSCHEDULABLE, effect="NoSchedule")


def _uncordoned(pod: Pod, change: Change) -> bool:
    return isinstance(change.object, Node) and (
        not change.object.spec.unschedulable or tolerated(pod.spec.tolerations, _CORDON)
    )


class NodeUnschedulable:
    name: ClassVar[str] = "NodeUnschedulable"
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Node", frozenset({changes.ADD}), _uncordoned),
        Hint("Node", frozenset({changes.UPDATE}), _uncordoned, frozenset({changes.UNSCHEDULABLE})),
    )

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        cordoned = cycle.snapshot.unschedulable
        if cordoned and not tolerated(cycle.pod.spec.tolerations, _CORDON):
            yield Rejection(cordoned, REASON, RejectionCode.UNSCHEDULABLE, resolvable=False)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return EMPTY


_contract: HeedsPods = NodeUnschedulable()
