"""From a request's body to an object that the rest of the server can trust.

Checks that it is the kind the URL promises and that every value has the right JSON type, then brings it into normal
form. Fields Kubernetes does not know are left out, as upstream leaves them out: with `fieldValidation` Strict they
are refused, with Warn (the default) the writer is told. Fields that Kubernetes has and Mooring never reads are kept.

Not here: defaults, admission and validation, which look at what the values mean.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.api.errors import BadRequest, invalid
from mooring.api.field_errors import forbidden
from mooring.api.fields.mismatches import wrong_types
from mooring.api.fields.table import type_of
from mooring.api.fields.unknown import unknown_fields
from mooring.api.kinds import STORAGE_CLASS, Kind
from mooring.api.quantity import QuantityError
from mooring.server.body import Body
from mooring.server.contract import WriteOptions
from mooring.server.normal_form import Misfit, normal_form

STRICT: Final = "Strict"
IGNORE: Final = "Ignore"

#: Fields of early drafts, by kind. Dropping them with a warning would change what the object means, so they are
#: refused whatever `fieldValidation` says.
_RENAMED: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    (STORAGE_CLASS.api_version, STORAGE_CLASS.kind): {"bindingMode": "volumeBindingMode"},
}


class Undecodable(ValueError):
    """The body is no such object. Create and update call that a bad request, patch an invalid patch."""


class Decoded(NamedTuple):
    obj: Body
    warnings: tuple[str, ...]


def read_body(kind: Kind[Any], body: Mapping[str, Any], options: WriteOptions) -> Decoded:
    """The object a create or an update carries; BadRequest where it is none."""
    check_kind(kind, body)
    try:
        return decode(kind.api_version, kind.kind, body, options.field_validation)
    except Undecodable as problem:
        raise BadRequest(f"{_as(kind.kind, kind.version, kind.kind)}: {problem}") from problem


def decode(api_version: str, kind: str, body: Mapping[str, Any], field_validation: str) -> Decoded:
    """The body in normal form, and what to warn of. Raises Undecodable."""
    given = dict(body)
    _refuse_renamed(api_version, kind, given)
    try:
        obj, has_strays = normal_form(type_of(api_version, kind), given)
    except (Misfit, QuantityError) as problem:
        raise Undecodable(next(wrong_types(api_version, kind, given), str(problem))) from problem
    obj |= {"kind": kind, "apiVersion": api_version}
    if not has_strays or field_validation == IGNORE:
        return Decoded(obj, ())
    strays = tuple(f'unknown field "{path}"' for path in unknown_fields(api_version, kind, given))
    if field_validation == STRICT:
        raise Undecodable(f"strict decoding error: {', '.join(strays)}")
    return Decoded(obj, strays)


def check_kind(kind: Kind[Any], body: Mapping[str, Any]) -> None:
    """Clients may leave kind and apiVersion out; what they do say must be what the URL says."""
    version, name = body.get("apiVersion") or kind.api_version, body.get("kind") or kind.kind
    if name != kind.kind:
        raise BadRequest(
            f"{_as(str(name), str(version).rpartition('/')[2], kind.kind)}: "
            f"the kind in the data ({name}) does not match the kind of the URL ({kind.kind})"
        )
    if version != kind.api_version:
        raise BadRequest(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )


def _as(found: str, version: str, expected: str) -> str:
    return f'{found} in version "{version}" cannot be handled as a {expected}'


def _refuse_renamed(api_version: str, kind: str, body: Mapping[str, Any]) -> None:
    renamed = _RENAMED.get((api_version, kind), {})
    causes = [
        forbidden(old, f'there is no such field; it was renamed, write "{new}"')
        for old, new in renamed.items()
        if old in body
    ]
    if causes:
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        raise invalid(kind, str(name), causes, group=api_version.rpartition("/")[0])
