"""The AGE column: kubectl's steps, at their edges."""

import pytest

from mooring.api.durations import DAY, HOUR, MINUTE, YEAR, human_duration


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
