"""Moments as Kubernetes spells them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.timestamps import from_time, respelled, to_micro_time, to_time


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
        assert respelled(text, "microseconds") is None or from_time(text) is not None
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
    assert (respelled(given_, "seconds"), respelled(given_, "microseconds")) == (seconds, micros)


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00", ""],
)
def test_what_is_no_moment_that_can_be_spelled(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_time(text)
