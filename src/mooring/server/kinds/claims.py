"""PersistentVolumeClaim, PersistentVolume, and the claim templates inside other objects."""

import posixpath
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from mooring.api import quantity, well_known
from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, forbidden, required, unsupported
from mooring.api.kinds import CLAIM, VOLUME, Kind
from mooring.api.names import check_dns1123_subdomain
from mooring.api.schema.types import type_named
from mooring.api.views.storage import Claim, VolumeNodeAffinity
from mooring.server.encoding import part
from mooring.server.kinds import columns, field_checks
from mooring.server.kinds.columns import AGE, NAME, UNSET, CellReader, Column, Json, amount, object_at, text, text_at
from mooring.server.kinds.field_checks import immutable_fields, one_of, validate_label_selector, violations
from mooring.server.kinds.rules import KindRules
from mooring.server.kinds.volume_sources import validate_driver_references, validate_source
from mooring.volumes.claim_rollback import CLEAN, is_clean, may_unbind
from mooring.volumes.in_tree import implied_by_labels

FILESYSTEM = "Filesystem"


def default_claim_spec(spec: Body) -> None:
    spec.setdefault("volumeMode", FILESYSTEM)
    # dataSourceRef supersedes dataSource; each is the default of the other.
    if "dataSource" in spec:
        spec.setdefault("dataSourceRef", dict(spec["dataSource"]))
    elif "dataSourceRef" in spec and "namespace" not in spec["dataSourceRef"]:
        spec["dataSource"] = dict(spec["dataSourceRef"])


def default_claim_template(template: Body) -> None:
    """`volumeClaimTemplates` of a StatefulSet are complete objects."""
    template.setdefault("apiVersion", "v1")
    template.setdefault("kind", "PersistentVolumeClaim")
    default_claim_spec(template.setdefault("spec", {}))
    template.setdefault("status", {"phase": "Pending"})


