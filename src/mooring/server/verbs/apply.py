"""Server-side apply: create the object, or merge the fields of one manager into it.

Fields that the manager no longer applies are removed, and changing a field of another manager is a conflict unless
forced. The result is admitted, validated and stored like any update.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from mooring.api import errors, managed_fields
from mooring.api.documents import Body
from mooring.api.kinds import Kind
from mooring.api.managed_fields import APPLY, ApplyResult, DuplicateItem, Manager, UnkeyedItem
from mooring.api.schema.checks import unknown_fields, wrong_types
from mooring.api.schema.types import Ownership, Shape, Type, type_of
from mooring.server.contract import SentBody, Target, WriteOptions, Written, require_endpoint
from mooring.server.decoding import canonical_form, read_body
from mooring.server.encoding import meta
from mooring.server.environment import RequestContext
from mooring.server.objects import retry_on_conflict
from mooring.server.system_fields import FIELD, check_name, out_of_reach, owners_of, set_namespace
from mooring.server.verbs.write import create_named, replace

_CONFLICT_REASON: Final = "FieldManagerConflict"


async def apply_object(
    context: RequestContext, target: Target, body: SentBody, options: WriteOptions, *, force: bool
) -> Written:
    require_endpoint(target, "patch")
    given = await context.run(partial(_stated, target, body, options), options.body_bytes)

    async def attempt() -> Written:
        stored = await context.objects.find(target.kind, target.namespace, target.name)
        if stored is None:
            return await _create(context, target, given, options)
        old = stored.decode()
        if meta(given).get("resourceVersion", stored.version) != stored.version:
            raise errors.conflict(target.kind.plural, target.name, group=target.kind.group)
        size = max(options.body_bytes, stored.size)
        applied = partial(_applied, context.now(), target, old, given, options, force=force)
        outcome = await context.run(applied, size)
        if outcome.conflicts:
            raise _refusal(outcome.conflicts)
        obj = await context.run(partial(_normal, target.kind, outcome.obj), size)
        return await replace(context, target, stored, old, obj, options, owners=outcome.owners)

    return await retry_on_conflict(target, attempt)


def _stated(target: Target, body: SentBody, options: WriteOptions) -> Body:
    """The applied object: only fields that its manager sent, all of them known."""
    kind = target.kind
    _check_kind(kind, body)
    _check_shape(kind, body)
    given, _ = read_body(kind, body, options)
    check_name(given, target)
    set_namespace(given, target)
    if FIELD in meta(given):
        raise errors.BadRequest("metadata.managedFields must be nil")
    _keep_empty_lists(type_of(kind.api_version, kind.kind), body, given)
    # Decoding adds empty sections, which the manager did not apply.
    return {name: value for name, value in given.items() if name in body}


def _keep_empty_lists(type_: Type, body: SentBody, given: Body) -> None:
    """Restores applied empty atomic lists, such as `subjects: []` of a binding, which decoding drops."""
    for name, value in body.items():
        field = type_.by_name.get(name)
        if field is None:
            continue
        if value == [] and field.ownership is Ownership.ATOMIC:
            given.setdefault(name, [])
            continue
        inner, struct = given.get(name), field.struct if field.shape is Shape.ONE else None
        if struct is not None and isinstance(value, Mapping) and isinstance(inner, dict):
            _keep_empty_lists(struct, value, inner)


def _normal(kind: Kind[Any], obj: Body) -> Body:
    """Without applied empty lists: stored as after any other write."""
    result, _ = canonical_form(type_of(kind.api_version, kind.kind), obj)
    return result | {"kind": kind.kind, "apiVersion": kind.api_version}


def _check_kind(kind: Kind[Any], body: SentBody) -> None:
    """Unlike other writes, an apply must contain apiVersion and kind."""
    version, name = body.get("apiVersion", ""), body.get("kind", "")
    if (version, name) != (kind.api_version, kind.kind):
        group_version = version if "/" in str(version) else f"/{version}"
        raise errors.BadRequest(f"invalid object type: {group_version}, Kind={name}")


def _check_shape(kind: Kind[Any], body: SentBody) -> None:
    """Unknown fields cannot be owned, so they are rejected whatever `fieldValidation` is."""
    if wrong := next(wrong_types(kind.api_version, kind.kind, body), ""):
        raise _untyped(kind, body, wrong)
    if unknown := unknown_fields(kind.api_version, kind.kind, body):
        raise _untyped(kind, body, f".{unknown[0]}: field not declared in schema")


async def _create(context: RequestContext, target: Target, given: Body, options: WriteOptions) -> Written:
    """Raises RevisionConflict if another writer was first, so that the next attempt merges."""
    kind = target.kind
    if target.subresource:
        raise errors.not_found(kind.plural, target.name, group=kind.group)
    if uid := meta(given).get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(kind.plural, target.name, why, group=kind.group)
    applied = partial(_applied, context.now(), target, {}, given, options, force=True)
    outcome = await context.run(applied, options.body_bytes)
    fresh = outcome.obj | {
        "metadata": {name: value for name, value in meta(given).items() if name != "resourceVersion"}
    }
    return await create_named(context, target, fresh, options, owners=outcome.owners)


def _applied(now: str, target: Target, live: Body, given: Body, options: WriteOptions, *, force: bool) -> ApplyResult:
    kind = target.kind
    try:
        return managed_fields.apply_fields(
            live,
            given,
            type_of(kind.api_version, kind.kind),
            owners_of(live) if live else {},
            Manager(options.field_manager, APPLY, kind.api_version, target.subresource),
            force=force,
            now=now,
            ignored=out_of_reach(target),
        )
    except (UnkeyedItem, DuplicateItem) as problem:
        raise _untyped(kind, given, str(problem)) from problem


def _untyped(kind: Kind[Any], body: SentBody, why: str) -> errors.BadRequest:
    """kube-apiserver's message; its code is 500 although the error is the client's."""
    metadata = body.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    group_version = kind.api_version if kind.group else f"/{kind.api_version}"
    return errors.BadRequest(f"failed to create typed patch object (/{name}; {group_version}, Kind={kind.kind}): {why}")


def _refusal(conflicts: Sequence[managed_fields.FieldConflict]) -> errors.Conflict:
    first = conflicts[: errors.MAX_CAUSES]
    causes, _ = errors.bounded_causes(
        errors.Cause(_CONFLICT_REASON, f"conflict with {each.owner}", each.field) for each in first
    )
    listed, more = first[: len(causes)], len(conflicts) - len(causes)
    if len(conflicts) == 1:
        message = f"Apply failed with 1 conflict: conflict with {conflicts[0].owner}: {causes[0].field}"
    else:
        lines = [
            line
            for owner, theirs in groupby(listed, key=lambda each: each.owner)
            for line in (f"conflicts with {owner}:", *(f"- {errors.clipped(each.field)}" for each in theirs))
        ]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return errors.Conflict(f"{message}\nand {more} more" if more else message, details=errors.Details(causes=causes))
