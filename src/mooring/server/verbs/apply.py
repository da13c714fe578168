"""Server-side apply: make an object what its managers, each for its own fields, say it should be.

The object is created where it is not there. Where it is, the manager's statement is merged into it, what the manager
no longer states goes, and a change to somebody else's fields is a conflict unless forced. What happens to the result
(admission, validation, storing) is what happens to any update.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from mooring.api.errors import (
    MAX_CAUSES,
    BadRequest,
    Cause,
    Conflict,
    Details,
    clipped,
    conflict,
    not_found,
    told,
)
from mooring.api.fields.mismatches import wrong_types
from mooring.api.fields.table import Ownership, Shape, Type, type_of
from mooring.api.fields.unknown import unknown_fields
from mooring.api.kinds import Kind
from mooring.api.ownership import managers
from mooring.api.ownership.managers import APPLY, Manager, Outcome
from mooring.api.ownership.paths import UnkeyedItem
from mooring.api.ownership.values import DuplicateItem
from mooring.server.body import Body, meta
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.decoding import read_body
from mooring.server.environment import Environment
from mooring.server.normal_form import normal_form
from mooring.server.objects import retrying
from mooring.server.owners import FIELD, out_of_reach, owners_of
from mooring.server.replacement import replace
from mooring.server.subresources import require_endpoint
from mooring.server.system_fields import check_name, place
from mooring.server.verbs.create import create_named

_CONFLICT_REASON: Final = "FieldManagerConflict"


async def apply_object(
    environment: Environment, target: Target, body: Mapping[str, Any], options: WriteOptions, *, force: bool
) -> Written:
    require_endpoint(target, "patch")
    given = await environment.run(partial(_stated, target, body, options), options.body_bytes)

    async def attempt() -> Written:
        stored = await environment.objects.find(target.kind, target.namespace, target.name)
        if stored is None:
            return await _create(environment, target, given, options)
        old = stored.decode()
        if meta(given).get("resourceVersion", stored.version) != stored.version:
            raise conflict(target.kind.plural, target.name, group=target.kind.group)
        size = max(options.body_bytes, stored.size)
        applied = partial(_applied, environment.now(), target, old, given, options, force=force)
        outcome = await environment.run(applied, size)
        if outcome.conflicts:
            raise _refusal(outcome.conflicts)
        obj = await environment.run(partial(_normal, target.kind, outcome.obj), size)
        return await replace(environment, target, stored, old, obj, options, owners=outcome.owners)

    return await retrying(target, attempt)


def _stated(target: Target, body: Mapping[str, Any], options: WriteOptions) -> Body:
    """The applied object: nothing its manager did not write, and nothing the server does not know."""
    kind = target.kind
    _check_kind(kind, body)
    _check_shape(kind, body)
    given, _ = read_body(kind, body, options)
    check_name(given, target)
    place(given, target)
    if FIELD in meta(given):
        raise BadRequest("metadata.managedFields must be nil")
    _keep_empty_lists(type_of(kind.api_version, kind.kind), body, given)
    # Normal form gives every object all its sections; an empty one that nobody wrote is no statement.
    return {name: value for name, value in given.items() if name in body}


def _keep_empty_lists(type_: Type, body: Mapping[str, Any], given: Body) -> None:
    """A list that is owned as a whole and stated to be empty is a statement, `subjects: []` of a binding above all.
    Normal form cannot tell it from one that is not stated."""
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
    """Without the empty lists that were stated: the object is stored as any other write would leave it."""
    result, _ = normal_form(type_of(kind.api_version, kind.kind), obj)
    return result | {"kind": kind.kind, "apiVersion": kind.api_version}


def _check_kind(kind: Kind[Any], body: Mapping[str, Any]) -> None:
    """Unlike other writes an apply must say what it is about."""
    version, name = body.get("apiVersion", ""), body.get("kind", "")
    if (version, name) != (kind.api_version, kind.kind):
        group_version = version if "/" in str(version) else f"/{version}"
        raise BadRequest(f"invalid object type: {group_version}, Kind={name}")


def _check_shape(kind: Kind[Any], body: Mapping[str, Any]) -> None:
    """Fields nobody knows cannot be owned, so they are refused whatever `fieldValidation` says."""
    if wrong := next(wrong_types(kind.api_version, kind.kind, body), ""):
        raise _untyped(kind, body, wrong)
    if strays := unknown_fields(kind.api_version, kind.kind, body):
        raise _untyped(kind, body, f".{next(iter(strays))}: field not declared in schema")


async def _create(environment: Environment, target: Target, given: Body, options: WriteOptions) -> Written:
    """Raises Mismatch where somebody else was faster, so that the next attempt merges."""
    kind = target.kind
    if target.subresource:
        raise not_found(kind.plural, target.name, group=kind.group)
    if uid := meta(given).get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(kind.plural, target.name, why, group=kind.group)
    applied = partial(_applied, environment.now(), target, {}, given, options, force=True)
    outcome = await environment.run(applied, options.body_bytes)
    fresh = outcome.obj | {
        "metadata": {name: value for name, value in meta(given).items() if name != "resourceVersion"}
    }
    return await create_named(environment, target, fresh, options, owners=outcome.owners)


def _applied(now: str, target: Target, live: Body, given: Body, options: WriteOptions, *, force: bool) -> Outcome:
    kind = target.kind
    try:
        return managers.apply(
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


def _untyped(kind: Kind[Any], body: Mapping[str, Any], why: str) -> BadRequest:
    """Upstream's text; it answers 500, although the mistake is the client's."""
    metadata = body.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    group_version = kind.api_version if kind.group else f"/{kind.api_version}"
    return BadRequest(f"failed to create typed patch object (/{name}; {group_version}, Kind={kind.kind}): {why}")


def _refusal(conflicts: Sequence[managers.Conflict]) -> Conflict:
    first = conflicts[:MAX_CAUSES]
    causes, _ = told(Cause(_CONFLICT_REASON, f"conflict with {each.owner}", each.field) for each in first)
    listed, more = first[: len(causes)], len(conflicts) - len(causes)
    if len(conflicts) == 1:
        message = f"Apply failed with 1 conflict: conflict with {conflicts[0].owner}: {causes[0].field}"
    else:
        lines = [
            line
            for owner, theirs in groupby(listed, key=lambda each: each.owner)
            for line in (f"conflicts with {owner}:", *(f"- {clipped(each.field)}" for each in theirs))
        ]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return Conflict(f"{message}\nand {more} more" if more else message, details=Details(causes=causes))