def default_volume(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", FILESYSTEM)
    if part(spec, "hostPath"):
        spec["hostPath"].setdefault("type", "")


#: In the order of kubectl's column.
_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _phase(value: Json) -> str:
    return "Terminating" if columns.is_deleting(value) else text_at(value, "status", "phase")


def _access_modes(*path: str) -> CellReader:
    def read(value: Json) -> str:
        modes = columns.texts_at(value, *path)
        return columns.joined(short for mode, short in _MODES.items() if mode in modes)

    return read


def _if_bound(read: CellReader) -> CellReader:
    """Without a volume, capacity and access modes of a claim's status are not valid."""
    return lambda claim: read(claim) if text_at(claim, "spec", "volumeName") else ""


def _class(value: Json) -> str:
    """The legacy annotation overrides the field, even if it is empty."""
    annotations = object_at(value, "metadata", "annotations")
    if well_known.STORAGE_CLASS_BETA in annotations:
        return text_at(annotations, well_known.STORAGE_CLASS_BETA)
    return text_at(value, "spec", "storageClassName")


def _claim_key(volume: Json) -> str:
    claim = object_at(volume, "spec", "claimRef")
    return f"{text_at(claim, 'namespace')}/{text_at(claim, 'name')}" if claim else ""


_SIZE: Final = "Size of the volume."
_ACCESS: Final = "Access modes of the volume."
_CLASS: Final = Column("StorageClass", "Name of the StorageClass.", _class)
_ATTRIBUTES_CLASS: Final = Column(
    "VolumeAttributesClass",
    "Name of the VolumeAttributesClass.",
    text("spec", "volumeAttributesClassName", empty=UNSET),
)
_VOLUME_MODE: Final = Column(
    "VolumeMode", "Filesystem or block device.", text("spec", "volumeMode", empty=UNSET), wide=True
)

_VOLUMES: Final = columns.table(
    NAME,
    Column("Capacity", _SIZE, amount("spec", "capacity", "storage")),
    Column("Access Modes", _ACCESS, _access_modes("spec", "accessModes")),
    Column(
        "Reclaim Policy",
        "What happens to the volume when its claim is deleted.",
        text("spec", "persistentVolumeReclaimPolicy"),
    ),
    Column("Status", "Phase of the volume.", _phase),
    Column("Claim", "Claim that the volume is bound to.", _claim_key),
    _CLASS,
    _ATTRIBUTES_CLASS,
    Column("Reason", "Reason of the phase.", text("status", "reason")),
    AGE,
    _VOLUME_MODE,
)

_CLAIMS: Final = columns.table(
    NAME,
    Column("Status", "Phase of the claim.", _phase),
    Column("Volume", "Volume that the claim is bound to.", text("spec", "volumeName")),
    Column("Capacity", _SIZE, _if_bound(amount("status", "capacity", "storage", empty="0"))),
    Column("Access Modes", _ACCESS, _if_bound(_access_modes("status", "accessModes"))),
    _CLASS,
    _ATTRIBUTES_CLASS,
    AGE,
    _VOLUME_MODE,
)

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")

IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def validate_claim(obj: Body) -> Iterator[Cause]:
    yield from validate_claim_spec(obj["spec"], "spec")


def validate_claim_spec(spec: Body, path: str) -> Iterator[Cause]:
    yield from validate_access_modes(spec.get("accessModes", []), f"{path}.accessModes")
    if "selector" in spec:
        yield from validate_label_selector(spec["selector"], f"{path}.selector")
    request = part(spec, "resources", "requests").get("storage")
    if request is None:
        yield required(f"{path}.resources[storage]")
    elif quantity.parse(request) <= 0:
        yield bad_value(f"{path}.resources[storage]", request, "must be greater than zero")
    yield from one_of(spec, path, "volumeMode", *VOLUME_MODES)
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := spec.get(field):
            yield from violations(check_dns1123_subdomain, name, f"{path}.{field}")


def validate_access_modes(modes: list[str], path: str) -> Iterator[Cause]:
    if not modes:
        yield required(path, "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield unsupported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def validate_claim_update(new: Body, old: Body) -> Iterator[Cause]:
    now, was = new["spec"], old["spec"]
    if now == was:
        return
    yield from validate_claim(new)
    if loses_volume(new, old) and may_unbind(msgspec.convert(old, Claim)):
        # Mooring's exception for claim rollback; admission checks the gate and the user's permission.
        was = {field: value for field, value in was.items() if field != "volumeName"}
    is_bound = part(old, "status").get("phase") == "Bound"
    if _fixed(now, was, is_bound=is_bound) != _fixed(was, was, is_bound=is_bound):
        yield forbidden("spec", IMMUTABLE)
        return
    yield from _size(new, old)


def loses_volume(new: Body, old: Body) -> bool:
    return bool(old["spec"].get("volumeName")) and not new["spec"].get("volumeName")


def validate_claim_status(new: Body, old: Body) -> Iterator[Cause]:
    """A claim with a volume cannot become clean: its volume may have been used before."""
    if not old["spec"].get("volumeName"):
        return
    if is_clean(msgspec.convert(new, Claim)) and not is_clean(msgspec.convert(old, Claim)):
        yield forbidden("status.conditions", f"{CLEAN} cannot become True on a claim that has a volume")


def _fixed(spec: Body, was: Body, *, is_bound: bool) -> Body:
    """The spec without the fields that may change."""
    fixed = dict(spec)
    if not was.get("volumeName"):
        fixed.pop("volumeName", None)
    if "storageClassName" not in was:
        # May be set once, when a default class was added later.
        fixed.pop("storageClassName", None)
    if is_bound:
        fixed.pop("volumeAttributesClassName", None)
        fixed["resources"] = {k: v for k, v in part(spec, "resources").items() if k != "requests"}
    return fixed


def _size(new: Body, old: Body) -> Iterator[Cause]:
    """A claim may grow, and shrink again while the volume was not expanded."""
    now, capacity = requested_size(new), quantity.parse(part(old, "status", "capacity").get("storage", "0"))
    if now < requested_size(old) and now <= capacity:
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def requested_size(claim: Body) -> quantity.Quantity:
    return quantity.parse(part(claim, "spec", "resources", "requests").get("storage", "0"))


@cache
def sources() -> frozenset[str]:
    """The volume source fields, of which a spec has exactly one."""
    return frozenset(type_named("core/v1.PersistentVolumeSource").by_name)


def validate_volume(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from _capacity(part(spec, "capacity"))
    if spec.get("accessModes"):
        yield from validate_access_modes(spec["accessModes"], "spec.accessModes")
    else:
        yield required("spec.accessModes")
    yield from one_of(spec, "spec", "persistentVolumeReclaimPolicy", "Delete", "Recycle", "Retain")
    yield from one_of(spec, "spec", "volumeMode", *VOLUME_MODES)
    yield from _source(spec)
    yield from _affinity(spec)
    if name := spec.get("storageClassName"):
        yield from violations(check_dns1123_subdomain, name, "spec.storageClassName")


def validate_volume_update(new: Body, old: Body) -> Iterator[Cause]:
    """The claimRef and the reclaim policy may change, the source may not."""
    now, was = new["spec"], old["spec"]
    if now == was:
        return
    yield from validate_volume(new)
    if {f: now[f] for f in sources() & now.keys()} != {f: was[f] for f in sources() & was.keys()}:
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    yield from immutable_fields(now, was, "volumeMode")
    if "nodeAffinity" in was and not _undoes_zonal_upgrade(new, was["nodeAffinity"]):
        yield from immutable_fields(new, old, "spec.nodeAffinity")


def _undoes_zonal_upgrade(new: Body, was: Body) -> bool:
    """Whether an affinity is removed that the zone labels, which stay, imply; the annotation states the intent."""
    meta = new["metadata"]
    affinity = msgspec.convert(was, VolumeNodeAffinity)
    intended = (meta.get("annotations") or {}).get(well_known.ZONAL_UPGRADE) == well_known.ZONAL_UPGRADE_UNDONE
    return intended and "nodeAffinity" not in new["spec"] and implied_by_labels(affinity, meta.get("labels") or {})


def _capacity(capacity: Body) -> Iterator[Cause]:
    if not capacity:
        yield required("spec.capacity")
        yield unsupported("spec.capacity", None, ("storage",))
        return
    if capacity.keys() != {"storage"}:
        yield unsupported("spec.capacity", ", ".join(sorted(capacity)), ("storage",))
    for name, size in capacity.items():
        if quantity.parse(size) <= 0:
            yield bad_value(f"spec.capacity[{name}]", size, "must be greater than zero")


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
    elif "required" not in spec["nodeAffinity"]:
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
    else:
        yield from field_checks.validate_node_selector(spec["nodeAffinity"]["required"], "spec.nodeAffinity.required")


_DATED: Final = "lastPhaseTransitionTime"


def _date_phase(new: Body, old: Body | None, now: str) -> None:
    """Dates a phase change, unless the writer does."""
    if old is None:
        return
    is_now, was = part(new, "status"), part(old, "status")
    if is_now.get("phase") != was.get("phase") and is_now.get(_DATED) == was.get(_DATED):
        new["status"] = is_now | {_DATED: now}


RULES: Final[Mapping[Kind[Any], KindRules]] = {
    CLAIM: KindRules(
        defaults=lambda obj: default_claim_spec(obj["spec"]),
        create=validate_claim,
        update=validate_claim_update,
        update_status=validate_claim_status,
        initial_status=lambda obj, now: {"phase": "Pending"},
        printer=_CLAIMS,
        deletion_returns_object=True,
    ),
    VOLUME: KindRules(
        defaults=default_volume,
        create=validate_volume,
        update=validate_volume_update,
        initial_status=lambda obj, now: {"phase": "Pending", _DATED: now},
        set_derived=_date_phase,
        printer=_VOLUMES,
        deletion_returns_object=True,
    ),
}
