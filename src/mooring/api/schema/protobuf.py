"""Decoder of protobuf request bodies (`k8s\0` envelope and message) to JSON objects.

Typed Go clients send protobuf by default; responses are always JSON. The result is what the client would have sent as
JSON, without nulls and without zero values of `omitempty` fields (Go's protobuf sends them all). Types of the field
table never contain themselves, which bounds the depth of a message. Unknown fields are skipped, as in Go.
"""

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, TypeAlias

from mooring.api import documents
from mooring.api.documents import MAX_VALUES, MalformedJson, TooManyValues
from mooring.api.schema.types import Field, Scalar, Shape, Type, UnknownKind, type_of

MAGIC: Final = b"k8s\x00"
MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

#: Wire types. Kubernetes uses no groups (3 and 4), and fixed sizes in no known field.
_VARINT: Final = 0
_BYTES: Final = 2
_FIXED_SIZES: Final = {1: 8, 5: 4}
#: A varint has 7 bits per byte and at most 64 bits.
_MAX_VARINT_BYTES: Final = 10
_EPOCH: Final = datetime(1970, 1, 1)

#: Value of a record: a varint, length-delimited bytes, or None for a fixed size, which no known field has.
Wire: TypeAlias = int | bytes | None
Converter: TypeAlias = Callable[[Wire], object]
Reader: TypeAlias = Callable[[Wire, dict[str, Any], "_Budget"], None]

_INTEGERS: Final = frozenset({Scalar.BOOL, Scalar.INT32, Scalar.INT64})


class MalformedProtobuf(ValueError):
    """The body is not a Kubernetes protobuf message."""


def decode_envelope(body: bytes, *, max_values: int | None = None) -> dict[str, Any]:
    """The object in `body`, with apiVersion and kind; raises MalformedProtobuf and TooManyValues."""
    if not body.startswith(MAGIC):
        raise MalformedProtobuf("the body does not begin with the Kubernetes protobuf prefix")
    envelope = _singles(body[len(MAGIC) :])
    if encoding := _text(envelope.get(3, b"")):
        raise MalformedProtobuf(f"content encoding {encoding!r} is not supported")
    if (media_type := _text(envelope.get(4, b""))) not in ("", MEDIA_TYPE):
        raise MalformedProtobuf(f"content type {media_type!r} inside the envelope is not supported")
    type_meta = _singles(_delimited(envelope.get(1, b"")))
    api_version, kind = _text(type_meta.get(1, b"")), _text(type_meta.get(2, b""))
    try:
        type_ = type_of(api_version, kind)
    except UnknownKind as error:
        raise MalformedProtobuf(str(error)) from error
    obj: dict[str, Any] = {"apiVersion": api_version, "kind": kind}
    _read_message(type_, _delimited(envelope.get(2, b"")), obj, _Budget(max_values))
    return obj


class _Budget:
    """Bound on records: two bytes of protobuf can become two hundred bytes of JSON."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limit: int | None) -> None:
        self._limit = self._left = sys.maxsize if limit is None else limit

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooManyValues(self._limit)


def _read_message(type_: Type, data: bytes, into: dict[str, Any], budget: _Budget) -> None:
    """Adds the fields in `data` to `into`."""
    readers = _readers(type_)
    for number, value in _records(data):
        budget.spend()
        if reader := readers.get(number):
            reader(value, into, budget)


@cache
def _readers(type_: Type) -> dict[int, Reader]:
    """By field number, a function that adds a record's value to the JSON object."""
    make = {Shape.ONE: _reader_of_one, Shape.LIST: _reader_of_list, Shape.MAP: _reader_of_map}
    return {number: make[field.shape](field) for number, field in type_.by_number.items()}


def _reader_of_one(field: Field) -> Reader:
    if isinstance(field.value, Type):
        return _reader_of_message(field, field.value)
    name, convert = field.name, _SCALARS[field.value]
    keeps_zero = not field.omit_empty or field.pointer or field.value is Scalar.RAW

    def read(value: Wire, into: dict[str, Any], _: _Budget) -> None:
        converted = convert(value)
        if converted or (keeps_zero and converted is not None):
            into[name] = converted
        else:
            into.pop(name, None)

    return read


def _reader_of_message(field: Field, type_: Type) -> Reader:
    """Repeated occurrences are merged, as protobuf requires."""
    name, keeps_empty = field.name, not field.omit_empty or field.pointer

    def read(value: Wire, into: dict[str, Any], budget: _Budget) -> None:
        message = into.get(name, {})
        _read_message(type_, _delimited(value), message, budget)
        if message or keeps_empty:
            into[name] = message
        else:
            into.pop(name, None)

    def read_inline(value: Wire, into: dict[str, Any], budget: _Budget) -> None:
        _read_message(type_, _delimited(value), into, budget)

    return read_inline if field.inline else read


def _reader_of_list(field: Field) -> Reader:
    name, convert = field.name, _converter(field)

    def read(value: Wire, into: dict[str, Any], budget: _Budget) -> None:
        into.setdefault(name, []).append(convert(value, budget))

    def read_integers(value: Wire, into: dict[str, Any], budget: _Budget) -> None:
        """Integers may be packed: several in one record."""
        items = _packed(value) if isinstance(value, bytes) else [value]
        into.setdefault(name, []).extend(convert(item, budget) for item in items)

    return read_integers if field.value in _INTEGERS else read


