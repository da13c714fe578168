"""Rules for CSIDrivers, the capacity they report, and their attachments."""

from collections.abc import Iterator
from typing import Final

from mooring.api import quantity
from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, unsupported
from mooring.api.object_names import check_dns1123_subdomain
from mooring.server.body import Body, meta, part
from mooring.server.validation.scalars import immutable, name, one_of
from mooring.server.validation.selectors import validate_label_selector
from mooring.server.validation.volume_sources import (
    LONGEST_DRIVER_NAME,
    driver_name,
    validate_driver_references,
    validate_source,
)

_LIFECYCLES: Final = ("Persistent", "Ephemeral")
_GROUP_POLICIES: Final = ("ReadWriteOnceWithFSType", "File", "None")


def validate_driver(obj: Body) -> Iterator[Cause]:
    driver = meta(obj).get("name", "")
    if len(driver) > LONGEST_DRIVER_NAME:
        yield bad_value("metadata.name", driver, f"must be no more than {LONGEST_DRIVER_NAME} characters")
    yield from _driver_spec(part(obj, "spec"))


def validate_driver_update(new: Body, old: Body) -> Iterator[Cause]:
    """Volumes were attached and made as the driver said; it cannot say otherwise afterwards."""
    now, was = part(new, "spec"), part(old, "spec")
    yield from _driver_spec(now)
    # The first name is upstream's slip, which people have got used to.
    yield from immutable(now.get("attachRequired"), was.get("attachRequired"), "spec.attachedRequired")
    field = "volumeLifecycleModes"
    yield from immutable(now.get(field), was.get(field), f"spec.{field}")


def validate_capacity(obj: Body) -> Iterator[Cause]:
    storage_class = obj.get("storageClassName", "")
    for why in check_dns1123_subdomain(storage_class):
        yield bad_value("storageClassName", storage_class, why)
    for field in ("capacity", "maximumVolumeSize"):
        if field in obj and quantity.parse(obj[field]) < 0:
            yield bad_value(field, obj[field], "must be greater than or equal to 0")
    if "nodeTopology" in obj:
        yield from validate_label_selector(obj["nodeTopology"], "nodeTopology")


def validate_capacity_update(new: Body, old: Body) -> Iterator[Cause]:
    """An object stays about the same class and the same nodes; another place is another object."""
    yield from validate_capacity(new)
    for field in ("nodeTopology", "storageClassName"):
        yield from immutable(new.get(field), old.get(field), field)


def validate_attachment(obj: Body) -> Iterator[Cause]:
    spec = part(obj, "spec")
    yield from driver_name(spec.get("attacher", ""), "spec.attacher")
    yield from name(spec.get("nodeName", ""), check_dns1123_subdomain, "spec.nodeName")
    yield from _attached(part(spec, "source"), "spec.source")


def validate_attachment_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from immutable(new.get("spec"), old.get("spec"), "spec")


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
            yield from validate_source("csi", csi, at)
            yield from validate_driver_references(csi, at)
    for why in check_dns1123_subdomain(volume) if volume is not None else ():
        yield bad_value(f"{path}.persistentVolumeName", volume, why)


def _driver_spec(spec: Body) -> Iterator[Cause]:
    for mode in spec.get("volumeLifecycleModes", []):
        if mode not in _LIFECYCLES:
            yield unsupported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
    yield from one_of(spec.get("fsGroupPolicy", ""), _GROUP_POLICIES, "spec.fsGroupPolicy")
