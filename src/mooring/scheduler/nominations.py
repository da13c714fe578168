"""Nodes that pods are expected on: who was promised room that others still have to leave, or waits for its volumes.

A pod that preempted others waits until they are gone, and must find its room when they are. So whoever is not more
important counts it as being there already. Nominations are written to `status.nominatedNodeName`, which is how people,
another scheduler, or the next leader, know of them. Pure.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from mooring.api.patches.contract import StrategicPatch
from mooring.api.views.pod import Pod
from mooring.scheduler.columns import ResourceColumns
from mooring.scheduler.pod_index import PodIndex
from mooring.scheduler.ports import host_ports
from mooring.scheduler.snapshot import Snapshot, counted_as


def nomination(pod: Pod, node: str) -> StrategicPatch:
    """For the pod's status. The uid is a precondition: a pod made anew under this name was promised nothing."""
    return StrategicPatch({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}})


class Nominations:
    """Pods without a node, by key, and the node each was promised."""

    def __init__(self) -> None:
        self._promised: dict[str, tuple[Pod, str]] = {}
        self._ended: list[Pod] = []
        #: By priority, in the snapshot that was last decided in, and what that was like.
        self._queues: dict[int, _Queue] = {}
        self._snapshot: Snapshot | None = None
        self._state = (0, 0)

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
        if self._is_current():
            self._expect(pod, node, 1)

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
        if before is not None and self._is_current():
            self._expect(*before, -1)
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
        if not self._promised:
            yield False
            return
        ahead = [one for priority, one in self._queues_in(snapshot).items() if priority >= pod.spec.priority]
        # The pod itself does not count, nor does one that the snapshot knows to be on a node by now.
        placed = [self._promised[key] for key in self._promised.keys() & snapshot.placed]
        absent = [(other, node) for other, node in placed if snapshot.node_of(other)]
        if pod.key in self._promised and pod.key not in snapshot.placed:
            absent.append(self._promised[pod.key])
        for other, node in absent:
            self._expect(other, node, -1)
        try:
            with ExitStack() as counting:
                some = [one for one in ahead if one.pods]
                for one in some:
                    counting.enter_context(one.counted(snapshot, pod))
                with snapshot.pods.counting(one.index for one in some):
                    yield bool(some)
        finally:
            for other, node in absent:
                self._expect(other, node, 1)

    def _is_current(self) -> bool:
        """Whether the queues are those of the nodes that are there now; others are made anew when they are needed."""
        return self._snapshot is not None and self._state == _state_of(self._snapshot)

    def _queues_in(self, snapshot: Snapshot) -> dict[int, "_Queue"]:
        """The pods that were promised a node that is there, by priority. Made anew when nodes or namespaces change."""
        if self._snapshot is not snapshot or not self._is_current():
            self._state, self._snapshot, self._queues = _state_of(snapshot), snapshot, {}
            for pod, node in self._promised.values():
                self._expect(pod, node, 1)
        return self._queues

    def _expect(self, pod: Pod, node: str, sign: int) -> None:
        """Count a pod on a node (`sign` 1), or no longer (-1), where queues are kept."""
        snapshot = self._snapshot
        if snapshot is None or node not in snapshot.topology:
            return
        queue = self._queues.get(pod.spec.priority)
        if queue is None:
            queue = self._queues[pod.spec.priority] = _Queue(snapshot.pods.index_beside())
        queue.move(pod, node, snapshot.topology.slot(node), sign)


def _state_of(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.topology.version, snapshot.pods.namespaces_version


class _Queue:
    """Nominated pods of one priority, counted once as if they were on their nodes: a decision only adds the sums."""

    def __init__(self, index: PodIndex) -> None:
        self.index = index
        self.pods: dict[str, tuple[Pod, str]] = {}
        self._amounts = ResourceColumns()
        #: Those with host ports or volumes, which are placed one by one for a pod that has such too.
        self._with_ports: dict[str, tuple[Pod, str]] = {}
        self._with_volumes: dict[str, tuple[Pod, str]] = {}

    def move(self, pod: Pod, node: str, slot: int, sign: int) -> None:
        placed, _ = counted_as(pod, node, assumed=True)
        self._amounts.charge(slot, placed.requests, sign)
        if sign > 0:
            self.index.add(pod, placed.terms, slot)
        else:
            self.index.remove(pod, placed.terms, slot)
        _keep(self.pods, pod, node, sign)
        if any(host_ports(pod)):
            _keep(self._with_ports, pod, node, sign)
        if pod.spec.volumes:
            _keep(self._with_volumes, pod, node, sign)

    @contextmanager
    def counted(self, snapshot: Snapshot, pod: Pod) -> Iterator[None]:
        """All that is not counted in the index, in the snapshot, as far as it can matter to a pod."""
        holding = list(self._with_ports.values()) if self._with_ports and any(host_ports(pod)) else []
        using = list(self._with_volumes.values()) if pod.spec.volumes else []
        self._place(snapshot, holding, using, 1)
        try:
            yield
        finally:
            self._place(snapshot, holding, using, -1)

    def _place(
        self, snapshot: Snapshot, holding: Iterable[tuple[Pod, str]], using: Iterable[tuple[Pod, str]], sign: int
    ) -> None:
        snapshot.resources.shift(self._amounts, sign)
        for pod, node in holding:
            snapshot.ports.place(pod, snapshot.topology.slot(node), sign)
        for pod, node in using:
            snapshot.volumes.usage.place(pod, node, sign)


def _keep(pods: dict[str, tuple[Pod, str]], pod: Pod, node: str, sign: int) -> None:
    if sign > 0:
        pods[pod.key] = (pod, node)
    else:
        del pods[pod.key]
