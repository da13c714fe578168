"""How long ago, the way kubectl's AGE column says it: `45s`, `5m30s`, `3h`, `2d4h`, `1y30d`.

Pure text: who reads the clock and subtracts is the caller. Not a parser of durations.
"""

from typing import Final

__all__ = ["INVALID", "UNKNOWN", "human_duration"]

UNKNOWN: Final = "<unknown>"
"""Shown for objects without a creation time."""

INVALID: Final = "<invalid>"
"""Shown for times in the future."""

TOLERATED_SKEW: Final = 2
"""Seconds in the future that still read as now: clocks of two machines rarely agree better."""

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY

# (below this many seconds, the unit counted, the finer unit shown beside it); kubectl's own steps,
# which keep two or three significant digits.
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
    """The elapsed time in at most two units; None is a time nobody knows."""
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
