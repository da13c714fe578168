"""The scheduler's view of the cluster, laid out for questions about all nodes at once. Pure.

Each node has a slot: amounts are columns over slots (`resources`), sets of nodes are ints, pods are counted by selector
(`pods`), volumes have their own state in the volume library. Informers update it object by object, in any order; a
scheduling cycle only reads it. A pod that was scheduled but not yet observed on its node counts as there:

    assume ──► assumed ──► confirmed ──► deleted        forget removes a pod that is still assumed

Pods may be observed before their node and outlive it; they are counted while the node exists.
"""

import math
from collections.abc import Iterable, KeysView, Mapping
from typing import Final, NamedTuple, Self

from mooring.api.pod_requirements import FORBIDDING, NOTHING, Requests, requests_of, tolerated
from mooring.api.quantity import QuantityError
from mooring.api.selectors import SelectorError
from mooring.api.views.core import Namespace, Node, Taint
from mooring.api.views.pods import Pod
from mooring.multimap import Multimap
from mooring.scheduler.snapshot.node_indexes import ImageIndex, NodesByValue, PortIndex, TopologyDomains
from mooring.scheduler.snapshot.pod_index import PodIndex
from mooring.scheduler.snapshot.pod_terms import NO_TERMS, DefaultSpreadSelectors, PodTerms, terms_of
from mooring.scheduler.snapshot.resources import ResourceColumns
from mooring.volumes import topology
from mooring.volumes.inline_volumes import has_inline_volumes
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import EMPTY, NodeSet, TopologyIndex, union

#: Of a node whose allocatable resources cannot be parsed.
_NOTHING: Final[Mapping[str, str]] = {}


class PodInfo(NamedTuple):
    """A pod on a node, with what is counted for it."""

    pod: Pod
    node: str
    requests: Requests
    terms: PodTerms
    assumed: bool

    def counts_like(self, other: "PodInfo") -> bool:
        return (
            self.node == other.node
            and self.pod.uid == other.pod.uid
            and self.requests == other.requests
            and self.terms == other.terms
            and self.pod.metadata.labels == other.pod.metadata.labels
            and self.pod.deleting == other.pod.deleting
        )


