"""What every store must do: each test runs on the memory store, on the SQLite store and on the etcd store."""

import asyncio
from collections.abc import Sequence

import pytest

from mooring.store.contract import (
    ABSENT,
    Compacted,
    PreconditionFailed,
    Record,
    Revision,
    RevisionConflict,
    Store,
    StoreChange,
    Watch,
)
from mooring.store.state import Limits
from store.conftest import OpenStore


async def fill(store: Store, *keys: str) -> None:
    for key in keys:
        await store.write(key, b"{}", expect=ABSENT)


async def take(watch: Watch, count: int) -> list[StoreChange]:
    """The next changes, in however many batches they come."""
    changes: list[StoreChange] = []
    while len(changes) < count:
        changes += await asyncio.wait_for(anext(aiter(watch)), timeout=5)
    return changes


def revisions(changes: Sequence[StoreChange]) -> list[int]:
    return [change.revision for change in changes]


# Writing


async def test_empty_store_has_revision_zero(store: Store) -> None:
    assert store.revision == 0
    assert await store.get("/a") is None
    listing = await store.list("")
    assert (listing.records, listing.revision) == ((), 0)


async def test_key_is_created_replaced_deleted_and_recreated(store: Store) -> None:
    made = await store.write("/a", b"1", expect=ABSENT)
    first = Record("/a", b"1", Revision(1), Revision(1))
    assert made == StoreChange("/a", Revision(1), before=None, after=first)
    assert await store.get("/a") == first

    replaced = await store.write("/a", b"2", expect=Revision(1))
    second = Record("/a", b"2", Revision(2), Revision(1))
    assert replaced == StoreChange("/a", Revision(2), before=first, after=second)
    assert await store.get("/a") == second

    deleted = await store.write("/a", None, expect=Revision(2))
    assert deleted == StoreChange("/a", Revision(3), before=second, after=None)
    assert await store.get("/a") is None

    again = await store.write("/a", b"3", expect=ABSENT)
    assert again.after == Record("/a", b"3", Revision(4), Revision(4))
    assert store.revision == 4


async def test_revision_counter_is_shared_by_all_keys(store: Store) -> None:
    changes = [await store.write(key, b"", expect=ABSENT) for key in ("/b", "/a", "/c")]
    assert revisions(changes) == [1, 2, 3]


async def test_arbitrary_keys_and_values_round_trip(store: Store) -> None:
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
async def test_conflict_reports_current_record_and_changes_nothing(
    store: Store, key: str, value: bytes | None, expect: int
) -> None:
    await store.write("/a", b"1", expect=ABSENT)
    await store.write("/a", b"2", expect=Revision(1))
    await store.write("/gone", b"", expect=ABSENT)
    await store.write("/gone", None, expect=Revision(3))
    before = await store.list("")
    watch = await store.watch("", after=store.revision)
    with pytest.raises(RevisionConflict) as mismatch:
        await store.write(key, value, expect=Revision(expect))
    assert mismatch.value.current == await store.get(key)
    assert await store.list("") == before
    await store.write("/next", b"", expect=ABSENT)
    assert revisions(await take(watch, 1)) == [5]


async def test_deletion_without_revision_is_rejected(store: Store) -> None:
    with pytest.raises(ValueError, match="must expect an existing revision"):
        await store.write("/a", None, expect=ABSENT)


async def test_one_of_concurrent_creations_succeeds(store: Store) -> None:
    answers = await asyncio.gather(
        *(store.write("/a", b"%d" % n, expect=ABSENT) for n in range(10)), return_exceptions=True
    )
    # Which one, is not promised: those that wait together have no order.
    (winner,) = [answer for answer in answers if isinstance(answer, StoreChange)]
    losers = [answer for answer in answers if isinstance(answer, RevisionConflict)]
    assert len(losers) == 9
    assert winner.after == await store.get("/a")
    for loser in losers:
        assert loser.current == winner.after
    assert store.revision == 1


