"""Connections to etcd that break before or after a request is executed: each write has exactly one outcome."""

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from mooring.clock import SystemClock
from mooring.store.contract import ABSENT, Revision, RevisionConflict, Store, StoreChange
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.store import EtcdStore
from store.conftest import unused_prefix
from store.test_etcd_shared import increment
from support.store.cutting_proxy import CuttingProxy, proxied
from support.store.etcd_process import EtcdProcess


class ProxiedStore(msgspec.Struct):
    """A store behind a proxy, and settings for a direct connection."""

    store: EtcdStore
    proxy: CuttingProxy
    direct: EtcdSettings


@pytest.fixture
async def proxied_store(etcd: EtcdProcess) -> AsyncIterator[ProxiedStore]:
    part = unused_prefix(etcd)
    async with proxied(etcd.port) as proxy:
        cut = msgspec.structs.replace(part, servers=(proxy.url.removeprefix("http://"),))
        store = await EtcdStore.open(cut, SystemClock())
        yield ProxiedStore(store, proxy, part)
        await store.close()


async def test_write_with_lost_response_succeeds_once(proxied_store: ProxiedStore) -> None:
    store = proxied_store.store
    old = await store.write("/old", b"1", expect=ABSENT)
    dead = await store.write("/dead", b"1", expect=ABSENT)
    watch = await store.watch("/", after=store.revision)
    losing = asyncio.create_task(proxied_store.proxy.lose_responses(0.2))
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
    seen: list[StoreChange] = []
    while len(seen) < 3:
        seen += await anext(watch)
    assert {change.key: change for change in seen} == {"/new": made, "/old": changed, "/dead": gone}
    assert store.revision == max(change.revision for change in seen), "each happened once"


async def test_overwritten_write_with_lost_response_succeeds(proxied_store: ProxiedStore) -> None:
    other = await EtcdStore.open(proxied_store.direct, SystemClock())

    async def overwrite() -> None:
        [ours] = await anext(watch)
        await other.write("/a", b"theirs", expect=ours.revision)
        proxied_store.proxy.drop_responses = False
        await proxied_store.proxy.cut()

    watch = await other.watch("/a", after=other.revision)
    proxied_store.proxy.drop_responses = True
    overwriting = asyncio.create_task(overwrite())
    change = await proxied_store.store.write("/a", b"ours", expect=ABSENT)
    await overwriting
    assert change.after is not None
    assert change.after.value == b"ours"
    found = await proxied_store.store.get("/a")
    assert found is not None
    assert found.value == b"theirs"
    await other.close()


async def test_conflict_with_lost_response_stays_a_conflict(proxied_store: ProxiedStore) -> None:
    """The lost response was a conflict with another writer of the same value."""
    other = await EtcdStore.open(proxied_store.direct, SystemClock())
    await other.write("/a", b"same", expect=ABSENT)
    losing = asyncio.create_task(proxied_store.proxy.lose_responses(0.2))
    await asyncio.sleep(0)
    with pytest.raises(RevisionConflict) as mismatch:
        await proxied_store.store.write("/a", b"same", expect=ABSENT)
    await losing
    assert mismatch.value.current == await other.get("/a")
    await other.close()


async def test_increments_are_counted_once_despite_disconnects(proxied_store: ProxiedStore) -> None:
    """A reported success was executed once, a reported conflict never."""
    rng = random.Random(20261115)
    over = asyncio.Event()

    async def disconnect_randomly() -> None:
        while not over.is_set():
            await asyncio.sleep(rng.uniform(0.02, 0.1))
            if rng.random() < 0.5:
                await proxied_store.proxy.cut()
            else:
                await proxied_store.proxy.lose_responses(rng.uniform(0, 0.05))

    async def follow(store: Store, after: Revision) -> list[StoreChange]:
        watch, seen = await store.watch("/", after=after), list[StoreChange]()
        while len(seen) < 60:
            seen += await anext(watch)
        return seen

    following = asyncio.create_task(follow(proxied_store.store, proxied_store.store.revision))
    disconnecting = asyncio.create_task(disconnect_randomly())
    async with asyncio.timeout(60):
        written = await asyncio.gather(*(increment(proxied_store.store, 15) for _ in range(4)))
        seen = await following
    over.set()
    await disconnecting
    assert [change.after.value for change in seen if change.after] == [b"%d" % n for n in range(1, 61)]
    assert [change.revision for change in seen] == sorted(revision for some in written for revision in some)
