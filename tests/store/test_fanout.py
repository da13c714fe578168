"""Who is told of a change, in which order, and who is cut off."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.store.contract import Change, Compacted, Overrun, Record, Revision
from mooring.store.fanout import Fanout, Subscription
from mooring.store.history import Limits

ROOMY = Limits(changes=1000, bytes=1_000_000)


def a_change(revision: int, *, key: str = "/a/b", size: int = 10) -> Change:
    record = Record(key, b"x" * size, Revision(revision), Revision(revision))
    return Change(key, Revision(revision), before=None, after=record)


def a_fanout(*, at: int = 0, history: Limits = ROOMY, backlog: Limits = ROOMY) -> Fanout:
    return Fanout(Revision(at), history=history, backlog=backlog)


async def taken(watch: Subscription) -> list[int]:
    """Everything that waits, once the watch was told that nothing more comes."""
    watch.finish()
    return [change.revision async for batch in watch for change in batch]


PATHS = st.text(alphabet="/ab", max_size=6)


@given(
    keys=st.lists(PATHS, max_size=15),
    watches=st.lists(st.tuples(PATHS, st.integers(0, 20), st.integers(0, 15)), max_size=10),
)
async def test_a_watch_sees_what_starts_with_its_prefix_once_and_in_order(
    keys: list[str], watches: list[tuple[str, int, int]]
) -> None:
    """Whatever the prefix, whether the watch begins in the past or in the future, and whenever it is opened."""
    fanout = a_fanout()
    opened = []
    for revision, key in enumerate(keys, start=1):
        opened += [(fanout.subscribe(p, Revision(after)), p, after) for p, after, when in watches if when == revision]
        fanout.publish([a_change(revision, key=key)])
    for watch, prefix, after in opened:
        wanted = [n for n, key in enumerate(keys, start=1) if key.startswith(prefix) and n > after]
        assert await taken(watch) == wanted


@pytest.mark.parametrize(
    ("history", "floor"),
    [
        pytest.param(Limits(changes=4, bytes=1000), 6, id="by number"),
        pytest.param(Limits(changes=100, bytes=35), 7, id="by bytes"),
        pytest.param(Limits(changes=100, bytes=5), 10, id="no room for even one"),
    ],
)
async def test_history_is_bounded_and_says_where_it_begins(history: Limits, floor: int) -> None:
    fanout = a_fanout(history=history)
    fanout.publish(a_change(n) for n in range(1, 11))
    with pytest.raises(Compacted) as too_old:
        fanout.subscribe("/", Revision(floor - 1))
    assert too_old.value.oldest == floor
    assert str(too_old.value) == f"too old resource version: {floor - 1} ({floor})"
    assert await taken(fanout.subscribe("/", Revision(floor))) == list(range(floor + 1, 11))


async def test_history_weighs_what_a_change_replaced() -> None:
    before = Record("/a", b"x" * 30, Revision(1), Revision(1))
    fanout = a_fanout(at=1, history=Limits(changes=100, bytes=35))
    fanout.publish([Change("/a", Revision(2), before, None), Change("/a", Revision(3), None, before)])
    with pytest.raises(Compacted):
        fanout.subscribe("/", Revision(1))
    assert await taken(fanout.subscribe("/", Revision(2))) == [3]


async def test_after_a_restart_history_begins_where_the_store_is() -> None:
    fanout = a_fanout(at=41)
    with pytest.raises(Compacted):
        fanout.subscribe("/", Revision(40))
    watch = fanout.subscribe("/", Revision(41))
    fanout.publish([a_change(42)])
    assert await taken(watch) == [42]


@pytest.mark.parametrize(
    "backlog",
    [
        pytest.param(Limits(changes=3, bytes=1000), id="by number"),
        pytest.param(Limits(changes=100, bytes=35), id="by bytes"),
    ],
)
async def test_a_watch_too_far_behind_is_cut_off_and_the_others_go_on(backlog: Limits) -> None:
    fanout = a_fanout(backlog=backlog)
    slow, quick = fanout.subscribe("/", Revision(0)), fanout.subscribe("/a/", Revision(0))
    seen = []
    for n in range(1, 6):
        fanout.publish([a_change(n)])
        seen += await anext(quick)
    assert [change.revision for change in seen] == [1, 2, 3, 4, 5]
    for _ in range(2):
        with pytest.raises(Overrun, match="the watch of '/'"):
            await anext(slow)
    slow.close()
    with pytest.raises(StopAsyncIteration):
        await anext(slow)


async def test_taking_makes_room_again_and_the_first_batch_needs_none() -> None:
    fanout = a_fanout(backlog=Limits(changes=2, bytes=1000))
    fanout.publish(a_change(n) for n in range(1, 6))
    watch = fanout.subscribe("/", Revision(0))
    fanout.publish([a_change(6), a_change(7)])
    assert len(await anext(watch)) == 7
    fanout.publish([a_change(8), a_change(9)])
    assert len(await anext(watch)) == 2


async def test_watches_are_told_in_the_order_they_came() -> None:
    fanout = a_fanout()
    told: list[int] = []

    async def wait(number: int, watch: Subscription) -> None:
        await anext(watch)
        told.append(number)

    async with asyncio.TaskGroup() as waiting:
        for number in range(20):
            waiting.create_task(wait(number, fanout.subscribe("/a/", Revision(0))))
        await asyncio.sleep(0)
        fanout.publish([a_change(1)])
    assert told == list(range(20))


async def test_nothing_is_kept_of_watches_that_left() -> None:
    fanout = a_fanout(backlog=Limits(changes=0, bytes=0))
    for prefix in ("/a/", "/a/b", "/a/"):
        fanout.subscribe(prefix, Revision(0)).close()
    cut_off = fanout.subscribe("/a/", Revision(0))
    fanout.publish([a_change(1)])
    with pytest.raises(Overrun):
        await anext(cut_off)
    assert not fanout._buckets


async def test_a_closed_watch_can_be_closed_again_after_its_store() -> None:
    fanout = a_fanout()
    watch = fanout.subscribe("/", Revision(0))
    fanout.close()
    watch.close()
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
