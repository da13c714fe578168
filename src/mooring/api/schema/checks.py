"""Checks of an object against the field table: values of a wrong JSON type, and unknown fields.

Messages and paths are those of kube-apiserver's decoder. Timestamps and base64 are checked, because they are types
there; quantities only for being a string or a number.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from typing import Any, Final, NamedTuple, assert_never

from mooring.api.schema.types import Field, Scalar, Shape, Type, type_of
from mooring.api.times import from_time

#: Go's layouts of timestamps, for the message, and the text they accept.
_LAYOUTS: Final = {Scalar.TIME: "2006-01-02T15:04:05Z07:00", Scalar.MICRO_TIME: "2006-01-02T15:04:05.000000Z07:00"}
_FORMS: Final = {
    Scalar.TIME: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII),
    Scalar.MICRO_TIME: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII),
}
_NOT_A_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
#: Times whose check is remembered, since objects written together share them, and the characters of the longest:
#: with nine decimals and a zone.
_CACHED_MOMENTS: Final = 256
_MOMENT_CHARACTERS: Final = 35
_BITS: Final = {Scalar.INT32: 32, Scalar.INT64: 64, Scalar.INT_OR_STRING: 32}
_GO_NAMES: Final = {
    Scalar.BYTES: "[]uint8",
    Scalar.INT_OR_STRING: "int32",
    Scalar.MICRO_TIME: "string",
    Scalar.QUANTITY: "resource.Quantity",
    Scalar.RAW: "runtime.RawExtension",
    Scalar.STRINGS: "[]string",
    Scalar.TIME: "string",
}


class _Place(NamedTuple):
    """A field of a type and its path in the object."""

    owner: Type
    field: Field
    path: str

    def go_name(self) -> str:
        """The Go type of the field's value, without its list or map: `v1.PodSpec`, `int32`."""
        value = self.field.value
        if isinstance(value, Type):
            return value.name.rpartition("/")[2]
        return _GO_NAMES.get(value, value.value)

    def cannot_hold(self, value: object, go_name: str) -> str:
        where = f"{self.owner.name.rpartition('.')[2]}.{self.path}"
        return f"json: cannot unmarshal {self._described(value)} into Go struct field {where} of type {go_name}"

    def _described(self, value: object) -> str:
        """The JSON type of the value; the number itself if another number would be valid."""
        match value:
            case bool():
                return "bool"
            case int() | float():
                return f"number {value}" if self.field.value in _BITS else "number"
            case str():
                return "string"
            case list():
                return "array"
            case _:
                return "object"


def wrong_types(api_version: str, kind: str, obj: Mapping[str, Any]) -> Iterator[str]:
    """One message per value of a wrong type, lazily, since responses contain only the first. Raises UnknownKind for a
    kind that the table lacks."""
    return _in_object(type_of(api_version, kind), obj, "")


def _in_object(type_: Type, obj: Mapping[str, Any], prefix: str) -> Iterator[str]:
    plain = _plain_fields(type_)
    for key, value in obj.items():
        if plain.get(key) is type(value):
            continue
        field = type_.by_name.get(key)
        if field is None or value is None:
            continue
        place = _Place(type_, field, prefix + key)
        if field.shape is Shape.ONE:
            yield from _in_value(place, value)
        elif field.shape is Shape.LIST:
            if isinstance(value, list):
                for item in value:
                    yield from _in_value(place, item)
            else:
                yield place.cannot_hold(value, "[]" + place.go_name())
        elif isinstance(value, dict):
            for item in value.values():
                yield from _in_value(place, item)
        else:
            yield place.cannot_hold(value, "map[string]" + place.go_name())


@cache
def _plain_fields(type_: Type) -> dict[str, type]:
    """Fields for which the Python type decides: most of an object, on the fast path."""
    plain = {Scalar.STRING: str, Scalar.BOOL: bool}
    return {
        name: plain[field.value]
        for name, field in type_.by_name.items()
        if field.shape is Shape.ONE and isinstance(field.value, Scalar) and field.value in plain
    }


