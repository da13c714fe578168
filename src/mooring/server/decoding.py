"""Decoding of request bodies: checks kind and field types, and brings objects into canonical form.

The canonical form is what decoding into Go structs and encoding again yields: no unknown fields, no nulls, no zero
values of omitempty fields (`labels: {}` is dropped, `storageClassName: ""`, a pointer, is kept), canonical quantities
and times. Equal objects compare equal, which makes an update a no-op. Defaults and validation come later.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple

from mooring.api import quantity
from mooring.api.documents import Body
from mooring.api.errors import BadRequest, forbidden, invalid
from mooring.api.kinds import STORAGE_CLASS, Kind
from mooring.api.quantity import QuantityError
from mooring.api.schema.checks import check_of, unknown_fields, wrong_types
from mooring.api.schema.types import Field, Scalar, Shape, Type, type_of
from mooring.api.times import canonical_time
from mooring.server.contract import SentBody, WriteOptions

#: Returns the canonical form of a scalar.
Respell = Callable[[Any], Any]

_SECTIONS: Final = ("metadata", "spec", "status")

#: Go's value of a null in a list; for other types an empty string.
_ZEROS: Final[dict[Scalar, object]] = {Scalar.BOOL: False, Scalar.INT32: 0, Scalar.INT64: 0}

#: Year of Go's zero time, which is null in Kubernetes.
_ZERO_YEAR: Final = "0001"


class FieldTypeMismatch(Exception):
    """A value does not have the type of its field; `wrong_types` finds which."""


def canonical_form(type_: Type, obj: Body, base: Body | None = None) -> tuple[Body, bool]:
    """The object in canonical form, and whether it had unknown fields. Shares nothing with the input, except that what
    is the same object in `base`, a canonical one, is taken as it is: most of a patched object.

    `metadata`, `spec` and `status` always exist, so that a JSON patch can add to them. Raises FieldTypeMismatch and
    QuantityError.
    """
    unknown: UnknownFields = []
    result = _reader(type_)(obj, unknown, base)
    for section in _SECTIONS:
        if section in type_.by_name:
            result.setdefault(section, {})
    return result, bool(unknown)


def fill_zero_values(type_: Type, obj: Body) -> None:
    """Add the zero values that Go encodes (fields without `omitempty`), in place, after validation: clients generated
    from OpenAPI require them. Missing lists and times stay missing, where Go writes null."""
    filler = _filler(type_)
    if filler is not None:
        filler(obj)


#: Names of unknown fields.
UnknownFields = list[str]

#: Brings one value into canonical form.
Read = Callable[[Any, UnknownFields], Any]

#: Of a field: the type of a plain scalar, whether zero values are dropped, and the readers of other values and of
#: objects.
_Plan = tuple[type | None, bool, Read, "_ObjectReader | None"]

#: Scalars that only need a type check: most of an object.
_PLAIN: Final[dict[Scalar, type]] = {Scalar.STRING: str, Scalar.BOOL: bool}
_ONLY_STRINGS: Final = frozenset({str})


class _ObjectReader:
    """Reads objects of one type. Types can be recursive, so fields are resolved at the first use."""

    def __init__(self, type_: Type) -> None:
        self._type = type_
        self._known: dict[str, _Plan] = {}

    def __call__(self, obj: object, unknown: UnknownFields, base: Body | None = None) -> Body:
        if not isinstance(obj, dict):
            raise FieldTypeMismatch
        plans = self._known or self._learn()
        result: Body = {}
        for key, value in obj.items():
            plan = plans.get(key)
            if plan is None:
                unknown.append(key)
                continue
            if value is None:
                continue
            plain, drops_zero, read, read_object = plan
            if base is not None and (kept := base.get(key)) is not None:
                if kept is value:
                    result[key] = value
                    continue
                if read_object is not None and isinstance(kept, dict):
                    value = read_object(value, unknown, kept)
                    if value or not drops_zero:
                        result[key] = value
                    continue
            if plain is None:
                value = read(value, unknown)
                if value is None:
                    continue
            elif not isinstance(value, plain):
                raise FieldTypeMismatch
            if value or not drops_zero:
                result[key] = value
        return result

    def _learn(self) -> dict[str, _Plan]:
        self._known = {name: _plan(field) for name, field in self._type.by_name.items()}
        return self._known


_reader: Final = cache(_ObjectReader)


def _plan(field: Field) -> _Plan:
    plain = read_object = None
    if isinstance(field.value, Type):
        reader = _reader(field.value)
        read: Read = reader
        read_object = reader if field.shape is Shape.ONE else None
    else:
        read = _scalar(field.value)
        plain = _PLAIN.get(field.value) if field.shape is Shape.ONE else None
    match field.shape:
        case Shape.LIST:
            read = partial(_list, read, {} if isinstance(field.value, Type) else _ZEROS.get(field.value, ""))
        case Shape.MAP:
            read = partial(_strings if field.value is Scalar.STRING else _map, read)
    return plain, field.omit_empty and not field.pointer, read, read_object


def _scalar(scalar: Scalar) -> Read:
    is_right, respell = check_of(scalar), _SCALARS.get(scalar)

    def read(value: object, _: UnknownFields) -> object:
        if not is_right(value):
            raise FieldTypeMismatch
        return value if respell is None else respell(value)

    return read


def _list(read: Read, zero: object, value: object, unknown: UnknownFields) -> list[Any]:
    """A null in a list is the zero value of its items."""
    if not isinstance(value, list):
        raise FieldTypeMismatch
    if None in value:
        value = [zero if item is None else item for item in value]
    return [read(item, unknown) for item in value]


def _map(read: Read, value: object, unknown: UnknownFields) -> Body:
    if not isinstance(value, dict):
        raise FieldTypeMismatch
    items = {name: read(item, unknown) for name, item in value.items() if item is not None}
    return {name: item for name, item in items.items() if item is not None}


def _strings(read: Read, value: object, unknown: UnknownFields) -> Body:
    """A map of strings, as labels and annotations are."""
    if isinstance(value, dict) and _ONLY_STRINGS.issuperset(map(type, value.values())):
        return value.copy()
    return _map(read, value, unknown)


def _time(canonical_length: int, timespec: str, text: str) -> str | None:
    """Most times are canonical: `2026-01-02T03:04:05Z` and `2026-01-02T03:04:05.000000Z`."""
    if len(text) == canonical_length and text[-1] == "Z" and text[:4] != _ZERO_YEAR:
        return text
    return canonical_time(text, timespec)


def _copy(value: object) -> object:
    """Free-form JSON is copied, nulls included."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


