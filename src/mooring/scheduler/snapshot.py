"""What the scheduler knows about the cluster, laid out for questions about all nodes at once.

Each node has a slot. Amounts are columns over slots (`resources`), sets of nodes are ints (`taints`, `features`,
`unschedulable`), pods are counted by selector (`pods`), label values are domains, and volumes have their own state in
the volume library. It is fed with changes and kept current piece by piece; whatever the order of events, it equals
one built from the objects alone. A scheduling cycle only reads it. Pods that were given a node but are not yet known
to be there count as there ("assumed") until an informer confirms it or the scheduler forgets them:

    assume ──► assumed ──► confirmed ──► gone        forget takes back what is still assumed
                  └──────────────────────► gone

Pods may arrive before their node and outlive it; they are counted while the node is there.
"""

import math
from collections.abc import Iterable, KeysView, Mapping
from typing import Final, NamedTuple, Self

from mooring.api.label_selector import SelectorError
from mooring.api.pod_requests import NOTHING, Requests, requests_of
from mooring.api.quantity import QuantityError
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node, Taint
from mooring.api.views.pod import Pod
from mooring.scheduler.affinity import NO_TERMS, PodTerms, terms_of
from mooring.scheduler.columns import ResourceColumns
from mooring.scheduler.domains import Domains
from mooring.scheduler.images import ImageIndex
from mooring.scheduler.marks import Marks
from mooring.scheduler.pod_index import PodIndex
from mooring.scheduler.ports import PortIndex
from mooring.scheduler.siblings import Siblings
from mooring.volumes import nodeset
from mooring.volumes.nodeset import EMPTY, NodeSet
from mooring.volumes.state import VolumeState
from mooring.volumes.topology import TopologyIndex

#: What a node that offers nothing readable offers.
_NOTHING: Final[Mapping[str, str]] = {}


class Placed(NamedTuple):
    """A pod that takes room on a node, with what was counted for it."""

    pod: Pod
    node: str
    requests: Requests
    terms: PodTerms
    assumed: bool

    def counts_like(self, other: "Placed") -> bool:
        return (
            self.node == other.node
            and self.pod.uid == other.pod.uid
            and self.requests == other.requests
            and self.terms == other.terms
            and self.pod.metadata.labels == other.pod.metadata.labels
            and self.pod.deleting == other.pod.deleting
        )


