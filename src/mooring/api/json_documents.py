"""JSON documents, bounded: how deep they nest and how many values they hold.

msgspec reads three megabytes in milliseconds, but three megabytes can hold a million lists, or lists a thousand deep,
and every later step pays for each. The bounds are looked at only where the brackets and commas among the bytes say that
they could be passed: for what clients usually send, that costs three counts of bytes.
"""

import re
from typing import Final

import msgspec

#: Levels a document may nest. Kubernetes' types nest about twenty deep; Python's stack allows some 400.
MAX_DEPTH: Final = 200
#: Values a request may carry: the largest objects of real clusters have some thousands.
MAX_VALUES: Final = 50_000

#: A text, also one that never ends, or what comes before a value. Nothing in it is tried twice.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{](?!\s*+[\]}])|,', re.DOTALL)
_QUOTE: Final = ord('"')


class MalformedJson(ValueError):
    """Not JSON, or nested deeper than MAX_DEPTH; the text says which."""


class TooManyValues(ValueError):
    """A document holds more values than are read."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} values")


def decode(raw: bytes, *, max_values: int | None = None) -> object:
    """Raises MalformedJson and TooManyValues."""
    openings = raw.count(b"[") + raw.count(b"{")
    # Each value but the first follows an opening or a comma, and most commas stand in texts.
    if max_values is not None and openings + raw.count(b",") > max_values:
        _count_values(raw, max_values)
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedJson(str(error)) from error
    if openings > MAX_DEPTH:
        check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Raises MalformedJson. Goes level by level, so that it does not recurse."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise MalformedJson(f"values are nested more than {MAX_DEPTH} deep")


def _count_values(raw: bytes, limit: int) -> None:
    """Counts what opens or separates values outside of texts, and stops at the limit: before anything is built."""
    count = 0
    for token in _TOKEN.finditer(raw):
        if raw[token.start()] != _QUOTE:
            count += 1
            if count > limit:
                raise TooManyValues(limit)
