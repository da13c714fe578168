"""Rules for single values that many kinds share: ranges, choices, names, and what may not change."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, duplicate, required, unsupported

MAX_PORT: Final = 65535

#: As upstream's, but for numbers that no count of anything reaches.
_PERCENT: Final = re.compile(r"[0-9]{1,9}%")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


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
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value and value in seen:
            yield duplicate(f"{path}[{index}].{field}", value)
        seen.add(value)


def immutable(new: object, old: object, path: str) -> Iterator[Cause]:
    if new != old:
        yield bad_value(path, "" if new is None else new, "field is immutable")


def count_or_share(value: int | str, path: str) -> Iterator[Cause]:
    """A number of things, or a percentage of all of them."""
    if isinstance(value, int):
        yield from not_negative(value, path)
    elif not _PERCENT.fullmatch(value):
        yield bad_value(path, value, _PERCENT_RULE)


def at_most_all(value: int | str, path: str) -> Iterator[Cause]:
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield bad_value(path, value, "must not be greater than 100%")


def is_nothing(value: int | str) -> bool:
    """Whether a count or share is zero; what is neither reads as zero too, as upstream has it."""
    if isinstance(value, int):
        return value == 0
    return not _PERCENT.fullmatch(value) or int(value[:-1]) == 0
