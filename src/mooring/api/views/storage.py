"""The cluster-wide storage kinds: classes, drivers, what drivers say of nodes, and capacity."""

import msgspec

from mooring.api.views.meta import Amount, ApiObject, LabelSelectorView, View


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
    #: None is what a server that sets no default answers; upstream calls that an error.
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] = ()
    allow_volume_expansion: bool = False

    @property
    def delayed(self) -> bool:
        """Whether its claims are bound once a pod that uses them has a node."""
        return self.volume_binding_mode == "WaitForFirstConsumer"


class CsiDriverSpec(View, frozen=True, gc=False):
    attach_required: bool = True
    #: Whether the driver wants to know whose volume it publishes.
    pod_info_on_mount: bool = False
    #: Whether the driver reports its free storage and wants it looked at.
    storage_capacity: bool = False
    #: Whether pods with volumes of the driver are kept off nodes that have not listed it.
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
    #: None is reachable from no node, an empty selector from every node.
    node_topology: LabelSelectorView | None = None
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None


class VolumeAttributesClass(ApiObject, frozen=True, gc=False):
    driver_name: str = ""
    parameters: dict[str, str] = {}
