"""Create, update and patch: decode, default, admit, validate, then write.

Race: a namespace could be marked for deletion, emptied and removed between a creation's check and its write, which
would leave an object in no namespace. So a creation's write is conditional on the namespace as it was checked: the
namespace controller sees whatever was created before the mark, and nothing is created after it, whichever server
serves the request. kube-apiserver waits five seconds instead.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from mooring.api import errors
from mooring.api.documents import Body
from mooring.api.kinds import NAMESPACE
from mooring.api.managed_fields import UPDATE, Manager, Owners
from mooring.api.patches.contract import (
    Json,
    JsonPatch,
    MergePatch,
    Patch,
    PatchError,
    StrategicPatch,
    TooManyOperations,
    apply_merge_patch,
)
from mooring.api.patches.json_patch import apply_json_patch
from mooring.api.patches.strategic import apply_strategic
from mooring.api.schema.types import type_of
from mooring.server import system_fields
from mooring.server.admission.chain import admit, admit_valid, require_namespace
from mooring.server.auth.access import require
from mooring.server.auth.rbac import request_for
from mooring.server.contract import SentBody, Target, WriteOptions, Written, require_endpoint
from mooring.server.decoding import Decoded, Undecodable, check_kind, decode, fill_zero_values, read_body
from mooring.server.encoding import is_deleting, meta, stored_form, with_resource_version, without_resource_version
from mooring.server.environment import AdmissionRequest, RequestContext
from mooring.server.kinds.registry import require_valid, require_valid_update, rules_of
from mooring.server.objects import Stored, retry_on_conflict
from mooring.server.verbs.deletion import is_deletion_blocked
from mooring.server.verbs.resource_versions import BadVersion, parse
from mooring.store.contract import PreconditionFailed, Record, RevisionConflict


async def replace(
    context: RequestContext,
    target: Target,
    stored: Stored,
    old: Body,
    new: Body,
    options: WriteOptions,
    *,
    warnings: tuple[str, ...] = (),
    owners: Owners | None = None,
    through: str = "",
) -> Written:
    """Replace a stored object; the common part of update, patch, apply and subresources. `old` is `stored`, decoded.

    Removes the object if its last finalizer was removed, and writes nothing if nothing changed. Raises the store's
    RevisionConflict if the stored object changed. `owners` are the field owners afterwards, None for the rules of
    updates. `through` is the subresource of the request, if it is not the target's.
    """
    kind, size = target.kind, max(options.body_bytes, stored.size)
    claimed = meta(new).pop(system_fields.FIELD, None)
    sent = {**meta(new)}
    system_fields.copy_system_fields(new, old)
    await context.run(partial(rules_of(kind).defaults, new), size)
    system_fields.restrict_to_endpoint(kind, new, old, target.subresource)
    review = AdmissionRequest(kind, target.namespace, new, context, old, requested_name=target.name, sent_metadata=sent)
    if not target.subresource:
        await admit(review)
    await context.run(partial(require_valid_update, kind, new, old, target.subresource), size)
    if not target.subresource:
        await admit_valid(review)
    await context.run(partial(fill_zero_values, type_of(kind.api_version, kind.kind), new), size)
    system_fields.count_generation(kind, new, old)
    rules_of(kind).set_derived(new, old, context.now())
    if owners is None:
        writer = Manager(options.field_manager, UPDATE, kind.api_version, through or target.subresource)
        updated = partial(system_fields.owners_after_update, kind, old, new, claimed, writer, context.now())
        owners = await context.run(updated, size)
    await context.run(partial(system_fields.record, new, owners), size)
    answer = await _store_result(context, stored, new, old, dry_run=options.dry_run)
    return Written(answer, warnings=(*warnings, *review.warnings))


async def _store_result(context: RequestContext, stored: Stored, new: Body, old: Body, *, dry_run: bool) -> bytes:
    if new == old:
        return stored.body
    if dry_run:
        return with_resource_version(stored.kind, stored_form(stored.kind, new), stored.record.revision)
    if is_deleting(old) and not is_deletion_blocked(stored.kind, new):
        # Watchers get one DELETED event with the old object; the writer gets what it wrote.
        revision = await context.objects.remove(stored)
        return with_resource_version(stored.kind, stored_form(stored.kind, new), revision)
    return (await context.objects.replace(stored, new)).body


CREATED: Final = 201

#: Attempts with generated names or after changes of the namespace; kube-apiserver's number for names.
_MAX_ATTEMPTS: Final = 8


async def create_object(
    context: RequestContext, target: Target, body: SentBody, options: WriteOptions, *, owners: Owners | None = None
) -> Written:
    """`owners` are the field owners of an object that is created by an apply."""
    obj, warnings = await context.run(partial(read_body, target.kind, body, options), options.body_bytes)
    prefix = meta(obj).get("generateName", "") if not meta(obj).get("name") else ""
    if prefix:
        meta(obj)["name"] = context.new_name(prefix)
    namespace = await _read_namespace(context, target)
    review = await _prepare(context, target, obj, options.body_bytes)
    if target.name:
        # An update or apply that creates needs the create permission too, checked last as in kube-apiserver.
        await require(context.security.access, context.user, request_for("create", target))
    if _is_version(meta(obj).pop("resourceVersion", "")):
        raise errors.UnknownError("resourceVersion should not be set on objects to be created")
    await context.run(partial(system_fields.record, obj, owners or {}), options.body_bytes)
    if options.dry_run:
        name = meta(obj)["name"]
        if (stored := await context.objects.find(target.kind, target.namespace, name)) is not None:
            raise _name_in_use(target, name, stored.record)
        answer = without_resource_version(target.kind, obj)
    else:
        answer = (await _insert(review, target, obj, prefix, namespace)).body
    return Written(answer, CREATED, (*warnings, *review.warnings))


async def create_named(
    context: RequestContext, target: Target, body: SentBody, options: WriteOptions, *, owners: Owners | None = None
) -> Written:
    """For an update or apply that found no object. Raises RevisionConflict if another writer created it meanwhile, so
    that the next attempt changes that one."""
    try:
        return await create_object(context, target, body, options, owners=owners)
    except errors.AlreadyExists as taken:
        if isinstance(taken.__cause__, RevisionConflict):
            raise taken.__cause__ from taken
        raise


def _is_version(text: str) -> bool:
    """Whether it is a resourceVersion other than zero; as in kube-apiserver, an invalid one is not."""
    try:
        return parse(text) != 0
    except BadVersion:
        return False


async def _prepare(context: RequestContext, target: Target, obj: Body, size: int) -> AdmissionRequest:
    """All steps between decoding and storing."""
    kind = target.kind
    system_fields.set_namespace(obj, target)
    await context.run(partial(rules_of(kind).defaults, obj), size)
    review = AdmissionRequest(kind, target.namespace, obj, context, requested_name=target.name)
    await admit(review)
    await context.run(partial(system_fields.reset_status, kind, obj, context.now()), size)
    system_fields.set_identity(kind, obj, context)
    rules_of(kind).set_derived(obj, None, context.now())
    await context.run(partial(require_valid, kind, obj), size)
    await context.run(partial(fill_zero_values, type_of(kind.api_version, kind.kind), obj), size)
    return review


async def _read_namespace(context: RequestContext, target: Target) -> Stored | None:
    """The namespace of the new object, read before any check."""
    return await context.objects.find(NAMESPACE, "", target.namespace) if target.kind.namespaced else None


async def _insert(review: AdmissionRequest, target: Target, obj: Body, prefix: str, namespace: Stored | None) -> Stored:
    """With a `prefix`, generates another name while the name is in use."""
    context, metadata = review.environment, meta(obj)
    for _ in range(_MAX_ATTEMPTS):
        try:
            return await context.objects.insert(target.kind, target.namespace, obj, precondition=namespace)
        except PreconditionFailed:
            namespace = await _read_namespace(context, target)
            await require_namespace(review)  # it may have changed without being deleted
        except RevisionConflict as taken:
            if not prefix:
                raise _name_in_use(target, metadata["name"], taken.current) from taken
            metadata["name"] = context.new_name(prefix)
            rules_of(target.kind).defaults(obj)
    if not prefix:
        raise errors.conflict(target.kind.plural, metadata["name"], group=target.kind.group)
    refusal = errors.already_exists(target.kind.plural, metadata["name"], group=target.kind.group)
    why = "the server was not able to generate a unique name for the object"
    raise errors.AlreadyExists(f"{refusal.message}, {why}", details=refusal.details)


def _name_in_use(target: Target, name: str, found: Record | None) -> errors.AlreadyExists:
    is_going = found is not None and is_deleting(Stored(target.kind, found).decode())
    return errors.already_exists(target.kind.plural, name, group=target.kind.group, terminating=is_going)


async def patch_object(context: RequestContext, target: Target, patch: Patch, options: WriteOptions) -> Written:
    require_endpoint(target, "patch")

    async def attempt() -> Written:
        stored = await context.objects.require(target)
        old = stored.decode()
        # A second copy, of which the patched object takes what the patch does not change.
        patched = partial(_patched, target, stored.decode(), patch, options.field_validation)
        new, warnings = await context.run(patched, max(options.body_bytes, stored.size))
        if meta(new).get("resourceVersion", stored.version) != stored.version:
            raise errors.conflict(target.kind.plural, target.name, group=target.kind.group)
        return await replace(context, target, stored, old, new, options, warnings=warnings)

    return await retry_on_conflict(target, attempt)


def _patched(target: Target, base: Body, patch: Patch, field_validation: str) -> Decoded:
    kind = target.kind
    patched = patched_as(kind.api_version, kind.kind, base, patch, field_validation, check=partial(check_kind, kind))
    system_fields.check_name(patched.obj, target)
    system_fields.set_namespace(patched.obj, target)
    return patched


def patched_as(
    api_version: str,
    kind: str,
    base: Body,
    patch: Patch,
    field_validation: str,
    *,
    check: Callable[[SentBody], None] = lambda _: None,
) -> Decoded:
    """The patched object, decoded, which shares with `base` what the patch does not change. `check` may reject the
    result before it is decoded."""
    try:
        result = _apply(api_version, kind, base, patch)
    except PatchError as problem:
        raise _refusal(patch, problem) from problem
    if not isinstance(result, Mapping):
        raise _refusal(patch, PatchError("the result is not an object"))
    check(result)
    try:
        return decode(api_version, kind, result, field_validation, base)
    except Undecodable as problem:
        shown = msgspec.json.encode(patch.body).decode()
        raise errors.invalid("", "", [errors.bad_value("patch", shown, str(problem))]) from problem


def _apply(api_version: str, kind: str, base: Body, patch: Patch) -> Json:
    match patch:
        case MergePatch(body):
            return apply_merge_patch(base, dict(body))
        case StrategicPatch(body):
            return apply_strategic(base, dict(body), api_version, kind)
        case JsonPatch(body):
            operations: list[Any] = list(body)
            return apply_json_patch(base, operations)


def _refusal(patch: Patch, problem: PatchError) -> errors.ApiError:
    if isinstance(problem, TooManyOperations):
        return errors.TooLarge(str(problem))
    if isinstance(patch, JsonPatch):
        # kube-apiserver's message, which ends before the problem.
        return errors.Invalid(
            f"the server rejected our request due to an error in our request: {problem}", details=errors.Details()
        )
    return errors.BadRequest(str(problem))


async def update_object(context: RequestContext, target: Target, body: SentBody, options: WriteOptions) -> Written:
    require_endpoint(target, "update")
    given, warnings = await context.run(partial(read_body, target.kind, body, options), options.body_bytes)
    system_fields.check_name(given, target)
    system_fields.set_namespace(given, target)

    async def attempt() -> Written:
        stored = await context.objects.find(target.kind, target.namespace, target.name)
        if stored is None:
            return await _create(context, target, given, options)
        old = stored.decode()
        _check_preconditions(target, given, old)
        new = given | {"metadata": dict(meta(given))}
        return await replace(context, target, stored, old, new, options, warnings=warnings)

    if meta(given).get("resourceVersion"):
        try:
            return await attempt()
        except RevisionConflict as overtaken:
            raise errors.conflict(target.kind.plural, target.name, group=target.kind.group) from overtaken
    return await retry_on_conflict(target, attempt)


async def _create(context: RequestContext, target: Target, given: Body, options: WriteOptions) -> Written:
    """Some kinds are created by an update, but not if it names a version or uid: that object was deleted. Raises
    RevisionConflict if another writer was first."""
    kind = target.kind
    if not kind.create_on_update or target.subresource:
        raise errors.not_found(kind.plural, target.name, group=kind.group)
    if meta(given).get("resourceVersion") or meta(given).get("uid"):
        raise errors.conflict(kind.plural, target.name, group=kind.group)
    return await create_named(context, target, given, options)


def _check_preconditions(target: Target, given: Body, old: Body) -> None:
    """A uid or resourceVersion in the object is a precondition. Raises Conflict."""
    kind, metadata = target.kind, meta(given)
    uid, version = metadata.get("uid"), metadata.get("resourceVersion", "")
    if uid and uid != (actual := meta(old)["uid"]):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise errors.conflict(kind.plural, target.name, why, group=kind.group)
    parse(version)
    if not version and kind.update_needs_version:
        cause = errors.bad_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(kind.plural, target.name, [cause], group=kind.group)
    if version and version != meta(old)["resourceVersion"]:
        raise errors.conflict(kind.plural, target.name, group=kind.group)
