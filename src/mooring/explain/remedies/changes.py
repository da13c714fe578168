"""Changes that a remedy consists of: typed values (`-o json`, with `type`) that yield edits of listed objects. Pure.

Where the PV controller would react to a change, for example bind a claim to an added volume, its edits are included.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, Protocol

from msgspec.structs import replace

from mooring.api import quantity, well_known
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.pod_requirements import CPU
from mooring.api.quantity import QuantityError
from mooring.api.views import meta, storage
from mooring.api.views.core import Node, NodeSpec, NodeStatus
from mooring.api.views.pods import Affinity, Container, Pod, Toleration
from mooring.explain.cluster_objects import ClusterObjects, is_health_taint
from mooring.explain.results import ExplainStruct
from mooring.explain.volume_candidates import without_claim_ref
from mooring.scheduler.plugins.pod_topology_spread import DO_NOT_SCHEDULE
from mooring.volumes.binding import is_delayed
from mooring.volumes.matching import AVAILABLE

#: The rules of a pod that can be relaxed to a preference.
PodRule = Literal["nodeAffinity", "podAffinity", "podAntiAffinity", "topologySpreadConstraints", "hostPorts"]


class Edit(NamedTuple):
    """One object before and after; None where it does not exist."""

    kind: Kind[meta.ApiObject]
    before: meta.ApiObject | None
    after: meta.ApiObject | None


class ClusterChange(Protocol):
    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        """What it changes among these objects; nothing where the object it names is not there."""


class Uncordon(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    node: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            taints = tuple(taint for taint in node.spec.taints if taint.key != well_known.UNSCHEDULABLE)
            yield _node(node, spec=replace(node.spec, unschedulable=False, taints=taints))


class RemoveTaint(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    node: str
    key: str
    effect: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            taints = tuple(one for one in node.spec.taints if (one.key, one.effect) != (self.key, self.effect))
            yield _node(node, spec=replace(node.spec, taints=taints))


class RecoverNode(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The node itself, with its disks, is brought back or made healthy; its taints then go by themselves."""

    node: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            taints = tuple(taint for taint in node.spec.taints if not is_health_taint(taint))
            status = replace(node.status, conditions=(meta.Condition(type="Ready", status="True"),))
            yield _node(node, spec=replace(node.spec, taints=taints), status=status)


