"""Two stores on one part of etcd, as two API servers have them: one order of changes, one winner of every race."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mooring.clock import SystemClock
from mooring.store.contract import ABSENT, Change, Mismatch, Record, Revision, Store
from mooring.store.etcd.store import EtcdStore

from .conftest import a_part_of
from .etcd_process import EtcdProcess
from .test_conformance import fill, take


@pytest.fixture
async def both(etcd: EtcdProcess) -> AsyncIterator[tuple[Store, Store]]:
    part = a_part_of(etcd)
    # At once: both may find that the prefix is nobody's.
    here, there = await asyncio.gather(*(EtcdStore.open(part, SystemClock()) for _ in range(2)))
    yield here, there
    await here.close()
    await there.close()


async def increment(store: Store, times: int) -> list[Revision]:
    """What a client does that counts up: read, write, and read again where somebody was faster."""
    written = []
    for _ in range(times):
        while True:
            current = await store.get("/count")
            value = b"%d" % (int(current.value) + 1 if current else 1)
            try:
                change = await store.write("/count", value, expect=current.revision if current else ABSENT)
            except Mismatch:
                continue
            written.append(change.revision)
            break
    return written


async def test_what_one_acknowledged_the_other_reads(both: tuple[Store, Store]) -> None:
    here, there = both
    for n in range(20):
        change = await here.write(f"/{n}", b"", expect=ABSENT)
        await there.catch_up()
        assert await there.get(f"/{n}") == change.after
        gone = await there.write(f"/{n}", None, expect=change.revision)
        await here.catch_up()
        assert await here.get(f"/{n}") is None
        assert here.revision == gone.revision


async def test_a_copy_that_lags_is_waited_for(both: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = both
    assert isinstance(there, EtcdStore)
    loop, take_in, complete = asyncio.get_running_loop(), there.take, there.complete_up_to
    monkeypatch.setattr(there, "take", lambda events: loop.call_later(0.1, take_in, [*events]))
    monkeypatch.setattr(there, "complete_up_to", lambda revision: loop.call_later(0.1, complete, revision))
    change = await here.write("/a", b"", expect=ABSENT)
    assert await there.get("/a") is None
    await there.catch_up()
    assert await there.get("/a") == change.after


async def test_whoever_is_told_of_a_newer_one_can_read_it(both: tuple[Store, Store]) -> None:
    here, there = both
    for n in range(20):
        change = await here.write(f"/{n}", b"", expect=ABSENT)
        with pytest.raises(Mismatch) as mismatch:
            await there.write(f"/{n}", b"", expect=ABSENT)
        assert await there.get(f"/{n}") == mismatch.value.current == change.after


async def test_many_who_catch_up_at_once_all_do(both: tuple[Store, Store]) -> None:
    here, there = both

    async def write_and_read(n: int) -> None:
        change = await here.write(f"/{n}", b"", expect=ABSENT)
        await there.catch_up()
        assert await there.get(f"/{n}") == change.after

    await asyncio.gather(*(write_and_read(n) for n in range(50)))


async def test_no_increment_is_lost_between_them(both: tuple[Store, Store]) -> None:
    written = await asyncio.gather(*(increment(store, 10) for store in both for _ in range(3)))
    revisions = sorted(revision for some in written for revision in some)
    assert len(set(revisions)) == 60
    for store in both:
        await store.catch_up()
        found = await store.get("/count")
        assert found is not None
        assert (found.value, found.revision) == (b"60", revisions[-1])


async def test_watches_of_both_show_the_same_in_the_same_order(both: tuple[Store, Store]) -> None:
    watches = [await store.watch("/", after=store.revision) for store in both]
    await asyncio.gather(
        *(fill(store, *(f"/{writer}/{n}" for n in range(20))) for writer, store in enumerate((*both, *both)))
    )
    seen: list[list[Change]] = [await take(watch, 80) for watch in watches]
    assert seen[0] == seen[1]
    assert [change.revision for change in seen[0]] == sorted({change.revision for change in seen[0]})


async def test_both_list_the_same_past(both: tuple[Store, Store]) -> None:
    here, there = both
    past: dict[Revision, tuple[Record, ...]] = {}
    for n in range(10):
        await increment((here, there)[n % 2], 1)
        await here.catch_up()
        past[here.revision] = (await here.list("")).records
    await there.catch_up()
    for revision, records in past.items():
        for store in both:
            assert (await store.list("", at=revision)).records == records


async def test_a_watch_goes_on_at_the_other(both: tuple[Store, Store]) -> None:
    """As a client does whose server is gone: the last version it saw means the same everywhere."""
    here, there = both
    watch = await here.watch("/", after=here.revision)
    await fill(here, "/a", "/b")
    first = await take(watch, 2)
    watch.close()
    await fill(there, "/c")
    going_on = await there.watch("/", after=first[0].revision)
    assert [change.key for change in await take(going_on, 2)] == ["/b", "/c"]
