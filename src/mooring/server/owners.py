"""Who owns which fields of a stored object, kept up to date by every write.

`metadata.managedFields` exists only on objects that somebody applied; on all others nothing is tracked and nothing is
paid. The rules are in `api.ownership`; this is where they meet the server's bodies and endpoints.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.api.errors import BadRequest
from mooring.api.fields.table import type_of
from mooring.api.kinds import Kind
from mooring.api.ownership.managers import Manager, Owners, claimed_owners, entries_of, owners_in, update
from mooring.api.ownership.paths import MalformedPaths, Path
from mooring.server.body import Body, meta
from mooring.server.contract import Target

FIELD: Final = "managedFields"
_STATUS: Final = ("f:status",)
_SPEC: Final = ("f:spec",)


def out_of_reach(target: Target) -> Sequence[Path]:
    """What an endpoint has no say in: it is no part of what is applied there."""
    if target.subresource:
        return (_SPEC,)
    return (_STATUS,) if target.kind.has_status else ()


def owners_of(obj: Body) -> Owners:
    """Raises BadRequest."""
    return _read(owners_in, meta(obj).get(FIELD, []))


def _read(read: Callable[[object], Owners], entries: object) -> Owners:
    try:
        return read(entries)
    except MalformedPaths as problem:
        raise BadRequest(f"metadata.managedFields: {problem}") from problem


def record(obj: Body, owners: Owners) -> None:
    if owners:
        meta(obj)[FIELD] = entries_of(owners)
    else:
        meta(obj).pop(FIELD, None)


def owners_after_update(
    kind: Kind[Any], before: Body, after: Body, claimed: object, writer: Manager, now: str
) -> Owners:
    """`claimed` is the managedFields the writer sent: it may hand ownership on, or clear it, but not begin it."""
    owners = owners_of(before)
    if not owners:
        return {}
    if claimed is not None:
        owners = _read(claimed_owners, claimed)
        if not owners:
            return {}
    return update(before, after, type_of(kind.api_version, kind.kind), owners, writer, now=now)
