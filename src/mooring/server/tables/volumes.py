"""Storage: volumes, claims, classes, drivers and what they say of nodes."""

from collections.abc import Collection
from typing import Final

from mooring.api import keys
from mooring.server.tables.columns import AGE, NAME, WIDE, Cell, Column, Printer
from mooring.server.tables.reading import (
    UNSET,
    Json,
    age,
    amount,
    flag,
    is_deleting,
    joined,
    name,
    part,
    parts,
    text,
    texts,
)

#: In the order the cell shows them, whatever the order of the object.
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}

_CAPACITY: Final = Column("Capacity", description="The size of the volume.")
_ACCESS_MODES: Final = Column("Access Modes", description="How many nodes or pods may use the volume, and how.")
_CLASS: Final = Column("StorageClass", description="The class of storage.")
_ATTRIBUTES_CLASS: Final = Column("VolumeAttributesClass", description="The class of changeable attributes.")
_VOLUME_MODE: Final = Column("VolumeMode", description="Filesystem or block device.", priority=WIDE)


def _volume_cells(volume: Json, now: float) -> tuple[Cell, ...]:
    claim = part(volume, "spec", "claimRef")
    return (
        name(volume),
        amount(volume, "spec", "capacity", "storage"),
        _access_modes(texts(volume, "spec", "accessModes")),
        text(volume, "spec", "persistentVolumeReclaimPolicy"),
        _phase(volume),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        _class(volume),
        text(volume, "spec", "volumeAttributesClassName") or UNSET,
        text(volume, "status", "reason"),
        age(volume, now),
        text(volume, "spec", "volumeMode") or UNSET,
    )


def _claim_cells(claim: Json, now: float) -> tuple[Cell, ...]:
    volume = text(claim, "spec", "volumeName")
    return (
        name(claim),
        _phase(claim),
        volume,
        # Before a volume is named, what the status says of size and modes is not about anything.
        (amount(claim, "status", "capacity", "storage") or "0") if volume else "",
        _access_modes(texts(claim, "status", "accessModes")) if volume else "",
        _class(claim),
        text(claim, "spec", "volumeAttributesClassName") or UNSET,
        age(claim, now),
        text(claim, "spec", "volumeMode") or UNSET,
    )


def _storage_class_cells(storage_class: Json, now: float) -> tuple[Cell, ...]:
    annotations = part(storage_class, "metadata", "annotations")
    is_default = any(text(annotations, key) == "true" for key in (keys.DEFAULT_CLASS, keys.DEFAULT_CLASS_BETA))
    return (
        f"{name(storage_class)} (default)" if is_default else name(storage_class),
        text(storage_class, "provisioner"),
        text(storage_class, "reclaimPolicy") or "Delete",
        text(storage_class, "volumeBindingMode") or "Immediate",
        flag(storage_class, "allowVolumeExpansion"),
        age(storage_class, now),
    )


def _driver_cells(driver: Json, now: float) -> tuple[Cell, ...]:
    audiences = [text(request, "audience") for request in parts(driver, "spec", "tokenRequests")]
    return (
        name(driver),
        flag(driver, "spec", "attachRequired"),
        flag(driver, "spec", "podInfoOnMount"),
        flag(driver, "spec", "storageCapacity"),
        joined(audiences, empty=UNSET),
        flag(driver, "spec", "requiresRepublish"),
        joined(texts(driver, "spec", "volumeLifecycleModes"), empty="<none>"),
        age(driver, now),
    )


def _phase(value: Json) -> str:
    return "Terminating" if is_deleting(value) else text(value, "status", "phase")


def _access_modes(modes: Collection[str]) -> str:
    return joined(short for mode, short in _MODES.items() if mode in modes)


def _class(value: Json) -> str:
    """The old annotation wins over the field, even when it is empty."""
    annotations = part(value, "metadata", "annotations")
    if keys.STORAGE_CLASS_BETA in annotations:
        return text(annotations, keys.STORAGE_CLASS_BETA)
    return text(value, "spec", "storageClassName")


VOLUMES: Final = Printer(
    columns=(
        NAME,
        _CAPACITY,
        _ACCESS_MODES,
        Column("Reclaim Policy", description="What happens to the volume once its claim is gone."),
        Column("Status", description="Where the volume is in its life."),
        Column("Claim", description="The claim the volume belongs to."),
        _CLASS,
        _ATTRIBUTES_CLASS,
        Column("Reason", description="Why the volume is in this state."),
        AGE,
        _VOLUME_MODE,
    ),
    cells=_volume_cells,
)

CLAIMS: Final = Printer(
    columns=(
        NAME,
        Column("Status", description="Whether the claim has its volume."),
        Column("Volume", description="The volume the claim has or will have."),
        _CAPACITY,
        _ACCESS_MODES,
        _CLASS,
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    cells=_claim_cells,
)

STORAGE_CLASSES: Final = Printer(
    columns=(
        NAME,
        Column("Provisioner", description="Who makes volumes of this class."),
        Column("ReclaimPolicy", description="What happens to a volume once its claim is gone."),
        Column("VolumeBindingMode", description="When claims of this class get their volume."),
        Column("AllowVolumeExpansion", description="Whether volumes may grow."),
        AGE,
    ),
    cells=_storage_class_cells,
)

CSI_DRIVERS: Final = Printer(
    columns=(
        NAME,
        Column("AttachRequired", type="boolean", description="Whether volumes are attached before they are mounted."),
        Column("PodInfoOnMount", type="boolean", description="Whether the driver is told about the pod."),
        Column("StorageCapacity", type="boolean", description="Whether free storage is looked at when placing pods."),
        Column("TokenRequests", description="For whom the driver wants tokens of the pod."),
        Column("RequiresRepublish", type="boolean", description="Whether mounts are repeated."),
        Column("Modes", description="Which kinds of volumes the driver has."),
        AGE,
    ),
    cells=_driver_cells,
)

VOLUME_ATTACHMENTS: Final = Printer(
    columns=(
        NAME,
        Column("Attacher", format="name", description="The driver that attaches."),
        Column("PV", description="The volume."),
        Column("Node", description="Where it is attached."),
        Column("Attached", type="boolean", description="Whether it is by now."),
        AGE,
    ),
    cells=lambda attachment, now: (
        name(attachment),
        text(attachment, "spec", "attacher"),
        text(attachment, "spec", "source", "persistentVolumeName"),
        text(attachment, "spec", "nodeName"),
        flag(attachment, "status", "attached"),
        age(attachment, now),
    ),
)

CSI_NODES: Final = Printer(
    columns=(NAME, Column("Drivers", type="integer", description="How many CSI drivers the node has."), AGE),
    cells=lambda node, now: (name(node), len(parts(node, "spec", "drivers")), age(node, now)),
)

ATTRIBUTES_CLASSES: Final = Printer(
    columns=(NAME, Column("DriverName", description="The driver that understands the parameters."), AGE),
    cells=lambda value, now: (name(value), text(value, "driverName"), age(value, now)),
)
