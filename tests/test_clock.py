"""Readings of `IncreasingTime`, on clocks that advance, stop and step back."""

import pytest

from mooring.api.times import to_micro_time
from mooring.clock import IncreasingTime


class _Readings:
    """A clock that is read out of a list."""

    def __init__(self, *readings: float) -> None:
        self._readings = iter(readings)

    def now(self) -> float:
        return next(self._readings)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("no reading waits")


START = 1_790_000_000.25


@pytest.mark.parametrize(
    "readings",
    [(START, START + 1, START + 2), (START, START, START), (START, START - 3600, START - 3599)],
    ids=["running", "standing still", "stepped back"],
)
def test_increasing_time_never_repeats_a_timestamp(readings: tuple[float, ...]) -> None:
    times = IncreasingTime(_Readings(*readings))
    stamps = [to_micro_time(times.after()) for _ in readings]
    assert stamps == sorted(set(stamps))


def test_increasing_time_is_later_than_a_moment_of_another_process() -> None:
    times = IncreasingTime(_Readings(START, START, START))
    assert times.after(START + 5) > START + 5
    assert times.after() > START + 5, "what follows is later than what was told before"
