"""Patch: change what is there, whatever it is by then, unless the patch says which version it means."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from mooring.api.errors import ApiError, BadRequest, Details, Invalid, TooLarge, conflict, invalid
from mooring.api.field_errors import bad_value
from mooring.api.patches import Json
from mooring.api.patches.contract import JsonPatch, MergePatch, Patch, StrategicPatch
from mooring.api.patches.errors import PatchError, TooManyOperations
from mooring.api.patches.json_patch import apply_json_patch
from mooring.api.patches.merge import apply_merge_patch
from mooring.api.patches.strategic import apply_strategic
from mooring.server.body import Body, meta
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.decoding import Decoded, Undecodable, check_kind, decode
from mooring.server.environment import Environment
from mooring.server.objects import retrying
from mooring.server.replacement import replace
from mooring.server.subresources import require_endpoint
from mooring.server.system_fields import check_name, place


async def patch_object(environment: Environment, target: Target, patch: Patch, options: WriteOptions) -> Written:
    require_endpoint(target, "patch")

    async def attempt() -> Written:
        stored = await environment.objects.require(target)
        old = stored.decode()
        patched = partial(_patched, target, old, patch, options.field_validation)
        new, warnings = await environment.run(patched, max(options.body_bytes, stored.size))
        if meta(new).get("resourceVersion", stored.version) != stored.version:
            raise conflict(target.kind.plural, target.name, group=target.kind.group)
        return await replace(environment, target, stored, old, new, options, warnings=warnings)

    return await retrying(target, attempt)


def _patched(target: Target, old: Body, patch: Patch, field_validation: str) -> Decoded:
    kind = target.kind
    patched = patched_as(kind.api_version, kind.kind, old, patch, field_validation, check=partial(check_kind, kind))
    check_name(patched.obj, target)
    place(patched.obj, target)
    return patched


def patched_as(
    api_version: str,
    kind: str,
    old: Body,
    patch: Patch,
    field_validation: str,
    *,
    check: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> Decoded:
    """What the patch makes of an object of this kind. `check` may refuse the result before it is decoded."""
    try:
        result = _apply(api_version, kind, old, patch)
    except PatchError as problem:
        raise _refusal(patch, problem) from problem
    if not isinstance(result, Mapping):
        raise _refusal(patch, PatchError("the result is not an object"))
    check(result)
    try:
        return decode(api_version, kind, result, field_validation)
    except Undecodable as problem:
        shown = msgspec.json.encode(patch.body).decode()
        raise invalid("", "", [bad_value("patch", shown, str(problem))]) from problem


def _apply(api_version: str, kind: str, old: Body, patch: Patch) -> Json:
    match patch:
        case MergePatch(body):
            return apply_merge_patch(old, dict(body))
        case StrategicPatch(body):
            return apply_strategic(old, dict(body), api_version, kind)
        case JsonPatch(body):
            operations: list[Any] = list(body)
            return apply_json_patch(old, operations)


def _refusal(patch: Patch, problem: PatchError) -> ApiError:
    """Upstream tells a patch that makes no sense from operations that do not go with this object."""
    if isinstance(problem, TooManyOperations):
        return TooLarge(str(problem))
    if isinstance(patch, JsonPatch):
        # Upstream's sentence, which ends without saying what the error is.
        return Invalid(f"the server rejected our request due to an error in our request: {problem}", details=Details())
    return BadRequest(str(problem))