class Snapshot:
    """Read the attributes; change them only through the methods."""

    def __init__(self) -> None:
        self.topology = TopologyIndex()
        self.volumes = VolumeState(self.topology)
        self.resources = ResourceColumns()
        self.domains = TopologyDomains(self.topology)
        self.pods = PodIndex()
        self.images = ImageIndex()
        self.ports = PortIndex()
        self.spread_selectors = DefaultSpreadSelectors()
        #: Nodes whose `spec.unschedulable` is set.
        self.unschedulable: NodeSet = EMPTY
        self.taints: NodesByValue[Taint] = NodesByValue()
        #: `status.declaredFeatures` of nodes.
        self.features: NodesByValue[str] = NodesByValue()
        #: Whether PodGroups are read, so that pods of a group are scheduled together.
        self.schedules_groups = False
        self._pods: dict[str, PodInfo] = {}
        self._on: Multimap[str, str] = Multimap()
        self._names: tuple[str, ...] | None = None
        #: Pods with CSI inline volumes that are on a node, by key, and do not run yet.
        self._starting: dict[str, tuple[Pod, str]] = {}
        #: Pods that wait for a node, by the claims they use and their own keys.
        self._waiting: dict[str, dict[str, Pod]] = {}

    @property
    def nodes(self) -> NodeSet:
        return self.topology.all

    @property
    def names(self) -> tuple[str, ...]:
        """Node names by slot, "" for free slots. Immutable."""
        if self._names is None:
            names = [""] * self.nodes.bit_length()
            for slot in topology.slots_of(self.nodes):
                names[slot] = self.topology.name(slot)
            self._names = tuple(names)
        return self._names

    @property
    def pod_keys(self) -> KeysView[str]:
        """The keys of all pods on nodes, assumed ones included. A live view."""
        return self._pods.keys()

    def node_of(self, pod: Pod) -> str:
        """The node on which the pod counts; "" if none."""
        info = self._pods.get(pod.key)
        return info.node if info is not None and info.pod.uid == pod.uid else ""

    def untolerated_nodes(self, pod: Pod) -> NodeSet:
        """The nodes with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        tolerations = pod.spec.tolerations
        tainted = ((taint, nodes) for taint, nodes in self.taints.items() if taint.effect in FORBIDDING)
        return union(nodes for taint, nodes in tainted if not tolerated(tolerations, taint))

    def observe_node(self, before: Node | None, after: Node | None) -> str:
        """Returns what cannot be parsed, else ""."""
        if after is not None:
            return self._put_node(after)
        if before is not None and before.name in self.topology:
            self._remove_node(before.name)
        return ""

    def starting_pods(self) -> Iterable[tuple[Pod, str]]:
        """Pods with CSI inline volumes and their nodes, until they run."""
        return self._starting.values()

    def _observe_starting(self, pod: Pod, node: str) -> None:
        if node and has_inline_volumes(pod) and pod.status.phase == "Pending":
            self._starting[pod.key] = pod, node
        else:
            self._starting.pop(pod.key, None)

    def waiting_pods(self, claim: str) -> list[Pod]:
        """The pods that use the claim with this key and count on no node, in the order of their keys."""
        return [pod for _, pod in sorted(self._waiting.get(claim, {}).items()) if not self.node_of(pod)]

    def _observe_waiting(self, before: Pod | None, after: Pod | None) -> None:
        for claim in before.claim_keys if before is not None else ():
            waiting = self._waiting.get(claim, {})
            if before is not None and waiting.pop(before.key, None) is not None and not waiting:
                del self._waiting[claim]
        if after is not None and after.waits:
            for claim in after.claim_keys:
                self._waiting.setdefault(claim, {})[after.key] = after

    def observe_pod(self, before: Pod | None, after: Pod | None) -> str:
        """Returns what cannot be parsed, else ""."""
        self._observe_waiting(before, after)
        if after is None:
            if before is not None:
                self._remove_pod(before)
            return ""
        known = self._pods.get(after.key)
        if after.spec.node_name and not after.finished:
            info, problem = pod_info(after, after.spec.node_name, assumed=False)
            self._replace(known, info)
            self._observe_starting(after, after.spec.node_name)
            return problem
        still_assumed = known is not None and known.assumed and known.pod.uid == after.uid and not after.finished
        if known is not None and not still_assumed:
            self._remove_pod(known.pod)
        return ""

    def observe_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        if after is not None:
            self.pods.put_namespace(after.name, after.metadata.labels)
        elif before is not None:
            self.pods.put_namespace(before.name, None)

    def assume(self, pod: Pod, node: str) -> None:
        """Count the pod on the node before it is observed there."""
        info, _ = pod_info(pod, node, assumed=True)
        self._replace(self._pods.get(pod.key), info)
        self._observe_starting(pod, node)

    def forget(self, pod: Pod) -> None:
        """Undo `assume`. Does nothing once the pod is confirmed or deleted."""
        info = self._pods.get(pod.key)
        if info is not None and info.assumed:
            self._remove_pod(pod)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods on a node, assumed ones included."""
        return [info.pod for info in self.pod_infos_on(node)]

    def pod_infos_on(self, node: str, *, below: float = math.inf) -> list[PodInfo]:
        """The pods on a node of a priority below the given one, with what is counted for each."""
        known = self._pods
        return [info for key in self._on.get(node, ()) if (info := known[key]).pod.spec.priority < below]

    def take_out(self, pod: Pod) -> PodInfo:
        """Remove a pod temporarily; `put_back` takes the result."""
        info = self._pods[pod.key]
        self._remove_pod(pod)
        return info

    def put_back(self, info: PodInfo) -> None:
        self._replace(None, info)

    def _put_node(self, node: Node) -> str:
        is_new = node.name not in self.topology
        self.topology.put(node.name, node.metadata.labels)
        slot = self.topology.slot(node.name)
        bit = 1 << slot
        self.unschedulable = self.unschedulable | bit if node.spec.unschedulable else self.unschedulable & ~bit
        self.taints.put(slot, node.spec.taints)
        self.features.put(slot, node.status.declared_features)
        self.images.put(slot, node.status.images)
        if is_new:
            self._names = None
            for key in self._on.get(node.name, ()):
                self._count(self._pods[key], slot, 1)
        try:
            self.resources.offer(slot, node.status.allocatable)
        except QuantityError as error:
            self.resources.offer(slot, _NOTHING)
            return f"status.allocatable: {error}"
        return ""

    def _remove_node(self, name: str) -> None:
        slot = self.topology.slot(name)
        for key in self._on.get(name, ()):
            self._count(self._pods[key], slot, -1)
        self.resources.clear(slot)
        self.taints.put(slot, ())
        self.features.put(slot, ())
        self.images.put(slot, ())
        self.unschedulable &= ~(1 << slot)
        self.topology.remove(name)
        self._names = None

    def _replace(self, known: PodInfo | None, info: PodInfo) -> None:
        key = info.pod.key
        if known is not None and known.counts_like(info):
            self._pods[key] = info
            return
        if known is not None:
            self._remove_pod(known.pod)
        self._pods[key] = info
        self._on.add(info.node, key)
        self.volumes.add_pod(info.pod, info.node)
        if info.node in self.topology:
            self._count(info, self.topology.slot(info.node), 1)

    def _remove_pod(self, pod: Pod) -> None:
        """Remove the pod, unless the one of this name is another (uid)."""
        info = self._pods.get(pod.key)
        if info is None or info.pod.uid != pod.uid:
            return
        del self._pods[pod.key]
        self._starting.pop(pod.key, None)
        self._on.discard(info.node, pod.key)
        self.volumes.remove_pod(info.pod, info.node)
        if info.node in self.topology:
            self._count(info, self.topology.slot(info.node), -1)

    def _count(self, info: PodInfo, slot: int, sign: int) -> None:
        self.resources.charge(slot, info.requests, sign)
        self.ports.place(info.pod, slot, sign)
        self.pods.count(info.pod, info.terms, slot, sign)


class RemovedPods:
    """Removes pods from a snapshot within a `with` block, to evaluate preemption."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod]) -> None:
        self._snapshot = snapshot
        self._pods = tuple(pods)
        self._removed: dict[str, PodInfo] = {}

    def __enter__(self) -> Self:
        for pod in self._pods:
            self.take_out(pod)
        return self

    def __exit__(self, *_: object) -> None:
        for info in tuple(self._removed.values()):
            self.put_back(info.pod)

    def take_out(self, pod: Pod) -> None:
        self._removed[pod.key] = self._snapshot.take_out(pod)

    def put_back(self, pod: Pod) -> None:
        self._snapshot.put_back(self._removed.pop(pod.key))


def pod_info(pod: Pod, node: str, *, assumed: bool) -> tuple[PodInfo, str]:
    """The pod with what it counts for, and what cannot be parsed: that counts as nothing."""
    requests, terms, problems = NOTHING, NO_TERMS, []
    try:
        requests = requests_of(pod)
    except QuantityError as error:
        problems.append(f"resources.requests: {error}")
    try:
        terms = terms_of(pod)
    except SelectorError as error:
        problems.append(f"affinity: {error}")
    return PodInfo(pod, node, requests, terms, assumed), "; ".join(problems)