def _reader_of_map(field: Field) -> Reader:
    name, convert = field.name, _converter(field)

    def read(value: Wire, into: dict[str, Any], budget: _Budget) -> None:
        entry = _singles(_delimited(value))
        into.setdefault(name, {})[_text(entry.get(1, b""))] = convert(entry.get(2, b""), budget)

    return read


def _converter(field: Field) -> Callable[[Wire, _Budget], object]:
    """Converts a record to an item of the field's list or map."""
    if isinstance(field.value, Scalar):
        scalar = _SCALARS[field.value]

        def convert_scalar(value: Wire, budget: _Budget) -> object:
            budget.spend()
            return scalar(value)

        return convert_scalar
    type_ = field.value

    def convert(value: Wire, budget: _Budget) -> dict[str, Any]:
        message: dict[str, Any] = {}
        _read_message(type_, _delimited(value), message, budget)
        return message

    return convert


def _int32(value: Wire) -> int:
    return _signed(_integer(value), 32)


def _int64(value: Wire) -> int:
    return _signed(_integer(value), 64)


def _quantity(value: Wire) -> str:
    return _text(_singles(_delimited(value)).get(1, b"")) or "0"


def _moment(value: Wire, precision: str) -> str | None:
    """None for Go's zero time, an empty message."""
    parts = _singles(_delimited(value))
    if not parts:
        return None
    seconds = _int64(parts.get(1, 0))
    micros = _int32(parts.get(2, 0)) // 1000 if precision == "microseconds" else 0
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micros)
    except OverflowError as error:
        raise MalformedProtobuf(f"{seconds} seconds since 1970 is beyond the years 1 to 9999") from error
    return moment.isoformat(timespec=precision) + "Z"


def _int_or_string(value: Wire) -> int | str:
    parts = _singles(_delimited(value))
    is_text = _integer(parts.get(1, 0)) == 1
    return _text(parts.get(3, b"")) if is_text else _int32(parts.get(2, 0))


def _raw(value: Wire) -> object:
    data = _delimited(_singles(_delimited(value)).get(1, b""))
    if not data:
        return None
    try:
        return documents.decode_json(data, max_values=MAX_VALUES)
    except MalformedJson as error:
        raise MalformedProtobuf(f"an embedded object is not JSON: {error}") from error


def _strings(value: Wire) -> list[str]:
    return [_text(item) for number, item in _records(_delimited(value)) if number == 1]


def _singles(data: bytes) -> dict[int, Wire]:
    """The last value of each field number, for messages without repeated fields."""
    return dict(_records(data))


def _records(data: bytes) -> Iterator[tuple[int, Wire]]:
    """(field number, value) pairs in the order of the message."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise MalformedProtobuf("a field has number 0")
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in _FIXED_SIZES:
            size = _FIXED_SIZES[wire]
        else:
            raise MalformedProtobuf(f"field {number} has wire type {wire}, which Kubernetes does not use")
        start, position = position, position + size
        if position > end:
            raise MalformedProtobuf(f"field {number} is cut off: {size} bytes announced, {end - start} left")
        yield number, data[start:position] if wire == _BYTES else None


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it."""
    if position < len(data) and (first := data[position]) < 0x80:
        return first, position + 1  # most are one byte
    result = shift = 0
    for byte in data[position : position + _MAX_VARINT_BYTES]:
        position += 1
        if byte < 0x80:
            return (result | byte << shift) & 0xFFFF_FFFF_FFFF_FFFF, position
        result |= (byte & 0x7F) << shift
        shift += 7
    raise MalformedProtobuf("a number is cut off or longer than 64 bits")


def _signed(value: int, bits: int) -> int:
    """Two's complement: negative numbers are sent as 64 bits, whatever their declared size."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _integer(value: Wire) -> int:
    if isinstance(value, int):
        return value
    raise MalformedProtobuf("a field that holds a number has another wire type")


def _delimited(value: Wire) -> bytes:
    if isinstance(value, bytes):
        return value
    raise MalformedProtobuf("a field that holds a string or message has another wire type")


def _text(value: Wire) -> str:
    try:
        return _delimited(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedProtobuf(f"a string is not UTF-8: {error}") from error


_SCALARS: Final[Mapping[Scalar, Converter]] = {
    Scalar.BOOL: lambda value: _integer(value) != 0,
    Scalar.BYTES: lambda value: b64encode(_delimited(value)).decode("ascii"),
    Scalar.INT32: _int32,
    Scalar.INT64: _int64,
    Scalar.STRING: _text,
    Scalar.QUANTITY: _quantity,
    Scalar.TIME: lambda value: _moment(value, "seconds"),
    Scalar.MICRO_TIME: lambda value: _moment(value, "microseconds"),
    Scalar.INT_OR_STRING: _int_or_string,
    Scalar.RAW: _raw,
    Scalar.STRINGS: _strings,
}
