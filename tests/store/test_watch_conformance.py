"""Watch and close of the Store contract, on each of the three stores."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from mooring.store.contract import ABSENT, Compacted, Record, Revision, Store, StoreChange, StoreClosed, WatchOverflow
from mooring.store.state import Limits
from store.conftest import OpenStore
from store.test_conformance import fill, revisions, take

# Watching


@pytest.mark.parametrize(
    ("prefix", "after", "want"),
    [
        pytest.param("", 0, [1, 2, 3, 4, 5, 6], id="everything"),
        pytest.param("/core/pods/", 0, [1, 3, 5], id="a kind from the beginning"),
        pytest.param("/core/pods/", 1, [3, 5], id="a kind from the past"),
        pytest.param("/core/pods/", 3, [5], id="a kind from now on"),
        pytest.param("/core/nodes/n1", 0, [2, 4, 6], id="a key"),
        pytest.param("/core/pods/", 4, [5], id="from the future"),
        pytest.param("/core/nodes/", 4, [6], id="from the future, past what comes before"),
    ],
)
async def test_watch_starts_after_revision(store: Store, prefix: str, after: int, want: list[int]) -> None:
    async def write(key: str) -> None:
        current = await store.get(key)
        await store.write(key, b"{}", expect=current.revision if current else ABSENT)

    for key in ("/core/pods/a/p1", "/core/nodes/n1", "/core/pods/a/p2"):
        await write(key)
    watch = await store.watch(prefix, after=Revision(after))
    for key in ("/core/nodes/n1", "/core/pods/a/p1", "/core/nodes/n1"):
        await write(key)
    assert revisions(await take(watch, len(want))) == want


async def test_watch_delivers_changes_returned_to_writers(store: Store) -> None:
    watch = await store.watch("/", after=ABSENT)
    answers = [
        await store.write("/a", b"1", expect=ABSENT),
        await store.write("/a", b"2", expect=Revision(1)),
        await store.write("/a", None, expect=Revision(2)),
    ]
    assert await take(watch, 3) == answers


async def test_returned_write_is_readable_and_delivered(store: Store) -> None:
    watch = await store.watch("/", after=ABSENT)

    async def write(key: str) -> None:
        change = await store.write(key, b"", expect=ABSENT)
        assert store.revision >= change.revision
        assert await store.get(key) == change.after

    await asyncio.gather(*(write(f"/{n}") for n in range(20)))
    assert revisions(await anext(watch)) == list(range(1, 21)), "all were waiting: the watch had not to wait"


async def test_list_then_watch_has_no_gap_and_no_duplicate(store: Store) -> None:
    """Readers that start during concurrent writes arrive at the state of the store."""

    async def write(writer: int) -> None:
        revision = ABSENT
        for n in range(20):
            change = await store.write(f"/{writer}", None if n % 5 == 4 else b"%d" % n, expect=revision)
            revision = change.after.revision if change.after else ABSENT

    async def follow() -> dict[str, Record]:
        listing = await store.list("/")
        watch = await store.watch("/", after=listing.revision)
        copy = {record.key: record for record in listing.records}
        expected = listing.revision + 1
        while expected <= 160:
            for change in await anext(watch):
                assert change.revision == expected
                assert change.before == copy.get(change.key)
                expected += 1
                if change.after:
                    copy[change.key] = change.after
                else:
                    del copy[change.key]
        return copy

    writers = [asyncio.create_task(write(n)) for n in range(8)]
    followers = []
    for _ in range(5):
        followers.append(asyncio.create_task(follow()))
        await asyncio.sleep(0.001)
    copies = await asyncio.wait_for(asyncio.gather(*followers), timeout=5)
    await asyncio.gather(*writers)
    current = {record.key: record for record in (await store.list("/")).records}
    assert all(copy == current for copy in copies)


async def test_progress_delivers_empty_batch(store: Store) -> None:
    """After all earlier changes, once per call."""
    watch = await store.watch("/", after=ABSENT)
    waiting = asyncio.create_task(anext(aiter(watch)))
    await asyncio.sleep(0)
    watch.progress()
    assert await asyncio.wait_for(waiting, timeout=5) == ()
    await fill(store, "/a")
    watch.progress()
    assert revisions(await anext(watch)) == [1]
    assert await anext(watch) == ()
    waiting = asyncio.create_task(anext(aiter(watch)))
    await asyncio.sleep(0)
    assert not waiting.done()
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_compacted_watch_reports_oldest_revision(open_store: OpenStore) -> None:
    store = await open_store(history=Limits(changes=3, bytes=1000))
    await fill(store, *(f"/{n}" for n in range(10)))
    with pytest.raises(Compacted) as compacted:
        await store.watch("/", after=Revision(6))
    assert compacted.value.oldest == 7
    watch = await store.watch("/", after=Revision(compacted.value.oldest))
    assert revisions(await take(watch, 3)) == [8, 9, 10]


async def test_slow_watch_overflows_without_blocking_others(open_store: OpenStore) -> None:
    store = await open_store(backlog=Limits(changes=5, bytes=1000))
    slow = await store.watch("/", after=ABSENT)
    quick = await store.watch("/", after=ABSENT)
    seen = []
    for n in range(8):
        await fill(store, f"/{n}")
        seen += await take(quick, 1)
    assert revisions(seen) == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(WatchOverflow):
        await anext(slow)


async def test_waiting_returns_undelivered_changes(open_store: OpenStore) -> None:
    store = await open_store(backlog=Limits(changes=2, bytes=1000))
    watch = await store.watch("/", after=ABSENT)
    assert not watch.waiting()
    await fill(store, "/a", "/b")
    assert revisions(watch.waiting()) == [1, 2]
    assert not watch.waiting()
    await fill(store, "/c", "/d", "/e")
    with pytest.raises(WatchOverflow):
        watch.waiting()
    watch.close()
    assert not watch.waiting()


async def test_closing_a_watch_ends_pending_read(store: Store) -> None:
    watch = await store.watch("/", after=ABSENT)
    waiting = asyncio.create_task(anext(watch))
    await asyncio.sleep(0)
    watch.close()
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, timeout=5)
    await fill(store, "/a")
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_cancelled_wait_loses_no_change(store: Store) -> None:
    watch = await store.watch("/", after=ABSENT)
    received: list[StoreChange] = []
    for n in range(5):
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        await fill(store, f"/{n}")
        waiting.cancel()
        await asyncio.wait([waiting])
        if not waiting.cancelled():
            received += waiting.result()
    received += await take(watch, 5 - len(received))
    assert revisions(received) == [1, 2, 3, 4, 5]


# Closing


async def test_closed_store_refuses_calls(store: Store) -> None:
    await fill(store, "/a")
    await store.close()
    await store.close()
    with pytest.raises(StoreClosed):
        await store.get("/a")
    with pytest.raises(StoreClosed):
        await store.list("/")
    with pytest.raises(StoreClosed):
        await store.write("/b", b"", expect=ABSENT)
    with pytest.raises(StoreClosed):
        await store.watch("/", after=ABSENT)


async def test_close_finishes_accepted_writes_then_ends_watches(store: Store) -> None:
    async def follow(changes: AsyncIterator[Sequence[StoreChange]]) -> list[int]:
        return [change.revision async for batch in changes for change in batch]

    idle = await store.watch("/", after=ABSENT)
    following = asyncio.create_task(follow(aiter(await store.watch("/", after=ABSENT))))
    writes = []
    for n in range(10):  # some committing, others queued
        writes.append(asyncio.create_task(store.write(f"/{n}", b"", expect=ABSENT)))
        await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert sorted(revisions(await asyncio.gather(*writes))) == list(range(1, 11))
    assert await asyncio.wait_for(following, timeout=5) == list(range(1, 11))
    assert await follow(aiter(idle)) == list(range(1, 11)), "what waited before the end can still be taken"
