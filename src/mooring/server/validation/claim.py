"""Rules for PersistentVolumeClaims, and for the claim specs inside other objects."""

from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api import quantity
from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, unsupported
from mooring.api.object_names import check_dns1123_subdomain
from mooring.api.views.claim import Claim
from mooring.server.body import Body, part
from mooring.server.validation.scalars import one_of
from mooring.server.validation.selectors import validate_label_selector
from mooring.volumes.clean_claims import CLEAN, is_clean, may_unbind

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
    yield from one_of(spec["volumeMode"], VOLUME_MODES, f"{path}.volumeMode")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := spec.get(field):
            for why in check_dns1123_subdomain(name):
                yield bad_value(f"{path}.{field}", name, why)


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
        # Ours, beside upstream's rules; who may do it, and whether at all, is admission's business.
        was = {field: value for field, value in was.items() if field != "volumeName"}
    if _fixed(now, was, is_bound=_is_bound(old)) != _fixed(was, was, is_bound=_is_bound(old)):
        yield forbidden("spec", IMMUTABLE)
        return
    yield from _size(new, old)


def loses_volume(new: Body, old: Body) -> bool:
    return bool(old["spec"].get("volumeName")) and not new["spec"].get("volumeName")


def validate_claim_status(new: Body, old: Body) -> Iterator[Cause]:
    """A claim that has a volume does not become clean: nobody could tell who has used it before."""
    if not old["spec"].get("volumeName"):
        return
    if is_clean(msgspec.convert(new, Claim)) and not is_clean(msgspec.convert(old, Claim)):
        yield forbidden("status.conditions", f"{CLEAN} cannot become True on a claim that has a volume")


def _is_bound(claim: Body) -> bool:
    return part(claim, "status").get("phase") == "Bound"


def _fixed(spec: Body, was: Body, *, is_bound: bool) -> Body:
    """The spec without what this claim may still change."""
    fixed = dict(spec)
    if not was.get("volumeName"):
        fixed.pop("volumeName", None)
    if "storageClassName" not in was:
        # Named later, once, where a class has become the default since.
        fixed.pop("storageClassName", None)
    if is_bound:
        fixed.pop("volumeAttributesClassName", None)
        fixed["resources"] = {k: v for k, v in part(spec, "resources").items() if k != "requests"}
    return fixed


def _size(new: Body, old: Body) -> Iterator[Cause]:
    """A claim may grow; it may take growth back that has not happened yet."""
    now, was = _request(new), _request(old)
    if now >= was:
        return
    capacity = quantity.parse(part(old, "status", "capacity").get("storage", "0"))
    if now <= capacity:
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def _request(claim: Body) -> quantity.Quantity:
    return quantity.parse(part(claim, "spec", "resources", "requests").get("storage", "0"))