class LabelNode(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    node: str
    labels: dict[str, str]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            metadata = replace(node.metadata, labels=node.metadata.labels | self.labels)
            yield Edit(NODE, node, replace(node, metadata=metadata))


class FreeResource(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """So much more of a resource is free on the node: other pods have left it, or it has grown. In the scheduler's
    units: thousandths for cpu."""

    node: str
    resource: str
    amount: int

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            more = _offered(node, self.resource) + (self.amount if self.resource == CPU else self.amount * 1000)
            allocatable = node.status.allocatable | {self.resource: f"{more}m"}
            yield _node(node, status=replace(node.status, allocatable=allocatable))


class AddNode(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """A new node with these labels and at least this much free."""

    name: str
    labels: dict[str, str]
    allocatable: dict[str, str]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        status = NodeStatus(capacity=dict(self.allocatable), allocatable=dict(self.allocatable))
        yield Edit(NODE, None, Node(metadata=meta.Meta(name=self.name, labels=self.labels), status=status))


class DeclareFeatures(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The node's kubelet is upgraded and declares these features."""

    node: str
    features: tuple[str, ...]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (node := objects.get(NODE, self.node)) is not None:
            declared = (*node.status.declared_features, *self.features)
            yield _node(node, status=replace(node.status, declared_features=declared))


class InstallDriver(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The CSI driver registers on the node."""

    node: str
    driver: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        found = objects.get(CSI_NODE, self.node)
        drivers = () if found is None else found.spec.drivers or ()
        spec = storage.CsiNodeSpec(drivers=(*drivers, storage.NodeDriver(name=self.driver, node_id=self.node)))
        yield Edit(CSI_NODE, found, storage.CsiNode(metadata=meta.Meta(name=self.node), spec=spec))


class DeletePods(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """These pods leave their nodes: they are deleted, or moved elsewhere."""

    pods: tuple[str, ...]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        for key in self.pods:
            if (pod := objects.get(POD, key)) is not None:
                yield Edit(POD, pod, None)


class Tolerate(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    pod: str
    key: str
    value: str
    effect: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (pod := objects.get(POD, self.pod)) is not None:
            operator = "Equal" if self.value else "Exists"
            added = Toleration(key=self.key, operator=operator, value=self.value, effect=self.effect)
            yield _pod(pod, tolerations=(*pod.spec.tolerations, added))


class RelaxPod(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """A rule of the pod becomes a preference, or goes."""

    pod: str
    rule: PodRule

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (pod := objects.get(POD, self.pod)) is None:
            return
        affinity = pod.spec.affinity or Affinity()
        match self.rule:
            case "nodeAffinity":
                yield _pod(pod, node_selector={}, affinity=replace(affinity, node_affinity=None))
            case "podAffinity":
                yield _pod(pod, affinity=replace(affinity, pod_affinity=None))
            case "podAntiAffinity":
                yield _pod(pod, affinity=replace(affinity, pod_anti_affinity=None))
            case "topologySpreadConstraints":
                kept = (c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable != DO_NOT_SCHEDULE)
                yield _pod(pod, topology_spread_constraints=tuple(kept))
            case "hostPorts":
                without = tuple(replace(each, ports=()) for each in pod.spec.containers)
                yield _pod(pod, containers=without)


class LowerRequests(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The pod's only container requests at most this much of a resource."""

    pod: str
    resource: str
    amount: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (pod := objects.get(POD, self.pod)) is not None:
            containers = tuple(_asking(each, self.resource, self.amount) for each in pod.spec.containers)
            init = tuple(_asking(each, self.resource, "0") for each in pod.spec.init_containers)
            yield _pod(pod, containers=containers, init_containers=init)


def _offered(node: Node, resource: str) -> int:
    """In thousandths; what cannot be understood counts as the scheduler counts it."""
    try:
        return quantity.to_milli(node.status.allocatable.get(resource, 0))
    except QuantityError:
        return 0


def _asking(container: Container, resource: str, amount: str) -> Container:
    resources = container.resources
    limits = {name: much for name, much in resources.limits.items() if name != resource}
    return replace(
        container, resources=replace(resources, requests=resources.requests | {resource: amount}, limits=limits)
    )


def _node(node: Node, *, spec: NodeSpec | None = None, status: NodeStatus | None = None) -> Edit:
    return Edit(NODE, node, replace(node, spec=spec or node.spec, status=status or node.status))


def _pod(pod: Pod, **fields: object) -> Edit:
    return Edit(POD, pod, replace(pod, spec=replace(pod.spec, **fields)))


#: Of objects that a remedy adds.
ADDED: Final = "mooring-remedy"


class AddVolume(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """A new volume that does for the claim and that the node reaches; from everywhere where no node is named."""

    claim: str
    storage_class: str
    size: str
    access_modes: tuple[str, ...]
    volume_mode: str
    node: str = ""

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        claim = objects.get(CLAIM, self.claim)
        if claim is None:
            return
        name = f"{ADDED}-{self.claim.replace('/', '-')}"
        spec = storage.VolumeSpec(
            capacity={"storage": self.size},
            access_modes=self.access_modes,
            storage_class_name=self.storage_class,
            volume_mode=self.volume_mode,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            node_affinity=_only_on(objects, self.node),
        )
        selector = claim.spec.selector
        labels = {} if selector is None else _labels_for(selector)
        volume = storage.Volume(
            metadata=meta.Meta(name=name, uid=name, labels=labels), spec=spec, status=storage.VolumeStatus(AVAILABLE)
        )
        yield from _offered_volumes(claim, None, volume, objects)


class ClearClaimRef(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """A Released volume becomes free for any claim."""

    volume: str
    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        volume, claim = objects.get(VOLUME, self.volume), objects.get(CLAIM, self.claim)
        if volume is not None and claim is not None:
            yield from _offered_volumes(claim, volume, without_claim_ref(volume), objects)


class RestoreVolume(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The PersistentVolume that a bound claim has lost exists again, with the same storage."""

    volume: str
    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        claim = objects.get(CLAIM, self.claim)
        if claim is None:
            return
        spec = storage.VolumeSpec(
            capacity={"storage": claim.request},
            access_modes=claim.spec.access_modes,
            storage_class_name=claim.storage_class,
            volume_mode=claim.spec.volume_mode,
            claim_ref=_reference(claim),
        )
        metadata = meta.Meta(name=self.volume, uid=ADDED)
        yield Edit(VOLUME, None, storage.Volume(metadata=metadata, spec=spec, status=storage.VolumeStatus("Bound")))
        yield Edit(CLAIM, claim, replace(claim, status=storage.ClaimStatus(phase="Bound")))


class RecreateClaim(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The claim is deleted and made again: it has no volume then. Its old volume is deleted or stays Released."""

    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        claim = objects.get(CLAIM, self.claim)
        if claim is None:
            return
        volume = objects.get(VOLUME, claim.spec.volume_name)
        if volume is not None and volume.spec.persistent_volume_reclaim_policy == "Delete":
            yield Edit(VOLUME, volume, None)
        elif volume is not None:
            yield Edit(VOLUME, volume, replace(volume, status=storage.VolumeStatus("Released")))
        yield Edit(CLAIM, claim, _anew(claim))


class ChangeClass(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The claim, which has no volume, is made again with another class."""

    claim: str
    storage_class: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (claim := objects.get(CLAIM, self.claim)) is not None:
            anew = _anew(claim)
            spec = replace(anew.spec, storage_class_name=self.storage_class)
            yield Edit(CLAIM, claim, replace(anew, spec=spec))


class ShrinkClaim(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The claim, which has no volume, is made again and asks for less."""

    claim: str
    size: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (claim := objects.get(CLAIM, self.claim)) is not None:
            anew = _anew(claim)
            resources = replace(anew.spec.resources, requests={"storage": self.size})
            spec = replace(anew.spec, resources=resources)
            yield Edit(CLAIM, claim, replace(anew, spec=spec))


class ForgetSelectedNode(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The annotation that says for which node the claim's volume is to be made is removed."""

    claim: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (claim := objects.get(CLAIM, self.claim)) is not None:
            notes = {key: text for key, text in claim.metadata.annotations.items() if key not in _SELECTED}
            metadata = replace(claim.metadata, annotations=notes)
            yield Edit(CLAIM, claim, replace(claim, metadata=metadata))


class CreateClass(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """A class of this name that is like another one."""

    storage_class: str
    like: str

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (model := objects.get(STORAGE_CLASS, self.like)) is not None:
            yield Edit(STORAGE_CLASS, None, replace(model, metadata=meta.Meta(name=self.storage_class)))


class AllowTopology(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The class, made again, allows volumes where these labels are, too."""

    storage_class: str
    labels: dict[str, str]

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        if (found := objects.get(STORAGE_CLASS, self.storage_class)) is not None:
            place = (storage.TopologyRequirement(key, (value,)) for key, value in self.labels.items())
            allowed = (*found.allowed_topologies, storage.TopologyTerm(tuple(place)))
            yield Edit(STORAGE_CLASS, found, replace(found, allowed_topologies=allowed))


class RaiseCapacity(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """So many bytes more are free in a segment, and its driver has published that."""

    capacity: str
    amount: int

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        found = objects.get(STORAGE_CAPACITY, self.capacity)
        if found is None:
            return
        try:
            has = 0 if found.capacity is None else quantity.to_bytes(found.capacity)
            largest = None if found.maximum_volume_size is None else quantity.to_bytes(found.maximum_volume_size)
        except QuantityError:
            has, largest = 0, None
        more = replace(
            found,
            capacity=None if found.capacity is None and largest is not None else has + self.amount,
            maximum_volume_size=None if largest is None else largest + self.amount,
        )
        yield Edit(STORAGE_CAPACITY, found, more)


class PublishCapacity(ExplainStruct, frozen=True, tag=True, tag_field="type"):
    """The driver publishes so many bytes of free storage of a class for a node."""

    storage_class: str
    node: str
    amount: int

    def edits(self, objects: ClusterObjects) -> Iterator[Edit]:
        node = objects.get(NODE, self.node)
        labels = {well_known.HOSTNAME: self.node} if node is None else dict(node.metadata.labels)
        published = storage.StorageCapacity(
            metadata=meta.Meta(name=f"{ADDED}-{self.node}-{self.storage_class}", namespace="default", uid=ADDED),
            storage_class_name=self.storage_class,
            node_topology=meta.LabelSelectorView(match_labels=labels),
            capacity=self.amount,
        )
        yield Edit(STORAGE_CAPACITY, None, published)


_SELECTED: Final = (well_known.SELECTED_NODE, well_known.SELECTED_NODE_DRAFT)
_BINDING: Final = (well_known.BIND_COMPLETED, well_known.BOUND_BY_CONTROLLER, *_SELECTED)


def _offered_volumes(
    claim: storage.Claim, before: storage.Volume | None, free: storage.Volume, objects: ClusterObjects
) -> Iterator[Edit]:
    """A free volume, and its binding to the claim where that does not wait for a pod to be placed."""
    classes: dict[str, storage.StorageClass] = {each.name: each for each in objects.of(STORAGE_CLASS)}
    if claim.fully_bound or is_delayed(claim.storage_class, classes.get) is not False:
        yield Edit(VOLUME, before, free)
        return
    spec = replace(free.spec, claim_ref=_reference(claim))
    yield Edit(VOLUME, before, replace(free, spec=spec, status=storage.VolumeStatus("Bound")))
    notes = claim.metadata.annotations | {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}
    metadata = replace(claim.metadata, annotations=notes)
    named = replace(claim.spec, volume_name=free.name)
    bound = replace(claim, metadata=metadata, spec=named, status=storage.ClaimStatus(phase="Bound"))
    yield Edit(CLAIM, claim, bound)


def _reference(claim: storage.Claim) -> meta.ObjectReference:
    return meta.ObjectReference(kind="PersistentVolumeClaim", namespace=claim.namespace, name=claim.name, uid=claim.uid)


def _anew(claim: storage.Claim) -> storage.Claim:
    """The claim as its owner would make it again."""
    notes = {key: text for key, text in claim.metadata.annotations.items() if key not in _BINDING}
    metadata = replace(claim.metadata, uid=f"{claim.uid}-{ADDED}", annotations=notes, deletion_timestamp=None)
    spec = replace(claim.spec, volume_name="")
    return replace(claim, metadata=metadata, spec=spec, status=storage.ClaimStatus(phase="Pending"))


def _only_on(objects: ClusterObjects, node: str) -> storage.VolumeNodeAffinity | None:
    found = objects.get(NODE, node) if node else None
    host = None if found is None else found.metadata.labels.get(well_known.HOSTNAME)
    if host is None:
        return None
    here = meta.SelectorRequirement(key=well_known.HOSTNAME, operator="In", values=(host,))
    return storage.VolumeNodeAffinity(meta.NodeSelectorView((meta.NodeSelectorTermView((here,)),)))


def _labels_for(selector: meta.LabelSelectorView) -> dict[str, str]:
    """Labels that the selector of a claim chooses."""
    labels = dict(selector.match_labels)
    for one in selector.match_expressions:
        if one.operator == "In" and one.values:
            labels[one.key] = one.values[0]
        elif one.operator == "Exists":
            labels.setdefault(one.key, "")
    return labels
