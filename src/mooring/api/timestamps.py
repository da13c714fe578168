"""Kubernetes' spelling of moments: RFC 3339 in UTC, whole seconds (`Time`) or six digits (`MicroTime`).

The years are 1 to 9999: no other can be spelled in four digits. The first moment of year 1 is Go's zero time, which
Kubernetes does not tell from an absent one.
"""

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

#: Seconds since the epoch of the first and the last moment that can be spelled.
_FIRST: Final = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST: Final = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()

_ZERO: Final = datetime.min.replace(tzinfo=UTC)


def to_time(epoch: float) -> str:
    """`metav1.Time`: whole seconds, as creationTimestamp carries them. What lies outside of the years that can be
    spelled becomes the nearest moment that does not."""
    return _second(math.floor(_within(epoch)))


# A server asks for the present second thousands of times.
@lru_cache(maxsize=8)
def _second(epoch: int) -> str:
    return _spelled(datetime.fromtimestamp(epoch, UTC), "seconds")


def to_micro_time(epoch: float) -> str:
    """`metav1.MicroTime`: always six fractional digits, as Leases and new-style Events carry them."""
    return _spelled(datetime.fromtimestamp(_within(epoch), UTC), "microseconds")


def from_time(text: str) -> float:
    """Seconds since the epoch; raises ValueError for anything that is not RFC 3339 with a zone."""
    return _moment(text).timestamp()


def respelled(text: str, timespec: str) -> str | None:
    """The canonical spelling, in `seconds` or `microseconds`; None for Go's zero time. Raises ValueError."""
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