def _in_value(place: _Place, value: object) -> Iterator[str]:
    expected = place.field.value
    if value is None:
        return
    if isinstance(expected, Scalar):
        yield from _in_scalar(place, expected, value)
    elif isinstance(value, dict):
        yield from _in_object(expected, value, f"{place.path}.")
    else:
        yield place.cannot_hold(value, place.go_name())


def _in_scalar(place: _Place, scalar: Scalar, value: object) -> Iterator[str]:
    if check_of(scalar)(value):
        return
    if scalar is Scalar.QUANTITY:
        yield _NOT_A_QUANTITY
    elif scalar is Scalar.STRINGS and isinstance(value, list):
        for item in value:
            if not isinstance(item, str):
                yield place.cannot_hold(item, "string")
    elif isinstance(value, str) and (problem := _problem(scalar, value)):
        yield problem
    else:
        yield place.cannot_hold(value, place.go_name())


@cache
def check_of(scalar: Scalar) -> Callable[[object], bool]:
    """Whether a value, not None, has the type of the field."""
    match scalar:
        case Scalar.STRING:
            return lambda value: isinstance(value, str)
        case Scalar.BOOL:
            return lambda value: isinstance(value, bool)
        case Scalar.INT32 | Scalar.INT64:
            return partial(_is_integer, 1 << (_BITS[scalar] - 1))
        case Scalar.INT_OR_STRING:
            limit = 1 << (_BITS[scalar] - 1)
            return lambda value: isinstance(value, str) or _is_integer(limit, value)
        case Scalar.STRINGS:
            return lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value)
        case Scalar.QUANTITY:
            return lambda value: isinstance(value, str | int | float) and not isinstance(value, bool)
        case Scalar.BYTES:
            return lambda value: isinstance(value, str) and _problem(scalar, value) is None
        case Scalar.TIME | Scalar.MICRO_TIME:
            problem = partial(_problem, scalar)
            known = lru_cache(_CACHED_MOMENTS)(problem)
            return lambda value: (
                isinstance(value, str) and (known if len(value) <= _MOMENT_CHARACTERS else problem)(value) is None
            )
        case Scalar.RAW:
            return lambda _: True
        case _:
            assert_never(scalar)


def _is_integer(limit: int, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _problem(scalar: Scalar, value: str) -> str | None:
    """Why a string is invalid for the type."""
    try:
        if scalar is Scalar.BYTES:
            # Go accepts line breaks in base64.
            b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        elif scalar in _FORMS:
            from_time(value if _FORMS[scalar].fullmatch(value) else "")
    except ValueError:
        return f'parsing time "{value}" as "{_LAYOUTS[scalar]}"' if scalar in _LAYOUTS else "illegal base64 data"
    return None


#: kube-apiserver's decoder stops collecting strict errors at this number.
MAX_UNKNOWN_FIELDS: Final = 100
#: Characters of a path in messages.
MAX_PATH_CHARACTERS: Final = 512


def unknown_fields(api_version: str, kind: str, obj: Mapping[str, Any]) -> list[str]:
    """Paths of the fields that `kind` does not have, in document order. Raises UnknownKind."""
    unknown: list[str] = []
    _collect(type_of(api_version, kind), obj, "", unknown)
    return unknown


def _collect(type_: Type, obj: Mapping[str, Any], prefix: str, unknown: list[str]) -> None:
    by_name = type_.by_name
    for key, value in obj.items():
        if len(unknown) >= MAX_UNKNOWN_FIELDS:
            return
        field = by_name.get(key)
        if field is None:
            unknown.append(_clipped(prefix + key[:MAX_PATH_CHARACTERS]))
        elif isinstance(child := field.value, Scalar) or not value:
            continue
        elif field.shape is Shape.ONE:
            if isinstance(value, dict):
                _collect(child, value, f"{prefix}{key}.", unknown)
        elif field.shape is Shape.LIST:
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, dict):
                        _collect(child, item, f"{prefix}{key}[{index}].", unknown)
        elif isinstance(value, dict):
            for name, item in value.items():
                if isinstance(item, dict):
                    _collect(child, item, _clipped(f"{prefix}{key}.{name[:MAX_PATH_CHARACTERS]}."), unknown)


def _clipped(path: str) -> str:
    return path if len(path) <= MAX_PATH_CHARACTERS else f"{path[:MAX_PATH_CHARACTERS]}…"
