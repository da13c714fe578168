"""What is news, when it happened, and how much of it is kept."""

import msgspec
import pytest

from mooring.web.picture import MAX_TEXT_LENGTH, DatedEvent, Timeline, from_event
from mooring.web.session import DATED_EVENT
from support.builders.objects import Body, metadata


def an_event(**fields: object) -> DatedEvent:
    body: Body = {
        "metadata": metadata(name=str(fields.pop("name", "e")), namespace="default"),
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
        "reason": "Scheduled",
        "type": "Normal",
    }
    return DATED_EVENT.decode(msgspec.json.encode(body | fields))


@pytest.mark.parametrize(
    ("fields", "lane"),
    [
        pytest.param({}, "binding", id="a pod got its node"),
        pytest.param({"reason": "VolumeCommitted"}, "hold", id="a held volume was given"),
        pytest.param({"reason": "ProvisioningRolledBack", "type": "Warning"}, "rollback", id="rolled back"),
        pytest.param({"reason": "FailedMount", "type": "Warning"}, "trouble", id="any warning about a pod"),
        pytest.param({"reason": "Pulled"}, None, id="images are no news"),
        pytest.param({"reason": "WaitForPodScheduled"}, None, id="waiting is not an entry"),
        pytest.param(
            {"reason": "X", "type": "Warning", "involvedObject": {"kind": "Service", "name": "s"}},
            None,
            id="warnings about other things",
        ),
    ],
)
def test_what_is_news(fields: Body, lane: str | None) -> None:
    found = from_event(an_event(**fields))
    assert (None if found is None else found.lane) == lane


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        pytest.param(
            {"lastTimestamp": "1970-01-01T00:00:09Z", "eventTime": "1970-01-01T00:00:01Z"}, 9.0, id="old form"
        ),
        pytest.param({"eventTime": "1970-01-01T00:00:03.500000Z", "lastTimestamp": None}, 3.5, id="new form"),
        pytest.param(
            {"eventTime": "1970-01-01T00:00:03Z", "series": {"count": 4, "lastObservedTime": "1970-01-01T00:01:00Z"}},
            60.0,
            id="new form, repeated",
        ),
        pytest.param({"lastTimestamp": "yesterday"}, 0.0, id="a malformed date"),
    ],
)
def test_when_it_happened(fields: Body, at: float) -> None:
    found = from_event(an_event(**fields))
    assert found is not None
    assert found.at == at


def test_repeats_are_counted_in_both_forms() -> None:
    old, new = from_event(an_event(count=3)), from_event(an_event(series={"count": 4}))
    assert (old and old.count, new and new.count) == (3, 4)


def test_long_texts_are_cut() -> None:
    found = from_event(an_event(message="x" * 10_000))
    assert found is not None
    assert len(found.text) == MAX_TEXT_LENGTH + 1


def test_only_the_last_ones_are_kept() -> None:
    timeline = Timeline(max_rows=2)
    for name in ("a", "b", "c"):
        timeline.observe_event(None, an_event(name=name))
    assert list(timeline.rows) == ["default/b", "default/c"]


def test_entries_remain_after_their_event_expires() -> None:
    timeline = Timeline()
    timeline.observe_event(None, an_event())
    timeline.observe_event(an_event(), None)
    assert list(timeline.rows) == ["default/e"]
