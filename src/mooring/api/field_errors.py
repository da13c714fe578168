"""The causes of an Invalid answer, one function per form of words that Kubernetes uses.

Validation collects these; `errors.invalid` wraps them. Nothing here decides whether a value is wrong.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.api.errors import Cause

#: How Go's %q spells what would not be seen, or would end the quotation.
_ESCAPES: Final = str.maketrans(
    {'"': r"\"", "\\": r"\\", "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
)


def _quoted(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    # Objects and lists as JSON, which is how people wrote them.
    return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()


def bad_value(field: str, value: object, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def unsupported(field: str, value: object, supported: Iterable[str]) -> Cause:
    choices = ", ".join(_quoted(choice) for choice in supported)
    return Cause(
        "FieldValueNotSupported",
        f"Unsupported value: {_quoted(value)}: supported values: {choices}",
        field,
    )


def forbidden(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {_quoted(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def not_found(field: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", f"Not found: {_quoted(value)}", field)
