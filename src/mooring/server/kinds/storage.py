"""StorageClass, VolumeAttributesClass, CSIDriver, CSINode, CSIStorageCapacity and VolumeAttachment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mooring.api import kinds, quantity, well_known
from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, forbidden, required, unsupported
from mooring.api.kinds import Kind
from mooring.api.names import check_caseless_subdomain, check_dns1123_subdomain, check_qualified_name
from mooring.server.encoding import meta, part, rows
from mooring.server.kinds import columns, field_checks, volume_sources
from mooring.server.kinds.columns import AGE, NAME, NAME_AND_DATE, Column, Json, flag, objects_at, table, text, text_at
from mooring.server.kinds.field_checks import (
    fixed_fields,
    immutable,
    immutable_fields,
    one_of,
    unique,
    validate_name,
    violations,
)
from mooring.server.kinds.rules import KindRules, restore_metadata, spec_changed


def default_storage_class(obj: Body) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def default_driver(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)
    spec.setdefault("preventPodSchedulingIfMissing", False)


def _class_name(storage_class: Json) -> str:
    name = text_at(storage_class, "metadata", "name")
    return f"{name} (default)" if name and name == text_at(storage_class, "defaultClass") else name


def _default_class(classes: Sequence[Json]) -> Json:
    """The class that claims without one get: of several defaults the newest, then the first by name."""
    marks = (well_known.DEFAULT_CLASS, well_known.DEFAULT_CLASS_BETA)
    marked = [
        (text_at(each, "metadata", "creationTimestamp"), text_at(each, "metadata", "name"))
        for each in classes
        if any(text_at(each, "metadata", "annotations", mark) == "true" for mark in marks)
    ]
    newest = max((created for created, _ in marked), default="")
    return {"defaultClass": min((name for created, name in marked if created == newest), default="")}


def _audiences(driver: Json) -> str:
    requests = objects_at(driver, "spec", "tokenRequests")
    return columns.joined((text_at(request, "audience") for request in requests), empty=columns.UNSET)


_STORAGE_CLASSES: Final = columns.Printer(
    (
        replace(NAME, read=_class_name),
        Column("Provisioner", "Provisioner of the class.", text("provisioner")),
        Column(
            "ReclaimPolicy",
            "What happens to a volume when its claim is deleted.",
            text("reclaimPolicy", empty="Delete"),
        ),
        Column(
            "VolumeBindingMode", "When claims of this class are bound.", text("volumeBindingMode", empty="Immediate")
        ),
        Column("AllowVolumeExpansion", "Whether volumes can be expanded.", flag("allowVolumeExpansion")),
        AGE,
    ),
    derive_of_list=_default_class,
)


def _driver_flag(name: str, description: str, field: str) -> Column:
    return Column(name, description, flag("spec", field), type="boolean")


_CSI_DRIVERS: Final = table(
    NAME,
    _driver_flag("AttachRequired", "Whether volumes are attached before they are mounted.", "attachRequired"),
    _driver_flag("PodInfoOnMount", "Whether the driver gets pod information.", "podInfoOnMount"),
    _driver_flag("StorageCapacity", "Whether the scheduler considers published capacity.", "storageCapacity"),
    Column("TokenRequests", "Audiences of the service account tokens that the driver gets.", _audiences),
    _driver_flag("RequiresRepublish", "Whether NodePublishVolume is repeated.", "requiresRepublish"),
    Column(
        "Modes",
        "Volume lifecycle modes of the driver.",
        columns.joined_texts("spec", "volumeLifecycleModes", empty=columns.NONE),
    ),
    AGE,
)

_VOLUME_ATTACHMENTS: Final = table(
    NAME,
    Column("Attacher", "Driver that attaches the volume.", text("spec", "attacher"), format="name"),
    Column("PV", "Name of the PersistentVolume.", text("spec", "source", "persistentVolumeName")),
    Column("Node", "Node to attach to.", text("spec", "nodeName")),
    Column("Attached", "Whether the volume is attached.", flag("status", "attached"), type="boolean"),
    AGE,
)

_CSI_NODES: Final = table(
    NAME,
    Column(
        "Drivers",
        "Number of CSI drivers on the node.",
        lambda node: len(objects_at(node, "spec", "drivers")),
        type="integer",
    ),
    AGE,
)

_ATTRIBUTES_CLASSES: Final = table(NAME, Column("DriverName", "Driver of the class.", text("driverName")), AGE)

_LIFECYCLES: Final = ("Persistent", "Ephemeral")


def validate_driver(obj: Body) -> Iterator[Cause]:
    driver = meta(obj).get("name", "")
    if len(driver) > (longest := volume_sources.MAX_DRIVER_NAME_LENGTH):
        yield bad_value("metadata.name", driver, f"must be no more than {longest} characters")
    yield from _driver_spec(part(obj, "spec"))


def validate_driver_update(new: Body, old: Body) -> Iterator[Cause]:
    now, was = part(new, "spec"), part(old, "spec")
    yield from _driver_spec(now)
    # kube-apiserver's misspelled path.
    yield from immutable(now.get("attachRequired"), was.get("attachRequired"), "spec.attachedRequired")
    yield from immutable_fields(new, old, "spec.volumeLifecycleModes")


def validate_capacity(obj: Body) -> Iterator[Cause]:
    yield from violations(check_dns1123_subdomain, obj.get("storageClassName", ""), "storageClassName")
    for field in ("capacity", "maximumVolumeSize"):
        if field in obj and quantity.parse(obj[field]) < 0:
            yield bad_value(field, obj[field], "must be greater than or equal to 0")
    if "nodeTopology" in obj:
        yield from field_checks.validate_label_selector(obj["nodeTopology"], "nodeTopology")


def validate_attachment(obj: Body) -> Iterator[Cause]:
    spec = part(obj, "spec")
    yield from _attached(part(spec, "source"), "spec.source")
    yield from violations(check_dns1123_subdomain, spec.get("nodeName", ""), "spec.nodeName")
    yield from _attacher(spec.get("attacher", ""), "spec.attacher")


def _attacher(driver: str, path: str) -> Iterator[Cause]:
    """A driver's name, in the words of the rules that kube-apiserver declares with the type."""
    longest = volume_sources.MAX_DRIVER_NAME_LENGTH
    if not driver:
        yield required(path)
        return
    yield from violations(check_caseless_subdomain, driver, path)
    if len(driver) > longest:
        yield Cause("FieldValueTooLong", f"Too long: may not be more than {longest} characters", path)


