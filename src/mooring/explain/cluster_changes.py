"""Changes to nodes and pods that a remedy consists of: typed values that can be applied to listed objects.

A change names what it changes on which object and yields the edits that do it; `trials` applies them and decides again.
Programs get the values with `-o json`, with their `type`. Storage has its own in `storage_changes`. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from mooring.api import keys, quantity
from mooring.api.kinds import CSI_NODE, NODE, POD, Kind
from mooring.api.pod_requests import CPU
from mooring.api.quantity import QuantityError
from mooring.api.views.meta import ApiObject, Condition, Meta
from mooring.api.views.node import Node, NodeSpec, NodeStatus, Taint
from mooring.api.views.pod import Affinity, Container, Pod, Toleration
from mooring.api.views.storage import CsiNode, CsiNodeSpec, NodeDriver
from mooring.explain.cluster_objects import ClusterObjects
from mooring.explain.lost_nodes import is_health_taint
from mooring.explain.verdicts import Part
from mooring.scheduler.spreading import DO_NOT_SCHEDULE

#: The rules of a pod that can be relaxed to a preference.
NODE_AFFINITY: Final = "nodeAffinity"
POD_AFFINITY: Final = "podAffinity"
POD_ANTI_AFFINITY: Final = "podAntiAffinity"
TOPOLOGY_SPREAD: Final = "topologySpreadConstraints"
HOST_PORTS: Final = "hostPorts"


class Edit(NamedTuple):
    """One object before and after; None where it does not exist."""

    kind: Kind[ApiObject]
    before: ApiObject | None
    after: ApiObject | None


class ClusterChange(Protocol):
    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        """What it changes among these objects; nothing where the object it names is not there."""
        ...


class Uncordon(Part, frozen=True, tag=True, tag_field="type"):
    node: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            taints = tuple(taint for taint in node.spec.taints if taint.key != keys.UNSCHEDULABLE)
            yield _node(node, spec=msgspec.structs.replace(node.spec, unschedulable=False, taints=taints))


class RemoveTaint(Part, frozen=True, tag=True, tag_field="type"):
    node: str
    key: str
    effect: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            taints = tuple(one for one in node.spec.taints if (one.key, one.effect) != (self.key, self.effect))
            yield _node(node, spec=msgspec.structs.replace(node.spec, taints=taints))


class RecoverNode(Part, frozen=True, tag=True, tag_field="type"):
    """The node itself, with its disks, is brought back or made healthy; its taints then go by themselves."""

    node: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            taints = tuple(taint for taint in node.spec.taints if not is_health_taint(taint))
            status = msgspec.structs.replace(node.status, conditions=(Condition(type="Ready", status="True"),))
            yield _node(node, spec=msgspec.structs.replace(node.spec, taints=taints), status=status)


class LabelNode(Part, frozen=True, tag=True, tag_field="type"):
    node: str
    labels: dict[str, str]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            metadata = msgspec.structs.replace(node.metadata, labels=node.metadata.labels | self.labels)
            yield Edit(NODE, node, msgspec.structs.replace(node, metadata=metadata))


class FreeResource(Part, frozen=True, tag=True, tag_field="type"):
    """So much more of a resource is free on the node: other pods have left it, or it has grown. In the scheduler's
    units: thousandths for cpu."""

    node: str
    resource: str
    amount: int

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            offered = _offered(node, self.resource)
            more = offered + (self.amount if self.resource == CPU else self.amount * 1000)
            allocatable = node.status.allocatable | {self.resource: f"{more}m"}
            yield _node(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))


class AddNode(Part, frozen=True, tag=True, tag_field="type"):
    """A new node with these labels and at least this much free."""

    name: str
    labels: dict[str, str]
    allocatable: dict[str, str]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        status = NodeStatus(capacity=dict(self.allocatable), allocatable=dict(self.allocatable))
        yield Edit(NODE, None, Node(metadata=Meta(name=self.name, labels=self.labels), status=status))


class DeclareFeatures(Part, frozen=True, tag=True, tag_field="type"):
    """The node's kubelet is upgraded and declares these features."""

    node: str
    features: tuple[str, ...]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            declared = (*node.status.declared_features, *self.features)
            yield _node(node, status=msgspec.structs.replace(node.status, declared_features=declared))


