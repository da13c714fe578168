"""Timestamps, Go durations and kubectl's ages."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.times import (
    DAY,
    HOUR,
    MINUTE,
    YEAR,
    DurationError,
    canonical_time,
    from_time,
    human_duration,
    parse_duration,
    to_micro_time,
    to_time,
)


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(None, "<unknown>", id="no creation time"),
        pytest.param(-3600, "<invalid>", id="far in the future"),
        pytest.param(-2, "<invalid>", id="two seconds in the future"),
        pytest.param(-1.9, "0s", id="clocks differ by less than two seconds"),
        pytest.param(0, "0s", id="now"),
        pytest.param(0.9, "0s", id="fractions are dropped"),
        pytest.param(119.9, "119s", id="just below two minutes"),
        pytest.param(2 * MINUTE, "2m", id="two minutes, no seconds"),
        pytest.param(5 * MINUTE + 30, "5m30s", id="minutes and seconds"),
        pytest.param(10 * MINUTE - 1, "9m59s", id="just below ten minutes"),
        pytest.param(10 * MINUTE + 59, "10m", id="seconds no longer matter"),
        pytest.param(3 * HOUR - 1, "179m", id="just below three hours"),
        pytest.param(3 * HOUR, "3h", id="three hours, no minutes"),
        pytest.param(3 * HOUR + 59, "3h", id="less than a minute is not shown"),
        pytest.param(7 * HOUR + 59 * MINUTE, "7h59m", id="hours and minutes"),
        pytest.param(8 * HOUR + 30 * MINUTE, "8h", id="minutes no longer matter"),
        pytest.param(48 * HOUR - 1, "47h", id="just below two days"),
        pytest.param(48 * HOUR, "2d", id="two days, no hours"),
        pytest.param(7 * DAY + 23 * HOUR, "7d23h", id="days and hours"),
        pytest.param(8 * DAY + 23 * HOUR, "8d", id="hours no longer matter"),
        pytest.param(2 * YEAR - 1, "729d", id="just below two years"),
        pytest.param(2 * YEAR, "2y", id="two years, no days"),
        pytest.param(2 * YEAR + 30 * DAY, "2y30d", id="years and days"),
        pytest.param(8 * YEAR - 1, "7y364d", id="just below eight years"),
        pytest.param(8 * YEAR + 100 * DAY, "8y", id="days no longer matter"),
        pytest.param(123 * YEAR, "123y", id="very old"),
    ],
)
def test_human_duration(seconds: float | None, want: str) -> None:
    assert human_duration(seconds) == want


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("15s", 15, id="seconds"),
        pytest.param("1m30s", 90, id="two units"),
        pytest.param("1h0m0s", 3600, id="as Go writes an hour"),
        pytest.param("500ms", 0.5, id="parts of a second"),
        pytest.param("1.5h", 5400, id="a fraction"),
        pytest.param(".5s", 0.5, id="a fraction without its zero"),
        pytest.param("10us", 1e-5, id="microseconds"),
        pytest.param("0", 0, id="zero needs no unit"),
    ],
)
def test_go_durations_are_understood(text: str, expected: float) -> None:
    assert parse_duration(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("15", id="no unit"),
        pytest.param("15 s", id="a space"),
        pytest.param("-1s", id="backwards"),
        pytest.param("1d", id="a unit Go does not have"),
        pytest.param("s", id="a unit alone"),
        pytest.param("1s!", id="something behind it"),
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(DurationError, match=r"write it like 15s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("epoch", "want"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_767_323_045.9, "2026-01-02T03:04:05Z"),
        (-0.5, "1969-12-31T23:59:59Z"),
        (-62_135_596_799, "0001-01-01T00:00:01Z"),
        (-math.inf, "0001-01-01T00:00:00Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (253_402_300_800, "9999-12-31T23:59:59Z"),
        (3e11, "9999-12-31T23:59:59Z"),
        (2.0**63, "9999-12-31T23:59:59Z"),
    ],
)
def test_seconds(epoch: float, want: str) -> None:
    assert to_time(epoch) == want


@given(st.floats(allow_nan=False))
def test_every_number_has_a_spelling_that_can_be_read(epoch: float) -> None:
    for text in (to_time(epoch), to_micro_time(epoch)):
        assert canonical_time(text, "microseconds") is None or from_time(text) is not None
        assert len(text) in (20, 27)


@pytest.mark.parametrize(
    ("given_", "seconds", "micros"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
        ("2026-01-02T03:04:05.999999Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.999999Z"),
        ("2026-01-02T03:04:05+01:00", "2026-01-02T02:04:05Z", "2026-01-02T02:04:05.000000Z"),
        ("1969-12-31T23:59:58.5Z", "1969-12-31T23:59:58Z", "1969-12-31T23:59:58.500000Z"),
        ("0001-01-01T00:00:01Z", "0001-01-01T00:00:01Z", "0001-01-01T00:00:01.000000Z"),
        ("0001-01-01T00:00:00Z", None, None),
        ("0001-01-01T00:00:00.5Z", None, "0001-01-01T00:00:00.500000Z"),
        ("9999-12-31T23:59:59+01:00", "9999-12-31T22:59:59Z", "9999-12-31T22:59:59.000000Z"),
    ],
)
def test_canonical_spelling(given_: str, seconds: str | None, micros: str | None) -> None:
    assert (canonical_time(given_, "seconds"), canonical_time(given_, "microseconds")) == (seconds, micros)


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00", ""],
)
def test_invalid_timestamps_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_time(text)
