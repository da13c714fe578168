"""Timestamps (RFC 3339 `Time` and `MicroTime`), Go durations (`1m30s`) and kubectl's ages (`2d4h`). Pure.

Timestamps cover the years 1 to 9999, all that four digits can express. The first second of year 1 is Go's zero time,
which Kubernetes treats as absent.
"""

import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

#: Shown for objects without a creation time.
UNKNOWN: Final = "<unknown>"
#: Shown for times in the future.
INVALID: Final = "<invalid>"
#: Seconds in the future that still count as now, for clock skew between machines.
TOLERATED_SKEW: Final = 2

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY

# (below this many seconds, the unit, the finer unit shown after it); kubectl's steps, two or three significant digits.
_STEPS: Final = (
    (2 * MINUTE, (1, "s"), None),
    (10 * MINUTE, (MINUTE, "m"), (1, "s")),
    (3 * HOUR, (MINUTE, "m"), None),
    (8 * HOUR, (HOUR, "h"), (MINUTE, "m")),
    (48 * HOUR, (HOUR, "h"), None),
    (8 * DAY, (DAY, "d"), (HOUR, "h")),
    (2 * YEAR, (DAY, "d"), None),
    (8 * YEAR, (YEAR, "y"), (DAY, "d")),
)


def human_duration(seconds: float | None) -> str:
    """The elapsed time in at most two units, as in kubectl's AGE column; None is an unknown time."""
    if seconds is None:
        return UNKNOWN
    elapsed = int(seconds)
    if elapsed <= -TOLERATED_SKEW:
        return INVALID
    elapsed = max(elapsed, 0)
    for below, (size, letter), finer in _STEPS:
        if elapsed < below:
            count, rest = divmod(elapsed, size)
            if finer is None or rest < finer[0]:
                return f"{count}{letter}"
            return f"{count}{letter}{rest // finer[0]}{finer[1]}"
    return f"{elapsed // YEAR}y"


_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


class DurationError(ValueError):
    """The text is not a duration; the message shows valid ones."""


def parse_duration(text: str) -> float:
    """The duration in seconds, never negative. Raises DurationError."""
    if text == "0":
        return 0.0
    total, position = 0.0, 0
    while piece := _PIECE.match(text, position):
        total += float(piece[1]) * _UNITS[piece[2]]
        position = piece.end()
    if not text or position != len(text):
        raise DurationError(f"invalid duration {text!r}: write it like 15s, 1m30s or 500ms")
    return total


#: Seconds since the epoch of the first and last timestamp that can be written.
_FIRST: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST: Final = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()

_ZERO: Final = datetime.min.replace(tzinfo=UTC)


def to_time(epoch: float) -> str:
    """`metav1.Time`: whole seconds, as in creationTimestamp; clamped to the years 1 to 9999."""
    return _second(math.floor(epoch if _FIRST <= epoch <= _LAST else _within(epoch)))


# A server formats the current second thousands of times.
@lru_cache(maxsize=8)
def _second(epoch: int) -> str:
    return _spelled(datetime.fromtimestamp(epoch, UTC), "seconds")


def to_micro_time(epoch: float) -> str:
    """`metav1.MicroTime`: always six fractional digits, as in Leases and `events.k8s.io` Events."""
    return _spelled(datetime.fromtimestamp(_within(epoch), UTC), "microseconds")


def from_time(text: str) -> float:
    """Seconds since the epoch; raises ValueError for anything but RFC 3339 with a time zone."""
    return _moment(text).timestamp()


def time_or_none(text: str | None) -> float | None:
    """The same; None for no text and for anything else."""
    try:
        return from_time(text or "")
    except ValueError:
        return None


def canonical_time(text: str, timespec: str) -> str | None:
    """The canonical form, in `seconds` or `microseconds`; None for Go's zero time. Raises ValueError."""
    moment = _moment(text)
    if timespec == "seconds":
        moment = moment.replace(microsecond=0)
    return None if moment == _ZERO else _spelled(moment, timespec)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2026-01-31T12:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is not between the years 1 and 9999 in UTC") from error


def _spelled(moment: datetime, timespec: str) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec=timespec)}Z"


def _within(epoch: float) -> float:
    return min(max(epoch, _FIRST), _LAST)
