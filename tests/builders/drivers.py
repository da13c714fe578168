"""What CSI drivers say: CSIDrivers, CSINodes, CSIStorageCapacities, VolumeAttachments; bodies and views."""

from collections.abc import Mapping

from builders.objects import Body, metadata, viewed
from mooring.api import keys, kinds

DRIVER = "csi.example.com"


def driver_body(
    *, name: str = DRIVER, tracks_capacity: bool | None = None, required: bool | None = None, version: str = ""
) -> Body:
    """A driver; `tracks_capacity` says whether its free storage is looked at, `required` whether nodes must have it."""
    spec: Body = {} if tracks_capacity is None else {"storageCapacity": tracks_capacity}
    if required is not None:
        spec["preventPodSchedulingIfMissing"] = required
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": metadata(name=name, version=version),
        "spec": spec,
    }


def csi_node_body(
    *,
    name: str = "node-1",
    limits: Mapping[str, int | None] | None = None,
    migrated: str | None = None,
    version: str = "",
) -> Body:
    """The drivers of a node with how many volumes each takes; `migrated` lists in-tree plugins handed to drivers."""
    drivers: list[Body] = []
    for driver, limit in (limits or {}).items():
        entry: Body = {"name": driver, "nodeID": name}
        if limit is not None:
            entry["allocatable"] = {"count": limit}
        drivers.append(entry)
    notes = {} if migrated is None else {keys.MIGRATED_PLUGINS: migrated}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata(name=name, version=version, annotations=notes),
        "spec": {"drivers": drivers},
    }


def capacity_body(
    *,
    name: str = "capacity-1",
    namespace: str = "default",
    storage_class: str = "made",
    topology: Body | None = None,
    capacity: str | int | None = None,
    largest: str | int | None = None,
    version: str = "",
    annotations: Mapping[str, str] | None = None,
) -> Body:
    """Free storage; `topology` is a label selector over nodes, None reaches none, {} all."""
    body: Body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata(name=name, namespace=namespace, version=version, annotations=annotations),
        "storageClassName": storage_class,
    }
    fields = {"nodeTopology": topology, "capacity": capacity, "maximumVolumeSize": largest}
    return body | {field: value for field, value in fields.items() if value is not None}


def attachment_body(
    *, name: str = "attachment-1", driver: str = DRIVER, volume: str = "volume-1", node: str = "node-1"
) -> Body:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": metadata(name=name),
        "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
    }


a_driver = viewed(kinds.CSI_DRIVER, driver_body)
a_csi_node = viewed(kinds.CSI_NODE, csi_node_body)
a_capacity = viewed(kinds.STORAGE_CAPACITY, capacity_body)
an_attachment = viewed(kinds.VOLUME_ATTACHMENT, attachment_body)
