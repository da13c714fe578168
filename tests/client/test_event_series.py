import pytest

from mooring.api.views.meta import ObjectReference
from mooring.client.event_series import (
    BURST,
    COMBINED,
    REFILL_SECONDS,
    SIMILAR,
    SIMILAR_SECONDS,
    EventBudget,
    EventRecord,
    EventSeries,
)

POD = ObjectReference(kind="Pod", namespace="default", name="web-0", uid="u1", resource_version="5")


def event(
    *,
    regarding: ObjectReference = POD,
    kind: str = "Warning",
    reason: str = "Failed",
    message: str = "no",
    at: float = 0,
) -> EventRecord:
    return EventRecord(regarding, kind, reason, message, at)


def test_equal_happenings_are_counted_together() -> None:
    series = EventSeries()
    series.observe(event(at=10))
    found = series.observe(event(at=25))
    assert (found.count, found.first, found.last) == (2, 10, 25)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(event(kind="Normal"), id="type"),
        pytest.param(event(reason="Other"), id="reason"),
        pytest.param(event(message="other"), id="message"),
        pytest.param(event(regarding=ObjectReference(kind="Pod", name="web-0", uid="u2")), id="object"),
    ],
)
def test_happenings_that_differ_are_counted_apart(other: EventRecord) -> None:
    series = EventSeries()
    series.observe(event())
    assert series.observe(other).count == 1


def test_another_version_of_the_object_makes_no_difference() -> None:
    series = EventSeries()
    series.observe(event())
    later = ObjectReference(kind="Pod", namespace="default", name="web-0", uid="u1", resource_version="9")
    assert series.observe(event(regarding=later)).count == 2


def recorded(series: EventSeries, count: int, *, every: float = 1.0) -> list[str]:
    """The messages of `count` events that differ in a number, each with its count."""
    shown = []
    for number in range(count):
        seen = series.observe(event(message=f"{number} nodes", at=number * every))
        shown.append(f"{seen.message} x{seen.count}")
    return shown


def test_messages_that_keep_changing_become_one_event() -> None:
    shown = recorded(EventSeries(), SIMILAR + 2)
    apart, together = shown[: SIMILAR - 1], shown[SIMILAR - 1 :]
    assert apart == [f"{n} nodes x1" for n in range(SIMILAR - 1)]
    assert together == [f"{COMBINED}{SIMILAR - 1 + n} nodes x{n + 1}" for n in range(3)]


def test_messages_far_apart_stay_events_of_their_own() -> None:
    shown = recorded(EventSeries(), 3 * SIMILAR, every=SIMILAR_SECONDS + 1)
    assert not any(COMBINED in text for text in shown)


def test_the_memory_keeps_what_was_used_last() -> None:
    series = EventSeries(limit=2)
    for reason in ("a", "b", "a", "c"):
        series.observe(event(reason=reason))
    assert series.observe(event(reason="a")).count == 3
    assert series.observe(event(reason="b")).count == 1


def test_an_object_may_have_a_burst_and_then_one_in_five_minutes() -> None:
    budget = EventBudget()
    assert [budget.take("u1", 0.0) for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    assert budget.take("u2", 0.0)
    assert not budget.take("u1", REFILL_SECONDS - 1)
    assert budget.take("u1", REFILL_SECONDS + 1)
    assert not budget.take("u1", REFILL_SECONDS + 2)


def test_rest_does_not_save_up_more_than_a_burst() -> None:
    budget = EventBudget()
    budget.take("u1", 0.0)
    later = 1_000 * REFILL_SECONDS
    assert [budget.take("u1", later) for _ in range(BURST + 1)] == [True] * BURST + [False]