class InstallDriver(Part, frozen=True, tag=True, tag_field="type"):
    """The CSI driver registers on the node."""

    node: str
    driver: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        found = objects.get(CSI_NODE, self.node)
        drivers = () if found is None else found.spec.drivers or ()
        spec = CsiNodeSpec(drivers=(*drivers, NodeDriver(name=self.driver, node_id=self.node)))
        yield Edit(CSI_NODE, found, CsiNode(metadata=Meta(name=self.node), spec=spec))


class DeletePods(Part, frozen=True, tag=True, tag_field="type"):
    """These pods leave their nodes: they are deleted, or moved elsewhere."""

    pods: tuple[str, ...]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        for key in self.pods:
            if (pod := objects.get(POD, key)) is not None:
                yield Edit(POD, pod, None)


class Tolerate(Part, frozen=True, tag=True, tag_field="type"):
    pod: str
    key: str
    value: str
    effect: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (pod := objects.get(POD, self.pod)) is not None:
            operator = "Equal" if self.value else "Exists"
            added = Toleration(key=self.key, operator=operator, value=self.value, effect=self.effect)
            yield _pod(pod, tolerations=(*pod.spec.tolerations, added))


class RelaxPod(Part, frozen=True, tag=True, tag_field="type"):
    """A rule of the pod becomes a preference, or goes."""

    pod: str
    rule: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (pod := objects.get(POD, self.pod)) is None:
            return
        affinity = pod.spec.affinity or Affinity()
        match self.rule:
            case "nodeAffinity":
                yield _pod(pod, node_selector={}, affinity=msgspec.structs.replace(affinity, node_affinity=None))
            case "podAffinity":
                yield _pod(pod, affinity=msgspec.structs.replace(affinity, pod_affinity=None))
            case "podAntiAffinity":
                yield _pod(pod, affinity=msgspec.structs.replace(affinity, pod_anti_affinity=None))
            case "topologySpreadConstraints":
                kept = (c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable != DO_NOT_SCHEDULE)
                yield _pod(pod, topology_spread_constraints=tuple(kept))
            case "hostPorts":
                without = tuple(msgspec.structs.replace(each, ports=()) for each in pod.spec.containers)
                yield _pod(pod, containers=without)


class LowerRequests(Part, frozen=True, tag=True, tag_field="type"):
    """The pod's containers together ask for at most this much of a resource."""

    pod: str
    resource: str
    amount: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (pod := objects.get(POD, self.pod)) is not None and pod.spec.containers:
            first, *others = pod.spec.containers
            rest = tuple(_asking(each, self.resource, "0") for each in others)
            init = tuple(_asking(each, self.resource, "0") for each in pod.spec.init_containers)
            containers = (_asking(first, self.resource, self.amount), *rest)
            yield _pod(pod, containers=containers, init_containers=init)


def _offered(node: Node, resource: str) -> int:
    """In thousandths; what cannot be understood counts as the scheduler counts it."""
    try:
        return quantity.to_milli(node.status.allocatable.get(resource, 0))
    except QuantityError:
        return 0


def _asking(container: Container, resource: str, amount: str) -> Container:
    resources = container.resources
    asked = {name: much for name, much in resources.requests.items() if name != resource} | {resource: amount}
    limits = {name: much for name, much in resources.limits.items() if name != resource}
    changed = msgspec.structs.replace(resources, requests=asked, limits=limits)
    return msgspec.structs.replace(container, resources=changed)


def _node(node: Node, *, spec: NodeSpec | None = None, status: NodeStatus | None = None) -> Edit:
    return Edit(NODE, node, msgspec.structs.replace(node, spec=spec or node.spec, status=status or node.status))


def _pod(pod: Pod, **fields: object) -> Edit:
    return Edit(POD, pod, msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields)))


def taint_words(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def label_words(labels: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in labels.items())
