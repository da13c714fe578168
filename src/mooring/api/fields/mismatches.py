"""Which values of an object have the wrong JSON type, such as a number where a string belongs: a 400, always.

Walks the object along its type, as `unknown` does, and says what Go's decoder would say of each (it stops at the
first; named types of strings are called string here). Fields the type does not have are passed over. Moments and
base64 are checked, because to upstream's decoder they are types too; quantities beyond "a string or a number" are
not, that is the business of whoever parses them.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, assert_never

from mooring.api.fields.table import Field, Scalar, Shape, Type, type_of
from mooring.api.timestamps import from_time

#: Go's layouts of the two kinds of moments, for the message; and what they accept.
_LAYOUTS: Final = {
    Scalar.TIME: "2006-01-02T15:04:05Z07:00",
    Scalar.MICRO_TIME: "2006-01-02T15:04:05.000000Z07:00",
}
_FORMS: Final = {
    Scalar.TIME: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII),
    Scalar.MICRO_TIME: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII),
}
_NOT_A_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
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
    """A field of a type, and where in the object it stands."""

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
        owner = self.owner.name.rpartition(".")[2]
        return (
            f"json: cannot unmarshal {self._described(value)} into Go struct field "
            f"{owner}.{self.path} of type {go_name}"
        )

    def _described(self, value: object) -> str:
        """JSON's name for the value; a number is quoted where another number would have done."""
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
    """One message per value of a wrong type, made when it is asked for: answers tell the first. Raises UnknownKind for
    a kind not in the table."""
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
    """Fields that are right as soon as they have this type; most of an object, and looked up without ado."""
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
    if is_right(scalar, value):
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


def is_right(scalar: Scalar, value: object) -> bool:
    """Whether a value that is there has the type it should have."""
    match scalar:
        case Scalar.STRING:
            return isinstance(value, str)
        case Scalar.BOOL:
            return isinstance(value, bool)
        case Scalar.INT32 | Scalar.INT64:
            return _is_integer(value, _BITS[scalar])
        case Scalar.INT_OR_STRING:
            return isinstance(value, str) or _is_integer(value, _BITS[scalar])
        case Scalar.STRINGS:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case Scalar.QUANTITY:
            return isinstance(value, str | int | float) and not isinstance(value, bool)
        case Scalar.BYTES | Scalar.TIME | Scalar.MICRO_TIME:
            return isinstance(value, str) and _problem(scalar, value) is None
        case Scalar.RAW:
            return True
        case _:
            assert_never(scalar)


def _is_integer(value: object, bits: int) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _problem(scalar: Scalar, value: str) -> str | None:
    """What a string must be besides a string."""
    if scalar is Scalar.BYTES:
        return _base64_problem(value)
    if scalar in _LAYOUTS and not _is_moment(value, _FORMS[scalar]):
        return f'parsing time "{value}" as "{_LAYOUTS[scalar]}"'
    return None


def _base64_problem(value: str) -> str | None:
    try:
        # Line breaks inside base64 are fine with Go.
        b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return "illegal base64 data"
    return None


def _is_moment(value: str, form: re.Pattern[str]) -> bool:
    if not form.fullmatch(value):
        return False
    try:
        from_time(value)
    except ValueError:
        return False
    return True