_SCALARS: Final[dict[Scalar, Respell]] = {
    Scalar.QUANTITY: quantity.canonical,
    Scalar.TIME: partial(_time, 20, "seconds"),
    Scalar.MICRO_TIME: partial(_time, 27, "microseconds"),
    Scalar.RAW: _copy,
    Scalar.STRINGS: list,
}

_ENCODED_ZEROS: Final[dict[Scalar, object]] = {
    Scalar.STRING: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.INT_OR_STRING: 0,
}


@cache
def _filler(type_: Type) -> Callable[[Body], None] | None:
    """Adds the zero values of one type and of the objects it contains; None if there are none. Types are not recursive
    here."""
    zeros = [
        (name, _ENCODED_ZEROS[field.value])
        for name, field in type_.by_name.items()
        if isinstance(field.value, Scalar)
        and field.value in _ENCODED_ZEROS
        and field.shape is Shape.ONE
        and not field.omit_empty
        and not field.pointer
    ]
    structs = [(name, field.shape, field.struct) for name, field in type_.by_name.items() if field.struct is not None]
    parts = {name: (shape, filler) for name, shape, struct in structs if (filler := _filler(struct)) is not None}
    if not zeros and not parts:
        return None

    def fill(obj: Body) -> None:
        for name, zero in zeros:
            if name not in obj:
                obj[name] = zero
        for name, value in obj.items():
            if value and name in parts:
                shape, fill_part = parts[name]
                for each in (value,) if shape is Shape.ONE else value if shape is Shape.LIST else value.values():
                    fill_part(each)

    return fill


STRICT: Final = "Strict"
IGNORE: Final = "Ignore"

#: Former field names, by kind. Dropping them would change the meaning of the object, so they are rejected with any
#: `fieldValidation`.
_RENAMED_FIELDS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    (STORAGE_CLASS.api_version, STORAGE_CLASS.kind): {"bindingMode": "volumeBindingMode"}
}


class Undecodable(ValueError):
    """The body is not an object of the kind: a bad request in create and update, an invalid patch in patch."""


class Decoded(NamedTuple):
    obj: Body
    warnings: tuple[str, ...]


def read_body(kind: Kind[Any], body: SentBody, options: WriteOptions) -> Decoded:
    """The object of a create or update. Raises BadRequest."""
    check_kind(kind, body)
    return read_as(kind.api_version, kind.kind, body, options)


def read_as(api_version: str, kind: str, body: SentBody, options: WriteOptions) -> Decoded:
    """The body as an object of this kind. Raises BadRequest."""
    try:
        return decode(api_version, kind, body, options.field_validation)
    except Undecodable as problem:
        raise BadRequest(f"{cannot_be_handled(kind, api_version, kind)}: {problem}") from problem


def decode(api_version: str, kind: str, body: SentBody, field_validation: str, base: Body | None = None) -> Decoded:
    """The body in canonical form, and warnings; `base` as in `canonical_form`. Raises Undecodable."""
    sent = dict(body)
    _refuse_renamed(api_version, kind, sent)
    try:
        obj, has_unknown = canonical_form(type_of(api_version, kind), sent, base)
    except (FieldTypeMismatch, QuantityError) as problem:
        raise Undecodable(next(wrong_types(api_version, kind, sent), str(problem))) from problem
    obj |= {"kind": kind, "apiVersion": api_version}
    if not has_unknown or field_validation == IGNORE:
        return Decoded(obj, ())
    unknown = tuple(f'unknown field "{path}"' for path in unknown_fields(api_version, kind, sent))
    if field_validation == STRICT:
        raise Undecodable(f"strict decoding error: {', '.join(unknown)}")
    return Decoded(obj, unknown)


def check_kind(kind: Kind[Any], body: SentBody) -> None:
    """Raises BadRequest if kind or apiVersion are present and differ from the URL's."""
    version, name = body.get("apiVersion") or kind.api_version, body.get("kind") or kind.kind
    if name != kind.kind:
        raise BadRequest(
            f"{cannot_be_handled(str(name), str(version), kind.kind)}: "
            f"the kind in the data ({name}) does not match the kind of the URL ({kind.kind})"
        )
    if version != kind.api_version:
        raise BadRequest(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )


def cannot_be_handled(found: str, api_version: str, expected: str) -> str:
    return f'{found} in version "{api_version.rpartition("/")[2]}" cannot be handled as a {expected}'


def _refuse_renamed(api_version: str, kind: str, body: SentBody) -> None:
    renamed = _RENAMED_FIELDS.get((api_version, kind), {})
    causes = [
        forbidden(old, f'there is no such field; it was renamed, write "{new}"')
        for old, new in renamed.items()
        if old in body
    ]
    if causes:
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
        raise invalid(kind, str(name), causes, group=api_version.rpartition("/")[0])
