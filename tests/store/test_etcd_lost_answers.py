"""A line to etcd that breaks, before or after etcd did what it was asked: nothing happens twice, nothing is denied."""

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from mooring.clock import SystemClock
from mooring.store.contract import ABSENT, Change, Mismatch, Revision, Store
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.store import EtcdStore

from .conftest import a_part_of
from .cutting_proxy import CuttingProxy, proxied
from .etcd_process import EtcdProcess
from .test_etcd_shared import increment


class Line(msgspec.Struct):
    """A store behind a line that can be cut, and the settings for another that is not."""

    store: EtcdStore
    proxy: CuttingProxy
    direct: EtcdSettings


@pytest.fixture
async def line(etcd: EtcdProcess) -> AsyncIterator[Line]:
    part = a_part_of(etcd)
    async with proxied(etcd.port) as proxy:
        cut = msgspec.structs.replace(part, servers=(proxy.url.removeprefix("http://"),))
        store = await EtcdStore.open(cut, SystemClock())
        yield Line(store, proxy, part)
        await store.close()


async def test_writes_whose_answers_were_lost_are_found_to_have_happened(line: Line) -> None:
    store = line.store
    old = await store.write("/old", b"1", expect=ABSENT)
    dead = await store.write("/dead", b"1", expect=ABSENT)
    watch = await store.watch("/", after=store.revision)
    losing = asyncio.create_task(line.proxy.lose_answers(0.2))
    await asyncio.sleep(0)
    made, changed, gone = await asyncio.gather(
        store.write("/new", b"1", expect=ABSENT),
        store.write("/old", b"2", expect=old.revision),
        store.write("/dead", None, expect=dead.revision),
    )
    await losing
    assert made.after is not None
    assert changed.before == old.after
    assert changed.after is not None
    assert gone.after is None
    seen: list[Change] = []
    while len(seen) < 3:
        seen += await anext(watch)
    assert {change.key: change for change in seen} == {"/new": made, "/old": changed, "/dead": gone}
    assert store.revision == max(change.revision for change in seen), "each happened once"


async def test_a_write_that_others_built_upon_is_still_found_to_have_happened(line: Line) -> None:
    other = await EtcdStore.open(line.direct, SystemClock())

    async def overwrite() -> None:
        [ours] = await anext(watch)
        await other.write("/a", b"theirs", expect=ours.revision)
        line.proxy.deaf = False
        await line.proxy.cut()

    watch = await other.watch("/a", after=other.revision)
    line.proxy.deaf = True
    overwriting = asyncio.create_task(overwrite())
    change = await line.store.write("/a", b"ours", expect=ABSENT)
    await overwriting
    assert change.after is not None
    assert change.after.value == b"ours"
    found = await line.store.get("/a")
    assert found is not None
    assert found.value == b"theirs"
    await other.close()


async def test_a_race_that_was_lost_is_not_taken_for_won(line: Line) -> None:
    """The answer is lost, and it would have been that somebody else was faster, with the very same value."""
    other = await EtcdStore.open(line.direct, SystemClock())
    await other.write("/a", b"same", expect=ABSENT)
    losing = asyncio.create_task(line.proxy.lose_answers(0.2))
    await asyncio.sleep(0)
    with pytest.raises(Mismatch) as mismatch:
        await line.store.write("/a", b"same", expect=ABSENT)
    await losing
    assert mismatch.value.current == await other.get("/a")
    await other.close()


async def test_under_cuts_at_any_moment_every_increment_counts_once(line: Line) -> None:
    """Whoever was told that they counted did, and nobody who was told otherwise."""
    rng = random.Random(20261115)
    over = asyncio.Event()

    async def trouble() -> None:
        while not over.is_set():
            await asyncio.sleep(rng.uniform(0.02, 0.1))
            if rng.random() < 0.5:
                await line.proxy.cut()
            else:
                await line.proxy.lose_answers(rng.uniform(0, 0.05))

    async def follow(store: Store, after: Revision) -> list[Change]:
        watch, seen = await store.watch("/", after=after), list[Change]()
        while len(seen) < 60:
            seen += await anext(watch)
        return seen

    following = asyncio.create_task(follow(line.store, line.store.revision))
    troubling = asyncio.create_task(trouble())
    async with asyncio.timeout(60):
        written = await asyncio.gather(*(increment(line.store, 15) for _ in range(4)))
        seen = await following
    over.set()
    await troubling
    assert [change.after.value for change in seen if change.after] == [b"%d" % n for n in range(1, 61)]
    assert [change.revision for change in seen] == sorted(revision for some in written for revision in some)
