"""Objects of CSI drivers: CSIDrivers, CSINodes, CSIStorageCapacities, VolumeAttachments; bodies and views."""

from collections.abc import Mapping, Sequence

from mooring.api import kinds, well_known
from support.builders.objects import Body, metadata, viewed

DRIVER = "csi.example.com"


def driver_body(
    *, name: str = DRIVER, tracks_capacity: bool | None = None, required: bool | None = None, version: str = ""
) -> Body:
    """A driver; `tracks_capacity` is `storageCapacity`, `required` whether nodes without the driver are rejected."""
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
    topology_keys: Mapping[str, Sequence[str]] | None = None,
    topology: Mapping[str, Sequence[str]] | None = None,
    migrated: str | None = None,
    version: str = "",
) -> Body:
    """The drivers of a node with their volume limits and topology keys, or, of `topology`, with topology keys only;
    `migrated` lists in-tree plugins migrated to CSI."""
    drivers: list[Body] = [
        {"name": driver, "nodeID": name, "topologyKeys": list(keys)} for driver, keys in (topology or {}).items()
    ]
    for driver, limit in (limits or {}).items():
        entry: Body = {"name": driver, "nodeID": name}
        if limit is not None:
            entry["allocatable"] = {"count": limit}
        if topology_keys and driver in topology_keys:
            entry["topologyKeys"] = list(topology_keys[driver])
        drivers.append(entry)
    notes = {} if migrated is None else {well_known.MIGRATED_PLUGINS: migrated}
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
    labels: Mapping[str, str] | None = None,
) -> Body:
    """Free capacity; `topology` is a label selector for nodes: None selects none, {} all."""
    body: Body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata(name=name, namespace=namespace, version=version, annotations=annotations, labels=labels),
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
