"""Views of the storage kinds: claims, volumes, classes, drivers, CSINodes, capacity and attachments."""

from collections.abc import Iterable

import msgspec

from mooring.api import well_known
from mooring.api.views.meta import (
    Amount,
    ApiObject,
    Condition,
    LabelSelectorView,
    NodeSelectorView,
    ObjectReference,
    View,
)
from mooring.api.views.pods import Disks


class ClaimResources(View, frozen=True, gc=False):
    requests: dict[str, Amount] = {}


class DataSource(View, frozen=True, gc=False):
    """Source of the initial content of a volume."""

    api_group: str = ""
    kind: str = ""
    name: str = ""
    #: Only in `dataSourceRef`, and only across namespaces.
    namespace: str = ""


class ClaimSpec(View, frozen=True, gc=False):
    access_modes: tuple[str, ...] = ()
    resources: ClaimResources = ClaimResources()
    #: None if the user named no class, "" if the user requested none.
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: LabelSelectorView | None = None
    volume_attributes_class_name: str = ""
    data_source: DataSource | None = None
    data_source_ref: DataSource | None = None


class ClaimStatus(View, frozen=True, gc=False):
    phase: str = ""
    capacity: dict[str, Amount] = {}
    access_modes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    current_volume_attributes_class_name: str = ""


