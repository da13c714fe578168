"""Nodes that pods are expected on: who was promised room that others still have to leave, or waits for its volumes.

A pod that preempted others waits until they are gone, and must find its room when they are. So whoever is not more
important counts it as being there already. Nominations are written to `status.nominatedNodeName`, which is how people,
another scheduler, or the next leader, know of them. Pure.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mooring.api.patches.contract import StrategicPatch
from mooring.api.views.pod import Pod
from mooring.scheduler.snapshot import Snapshot


def nomination(pod: Pod, node: str) -> StrategicPatch:
    """For the pod's status. The uid is a precondition: a pod made anew under this name was promised nothing."""
    return StrategicPatch({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}})


class Nominations:
    """Pods without a node, by key, and the node each was promised."""

    def __init__(self) -> None:
        self._promised: dict[str, tuple[Pod, str]] = {}
        self._ended: list[Pod] = []

    def __len__(self) -> int:
        return len(self._promised)

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went: what its status says of a nomination is what holds."""
        if after is None or after.spec.node_name or after.finished or after.deleting:
            gone = after or before
            if gone is not None:
                self._end(gone, came_to=gone.spec.node_name if gone is after and not gone.finished else "")
        elif after.status.nominated_node_name:
            self.put(after, after.status.nominated_node_name)
        elif before is None or before.status.nominated_node_name:
            self._end(after)

    def put(self, pod: Pod, node: str) -> None:
        """Promised just now; the API will say so in a moment."""
        self._end(pod, came_to=node)
        self._promised[pod.key] = (pod, node)

    def taken(self, pod: Pod, node: str) -> bool:
        """The pod is being bound to a node. Whether that is the one it was promised; another is free now."""
        kept = self.node_of(pod) == node
        self._end(pod, came_to=node)
        return kept

    def remove(self, pod: Pod) -> None:
        self._end(pod)

    def ended(self) -> list[Pod]:
        """Those who were promised a node and do not come there, since this was last asked: others may have the room."""
        ended, self._ended = self._ended, []
        return ended

    def _end(self, pod: Pod, *, came_to: str = "") -> None:
        before = self._promised.pop(pod.key, None)
        if before is not None and before[1] != came_to:
            self._ended.append(before[0])

    def node_of(self, pod: Pod) -> str:
        """The node a pod was promised; "" where none was."""
        promised = self._promised.get(pod.key)
        return promised[1] if promised is not None and promised[0].uid == pod.uid else ""

    def less_important(self, pod: Pod, node: str) -> list[Pod]:
        """Pods that were promised the node and have to step back for this one."""
        return [
            other
            for other, where in self._promised.values()
            if where == node and other.key != pod.key and other.spec.priority < pod.spec.priority
        ]

    @contextmanager
    def counted(self, snapshot: Snapshot, pod: Pod) -> Iterator[bool]:
        """The snapshot with all nominated pods in place that are at least as important as this one; says whether there
        are any."""
        placed = [
            (other, node)
            for other, node in self._promised.values()
            if other.key != pod.key and other.spec.priority >= pod.spec.priority and not snapshot.node_of(other)
        ]
        for other, node in placed:
            snapshot.assume(other, node)
        try:
            yield bool(placed)
        finally:
            for other, _ in placed:
                snapshot.forget(other)
