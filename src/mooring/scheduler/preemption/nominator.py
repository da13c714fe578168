"""Nominated pods and disruption budgets. Pure.

A pod for which others are preempted, or that waits for its volumes, is nominated to a node (`status.nominatedNodeName`:
users, other schedulers and the next leader read it). Pods of no higher priority see it there already. Budgets are read
as the API server has them (`status.disruptionsAllowed`); preemption prefers victims that violate none.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from mooring.api.patches.contract import StrategicPatch
from mooring.api.pod_requirements import host_ports
from mooring.api.selectors import LabelSelector, SelectorError, SelectorIndex, label_selector_from_view
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DisruptionBudget
from mooring.scheduler.snapshot.pod_index import PodIndex
from mooring.scheduler.snapshot.resources import ResourceColumns
from mooring.scheduler.snapshot.snapshot import Snapshot, pod_info

#: A pod and its node.
_Placed = tuple[Pod, str]


class _Budget(NamedTuple):
    namespace: str
    selector: LabelSelector
    disrupted: frozenset[str]
    allowed: int

    def protects(self, pod: Pod) -> bool:
        """A pod whose eviction was already granted is no longer protected."""
        return (
            pod.namespace == self.namespace
            and bool(pod.metadata.labels)
            and pod.name not in self.disrupted
            and self.selector.matches(pod.metadata.labels)
        )


class DisruptionBudgets:
    """PodDisruptionBudgets by key."""

    def __init__(self) -> None:
        self._budgets: dict[str, _Budget] = {}
        self._selectors: SelectorIndex[str] = SelectorIndex()

    def observe(self, before: DisruptionBudget | None, after: DisruptionBudget | None) -> str:
        """Returns why a budget is ignored, else ""."""
        for one in (before, after):
            if one is not None:
                self._budgets.pop(one.key, None)
                self._selectors.remove(one.key)
        if after is None or after.spec.selector is None:
            return ""
        try:
            selector = label_selector_from_view(after.spec.selector)
        except SelectorError as problem:
            return str(problem)
        if selector.requirements:
            # As in kube-scheduler, a selector that matches every pod protects none.
            disrupted = frozenset(after.status.disrupted_pods)
            self._budgets[after.key] = _Budget(after.namespace, selector, disrupted, after.status.disruptions_allowed)
            self._selectors.put(after.key, selector)
        return ""

    def overdrawn(self, pods: Sequence[Pod]) -> list[bool]:
        """For each pod, whether evicting it violates a budget after those before it were evicted."""
        if not self._budgets:
            return [False] * len(pods)
        taken: Counter[str] = Counter()
        return [self._overdraws(pod, taken) for pod in pods]

    def _overdraws(self, pod: Pod, taken: Counter[str]) -> bool:
        overdraws = False
        for key in self._selectors.candidates(pod.metadata.labels):
            budget = self._budgets[key]
            if budget.protects(pod):
                taken[key] += 1
                overdraws |= taken[key] > budget.allowed
        return overdraws


def nomination(pod: Pod, node: str) -> StrategicPatch:
    """A patch of the pod's status. The uid is a precondition: a recreated pod of this name is not nominated."""
    return StrategicPatch({"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}})


class Nominator:
    """Pending pods by key, each with its nominated node."""

    def __init__(self) -> None:
        self._nominated: dict[str, _Placed] = {}
        self._released: list[Pod] = []
        #: By priority, for the snapshot of the last decision in the version `_version`.
        self._levels: dict[int, _PriorityLevel] = {}
        self._snapshot: Snapshot | None = None
        self._version = (0, 0)

    def __len__(self) -> int:
        return len(self._nominated)

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """Follow `status.nominatedNodeName` of a pod."""
        if after is None or after.spec.node_name or after.finished or after.deleting:
            last = after or before
            if last is not None:
                self.remove(last, bound_to=last.spec.node_name if last is after and not last.finished else "")
        elif after.status.nominated_node_name:
            self.put(after, after.status.nominated_node_name)
        elif before is None or before.status.nominated_node_name:
            self.remove(after)

    def put(self, pod: Pod, node: str) -> None:
        """Nominate the pod before its status is observed."""
        self.remove(pod, bound_to=node)
        self._nominated[pod.key] = (pod, node)
        if self._is_current():
            self._count(pod, node, 1)

    def binding_started(self, pod: Pod, node: str) -> bool:
        """The pod is being bound to a node, which ends its nomination; returns whether it was to that node."""
        nominated = self.node_of(pod) == node
        self.remove(pod, bound_to=node)
        return nominated

    def take_released(self) -> list[Pod]:
        """The pods whose nomination ended without binding since the last call: their resources are free."""
        released, self._released = self._released, []
        return released

    def remove(self, pod: Pod, *, bound_to: str = "") -> None:
        """End the nomination. Its resources are free unless the pod is on that node, `bound_to`."""
        before = self._nominated.pop(pod.key, None)
        if before is not None and self._is_current():
            self._count(*before, -1)
        if before is not None and before[1] != bound_to:
            self._released.append(before[0])

    def node_of(self, pod: Pod) -> str:
        """The pod's nominated node; "" if it has none."""
        nominated = self._nominated.get(pod.key)
        return nominated[1] if nominated is not None and nominated[0].uid == pod.uid else ""

    def less_important(self, pod: Pod, node: str) -> list[Pod]:
        """Pods of lower priority that are nominated to the node."""
        return [
            other
            for other, nominated in self._nominated.values()
            if nominated == node and other.key != pod.key and other.spec.priority < pod.spec.priority
        ]

    @contextmanager
    def with_nominated_pods(self, snapshot: Snapshot, pod: Pod) -> Iterator[bool]:
        """Count the nominated pods of at least this pod's priority on their nodes; yields whether there are any."""
        if not self._nominated:
            yield False
            return
        levels = [one for priority, one in self._levels_in(snapshot).items() if priority >= pod.spec.priority]
        # Not the pod itself, nor pods that the snapshot has on a node by now.
        known = [self._nominated[key] for key in self._nominated.keys() & snapshot.pod_keys]
        absent = [(other, node) for other, node in known if snapshot.node_of(other)]
        if pod.key in self._nominated and pod.key not in snapshot.pod_keys:
            absent.append(self._nominated[pod.key])
        for other, node in absent:
            self._count(other, node, -1)
        try:
            with ExitStack() as stack:
                occupied = [one for one in levels if one.pods]
                for one in occupied:
                    stack.enter_context(one.counted(snapshot, pod))
                with snapshot.pods.counting(one.index for one in occupied):
                    yield bool(occupied)
        finally:
            for other, node in absent:
                self._count(other, node, 1)

    def _is_current(self) -> bool:
        """Whether the levels are those of the current nodes and namespaces; else the next decision rebuilds them."""
        return self._snapshot is not None and self._version == _version_of(self._snapshot)

    def _levels_in(self, snapshot: Snapshot) -> dict[int, "_PriorityLevel"]:
        """The pods nominated to existing nodes, by priority."""
        if self._snapshot is not snapshot or not self._is_current():
            self._version, self._snapshot, self._levels = _version_of(snapshot), snapshot, {}
            for pod, node in self._nominated.values():
                self._count(pod, node, 1)
        return self._levels

    def _count(self, pod: Pod, node: str, sign: int) -> None:
        """Count a pod on a node (`sign` 1), or no longer (-1)."""
        snapshot = self._snapshot
        if snapshot is None or node not in snapshot.topology:
            return
        level = self._levels.get(pod.spec.priority)
        if level is None:
            level = self._levels[pod.spec.priority] = _PriorityLevel(snapshot.pods.index_beside())
        level.move(pod, node, snapshot.topology.slot(node), sign)


def _version_of(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.topology.version, snapshot.pods.namespaces_version


class _PriorityLevel:
    """The sums over nominated pods of one priority, as if they were on their nodes: a decision only adds the sums."""

    def __init__(self, index: PodIndex) -> None:
        self.index = index
        self.pods: dict[str, _Placed] = {}
        self._amounts = ResourceColumns()
        #: Pods with host ports or volumes, which are counted one by one for a pod that has such too.
        self._with_ports: dict[str, _Placed] = {}
        self._with_volumes: dict[str, _Placed] = {}

    def move(self, pod: Pod, node: str, slot: int, sign: int) -> None:
        info, _ = pod_info(pod, node, assumed=True)
        self._amounts.charge(slot, info.requests, sign)
        self.index.count(pod, info.terms, slot, sign)
        _keep(self.pods, pod, node, sign)
        if any(host_ports(pod)):
            _keep(self._with_ports, pod, node, sign)
        if pod.spec.volumes:
            _keep(self._with_volumes, pod, node, sign)

    @contextmanager
    def counted(self, snapshot: Snapshot, pod: Pod) -> Iterator[None]:
        """Count in the snapshot what is not in the index, as far as it can matter to the pod."""
        with_ports = list(self._with_ports.values()) if self._with_ports and any(host_ports(pod)) else []
        with_volumes = list(self._with_volumes.values()) if pod.spec.volumes else []
        self._count(snapshot, with_ports, with_volumes, 1)
        try:
            yield
        finally:
            self._count(snapshot, with_ports, with_volumes, -1)

    def _count(self, snapshot: Snapshot, with_ports: list[_Placed], with_volumes: list[_Placed], sign: int) -> None:
        snapshot.resources.shift(self._amounts, sign)
        for pod, node in with_ports:
            snapshot.ports.place(pod, snapshot.topology.slot(node), sign)
        for pod, node in with_volumes:
            snapshot.volumes.count_pod(pod, node, sign)


def _keep(pods: dict[str, _Placed], pod: Pod, node: str, sign: int) -> None:
    if sign > 0:
        pods[pod.key] = (pod, node)
    else:
        del pods[pod.key]