def _attached(source: Body, path: str) -> Iterator[Cause]:
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if volume is None and inline is None:
        yield required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif volume is not None and inline is not None:
        yield forbidden(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif volume == "":
        yield required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")
    elif inline is not None:
        csi, at = inline.get("csi"), f"{path}.inlineVolumeSpec.csi"
        if csi is None:
            yield required(at, "has to be specified in the context of inline volumes")
        else:
            yield from volume_sources.validate_source("csi", csi, at)
            yield from volume_sources.validate_driver_references(csi, at)
    if volume is not None:
        yield from violations(check_dns1123_subdomain, volume, f"{path}.persistentVolumeName")


def _driver_spec(spec: Body) -> Iterator[Cause]:
    for mode in spec.get("volumeLifecycleModes", []):
        if mode not in _LIFECYCLES:
            yield unsupported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
    yield from one_of(spec, "spec", "fsGroupPolicy", "ReadWriteOnceWithFSType", "File", "None")


#: CSI's limit.
_MAX_NODE_ID_BYTES: Final = 256


def validate_csi_node(obj: Body) -> Iterator[Cause]:
    drivers = rows(obj, "spec", "drivers")
    yield from unique([driver.get("name", "") for driver in drivers], "spec.drivers", "name")
    for index, driver in enumerate(drivers):
        path = f"spec.drivers[{index}]"
        yield from volume_sources.driver_name(driver.get("name", ""), f"{path}.name")
        if not driver.get("nodeID"):
            yield required(f"{path}.nodeID")
        elif len(driver["nodeID"].encode()) > _MAX_NODE_ID_BYTES:
            yield bad_value(f"{path}.nodeID", driver["nodeID"], f"must be {_MAX_NODE_ID_BYTES} characters or less")
        for key in driver.get("topologyKeys", []):
            yield from violations(check_qualified_name, key, f"{path}.topologyKeys")
        yield from field_checks.not_negative(part(driver, "allocatable").get("count", 0), f"{path}.allocatable.count")


def validate_csi_node_update(new: Body, old: Body) -> Iterator[Cause]:
    """Drivers may be added and removed; of others only `allocatable` may change."""
    yield from validate_csi_node(new)
    before = {driver.get("name"): _immutable_part(driver) for driver in rows(old, "spec", "drivers")}
    for index, driver in enumerate(rows(new, "spec", "drivers")):
        if (was := before.get(driver.get("name"))) is not None:
            yield from immutable(_immutable_part(driver), was, f"spec.drivers[{index}]")


def _restore_csi_node(new: Body, old: Body, subresource: str) -> None:
    """As with the default gates of kube-apiserver, the health of storage is not recorded."""
    restore_metadata(new, old, subresource)
    if subresource == "status":
        new["status"] = {}


def _immutable_part(driver: Body) -> Body:
    return {field: value for field, value in driver.items() if field != "allocatable"}


def validate_storage_class(obj: Body) -> Iterator[Cause]:
    yield from validate_name(obj.get("provisioner", "").lower(), check_qualified_name, "provisioner")
    yield from one_of(obj, "", "reclaimPolicy", "Delete", "Retain")
    yield from one_of(obj, "", "volumeBindingMode", "Immediate", "WaitForFirstConsumer")
    yield from field_checks.validate_topologies(rows(obj, "allowedTopologies"), "allowedTopologies")


def validate_attributes_class(obj: Body) -> Iterator[Cause]:
    yield from validate_name(obj.get("driverName", "").lower(), check_qualified_name, "driverName")
    if not obj.get("parameters"):
        yield required("parameters", "must contain at least one key/value pair")


def validate_attributes_class_update(new: Body, old: Body) -> Iterator[Cause]:
    for field in ("driverName", "parameters"):
        if new.get(field) != old.get(field):
            yield forbidden(field, f"updates to {field} are forbidden.")
    yield from validate_attributes_class(new)


RULES: Final[Mapping[Kind[Any], KindRules]] = {
    kinds.STORAGE_CLASS: KindRules(
        defaults=default_storage_class,
        create=validate_storage_class,
        fixed=("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
        printer=_STORAGE_CLASSES,
        deletion_returns_object=True,
    ),
    kinds.VOLUME_ATTRIBUTES_CLASS: KindRules(
        create=validate_attributes_class,
        update=validate_attributes_class_update,
        printer=_ATTRIBUTES_CLASSES,
        deletion_returns_object=True,
    ),
    kinds.CSI_DRIVER: KindRules(
        defaults=default_driver,
        create=validate_driver,
        update=validate_driver_update,
        # Although `has_generation` is not set: a new object has no generation until the first change.
        new_generation=spec_changed,
        printer=_CSI_DRIVERS,
        deletion_returns_object=True,
    ),
    kinds.CSI_NODE: KindRules(
        create=validate_csi_node,
        update=validate_csi_node_update,
        restore=_restore_csi_node,
        printer=_CSI_NODES,
        deletion_returns_object=True,
    ),
    kinds.STORAGE_CAPACITY: KindRules(
        create=validate_capacity, immutable=("nodeTopology", "storageClassName"), printer=NAME_AND_DATE
    ),
    kinds.VOLUME_ATTACHMENT: KindRules(
        create=validate_attachment,
        update=lambda new, old: fixed_fields(new, old, "spec"),
        initial_status=lambda obj, now: {"attached": False},
        printer=_VOLUME_ATTACHMENTS,
        deletion_returns_object=True,
    ),
}