async def test_concurrent_compare_and_swap_loses_no_increment(store: Store) -> None:
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
                except RevisionConflict:
                    continue

    await asyncio.gather(*(increment() for _ in range(5)))
    final = await store.get("/count")
    assert final is not None
    assert (final.value, final.revision) == (b"50", 51)


async def test_write_requires_unchanged_precondition(store: Store) -> None:
    home = (await store.write("/home", b"1", expect=ABSENT)).after
    assert home is not None
    await store.write("/a", b"", expect=ABSENT, precondition=home)
    await store.write("/home", b"2", expect=home.revision)
    before = await store.list("")
    with pytest.raises(PreconditionFailed):
        await store.write("/b", b"", expect=ABSENT, precondition=home)
    with pytest.raises(RevisionConflict):  # what is there instead is the more telling of the two
        await store.write("/a", b"", expect=ABSENT, precondition=home)
    moved = await store.get("/home")
    assert moved is not None
    assert await store.list("") == before
    await store.write("/b", b"", expect=ABSENT, precondition=moved)
    await store.write("/home", None, expect=moved.revision)
    with pytest.raises(PreconditionFailed):
        await store.write("/c", b"", expect=ABSENT, precondition=moved)


async def test_write_and_deletion_of_precondition_are_serialized(store: Store) -> None:
    for n in range(10):
        home = (await store.write(f"/home/{n}", b"", expect=ABSENT)).after
        assert home is not None
        made, gone = await asyncio.gather(
            store.write(f"/room/{n}", b"", expect=ABSENT, precondition=home),
            store.write(home.key, None, expect=home.revision),
            return_exceptions=True,
        )
        assert isinstance(gone, StoreChange)
        assert isinstance(made, PreconditionFailed) or (isinstance(made, StoreChange) and made.revision < gone.revision)


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
async def test_list_returns_prefix_in_key_order(store: Store, prefix: str, want: list[str]) -> None:
    await fill(store, "/core/pods/b/p1", "/core/pods/a/p2", "/core/nodes/n1", "/core/pods/a/p1")
    listing = await store.list(prefix)
    assert [record.key for record in listing.records] == want
    assert listing.revision == 4


async def test_count_of_prefix(store: Store) -> None:
    await fill(store, "/core/pods/b/p1", "/core/pods/a/p2", "/core/nodes/n1")
    assert [store.count(prefix) for prefix in ("", "/core/pods/", "/core/pods/a/", "/apps/")] == [3, 2, 1, 0]


async def test_listing_is_immutable(store: Store) -> None:
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
async def test_list_with_start_and_limit(store: Store, start: str, limit: int, want: list[str], remaining: int) -> None:
    await fill(store, "/k/d", "/k/c", "/l/a", "/k/b", "/k/a", "/j/a")
    for at in (None, store.revision):
        listing = await store.list("/k/", at=at, start=start, limit=limit)
        assert ([record.key for record in listing.records], listing.remaining) == (want, remaining)


async def test_list_at_past_revision(store: Store) -> None:
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


async def test_list_at_compacted_revision_is_refused(open_store: OpenStore) -> None:
    store = await open_store(history=Limits(changes=3, bytes=1000))
    await fill(store, *(f"/k/{n}" for n in range(5)))
    with pytest.raises(Compacted):
        await store.list("/k/", at=Revision(1))
    assert len((await store.list("/k/", at=Revision(2))).records) == 2


async def test_history_is_bounded_per_collection(open_store: OpenStore) -> None:
    store = await open_store(history=Limits(changes=3, bytes=1000))
    await fill(store, "/core/pods/a/p", *(f"/core/leases/a/{n}" for n in range(9)))
    assert (await store.list("/core/pods/", at=Revision(1))).revision == 1
    watch = await store.watch("/core/pods/a/", after=ABSENT)
    assert revisions(await take(watch, 1)) == [1]
    with pytest.raises(Compacted):
        await store.watch("/core/", after=Revision(1))
