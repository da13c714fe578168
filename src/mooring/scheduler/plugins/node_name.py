"""NodeName: a pod that names its node goes there or nowhere.

Such pods bypass the scheduler's queue; the plugin answers those who ask about them, such as `explain`.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, Rejection, RejectionCode
from mooring.volumes.nodeset import EMPTY, NodeSet

REASON: Final = "node(s) didn't match the requested node name"


def _that_node(pod: Pod, change: Change) -> bool:
    return change.name == pod.spec.node_name


class NodeName:
    name: ClassVar[str] = "NodeName"
    wakes_on: ClassVar[tuple[Hint, ...]] = (Hint("Node", frozenset({changes.ADD}), _that_node),)

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        wanted = cycle.pod.spec.node_name
        if wanted:
            others = cycle.snapshot.nodes & ~cycle.snapshot.topology.named(wanted)
            yield Rejection(others, REASON, RejectionCode.NODE_NAME, resolvable=False)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return EMPTY


_contract: HeedsPods = NodeName()
