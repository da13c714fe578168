"""Durations of flags and configuration files."""

import pytest

from mooring.api.go_durations import DurationError, seconds


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
    assert seconds(text) == pytest.approx(expected)


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
        seconds(text)
