"""Rules for StorageClasses and VolumeAttributesClasses."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import forbidden, required
from mooring.api.object_names import check_qualified_name
from mooring.server.body import Body, rows
from mooring.server.validation.scalars import immutable, name, one_of
from mooring.server.validation.selectors import validate_topologies

_RECLAIM_POLICIES: Final = ("Delete", "Retain")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")


def validate_storage_class(obj: Body) -> Iterator[Cause]:
    yield from name(obj.get("provisioner", "").lower(), check_qualified_name, "provisioner")
    yield from one_of(obj["reclaimPolicy"], _RECLAIM_POLICIES, "reclaimPolicy")
    yield from one_of(obj["volumeBindingMode"], _BINDING_MODES, "volumeBindingMode")
    yield from validate_topologies(rows(obj, "allowedTopologies"), "allowedTopologies")


def validate_storage_class_update(new: Body, old: Body) -> Iterator[Cause]:
    """Volumes were made as the class said; it cannot say otherwise afterwards."""
    yield from validate_storage_class(new)
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        yield from immutable(new.get(field), old.get(field), field)


def validate_attributes_class(obj: Body) -> Iterator[Cause]:
    yield from name(obj.get("driverName", "").lower(), check_qualified_name, "driverName")
    if not obj.get("parameters"):
        yield required("parameters", "must contain at least one key/value pair")


def validate_attributes_class_update(new: Body, old: Body) -> Iterator[Cause]:
    for field in ("driverName", "parameters"):
        if new.get(field) != old.get(field):
            yield forbidden(field, f"updates to {field} are forbidden.")
    yield from validate_attributes_class(new)
