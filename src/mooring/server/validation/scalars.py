"""Rules for single values that many kinds share: ranges, choices, names, and what may not change."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, duplicate, required, unsupported

MAX_PORT: Final = 65535


def not_negative(value: int, path: str) -> Iterator[Cause]:
    if value < 0:
        yield bad_value(path, value, "must be greater than or equal to 0")


def one_of(value: str, choices: Sequence[str], path: str) -> Iterator[Cause]:
    """A word from a list; saying nothing is a different mistake."""
    if not value:
        yield required(path)
    elif value not in choices:
        yield unsupported(path, value, choices)


def port(value: int, path: str) -> Iterator[Cause]:
    if not 1 <= value <= MAX_PORT:
        yield bad_value(path, value, f"must be between 1 and {MAX_PORT}, inclusive")


def name(value: str, check: Callable[[str], list[str]], path: str) -> Iterator[Cause]:
    if not value:
        yield required(path)
        return
    for why in check(value):
        yield bad_value(path, value, why)


def unique(values: Sequence[str], path: str, field: str) -> Iterator[Cause]:
    """`values` are the `field`s of the items of a list at `path`."""
    for index, value in enumerate(values):
        if value and value in values[:index]:
            yield duplicate(f"{path}[{index}].{field}", value)


def immutable(new: object, old: object, path: str) -> Iterator[Cause]:
    if new != old:
        yield bad_value(path, _shown(new), "field is immutable")


def _shown(value: object) -> object:
    """Objects and lists as JSON, which is how people wrote them."""
    if value is None:
        return ""
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value
