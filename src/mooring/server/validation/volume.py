"""Rules for PersistentVolumes."""

import posixpath
from collections.abc import Iterator
from functools import cache
from typing import Final

from mooring.api import quantity
from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, unsupported
from mooring.api.fields.table import type_named
from mooring.api.object_names import check_dns1123_subdomain
from mooring.server.body import Body, part
from mooring.server.validation.claim import VOLUME_MODES, validate_access_modes
from mooring.server.validation.scalars import immutable, one_of
from mooring.server.validation.selectors import validate_node_selector
from mooring.server.validation.volume_sources import validate_driver_references, validate_source

_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")


@cache
def sources() -> frozenset[str]:
    """The fields of a volume's spec of which it has exactly one."""
    return frozenset(type_named("core/v1.PersistentVolumeSource").by_name)


def validate_volume(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from _capacity(part(spec, "capacity"))
    if spec.get("accessModes"):
        yield from validate_access_modes(spec["accessModes"], "spec.accessModes")
    else:
        yield required("spec.accessModes")
    yield from one_of(spec["persistentVolumeReclaimPolicy"], _RECLAIM_POLICIES, "spec.persistentVolumeReclaimPolicy")
    yield from one_of(spec["volumeMode"], VOLUME_MODES, "spec.volumeMode")
    yield from _source(spec)
    yield from _affinity(spec)
    if name := spec.get("storageClassName"):
        for why in check_dns1123_subdomain(name):
            yield bad_value("spec.storageClassName", name, why)


def validate_volume_update(new: Body, old: Body) -> Iterator[Cause]:
    """The claim and the policy of a volume may change, what it is made of may not."""
    now, was = new["spec"], old["spec"]
    if now == was:
        return
    yield from validate_volume(new)
    if {f: now[f] for f in sources() & now.keys()} != {f: was[f] for f in sources() & was.keys()}:
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    yield from immutable(now.get("volumeMode"), was.get("volumeMode"), "volumeMode")
    if "nodeAffinity" in was:
        yield from immutable(now.get("nodeAffinity"), was["nodeAffinity"], "spec.nodeAffinity")


def _capacity(capacity: Body) -> Iterator[Cause]:
    if not capacity:
        yield required("spec.capacity")
        yield unsupported("spec.capacity", None, ("storage",))
        return
    if capacity.keys() != {"storage"}:
        yield unsupported("spec.capacity", ", ".join(sorted(capacity)), ("storage",))
    for name, amount in capacity.items():
        if quantity.parse(amount) <= 0:
            yield bad_value(f"spec.capacity[{name}]", amount, "must be greater than zero")


def _source(spec: Body) -> Iterator[Cause]:
    given = [field for field in spec if field in sources()]
    if not given:
        yield required("spec", "must specify a volume type")
    for extra in given[1:]:
        yield forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    for source in given[:1]:
        yield from validate_source(source, spec[source], f"spec.{source}")
        if source == "csi":
            yield from validate_driver_references(spec["csi"], "spec.csi")
    is_root = posixpath.normpath(part(spec, "hostPath").get("path", ".")) in ("/", "//")
    if is_root and spec["persistentVolumeReclaimPolicy"] == "Recycle":
        yield forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")


def _affinity(spec: Body) -> Iterator[Cause]:
    if "nodeAffinity" not in spec:
        if sources() & spec.keys() == {"local"}:
            yield required("spec.nodeAffinity", "Local volume requires node affinity")
        return
    if "required" not in spec["nodeAffinity"]:
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
        return
    yield from validate_node_selector(spec["nodeAffinity"]["required"], "spec.nodeAffinity.required")
