"""How much of a pool was free: changes only, sampled, and bounded in number and time."""

import pytest

from mooring.api.views.storage import StorageCapacity
from mooring.web.picture import Picture
from mooring.web.pool_history import HISTORY_SECONDS, SAMPLE_SECONDS, PoolHistory
from support.builders import a_capacity


def capacity(free: str, name: str = "pool") -> StorageCapacity:
    return a_capacity(name=name, storage_class="fast", topology={}, capacity=free)


def points(history: PoolHistory, now: float) -> dict[str, tuple[int, list[int]]]:
    return {row.id: (row.first, [free for _, free in row.points]) for row in history.rows(now=now)}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        pytest.param([], {}, id="no change, no line"),
        pytest.param([(0.0, "9", "9")], {}, id="the same amount is no change"),
        pytest.param([(0.0, "9", "7")], {"default/pool": (9, [7])}, id="what was before is known"),
        pytest.param(
            [(0.0, "9", "7"), (SAMPLE_SECONDS, "7", "8")], {"default/pool": (9, [7, 8])}, id="a point for each sample"
        ),
        pytest.param([(0.0, "9", "7"), (1.0, "7", "5")], {"default/pool": (9, [5])}, id="quick changes are one"),
    ],
)
def test_lines(changes: list[tuple[float, str, str]], line: dict[str, tuple[int, list[int]]]) -> None:
    history = PoolHistory()
    for at, before, after in changes:
        history.observe(capacity(before), capacity(after), now=at)
    assert points(history, 100.0) == line


def test_old_changes_are_dropped() -> None:
    history = PoolHistory()
    history.observe(capacity("9"), capacity("7"), now=0.0)
    history.observe(capacity("7"), capacity("5"), now=HISTORY_SECONDS)
    assert points(history, HISTORY_SECONDS + 1) == {"default/pool": (7, [5])}
    assert points(history, 3 * HISTORY_SECONDS) == {}
    assert len(history) == 0


def test_changes_of_all_pools_are_bounded_together() -> None:
    history = PoolHistory(max_changes=10)
    for number in range(50):
        name = f"pool-{number}"
        history.observe(capacity("9", name), capacity("7", name), now=float(number))
    assert len(history) == 10
    assert list(points(history, 50.0)) == [f"default/pool-{number}" for number in range(40, 50)]


def test_pools_that_come_and_go_have_no_line() -> None:
    history = PoolHistory()
    history.observe(None, capacity("9"), now=0.0)
    history.observe(capacity("9"), None, now=1.0)
    assert points(history, 2.0) == {}


def test_a_later_session_continues_the_history() -> None:
    history = PoolHistory()
    Picture(history=history).observe_capacity(capacity("9"), capacity("7"), now=0.0)
    later = Picture(history=history)
    assert points(later.history, 1.0) == {"default/pool": (9, [7])}
