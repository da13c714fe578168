"""Create an object: complete it, check it, and store it under a name nobody has.

A creation looks whether its namespace stays, and writes some awaits later. The namespace could begin to go in between,
be found empty and vanish before the write arrives, which would leave an object in no namespace at all. So the write
relies on the namespace as it was looked at: whatever is created before the mark can be seen by whoever empties the
namespace, and nothing is created after it, whichever server it comes from. Upstream waits five seconds instead.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mooring.api.errors import AlreadyExists, Unexplained, already_exists, conflict
from mooring.api.fields.table import type_of
from mooring.api.kinds import NAMESPACE
from mooring.api.ownership.managers import Owners
from mooring.server.admission.namespace_lifecycle import require_namespace
from mooring.server.admission.review import Review
from mooring.server.admission.table import admit
from mooring.server.authorization.attributes import request_for
from mooring.server.authorization.refusals import require
from mooring.server.body import Body, is_deleting, meta
from mooring.server.contract import Target, WriteOptions, Written
from mooring.server.decoding import read_body
from mooring.server.defaulting.table import fill_defaults
from mooring.server.environment import Environment
from mooring.server.normal_form import fill_zero_values
from mooring.server.objects import Stored
from mooring.server.owners import record
from mooring.server.stamping import unstamped
from mooring.server.status import begin_status
from mooring.server.system_fields import count_template, fill_new, place
from mooring.server.validation.table import require_valid
from mooring.server.versions import parse
from mooring.store.contract import Mismatch, Moved, Record

CREATED: Final = 201

#: How many generated names are tried before giving up, or how often the namespace may change; kube-apiserver's figure
#: for names.
_ATTEMPTS: Final = 8


async def create_object(
    environment: Environment,
    target: Target,
    body: Mapping[str, Any],
    options: WriteOptions,
    *,
    owners: Owners | None = None,
) -> Written:
    """`owners` is who owns what of an object that is created by applying it."""
    obj, warnings = await environment.run(partial(read_body, target.kind, body, options), options.body_bytes)
    prefix = meta(obj).get("generateName", "") if not meta(obj).get("name") else ""
    if prefix:
        meta(obj)["name"] = environment.new_name(prefix)
    home = await _home(environment, target)
    review = await _prepare(environment, target, obj, options.body_bytes)
    if target.name:
        # An update or an apply that creates needs that right too. As upstream it is asked for last.
        await require(environment.security.access, environment.user, request_for("create", target))
    if _is_version(meta(obj).pop("resourceVersion", "")):
        raise Unexplained("resourceVersion should not be set on objects to be created")
    await environment.run(partial(record, obj, owners or {}), options.body_bytes)
    if options.dry_run:
        await _refuse_taken(environment, target, obj)
        answer = unstamped(target.kind, obj)
    else:
        answer = (await _insert(review, target, obj, prefix, home)).body
    return Written(answer, CREATED, (*warnings, *review.warnings))


async def create_named(
    environment: Environment,
    target: Target,
    body: Mapping[str, Any],
    options: WriteOptions,
    *,
    owners: Owners | None = None,
) -> Written:
    """For an update or an apply that found no object. Raises Mismatch where another writer created it meanwhile, so
    that the next attempt changes that one."""
    try:
        return await create_object(environment, target, body, options, owners=owners)
    except AlreadyExists as taken:
        if isinstance(taken.__cause__, Mismatch):
            raise taken.__cause__ from taken
        raise


def _is_version(text: str) -> bool:
    """Whether a new object claims to be a version of a stored one; as upstream, zero and what is no number do not."""
    try:
        return parse(text) != 0
    except ValueError:
        return False


async def _prepare(environment: Environment, target: Target, obj: Body, size: int) -> Review:
    """Everything between decoding and storing."""
    kind = target.kind
    place(obj, target)
    await environment.run(partial(fill_defaults, kind, obj), size)
    review = Review(kind, target.namespace, obj, environment, requested_name=target.name)
    await admit(review)
    await environment.run(partial(begin_status, kind, obj, environment.now()), size)
    fill_new(kind, obj, environment)
    count_template(kind, obj, None)
    await environment.run(partial(require_valid, kind, obj), size)
    await environment.run(partial(fill_zero_values, type_of(kind.api_version, kind.kind), obj), size)
    return review


async def _home(environment: Environment, target: Target) -> Stored | None:
    """The namespace of what is created, as it is before anything is checked."""
    return await environment.objects.find(NAMESPACE, "", target.namespace) if target.kind.namespaced else None


async def _insert(review: Review, target: Target, obj: Body, prefix: str, home: Stored | None) -> Stored:
    """Where the name was made from a `prefix`, another is made as long as it is taken."""
    environment, metadata = review.environment, meta(obj)
    for _ in range(_ATTEMPTS):
        try:
            return await environment.objects.insert(target.kind, target.namespace, obj, given=home)
        except Moved:
            home = await _home(environment, target)
            await require_namespace(review)  # it may have changed and stay all the same
        except Mismatch as taken:
            if not prefix:
                raise _taken(target, metadata["name"], taken.current) from taken
            metadata["name"] = environment.new_name(prefix)
            fill_defaults(target.kind, obj)
    if not prefix:
        raise conflict(target.kind.plural, metadata["name"], group=target.kind.group)
    refusal = already_exists(target.kind.plural, metadata["name"], group=target.kind.group)
    why = "the server was not able to generate a unique name for the object"
    raise AlreadyExists(f"{refusal.message}, {why}", details=refusal.details)


async def _refuse_taken(environment: Environment, target: Target, obj: Body) -> None:
    name = meta(obj)["name"]
    if (stored := await environment.objects.find(target.kind, target.namespace, name)) is not None:
        raise _taken(target, name, stored.record)


def _taken(target: Target, name: str, record: Record | None) -> AlreadyExists:
    is_going = record is not None and is_deleting(Stored(target.kind, record).decode())
    return already_exists(target.kind.plural, name, group=target.kind.group, terminating=is_going)
