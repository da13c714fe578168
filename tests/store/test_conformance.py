"""What every store must do: each test runs on the memory store and on the SQLite store."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from mooring.store.contract import (
    ABSENT,
    Change,
    Compacted,
    Mismatch,
    Overrun,
    Record,
    Revision,
    Store,
    StoreClosed,
    Watch,
)
from mooring.store.history import Limits

from .conftest import OpenStore


async def fill(store: Store, *keys: str) -> None:
    for key in keys:
        await store.write(key, b"{}", expect=ABSENT)


async def take(watch: Watch, count: int) -> list[Change]:
    """The next changes, in however many batches they come."""
    changes: list[Change] = []
    while len(changes) < count:
        changes += await asyncio.wait_for(anext(aiter(watch)), timeout=5)
    return changes


def revisions(changes: Sequence[Change]) -> list[int]:
    return [change.revision for change in changes]


# Writing


async def test_an_empty_store_is_at_revision_zero(store: Store) -> None:
    assert store.revision == 0
    assert await store.get("/a") is None
    listing = await store.list("")
    assert (listing.records, listing.revision) == ((), 0)


async def test_the_life_of_a_key(store: Store) -> None:
    made = await store.write("/a", b"1", expect=ABSENT)
    first = Record("/a", b"1", Revision(1), Revision(1))
    assert made == Change("/a", Revision(1), before=None, after=first)
    assert await store.get("/a") == first

    replaced = await store.write("/a", b"2", expect=Revision(1))
    second = Record("/a", b"2", Revision(2), Revision(1))
    assert replaced == Change("/a", Revision(2), before=first, after=second)
    assert await store.get("/a") == second

    deleted = await store.write("/a", None, expect=Revision(2))
    assert deleted == Change("/a", Revision(3), before=second, after=None)
    assert await store.get("/a") is None

    again = await store.write("/a", b"3", expect=ABSENT)
    assert again.after == Record("/a", b"3", Revision(4), Revision(4))
    assert store.revision == 4


async def test_one_counter_orders_all_keys(store: Store) -> None:
    changes = [await store.write(key, b"", expect=ABSENT) for key in ("/b", "/a", "/c")]
    assert revisions(changes) == [1, 2, 3]


async def test_any_key_and_any_bytes_come_back_as_they_were(store: Store) -> None:
    stored = {"": b"", "/ü/日本": bytes(range(256)), "/nul\0": b"\0", "/\U0001f9ed": b"x" * 100_000}
    for key, value in stored.items():
        await store.write(key, value, expect=ABSENT)
    assert {record.key: record.value for record in (await store.list("")).records} == stored


@pytest.mark.parametrize(
    ("key", "value", "expect"),
    [
        pytest.param("/a", b"3", 0, id="create what is there"),
        pytest.param("/a", b"3", 1, id="replace what has changed since"),
        pytest.param("/a", b"3", 9, id="replace a revision yet to come"),
        pytest.param("/a", None, 1, id="delete what has changed since"),
        pytest.param("/b", b"3", 1, id="replace what never was"),
        pytest.param("/gone", b"3", 3, id="replace what is gone"),
        pytest.param("/gone", None, 3, id="delete what is gone"),
    ],
)
async def test_a_mismatch_names_what_is_there_and_changes_nothing(
    store: Store, key: str, value: bytes | None, expect: int
) -> None:
    await store.write("/a", b"1", expect=ABSENT)
    await store.write("/a", b"2", expect=Revision(1))
    await store.write("/gone", b"", expect=ABSENT)
    await store.write("/gone", None, expect=Revision(3))
    before = await store.list("")
    watch = await store.watch("", after=store.revision)
    with pytest.raises(Mismatch) as mismatch:
        await store.write(key, value, expect=Revision(expect))
    assert mismatch.value.current == await store.get(key)
    assert await store.list("") == before
    await store.write("/next", b"", expect=ABSENT)
    assert revisions(await take(watch, 1)) == [5]


async def test_deleting_what_must_not_exist_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError, match="say which revision"):
        await store.write("/a", None, expect=ABSENT)


async def test_of_many_who_create_one_key_one_succeeds(store: Store) -> None:
    answers = await asyncio.gather(
        *(store.write("/a", b"%d" % n, expect=ABSENT) for n in range(10)), return_exceptions=True
    )
    winner, *losers = answers
    assert isinstance(winner, Change)
    assert winner.after == await store.get("/a")
    for loser in losers:
        assert isinstance(loser, Mismatch)
        assert loser.current == winner.after
    assert store.revision == 1


async def test_concurrent_read_and_swap_loses_no_increment(store: Store) -> None:
    await store.write("/count", b"0", expect=ABSENT)

    async def increment() -> None:
        for _ in range(10):
            while True:
                current = await store.get("/count")
                assert current is not None
                await asyncio.sleep(0)
                try:
                    await store.write("/count", b"%d" % (int(current.value) + 1), expect=current.revision)
                    break
                except Mismatch:
                    continue

    await asyncio.gather(*(increment() for _ in range(5)))
    final = await store.get("/count")
    assert final is not None
    assert (final.value, final.revision) == (b"50", 51)


# Listing


@pytest.mark.parametrize(
    ("prefix", "want"),
    [
        pytest.param("", ["/core/nodes/n1", "/core/pods/a/p1", "/core/pods/a/p2", "/core/pods/b/p1"], id="all"),
        pytest.param("/core/pods/", ["/core/pods/a/p1", "/core/pods/a/p2", "/core/pods/b/p1"], id="a kind"),
        pytest.param("/core/pods/a/", ["/core/pods/a/p1", "/core/pods/a/p2"], id="a namespace"),
        pytest.param("/core/pods/a/p1", ["/core/pods/a/p1"], id="a key"),
        pytest.param("/core/po", ["/core/pods/a/p1", "/core/pods/a/p2", "/core/pods/b/p1"], id="part of a name"),
        pytest.param("/core/pods/c/", [], id="nothing there"),
    ],
)
async def test_listing_a_prefix(store: Store, prefix: str, want: list[str]) -> None:
    await fill(store, "/core/pods/b/p1", "/core/pods/a/p2", "/core/nodes/n1", "/core/pods/a/p1")
    listing = await store.list(prefix)
    assert [record.key for record in listing.records] == want
    assert listing.revision == 4


async def test_counting_a_prefix(store: Store) -> None:
    await fill(store, "/core/pods/b/p1", "/core/pods/a/p2", "/core/nodes/n1")
    assert [store.count(prefix) for prefix in ("", "/core/pods/", "/core/pods/a/", "/apps/")] == [3, 2, 1, 0]


async def test_a_listing_stays_as_it_was(store: Store) -> None:
    await fill(store, "/a", "/b")
    listing = await store.list("/")
    await store.write("/a", None, expect=Revision(1))
    assert [record.key for record in listing.records] == ["/a", "/b"]
    assert [record.key for record in (await store.list("/")).records] == ["/b"]


@pytest.mark.parametrize(
    ("start", "limit", "want", "remaining"),
    [
        pytest.param("", 2, ["/k/a", "/k/b"], 2, id="the first"),
        pytest.param("/k/b\0", 1, ["/k/c"], 1, id="those after one"),
        pytest.param("/k/b", 2, ["/k/b", "/k/c"], 1, id="those from one on"),
        pytest.param("/k/bb", 0, ["/k/c", "/k/d"], 0, id="all the rest"),
        pytest.param("/k/c\0", 9, ["/k/d"], 0, id="fewer than asked for"),
        pytest.param("/k/x", 1, [], 0, id="beyond the end"),
        pytest.param("/a", 1, ["/k/a"], 3, id="from before the beginning"),
    ],
)
async def test_a_listing_in_parts(store: Store, start: str, limit: int, want: list[str], remaining: int) -> None:
    await fill(store, "/k/d", "/k/c", "/l/a", "/k/b", "/k/a", "/j/a")
    for at in (None, store.revision):
        listing = await store.list("/k/", at=at, start=start, limit=limit)
        assert ([record.key for record in listing.records], listing.remaining) == (want, remaining)


async def test_a_listing_of_the_past(store: Store) -> None:
    """What was, from what is and what happened since: created, changed, deleted, and deleted and made again."""
    await fill(store, "/k/a", "/k/b", "/k/c", "/l/a")
    was = await store.list("/k/")
    await store.write("/k/a", b"new", expect=Revision(1))
    await store.write("/k/a", b"newer", expect=Revision(5))
    await store.write("/k/b", None, expect=Revision(2))
    await fill(store, "/k/d")
    await store.write("/k/c", None, expect=Revision(3))
    await fill(store, "/k/c")
    assert await store.list("/k/", at=was.revision) == was
    part = await store.list("/k/", at=was.revision, start="/k/a\0", limit=1)
    assert (part.records, part.revision, part.remaining) == (was.records[1:2], was.revision, 1)


async def test_a_past_that_is_gone_cannot_be_listed(open_store: OpenStore) -> None:
    store = await open_store(history=Limits(changes=3, bytes=1000))
    await fill(store, *(f"/k/{n}" for n in range(5)))
    with pytest.raises(Compacted):
        await store.list("/k/", at=Revision(1))
    assert len((await store.list("/k/", at=Revision(2))).records) == 2


async def test_busy_neighbours_do_not_make_a_collection_forget(open_store: OpenStore) -> None:
    store = await open_store(history=Limits(changes=3, bytes=1000))
    await fill(store, "/core/pods/a/p", *(f"/core/leases/a/{n}" for n in range(9)))
    assert (await store.list("/core/pods/", at=Revision(1))).revision == 1
    watch = await store.watch("/core/pods/a/", after=ABSENT)
    assert revisions(await take(watch, 1)) == [1]
    with pytest.raises(Compacted):
        await store.watch("/core/", after=Revision(1))


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
async def test_a_watch_continues_after_a_revision(store: Store, prefix: str, after: int, want: list[int]) -> None:
    async def write(key: str) -> None:
        current = await store.get(key)
        await store.write(key, b"{}", expect=current.revision if current else ABSENT)

    for key in ("/core/pods/a/p1", "/core/nodes/n1", "/core/pods/a/p2"):
        await write(key)
    watch = await store.watch(prefix, after=Revision(after))
    for key in ("/core/nodes/n1", "/core/pods/a/p1", "/core/nodes/n1"):
        await write(key)
    assert revisions(await take(watch, len(want))) == want


async def test_a_watch_shows_what_the_writers_were_answered(store: Store) -> None:
    watch = await store.watch("/", after=ABSENT)
    answers = [
        await store.write("/a", b"1", expect=ABSENT),
        await store.write("/a", b"2", expect=Revision(1)),
        await store.write("/a", None, expect=Revision(2)),
    ]
    assert await take(watch, 3) == answers


async def test_once_a_write_returns_it_is_readable_and_with_the_watches(store: Store) -> None:
    watch = await store.watch("/", after=ABSENT)

    async def write(key: str) -> None:
        change = await store.write(key, b"", expect=ABSENT)
        assert store.revision >= change.revision
        assert await store.get(key) == change.after

    await asyncio.gather(*(write(f"/{n}") for n in range(20)))
    assert revisions(await anext(watch)) == list(range(1, 21)), "all were waiting: the watch had not to wait"


async def test_list_then_watch_has_no_gap_and_no_double(store: Store) -> None:
    """Readers that start in the midst of concurrent writing come to the same state as the store."""

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


async def test_a_watch_can_be_woken(store: Store) -> None:
    """It has then taken everything there was, once."""
    watch = await store.watch("/", after=ABSENT)
    waiting = asyncio.create_task(anext(aiter(watch)))
    await asyncio.sleep(0)
    watch.wake()
    assert await asyncio.wait_for(waiting, timeout=5) == ()
    await fill(store, "/a")
    watch.wake()
    assert revisions(await anext(watch)) == [1]
    assert await anext(watch) == ()
    waiting = asyncio.create_task(anext(aiter(watch)))
    await asyncio.sleep(0)
    assert not waiting.done()
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await waiting


async def test_history_that_is_gone_is_refused_with_the_oldest_that_works(open_store: OpenStore) -> None:
    store = await open_store(history=Limits(changes=3, bytes=1000))
    await fill(store, *(f"/{n}" for n in range(10)))
    with pytest.raises(Compacted) as compacted:
        await store.watch("/", after=Revision(6))
    assert compacted.value.oldest == 7
    watch = await store.watch("/", after=Revision(compacted.value.oldest))
    assert revisions(await take(watch, 3)) == [8, 9, 10]


async def test_a_slow_watch_is_cut_off_and_hinders_nobody(open_store: OpenStore) -> None:
    store = await open_store(backlog=Limits(changes=5, bytes=1000))
    slow = await store.watch("/", after=ABSENT)
    quick = await store.watch("/", after=ABSENT)
    seen = []
    for n in range(8):
        await fill(store, f"/{n}")
        seen += await take(quick, 1)
    assert revisions(seen) == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(Overrun):
        await anext(slow)


async def test_what_was_written_can_be_taken_without_waiting(open_store: OpenStore) -> None:
    store = await open_store(backlog=Limits(changes=2, bytes=1000))
    watch = await store.watch("/", after=ABSENT)
    assert not watch.waiting()
    await fill(store, "/a", "/b")
    assert revisions(watch.waiting()) == [1, 2]
    assert not watch.waiting()
    await fill(store, "/c", "/d", "/e")
    with pytest.raises(Overrun):
        watch.waiting()
    watch.close()
    assert not watch.waiting()


async def test_closing_a_watch_wakes_who_waits(store: Store) -> None:
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


async def test_a_cancelled_wait_loses_nothing(store: Store) -> None:
    watch = await store.watch("/", after=ABSENT)
    received: list[Change] = []
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


async def test_a_closed_store_refuses_everything(store: Store) -> None:
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


async def test_closing_finishes_what_was_accepted_and_then_ends_the_watches(store: Store) -> None:
    async def follow(changes: AsyncIterator[Sequence[Change]]) -> list[int]:
        return [change.revision async for batch in changes for change in batch]

    idle = await store.watch("/", after=ABSENT)
    following = asyncio.create_task(follow(aiter(await store.watch("/", after=ABSENT))))
    writes = []
    for n in range(10):  # some under way, others waiting for their turn
        writes.append(asyncio.create_task(store.write(f"/{n}", b"", expect=ABSENT)))
        await asyncio.sleep(0)
    await asyncio.gather(store.close(), store.close())
    assert revisions(await asyncio.gather(*writes)) == list(range(1, 11))
    assert await asyncio.wait_for(following, timeout=5) == list(range(1, 11))
    assert await follow(aiter(idle)) == list(range(1, 11)), "what waited before the end can still be taken"
