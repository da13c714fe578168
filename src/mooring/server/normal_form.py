"""The one form in which an object is stored, whichever way a client wrote it down.

Upstream decodes a request into Go structs and encodes those again; what survives that journey is the normal form:
no unknown fields, no nulls, no zero values where Go could not tell them from absent ones (`labels: {}` goes,
`storageClassName: ""` stays because it is a pointer there), quantities and moments in their canonical spelling. An
object's `metadata`, `spec` and `status` are always there, so that a JSON patch can add to them. Two writes that say
the same thing compare equal in it, which is what makes an update a no-op.

Go encodes a field without `omitempty` even where it is zero, and clients generated from OpenAPI require those fields:
`fill_zero_values` adds them, after validation, which tells a missing value by its absence.

A value that has not the type its field has ends the walk; `api.fields.mismatches` then says which, in upstream's
words. Both go by the same rules, and only this walk is paid for by every write. The result shares nothing with the
input.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

from mooring.api import quantity
from mooring.api.fields.mismatches import is_right
from mooring.api.fields.table import Field, Scalar, Shape, Type
from mooring.api.timestamps import respelled
from mooring.server.body import Body

#: Gives a scalar its canonical spelling.
Respell = Callable[[Any], Any]

_SECTIONS: Final = ("metadata", "spec", "status")

#: What Go makes of a null in a list; anything else becomes an empty string.
_ZEROS: Final[dict[Scalar, object]] = {Scalar.BOOL: False, Scalar.INT32: 0, Scalar.INT64: 0}

#: Length of a moment that is canonical already, `2026-01-02T03:04:05Z` and `2026-01-02T03:04:05.000000Z`.
_TIME_LENGTH: Final = 20
_MICRO_TIME_LENGTH: Final = 27
#: In which Go's zero time lies: that is null to Kubernetes.
_FIRST_YEAR: Final = "0001"


class Misfit(Exception):
    """Some value has not the type its field has."""


def normal_form(type_: Type, obj: Body) -> tuple[Body, bool]:
    """The object in normal form, and whether it had fields its type does not have. Raises Misfit and QuantityError."""
    strays: Strays = []
    result = _reader(type_)(obj, strays)
    for section in _SECTIONS:
        if section in type_.by_name:
            result.setdefault(section, {})
    return result, bool(strays)


def fill_zero_values(type_: Type, obj: Body) -> None:
    """Give every object in `obj` the zero values that Go encodes, in place. Lists and moments that are missing stay so:
    Go writes null there, which says no more."""
    filler = _filler(type_)
    if filler is not None:
        filler(obj)


#: Fields met that their types do not have.
Strays = list[str]

#: What brings one value, with all it holds, into normal form.
Read = Callable[[Any, Strays], Any]

#: Of a field: the type of a plain scalar, whether a zero value is dropped, and how anything but a plain scalar is read.
_Plan = tuple[type | None, bool, Read]

#: Scalars that are right as soon as they are of one type, and need no other spelling: most of an object.
_PLAIN: Final[dict[Scalar, type]] = {Scalar.STRING: str, Scalar.BOOL: bool}


class _ObjectReader:
    """Reads the objects of one type. Types can hold themselves, so what their fields are is looked up when needed."""

    def __init__(self, type_: Type) -> None:
        self._type = type_
        self._known: dict[str, _Plan] = {}

    def __call__(self, obj: object, strays: Strays) -> Body:
        if not isinstance(obj, dict):
            raise Misfit
        plans = self._known or self._learn()
        result: Body = {}
        for key, value in obj.items():
            plan = plans.get(key)
            if plan is None:
                strays.append(key)
                continue
            if value is None:
                continue
            plain, drops_zero, read = plan
            if plain is None:
                value = read(value, strays)
                if value is None:
                    continue
            elif not isinstance(value, plain):
                raise Misfit
            if value or not drops_zero:
                result[key] = value
        return result

    def _learn(self) -> dict[str, _Plan]:
        self._known = {name: _plan(field) for name, field in self._type.by_name.items()}
        return self._known


_reader: Final = cache(_ObjectReader)


def _plan(field: Field) -> _Plan:
    plain = None
    if isinstance(field.value, Type):
        read: Read = _reader(field.value)
    else:
        read = _scalar(field.value)
        plain = _PLAIN.get(field.value) if field.shape is Shape.ONE else None
    match field.shape:
        case Shape.LIST:
            read = partial(_list, read, {} if isinstance(field.value, Type) else _ZEROS.get(field.value, ""))
        case Shape.MAP:
            read = partial(_map, read)
    return plain, field.omit_empty and not field.pointer, read


def _scalar(scalar: Scalar) -> Read:
    plain, respell = _PLAIN.get(scalar), _SCALARS.get(scalar)

    def read(value: object, _: Strays) -> object:
        if not (isinstance(value, plain) if plain is not None else is_right(scalar, value)):
            raise Misfit
        return value if respell is None else respell(value)

    return read


def _list(read: Read, zero: object, value: object, strays: Strays) -> list[Any]:
    """A null in a list is the zero value of what it lists."""
    if not isinstance(value, list):
        raise Misfit
    if None in value:
        value = [zero if item is None else item for item in value]
    return [read(item, strays) for item in value]


def _map(read: Read, value: object, strays: Strays) -> Body:
    if not isinstance(value, dict):
        raise Misfit
    items = {name: read(item, strays) for name, item in value.items() if item is not None}
    return {name: item for name, item in items.items() if item is not None}


def _time(text: str) -> str | None:
    if len(text) == _TIME_LENGTH and text[-1] == "Z" and text[:4] != _FIRST_YEAR:
        return text
    return respelled(text, "seconds")


def _micro_time(text: str) -> str | None:
    if len(text) == _MICRO_TIME_LENGTH and text[-1] == "Z" and text[:4] != _FIRST_YEAR:
        return text
    return respelled(text, "microseconds")


def _copy(value: object) -> object:
    """Free-form JSON is kept as it is, nulls included."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


_SCALARS: Final[dict[Scalar, Respell]] = {
    Scalar.QUANTITY: quantity.canonical,
    Scalar.TIME: _time,
    Scalar.MICRO_TIME: _micro_time,
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


class _Filler:
    """Fills the objects of one type: its own zero values, and those of the objects it holds."""

    def __init__(self, zeros: Sequence[tuple[str, object]], parts: Sequence[tuple[str, Shape, "_Filler"]]) -> None:
        self._zeros = zeros
        self._parts = parts

    def __call__(self, obj: Body) -> None:
        for name, zero in self._zeros:
            if name not in obj:
                obj[name] = zero
        for name, shape, fill in self._parts:
            value = obj.get(name)
            if value:
                for each in (value,) if shape is Shape.ONE else value if shape is Shape.LIST else value.values():
                    fill(each)


@cache
def _filler(type_: Type) -> _Filler | None:
    """None for types that hold nothing to fill. Types never contain themselves."""
    zeros = [
        (name, _ENCODED_ZEROS[field.value])
        for name, field in type_.by_name.items()
        if isinstance(field.value, Scalar)
        and field.value in _ENCODED_ZEROS
        and field.shape is Shape.ONE
        and not field.omit_empty
        and not field.pointer
    ]
    held = [(name, field.shape, field.struct) for name, field in type_.by_name.items() if field.struct is not None]
    fillers = [(name, shape, _filler(struct)) for name, shape, struct in held]
    parts = [(name, shape, filler) for name, shape, filler in fillers if filler is not None]
    return _Filler(zeros, parts) if zeros or parts else None