class Snapshot:
    """Columns, sets and indexes over nodes. Read the attributes, change them only through the methods."""

    def __init__(self) -> None:
        self.topology = TopologyIndex()
        self.volumes = VolumeState(self.topology)
        self.resources = ResourceColumns()
        self.domains = Domains()
        self.pods = PodIndex()
        self.images = ImageIndex()
        self.ports = PortIndex()
        self.siblings = Siblings()
        #: Nodes whose `spec.unschedulable` is set.
        self.unschedulable: NodeSet = EMPTY
        self.taints: Marks[Taint] = Marks()
        #: What nodes say they can do that not every node can.
        self.features: Marks[str] = Marks()
        self._placed: dict[str, Placed] = {}
        self._on: dict[str, dict[str, None]] = {}
        self._names: tuple[str, ...] | None = None

    @property
    def nodes(self) -> NodeSet:
        """All nodes there are."""
        return self.topology.all

    @property
    def names(self) -> tuple[str, ...]:
        """Node names by slot, "" where a slot is free. A value: it stays as it is when nodes change."""
        if self._names is None:
            names = [""] * self.nodes.bit_length()
            for slot in nodeset.slots(self.nodes):
                names[slot] = self.topology.name(slot)
            self._names = tuple(names)
        return self._names

    @property
    def placed(self) -> KeysView[str]:
        """The keys of all pods that count as placed. A live view."""
        return self._placed.keys()

    def node_of(self, pod: Pod) -> str:
        """Where the pod counts as placed; "" when nowhere."""
        placed = self._placed.get(pod.key)
        return placed.node if placed is not None and placed.pod.uid == pod.uid else ""

    def observe_node(self, before: Node | None, after: Node | None) -> str:
        """Take a change of a node in. Answers with what is wrong with it, "" in the normal case."""
        if after is not None:
            return self._put_node(after)
        if before is not None and before.name in self.topology:
            self._remove_node(before.name)
        return ""

    def observe_pod(self, before: Pod | None, after: Pod | None) -> str:
        """Take a change of a pod in. Answers with what is wrong with it, "" in the normal case."""
        if after is None:
            if before is not None:
                self._displace(before)
            return ""
        known = self._placed.get(after.key)
        if after.spec.node_name and not after.finished:
            placed, problem = counted_as(after, after.spec.node_name, assumed=False)
            self._replace(known, placed)
            return problem
        still_assumed = known is not None and known.assumed and known.pod.uid == after.uid and not after.finished
        if known is not None and not still_assumed:
            self._displace(known.pod)
        return ""

    def observe_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        if after is not None:
            self.pods.put_namespace(after.name, after.metadata.labels)
        elif before is not None:
            self.pods.put_namespace(before.name, None)

    def assume(self, pod: Pod, node: str) -> None:
        """Count the pod as placed before the API says so."""
        placed, _ = counted_as(pod, node, assumed=True)
        self._replace(self._placed.get(pod.key), placed)

    def forget(self, pod: Pod) -> None:
        """Take an assumption back. Does nothing once the pod is confirmed or gone."""
        placed = self._placed.get(pod.key)
        if placed is not None and placed.assumed:
            self._displace(pod)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods that take room on a node, assumed ones included."""
        return [placed.pod for placed in self.placed_on(node)]

    def placed_on(self, node: str, *, below: float = math.inf) -> list[Placed]:
        """The same, with what is counted for each; only pods of a priority below the given one."""
        known = self._placed
        return [placed for key in self._on.get(node, ()) if (placed := known[key]).pod.spec.priority < below]

    def take_out(self, pod: Pod) -> Placed:
        """Count a placed pod as absent, to ask what would be. Its place comes back, for `put_back`."""
        placed = self._placed[pod.key]
        self._displace(pod)
        return placed

    def put_back(self, placed: Placed) -> None:
        self._replace(None, placed)

    def _put_node(self, node: Node) -> str:
        arrived = node.name not in self.topology
        self.topology.put(node.name, node.metadata.labels)
        slot = self.topology.slot(node.name)
        self.domains.put(slot, node.metadata.labels)
        bit = 1 << slot
        self.unschedulable = self.unschedulable | bit if node.spec.unschedulable else self.unschedulable & ~bit
        self.taints.put(slot, node.spec.taints)
        self.features.put(slot, node.status.declared_features)
        self.images.put(slot, node.status.images)
        if arrived:
            self._names = None
            for key in self._on.get(node.name, ()):
                self._count(self._placed[key], slot, 1)
        try:
            self.resources.offer(slot, node.status.allocatable)
        except QuantityError as error:
            self.resources.offer(slot, _NOTHING)
            return f"status.allocatable: {error}"
        return ""

    def _remove_node(self, name: str) -> None:
        slot = self.topology.slot(name)
        for key in self._on.get(name, ()):
            self._count(self._placed[key], slot, -1)
        self.resources.clear(slot)
        self.domains.remove(slot)
        self.taints.put(slot, ())
        self.features.put(slot, ())
        self.images.put(slot, ())
        self.unschedulable &= ~(1 << slot)
        self.topology.remove(name)
        self._names = None

    def _replace(self, known: Placed | None, placed: Placed) -> None:
        key = placed.pod.key
        if known is not None and known.counts_like(placed):
            self._placed[key] = placed
            return
        if known is not None:
            self._displace(known.pod)
        self._placed[key] = placed
        self._on.setdefault(placed.node, {})[key] = None
        self.volumes.pod_came(placed.pod, placed.node)
        if placed.node in self.topology:
            self._count(placed, self.topology.slot(placed.node), 1)

    def _displace(self, pod: Pod) -> None:
        """The pod takes no room any more. A pod of the same name that came after it is another pod."""
        placed = self._placed.get(pod.key)
        if placed is None or placed.pod.uid != pod.uid:
            return
        del self._placed[pod.key]
        del self._on[placed.node][pod.key]
        self.volumes.pod_left(placed.pod, placed.node)
        if not self._on[placed.node]:
            del self._on[placed.node]
        if placed.node in self.topology:
            self._count(placed, self.topology.slot(placed.node), -1)

    def _count(self, placed: Placed, slot: int, sign: int) -> None:
        self.resources.charge(slot, placed.requests, sign)
        self.ports.place(placed.pod, slot, sign)
        if sign > 0:
            self.pods.add(placed.pod, placed.terms, slot)
        else:
            self.pods.remove(placed.pod, placed.terms, slot)


class Absence:
    """Pods taken out of a snapshot for as long as the block lasts: what would be if they were not where they are."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod]) -> None:
        self._snapshot = snapshot
        self._pods = tuple(pods)
        self._out: dict[str, Placed] = {}

    def __enter__(self) -> Self:
        for pod in self._pods:
            self.take_out(pod)
        return self

    def __exit__(self, *_: object) -> None:
        for placed in tuple(self._out.values()):
            self.put_back(placed.pod)

    def take_out(self, pod: Pod) -> None:
        self._out[pod.key] = self._snapshot.take_out(pod)

    def put_back(self, pod: Pod) -> None:
        self._snapshot.put_back(self._out.pop(pod.key))


def counted_as(pod: Pod, node: str, *, assumed: bool) -> tuple[Placed, str]:
    """The pod with what it takes. What cannot be read takes nothing but the pod's own place, and is reported."""
    requests, terms, problems = NOTHING, NO_TERMS, []
    try:
        requests = requests_of(pod)
    except QuantityError as error:
        problems.append(f"resources.requests: {error}")
    try:
        terms = terms_of(pod)
    except SelectorError as error:
        problems.append(f"affinity: {error}")
    return Placed(pod, node, requests, terms, assumed), "; ".join(problems)
