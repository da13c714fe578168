"""Durations as Kubernetes' flags and configuration files spell them: Go's `15s`, `1m30s`, `500ms`, `1.5h`.

Pure text to seconds. What kubectl shows as an age is `durations`, which goes the other way.
"""

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


class DurationError(ValueError):
    """Not a duration; the text says what would be one."""


def seconds(text: str) -> float:
    """The duration in seconds; never negative, since nothing here waits backwards. Raises DurationError."""
    if text == "0":
        return 0.0
    total, position = 0.0, 0
    while piece := _PIECE.match(text, position):
        total += float(piece[1]) * _UNITS[piece[2]]
        position = piece.end()
    if not text or position != len(text):
        raise DurationError(f"invalid duration {text!r}: write it like 15s, 1m30s or 500ms")
    return total