class Claim(ApiObject, frozen=True, gc=False):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def storage_class(self) -> str:
        """The class, from the legacy annotation if set; "" for none."""
        legacy = self.metadata.annotations.get(well_known.STORAGE_CLASS_BETA)
        return (self.spec.storage_class_name or "") if legacy is None else legacy

    @property
    def has_class(self) -> bool:
        """Whether the user named a class, also the empty one."""
        named = well_known.STORAGE_CLASS_BETA in self.metadata.annotations
        return named or self.spec.storage_class_name is not None

    @property
    def fully_bound(self) -> bool:
        """Names its volume, and the PV controller has completed the binding. The phase is not read."""
        return self.spec.volume_name != "" and well_known.BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node that the scheduler selected for provisioning, or None."""
        annotations = self.metadata.annotations
        return annotations.get(well_known.SELECTED_NODE, annotations.get(well_known.SELECTED_NODE_DRAFT))

    @property
    def request(self) -> Amount:
        return self.spec.resources.requests.get("storage", 0)

    @property
    def reference(self) -> ObjectReference:
        """The claimRef of a volume bound to this claim."""
        return self.object_reference("PersistentVolumeClaim", "v1")

    def assumed_on(self, node: str) -> "Claim":
        """This claim with a selected node; for caches, never for writing."""
        annotations = self.metadata.annotations | {well_known.SELECTED_NODE: node}
        meta = msgspec.structs.replace(self.metadata, annotations=annotations)
        return msgspec.structs.replace(self, metadata=meta)


class TopologyRequirement(View, frozen=True, gc=False):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(View, frozen=True, gc=False):
    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(ApiObject, frozen=True, gc=False):
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    #: None from a server without defaulting; an error in kube-scheduler.
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()
    allow_volume_expansion: bool = False

    @property
    def delayed(self) -> bool:
        """Whether its claims are bound after a node was selected for a pod that uses them."""
        return self.volume_binding_mode == "WaitForFirstConsumer"

    @property
    def immediate(self) -> bool:
        """Whether its claims are bound at once; as in Kubernetes, an unset mode is not immediate."""
        return self.volume_binding_mode == "Immediate"

    @property
    def capacity_pool(self) -> str:
        """The storage that volumes are charged to: all classes of a driver share one pool, unless the annotation names
        another. "" without provisioner."""
        if self.provisioner in ("", well_known.NO_PROVISIONER):
            return ""
        named = self.metadata.annotations.get(well_known.CAPACITY_POOL, "")
        return f"{self.provisioner} {named}" if named else self.provisioner

    @property
    def is_default(self) -> bool:
        annotations = self.metadata.annotations
        return "true" in (annotations.get(well_known.DEFAULT_CLASS), annotations.get(well_known.DEFAULT_CLASS_BETA))


def default_class(classes: Iterable[StorageClass]) -> str:
    """The newest default class, the first by name of equally old ones; "" if there is none."""
    marked = [each for each in classes if each.is_default]
    # RFC 3339 in UTC sorts as text.
    newest = max((each.metadata.creation_timestamp or "" for each in marked), default="")
    return min((each.name for each in marked if (each.metadata.creation_timestamp or "") == newest), default="")


class CsiDriverSpec(View, frozen=True, gc=False):
    attach_required: bool = True
    #: Whether the driver gets pod information in NodePublishVolume.
    pod_info_on_mount: bool = False
    #: Whether the driver publishes capacity for the scheduler.
    storage_capacity: bool = False
    #: Whether pods with its volumes are not scheduled to nodes whose CSINode lacks it.
    prevent_pod_scheduling_if_missing: bool = False


class CsiDriver(ApiObject, frozen=True, gc=False):
    spec: CsiDriverSpec = CsiDriverSpec()


class Allocatable(View, frozen=True, gc=False):
    count: int | None = None


class NodeDriver(View, frozen=True, gc=False):
    name: str = ""
    node_id: str = msgspec.field(name="nodeID", default="")
    #: Kubernetes writes null for a driver without topology.
    listed_topology_keys: tuple[str, ...] | None = msgspec.field(name="topologyKeys", default=())
    allocatable: Allocatable | None = None

    @property
    def topology_keys(self) -> tuple[str, ...]:
        return self.listed_topology_keys or ()


class CsiNodeSpec(View, frozen=True, gc=False):
    #: Kubernetes writes null for a node without drivers.
    drivers: tuple[NodeDriver, ...] | None = ()


class CsiNode(ApiObject, frozen=True, gc=False):
    spec: CsiNodeSpec = CsiNodeSpec()


class AttachmentSource(View, frozen=True, gc=False):
    persistent_volume_name: str = ""


class AttachmentSpec(View, frozen=True, gc=False):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class AttachmentError(View, frozen=True, gc=False):
    message: str = ""


class AttachmentStatus(View, frozen=True, gc=False):
    attached: bool = False
    attachment_metadata: dict[str, str] | None = None
    attach_error: AttachmentError | None = None
    detach_error: AttachmentError | None = None


class VolumeAttachment(ApiObject, frozen=True, gc=False):
    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()


class StorageCapacity(ApiObject, frozen=True, gc=False):
    storage_class_name: str = ""
    #: None selects no node, an empty selector every node.
    node_topology: LabelSelectorView | None = None
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None

    @property
    def node_group(self) -> str:
        """The node group whose future nodes the object describes; "" for an object of existing nodes."""
        return self.metadata.labels.get(well_known.CAPACITY_NODE_GROUP, "")


def of_existing_nodes(found: StorageCapacity | None) -> StorageCapacity | None:
    """The object, if it does not come from a template of a node group."""
    return None if found is None or found.node_group else found


class VolumeAttributesClass(ApiObject, frozen=True, gc=False):
    driver_name: str = ""
    parameters: dict[str, str] = {}


class VolumeNodeAffinity(View, frozen=True, gc=False):
    required: NodeSelectorView | None = None


class SecretReference(View, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""

    def body(self) -> dict[str, str]:
        return {"name": self.name, "namespace": self.namespace}


class CsiSource(View, frozen=True, gc=False):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None


class VolumeSpec(Disks, frozen=True, gc=False):
    capacity: dict[str, Amount] = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    persistent_volume_reclaim_policy: str = "Retain"
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    volume_attributes_class_name: str = ""
    mount_options: tuple[str, ...] = ()


class VolumeStatus(View, frozen=True, gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_phase_transition_time: str | None = None


class Volume(ApiObject, frozen=True, gc=False):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def storage_class(self) -> str:
        """The class, from the legacy annotation if set."""
        legacy = self.metadata.annotations.get(well_known.STORAGE_CLASS_BETA)
        return self.spec.storage_class_name if legacy is None else legacy

    @property
    def size(self) -> Amount:
        return self.spec.capacity.get("storage", 0)

    @property
    def required_affinity(self) -> NodeSelectorView | None:
        """The required node affinity; None if every node can access the volume."""
        affinity = self.spec.node_affinity
        return None if affinity is None else affinity.required

    def assumed_for(self, claim: ObjectReference, *, by_controller: bool) -> "Volume":
        """This volume prebound to a claim; for caches, never for writing."""
        annotations = self.metadata.annotations
        if by_controller:
            annotations = annotations | {well_known.BOUND_BY_CONTROLLER: well_known.ANNOTATION_SET}
        return msgspec.structs.replace(
            self,
            metadata=msgspec.structs.replace(self.metadata, annotations=annotations),
            spec=msgspec.structs.replace(self.spec, claim_ref=claim),
        )
