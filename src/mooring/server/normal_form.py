"""The one form in which an object is stored, whichever way a client wrote it down.

Upstream decodes a request into Go structs and encodes those again; what survives that journey is the normal form:
no unknown fields, no nulls, no zero values where Go could not tell them from absent ones (`labels: {}` goes,
`storageClassName: ""` stays because it is a pointer there), quantities and moments in their canonical spelling. An
object's `metadata`, `spec` and `status` are always there, so that a JSON patch can add to them. Two writes that say
the same thing compare equal in it, which is what makes an update a no-op.

The values must have been checked by `api.fields.mismatches` before. The result shares nothing with the input.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from mooring.api import quantity
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


def normal_form(type_: Type, obj: Body) -> tuple[Body, bool]:
    """The object in normal form, and whether it had fields its type does not have. Raises QuantityError."""
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

    def read(self, type_: Type, obj: Body) -> Body:
        plans = _plans(type_)
        result: Body = {}
        for key, value in obj.items():
            plan = plans.get(key)
            if plan is None:
                self.saw_strays = True
                continue
            if value is None:
                continue
            shape, inner, scalar, drops_zero, zero = plan
            if inner is not None:
                if shape is Shape.ONE:
                    value = self.read(inner, value)
                elif shape is Shape.LIST:
                    value = [self.read(inner, item or {}) for item in value]
                else:
                    value = {name: self.read(inner, item) for name, item in value.items() if item is not None}
            elif shape is Shape.LIST:
                value = [zero if item is None else item if scalar is None else scalar(item) for item in value]
            elif shape is Shape.MAP:
                value = {
                    name: item if scalar is None else scalar(item) for name, item in value.items() if item is not None
                }
            elif scalar is not None:
                value = scalar(value)
            if value or not drops_zero:
                result[key] = value
        return result


#: Per field: shape, type of the objects in it, how to normalise a scalar (None: as it is), whether a zero value
#: is dropped, and what stands for null in a list.
_Plan = tuple[Shape, Type | None, Normalise | None, bool, object]


@cache
def _plans(type_: Type) -> dict[str, _Plan]:
    return {name: _plan(field) for name, field in type_.by_name.items()}


def _plan(field: Field) -> _Plan:
    drops_zero = field.omit_empty and not field.pointer
    if isinstance(field.value, Type):
        return field.shape, field.value, None, drops_zero, None
    return field.shape, None, _SCALARS.get(field.value), drops_zero, _ZEROS.get(field.value, "")


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
