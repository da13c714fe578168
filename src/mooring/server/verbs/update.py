"""Update: replace an object by another version of it, if nobody was faster."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mooring.api.errors import conflict, invalid, not_found
from mooring.api.field_errors import bad_value
from mooring.server.body import Body, meta
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.decoding import read_body
from mooring.server.environment import Environment
from mooring.server.objects import retrying
from mooring.server.replacement import replace
from mooring.server.subresources import require_endpoint
from mooring.server.system_fields import check_name, place
from mooring.server.verbs.create import create_named
from mooring.server.versions import BadVersion, parse
from mooring.store.contract import Mismatch


async def update_object(
    environment: Environment, target: Target, body: Mapping[str, Any], options: WriteOptions
) -> Written:
    require_endpoint(target, "update")
    given, warnings = await environment.run(partial(read_body, target.kind, body, options), options.body_bytes)
    check_name(given, target)
    place(given, target)

    async def attempt() -> Written:
        stored = await environment.objects.find(target.kind, target.namespace, target.name)
        if stored is None:
            return await _create(environment, target, given, options)
        old = stored.decode()
        _check_preconditions(target, given, old)
        new = given | {"metadata": dict(meta(given))}
        return await replace(environment, target, stored, old, new, options, warnings=warnings)

    if meta(given).get("resourceVersion"):
        try:
            return await attempt()
        except Mismatch as overtaken:
            raise conflict(target.kind.plural, target.name, group=target.kind.group) from overtaken
    return await retrying(target, attempt)


async def _create(environment: Environment, target: Target, given: Body, options: WriteOptions) -> Written:
    """Some kinds are created by an update; not if the writer has seen an object, which must be gone by now. Raises
    Mismatch where another writer was faster."""
    kind = target.kind
    if not kind.create_on_update or target.subresource:
        raise not_found(kind.plural, target.name, group=kind.group)
    if meta(given).get("resourceVersion") or meta(given).get("uid"):
        raise conflict(kind.plural, target.name, group=kind.group)
    return await create_named(environment, target, given, options)


def _check_preconditions(target: Target, given: Body, old: Body) -> None:
    """A uid or a version in the object says what the writer believes to replace."""
    kind, metadata = target.kind, meta(given)
    uid, version = metadata.get("uid"), metadata.get("resourceVersion", "")
    if uid and uid != (actual := meta(old)["uid"]):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise conflict(kind.plural, target.name, why, group=kind.group)
    try:
        parse(version)
    except ValueError as problem:
        raise BadVersion(str(problem)) from problem
    if not version and kind.update_needs_version:
        cause = bad_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(kind.plural, target.name, [cause], group=kind.group)
    if version and version != meta(old)["resourceVersion"]:
        raise conflict(kind.plural, target.name, group=kind.group)
