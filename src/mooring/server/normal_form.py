"""The one form in which an object is stored, whichever way a client wrote it down.

Upstream decodes a request into Go structs and encodes those again; what survives that journey is the normal form:
no unknown fields, no nulls, no zero values where Go could not tell them from absent ones (`labels: {}` goes,
`storageClassName: ""` stays because it is a pointer there), quantities and moments in their canonical spelling. An
object's `metadata`, `spec` and `status` are always there, so that a JSON patch can add to them. Two writes that say
the same thing compare equal in it, which is what makes an update a no-op.

A value that has not the type its field has ends the walk; `api.fields.mismatches` then says which, in upstream's
words. Both go by the same rules, and only this walk is paid for by every write. The result shares nothing with the
input.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from mooring.api import quantity
from mooring.api.fields.mismatches import is_right
from mooring.api.fields.table import Field, Scalar, Shape, Type
from mooring.api.timestamps import from_time, to_micro_time, to_time
from mooring.server.body import Body

Normalise = Callable[[Any], Any]

_SECTIONS: Final = ("metadata", "spec", "status")

#: What Go makes of a null in a list; anything else becomes an empty string.
_ZEROS: Final[dict[Scalar, object]] = {Scalar.BOOL: False, Scalar.INT32: 0, Scalar.INT64: 0}

#: Length of a moment that is canonical already, `2026-01-02T03:04:05Z` and `2026-01-02T03:04:05.000000Z`.
_TIME_LENGTH: Final = 20
_MICRO_TIME_LENGTH: Final = 27


class Misfit(Exception):
    """Some value has not the type its field has."""


def normal_form(type_: Type, obj: Body) -> tuple[Body, bool]:
    """The object in normal form, and whether it had fields its type does not have. Raises Misfit and QuantityError."""
    reader = _Reader()
    result = reader.read(type_, obj)
    for section in _SECTIONS:
        if section in type_.by_name:
            result.setdefault(section, {})
    return result, reader.saw_strays


class _Reader:
    """One walk over one object."""

    def __init__(self) -> None:
        self.saw_strays = False

    def read(self, type_: Type, obj: object) -> Body:
        if not isinstance(obj, dict):
            raise Misfit
        plans = _plans(type_)
        result: Body = {}
        for key, value in obj.items():
            plan = plans.get(key)
            if plan is None:
                self.saw_strays = True
                continue
            if value is None:
                continue
            shape, inner, plain, fits, scalar, drops_zero, zero = plan
            if shape is Shape.ONE:
                if inner is not None:
                    value = self.read(inner, value)
                elif plain is not None:
                    if not isinstance(value, plain):
                        raise Misfit
                elif not fits(value):
                    raise Misfit
                elif scalar is not None:
                    value = scalar(value)
            elif shape is Shape.LIST:
                value = self._list(inner, fits, scalar, zero, value)
            else:
                value = self._map(inner, fits, scalar, value)
            if value or not drops_zero:
                result[key] = value
        return result

    def _list(
        self, inner: Type | None, fits: "Test", scalar: "Normalise | None", zero: object, value: object
    ) -> list[Any]:
        if not isinstance(value, list):
            raise Misfit
        if inner is not None:
            return [self.read(inner, {} if item is None else item) for item in value]
        if not all(item is None or fits(item) for item in value):
            raise Misfit
        return [zero if item is None else item if scalar is None else scalar(item) for item in value]

    def _map(self, inner: Type | None, fits: "Test", scalar: "Normalise | None", value: object) -> Body:
        if not isinstance(value, dict):
            raise Misfit
        there = {name: item for name, item in value.items() if item is not None}
        if inner is not None:
            return {name: self.read(inner, item) for name, item in there.items()}
        if not all(map(fits, there.values())):
            raise Misfit
        return there if scalar is None else {name: scalar(item) for name, item in there.items()}


#: Whether a scalar has the right type.
Test = Callable[[object], bool]

#: Scalars that are right as soon as they are of one type, and need no other spelling: most of an object.
_PLAIN: Final[dict[Scalar, type]] = {Scalar.STRING: str, Scalar.BOOL: bool}

#: Per field: shape, type of the objects in it, the type of a plain scalar, whether another scalar is right, how to
#: normalise it (None: as it is), whether a zero value is dropped, and what stands for null in a list.
_Plan = tuple[Shape, Type | None, type | None, Test, Normalise | None, bool, object]


@cache
def _plans(type_: Type) -> dict[str, _Plan]:
    return {name: _plan(field) for name, field in type_.by_name.items()}


def _plan(field: Field) -> _Plan:
    drops_zero = field.omit_empty and not field.pointer
    if isinstance(field.value, Type):
        return field.shape, field.value, None, bool, None, drops_zero, None
    scalar, zero = _SCALARS.get(field.value), _ZEROS.get(field.value, "")
    return field.shape, None, _PLAIN.get(field.value), partial(is_right, field.value), scalar, drops_zero, zero


def _time(text: str) -> str:
    return text if len(text) == _TIME_LENGTH and text[-1] == "Z" else to_time(from_time(text))


def _micro_time(text: str) -> str:
    return text if len(text) == _MICRO_TIME_LENGTH and text[-1] == "Z" else to_micro_time(from_time(text))


def _copy(value: object) -> object:
    """Free-form JSON is kept as it is, nulls included."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


_SCALARS: Final[dict[Scalar, Normalise]] = {
    Scalar.QUANTITY: quantity.canonical,
    Scalar.TIME: _time,
    Scalar.MICRO_TIME: _micro_time,
    Scalar.RAW: _copy,
    Scalar.STRINGS: list,
}
