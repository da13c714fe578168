"""Two stores on one prefix of etcd, as two API servers have them: one order of changes, one winner per conflict."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mooring.clock import SystemClock
from mooring.store.contract import ABSENT, Record, Revision, RevisionConflict, Store, StoreChange
from mooring.store.etcd.store import EtcdStore
from store.conftest import unused_prefix
from store.test_conformance import fill, take
from support.store.etcd_process import EtcdProcess


@pytest.fixture
async def both(etcd: EtcdProcess) -> AsyncIterator[tuple[Store, Store]]:
    part = unused_prefix(etcd)
    # Concurrently: both may find an empty prefix.
    here, there = await asyncio.gather(*(EtcdStore.open(part, SystemClock()) for _ in range(2)))
    yield here, there
    await here.close()
    await there.close()


async def increment(store: Store, times: int) -> list[Revision]:
    """Increment by compare-and-swap, retried on conflict."""
    written = []
    for _ in range(times):
        while True:
            current = await store.get("/count")
            value = b"%d" % (int(current.value) + 1 if current else 1)
            try:
                change = await store.write("/count", value, expect=current.revision if current else ABSENT)
            except RevisionConflict:
                continue
            written.append(change.revision)
            break
    return written


async def test_acknowledged_write_is_read_by_other_server(both: tuple[Store, Store]) -> None:
    here, there = both
    for n in range(20):
        change = await here.write(f"/{n}", b"", expect=ABSENT)
        await there.wait_current()
        assert await there.get(f"/{n}") == change.after
        gone = await there.write(f"/{n}", None, expect=change.revision)
        await here.wait_current()
        assert await here.get(f"/{n}") is None
        assert here.revision == gone.revision


async def test_read_barrier_waits_for_lagging_replica(
    both: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = both
    assert isinstance(there, EtcdStore)
    loop, take_in, complete = asyncio.get_running_loop(), there.take, there.complete_up_to
    monkeypatch.setattr(there, "take", lambda events: loop.call_later(0.1, take_in, [*events]))
    monkeypatch.setattr(there, "complete_up_to", lambda revision: loop.call_later(0.1, complete, revision))
    change = await here.write("/a", b"", expect=ABSENT)
    assert await there.get("/a") is None
    await there.wait_current()
    assert await there.get("/a") == change.after


async def test_conflicting_record_is_readable(both: tuple[Store, Store]) -> None:
    here, there = both
    for n in range(20):
        change = await here.write(f"/{n}", b"", expect=ABSENT)
        with pytest.raises(RevisionConflict) as mismatch:
            await there.write(f"/{n}", b"", expect=ABSENT)
        assert await there.get(f"/{n}") == mismatch.value.current == change.after


async def test_concurrent_read_barriers_all_succeed(both: tuple[Store, Store]) -> None:
    here, there = both

    async def write_and_read(n: int) -> None:
        change = await here.write(f"/{n}", b"", expect=ABSENT)
        await there.wait_current()
        assert await there.get(f"/{n}") == change.after

    await asyncio.gather(*(write_and_read(n) for n in range(50)))


async def test_increments_of_two_servers_are_not_lost(both: tuple[Store, Store]) -> None:
    written = await asyncio.gather(*(increment(store, 10) for store in both for _ in range(3)))
    revisions = sorted(revision for some in written for revision in some)
    assert len(set(revisions)) == 60
    for store in both:
        await store.wait_current()
        found = await store.get("/count")
        assert found is not None
        assert (found.value, found.revision) == (b"60", revisions[-1])


async def test_watches_of_two_servers_have_same_order(both: tuple[Store, Store]) -> None:
    watches = [await store.watch("/", after=store.revision) for store in both]
    await asyncio.gather(
        *(fill(store, *(f"/{writer}/{n}" for n in range(20))) for writer, store in enumerate((*both, *both)))
    )
    seen: list[list[StoreChange]] = [await take(watch, 80) for watch in watches]
    assert seen[0] == seen[1]
    assert [change.revision for change in seen[0]] == sorted({change.revision for change in seen[0]})


async def test_two_servers_list_same_past(both: tuple[Store, Store]) -> None:
    here, there = both
    past: dict[Revision, tuple[Record, ...]] = {}
    for n in range(10):
        await increment((here, there)[n % 2], 1)
        await here.wait_current()
        past[here.revision] = (await here.list("")).records
    await there.wait_current()
    for revision, records in past.items():
        for store in both:
            assert (await store.list("", at=revision)).records == records


async def test_watch_continues_on_other_server(both: tuple[Store, Store]) -> None:
    """A revision has the same meaning on all servers."""
    here, there = both
    watch = await here.watch("/", after=here.revision)
    await fill(here, "/a", "/b")
    first = await take(watch, 2)
    watch.close()
    await fill(there, "/c")
    going_on = await there.watch("/", after=first[0].revision)
    assert [change.key for change in await take(going_on, 2)] == ["/b", "/c"]
