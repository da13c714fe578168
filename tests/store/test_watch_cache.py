"""Delivery of changes to watches: order, history, overflow."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.store.contract import Compacted, Record, Revision, StoreChange, WatchOverflow
from mooring.store.state import Limits
from mooring.store.watch_cache import Subscription, WatchHub

LARGE = Limits(changes=1000, bytes=1_000_000)


def a_change(revision: int, *, key: str = "/a/b", size: int = 10) -> StoreChange:
    record = Record(key, b"x" * size, Revision(revision), Revision(revision))
    return StoreChange(key, Revision(revision), before=None, after=record)


def new_hub(*, at: int = 0, history: Limits = LARGE, backlog: Limits = LARGE) -> WatchHub:
    return WatchHub(Revision(at), history=history, backlog=backlog)


async def taken(watch: Subscription) -> list[int]:
    """The revisions of all buffered changes."""
    watch.finish()
    return [change.revision async for batch in watch for change in batch]


PATHS = st.text(alphabet="/ab", max_size=6)


@given(
    keys=st.lists(PATHS, max_size=15),
    watches=st.lists(st.tuples(PATHS, st.integers(0, 20), st.integers(0, 15)), max_size=10),
)
async def test_watch_delivers_its_prefix_once_in_order(keys: list[str], watches: list[tuple[str, int, int]]) -> None:
    """For any prefix, any start revision (past or future) and any time of opening."""
    hub = new_hub()
    opened = []
    for revision, key in enumerate(keys, start=1):
        opened += [(hub.subscribe(p, Revision(after)), p, after) for p, after, when in watches if when == revision]
        hub.publish([a_change(revision, key=key)])
    for watch, prefix, after in opened:
        expected = [n for n, key in enumerate(keys, start=1) if key.startswith(prefix) and n > after]
        assert await taken(watch) == expected


@pytest.mark.parametrize(
    ("history", "floor"),
    [
        pytest.param(Limits(changes=4, bytes=1000), 6, id="by number"),
        pytest.param(Limits(changes=100, bytes=35), 7, id="by bytes"),
        pytest.param(Limits(changes=100, bytes=5), 10, id="too small for one"),
    ],
)
async def test_history_is_bounded(history: Limits, floor: int) -> None:
    hub = new_hub(history=history)
    hub.publish(a_change(n) for n in range(1, 11))
    with pytest.raises(Compacted) as too_old:
        hub.subscribe("/", Revision(floor - 1))
    assert too_old.value.oldest == floor
    assert str(too_old.value) == f"too old resource version: {floor - 1} ({floor})"
    assert await taken(hub.subscribe("/", Revision(floor))) == list(range(floor + 1, 11))


async def test_history_counts_bytes_of_old_values() -> None:
    before = Record("/a", b"x" * 30, Revision(1), Revision(1))
    hub = new_hub(at=1, history=Limits(changes=100, bytes=35))
    hub.publish([StoreChange("/a", Revision(2), before, None), StoreChange("/a", Revision(3), None, before)])
    with pytest.raises(Compacted):
        hub.subscribe("/", Revision(1))
    assert await taken(hub.subscribe("/", Revision(2))) == [3]


async def test_history_starts_at_store_revision() -> None:
    hub = new_hub(at=41)
    with pytest.raises(Compacted):
        hub.subscribe("/", Revision(40))
    watch = hub.subscribe("/", Revision(41))
    hub.publish([a_change(42)])
    assert await taken(watch) == [42]


@pytest.mark.parametrize(
    "backlog",
    [
        pytest.param(Limits(changes=3, bytes=1000), id="by number"),
        pytest.param(Limits(changes=100, bytes=35), id="by bytes"),
    ],
)
async def test_overflowing_watch_ends_without_affecting_others(backlog: Limits) -> None:
    hub = new_hub(backlog=backlog)
    slow, quick = hub.subscribe("/", Revision(0)), hub.subscribe("/a/", Revision(0))
    seen = []
    for n in range(1, 6):
        hub.publish([a_change(n)])
        seen += await anext(quick)
    assert [change.revision for change in seen] == [1, 2, 3, 4, 5]
    for _ in range(2):
        with pytest.raises(WatchOverflow, match="the watch of '/'"):
            await anext(slow)
    slow.close()
    with pytest.raises(StopAsyncIteration):
        await anext(slow)


async def test_delivery_frees_buffer_and_replay_is_unbounded() -> None:
    hub = new_hub(backlog=Limits(changes=2, bytes=1000))
    hub.publish(a_change(n) for n in range(1, 6))
    watch = hub.subscribe("/", Revision(0))
    hub.publish([a_change(6), a_change(7)])
    assert len(await anext(watch)) == 7
    hub.publish([a_change(8), a_change(9)])
    assert len(await anext(watch)) == 2


async def test_watches_are_notified_in_subscription_order() -> None:
    hub = new_hub()
    told: list[int] = []

    async def wait(number: int, watch: Subscription) -> None:
        await anext(watch)
        told.append(number)

    async with asyncio.TaskGroup() as waiting:
        for number in range(20):
            waiting.create_task(wait(number, hub.subscribe("/a/", Revision(0))))
        await asyncio.sleep(0)
        hub.publish([a_change(1)])
    assert told == list(range(20))


async def test_closed_watches_are_released() -> None:
    hub = new_hub(backlog=Limits(changes=0, bytes=0))
    for prefix in ("/a/", "/a/b", "/a/"):
        hub.subscribe(prefix, Revision(0)).close()
    overflowed = hub.subscribe("/a/", Revision(0))
    hub.publish([a_change(1)])
    with pytest.raises(WatchOverflow):
        await anext(overflowed)
    assert not hub._buckets


async def test_watch_close_is_idempotent_after_store_close() -> None:
    hub = new_hub()
    watch = hub.subscribe("/", Revision(0))
    hub.close()
    watch.close()
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
