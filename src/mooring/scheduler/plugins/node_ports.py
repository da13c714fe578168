"""NodePorts: a port of the node that a pod asks for must not be held by another pod there. Evicting that one helps."""

from collections.abc import Iterable
from typing import ClassVar, Final

from mooring.api.views.pod import Pod
from mooring.scheduler import changes
from mooring.scheduler.contract import Change, Cycle, HeedsPods, Hint, Rejection, RejectionCode
from mooring.scheduler.ports import host_ports
from mooring.volumes.nodeset import NodeSet

REASON: Final = "node(s) didn't have free ports for the requested pod ports"


def _held_one_of_them(pod: Pod, change: Change) -> bool:
    gone = change.object
    return isinstance(gone, Pod) and any(one.conflicts(other) for one in host_ports(pod) for other in host_ports(gone))


class NodePorts:
    name: ClassVar[str] = "NodePorts"
    wakes_on: ClassVar[tuple[Hint, ...]] = (
        Hint("Pod", frozenset({changes.DELETE}), _held_one_of_them),
        Hint("Node", frozenset({changes.ADD})),
    )

    def filter(self, cycle: Cycle) -> Iterable[Rejection]:
        taken = cycle.snapshot.ports.conflicting(cycle.pod)
        if taken:
            yield Rejection(taken, REASON, RejectionCode.HOST_PORTS)

    def heeds_pods_on(self, cycle: Cycle) -> NodeSet:
        return cycle.snapshot.ports.conflicting(cycle.pod)


_contract: HeedsPods = NodePorts()
