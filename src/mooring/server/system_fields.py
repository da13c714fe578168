"""Fields set by the server: identity, generation, the separation of spec and status, managedFields.

`managedFields` exists only on objects that were applied; the rules of ownership are in `api.managed_fields`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.api import managed_fields
from mooring.api.documents import Body
from mooring.api.errors import BadRequest
from mooring.api.kinds import Kind
from mooring.api.schema.types import type_of
from mooring.server.contract import Target
from mooring.server.encoding import meta, restore_field
from mooring.server.environment import RequestContext
from mooring.server.kinds.registry import rules_of
from mooring.server.kinds.rules import spec_changed

FIELD: Final = "managedFields"
_STATUS: Final = ("f:status",)
_SPEC: Final = ("f:spec",)


def out_of_reach(target: Target) -> Sequence[managed_fields.Path]:
    """Fields that an apply to this endpoint does not own."""
    if target.subresource:
        return (_SPEC,)
    return (_STATUS,) if target.kind.has_status else ()


def owners_of(obj: Body) -> managed_fields.Owners:
    """Raises BadRequest."""
    return _read(managed_fields.owners_in, meta(obj).get(FIELD, []))


def _read(read: Callable[[object], managed_fields.Owners], entries: object) -> managed_fields.Owners:
    try:
        return read(entries)
    except managed_fields.MalformedPaths as problem:
        raise BadRequest(f"metadata.managedFields: {problem}") from problem


def record(obj: Body, owners: managed_fields.Owners) -> None:
    if owners:
        meta(obj)[FIELD] = managed_fields.entries_of(owners)
    else:
        meta(obj).pop(FIELD, None)


def owners_after_update(
    kind: Kind[Any], before: Body, after: Body, claimed: object, writer: managed_fields.Manager, now: str
) -> managed_fields.Owners:
    """`claimed` is the managedFields of the request: it may transfer or clear ownership, but not start tracking."""
    owners = owners_of(before)
    if owners and claimed is not None:
        owners = _read(managed_fields.claimed_owners, claimed)
    if not owners:
        return {}
    return managed_fields.update_fields(before, after, type_of(kind.api_version, kind.kind), owners, writer, now=now)


def reset_status(kind: Kind[Any], obj: Body, now: str) -> None:
    """Replaces the status of a create request by the initial status of the kind."""
    if kind.has_status:
        obj["status"] = rules_of(kind).initial_status(obj, now)


def restrict_to_endpoint(kind: Kind[Any], new: Body, old: Body, subresource: str) -> None:
    """Restores the fields that the written endpoint must not change."""
    if not kind.has_status:
        return
    if subresource == "status":
        # In the order of the objects: with a set the stored bytes would depend on hashing.
        for field in (*new, *old):
            if field not in ("metadata", "status"):
                restore_field(field, new, old)
    else:
        restore_field("status", new, old)
    rules_of(kind).restore(new, old, subresource)


_NOT_OURS_TO_CREATE: Final = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", FIELD)


def set_namespace(obj: Body, target: Target) -> None:
    """Sets the namespace of the request. Raises BadRequest if the object has another."""
    metadata = meta(obj)
    if metadata.get("namespace", target.namespace) != target.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    if target.kind.namespaced:
        if not target.namespace:
            raise BadRequest("an empty namespace may not be set during creation")
        metadata["namespace"] = target.namespace


def check_name(obj: Body, target: Target) -> None:
    """Raises BadRequest unless the object has the name in the URL."""
    name = meta(obj).get("name")
    if not name:
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def set_identity(kind: Kind[Any], obj: Body, environment: RequestContext) -> None:
    """Sets uid, creationTimestamp and generation of a new object."""
    metadata = meta(obj)
    for field in _NOT_OURS_TO_CREATE:
        metadata.pop(field, None)
    metadata["uid"] = environment.new_uid()
    metadata["creationTimestamp"] = environment.now()
    if kind.has_generation:
        metadata["generation"] = 1


def copy_system_fields(new: Body, old: Body) -> None:
    """Copies fields that an update cannot change. Attempts to set a uid or a deletion are left to validation."""
    now, was = meta(new), meta(old)
    now.pop("selfLink", None)
    for field in ("creationTimestamp", "generation", "resourceVersion"):
        restore_field(field, now, was)
    now.setdefault("uid", was["uid"])
    if "deletionTimestamp" in was:
        restore_field("deletionTimestamp", now, was)
    if "deletionGracePeriodSeconds" in was:
        now.setdefault("deletionGracePeriodSeconds", was["deletionGracePeriodSeconds"])


def count_generation(kind: Kind[Any], new: Body, old: Body) -> None:
    decide = rules_of(kind).new_generation
    if kind.has_generation and spec_changed(new, old) if decide is None else decide(new, old):
        meta(new)["generation"] = meta(old).get("generation", 0) + 1
