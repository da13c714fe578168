"""The two forms of an event, and the moment that the new form always has."""

from typing import Any

import pytest

from mooring.api.event_forms import to_kept, to_new


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        pytest.param({"firstTimestamp": "2026-01-02T03:04:05Z"}, "2026-01-02T03:04:05.000000Z", id="first seen"),
        pytest.param({"lastTimestamp": "2026-01-02T03:04:06Z"}, "2026-01-02T03:04:06.000000Z", id="last seen"),
        pytest.param(
            {"eventTime": "2026-01-02T03:04:07.000000Z", "lastTimestamp": "2026-01-02T03:04:06Z"},
            "2026-01-02T03:04:07.000000Z",
            id="its own",
        ),
        pytest.param({}, None, id="none at all"),
        pytest.param({"firstTimestamp": "yesterday"}, None, id="none that can be read"),
    ],
)
def test_the_new_form_says_when_and_the_kept_one_is_as_it_was(event: dict[str, Any], shown: str | None) -> None:
    old = {"apiVersion": "v1", "message": "hello", **event}
    new = to_new(old)
    assert new.get("eventTime") == shown
    assert to_kept(new) == old
