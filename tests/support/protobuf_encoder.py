"""A protobuf encoder for tests: objects of the field table, encoded like Go's generated code.

It sends every value that is not a pointer, also zeros, as proto2 in Go does, which the decoder must handle. Objects are
expected in the decoder's form: without nulls and without empty `omitempty` values.
"""

import json
from base64 import b64decode
from datetime import datetime, timedelta
from typing import Any

from mooring.api.schema.protobuf import MAGIC
from mooring.api.schema.types import Field, Scalar, Shape, Type, type_of

ZEROES: dict[Scalar, Any] = {
    Scalar.BOOL: False,
    Scalar.BYTES: "",
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.STRING: "",
    Scalar.QUANTITY: "0",
    Scalar.TIME: None,
    Scalar.MICRO_TIME: None,
    Scalar.INT_OR_STRING: 0,
    Scalar.RAW: None,
    Scalar.STRINGS: [],
}


def envelope(obj: dict[str, Any]) -> bytes:
    """The request body of a Go client for `obj`."""
    type_ = type_of(obj["apiVersion"], obj["kind"])
    return sealed(obj["apiVersion"], obj["kind"], message(type_, obj))


def sealed(api_version: str, kind: str, raw: bytes, *, encoding: str = "", media_type: str = "") -> bytes:
    type_meta = delimited(1, api_version.encode()) + delimited(2, kind.encode())
    tail = delimited(3, encoding.encode()) + delimited(4, media_type.encode())
    return MAGIC + delimited(1, type_meta) + delimited(2, raw) + tail


def message(type_: Type, obj: dict[str, Any]) -> bytes:
    return b"".join(_field(field, obj) for field in type_.fields if field.number)


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def delimited(tag: int, data: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _field(field: Field, obj: dict[str, Any]) -> bytes:
    match field.shape:
        case Shape.LIST:
            return b"".join(_value(field, field.number, item) for item in obj.get(field.name, ()))
        case Shape.MAP:
            return b"".join(
                delimited(field.number, delimited(1, key.encode()) + _value(field, 2, item))
                for key, item in obj.get(field.name, {}).items()
            )
    if field.inline:
        return _value(field, field.number, obj)
    if field.name in obj:
        return _value(field, field.number, obj[field.name])
    if field.pointer:
        return b""
    return _value(field, field.number, ZEROES[field.value] if isinstance(field.value, Scalar) else {})


def _value(field: Field, tag: int, value: Any) -> bytes:  # noqa: ANN401
    if isinstance(field.value, Type):
        return delimited(tag, message(field.value, value))
    match field.value:
        case Scalar.BOOL | Scalar.INT32 | Scalar.INT64:
            return number(tag, value)
        case Scalar.STRING:
            return delimited(tag, value.encode())
        case Scalar.BYTES:
            return delimited(tag, b64decode(value))
        case Scalar.QUANTITY:
            return delimited(tag, delimited(1, value.encode()))
        case Scalar.TIME | Scalar.MICRO_TIME:
            return delimited(tag, b"" if value is None else _moment(value))
        case Scalar.INT_OR_STRING:
            is_text = isinstance(value, str)
            whole, text = (0, value) if is_text else (value, "")
            return delimited(tag, number(1, is_text) + number(2, whole) + delimited(3, text.encode()))
        case Scalar.RAW:
            return delimited(tag, b"" if value is None else delimited(1, json.dumps(value).encode()))
        case Scalar.STRINGS:
            return delimited(tag, b"".join(delimited(1, item.encode()) for item in value))


def _moment(text: str) -> bytes:
    since = datetime.fromisoformat(text.removesuffix("Z")) - datetime(1970, 1, 1)
    seconds, rest = divmod(since, timedelta(seconds=1))
    return number(1, seconds) + number(2, rest.microseconds * 1000)
