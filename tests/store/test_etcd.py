"""Guarantees of the etcd store: history after restart, ownership of the prefix, timeouts, compaction."""

import asyncio

import msgspec
import pytest

from mooring.clock import SystemClock
from mooring.store.contract import (
    ABSENT,
    Compacted,
    Revision,
    Store,
    StoreChange,
    StoreClosed,
    StoreError,
    StoreUnusable,
    ValueTooLarge,
    WatchOverflow,
)
from mooring.store.etcd.client import EtcdClient
from mooring.store.etcd.replica import KeyLayout
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.store import Compactor, EtcdStore
from store.conftest import unused_prefix
from store.test_conformance import fill, revisions, take
from support.store.cutting_proxy import proxied
from support.store.etcd_process import HOST, EtcdProcess

#: Timeout in seconds of steps that take milliseconds.
LONG = 10.0


def with_short_timeout(settings: EtcdSettings, request_timeout: float = 0.5) -> EtcdSettings:
    return msgspec.structs.replace(settings, request_timeout=request_timeout)


async def opened(settings: EtcdSettings) -> EtcdStore:
    return await EtcdStore.open(settings, SystemClock())


async def until_overflow(store: Store) -> None:
    """Wait until a watch of the store ends because changes were missed."""
    watch = await store.watch("", after=store.revision)

    async def follow() -> None:
        async for _ in watch:
            pass

    with pytest.raises(WatchOverflow):
        await asyncio.wait_for(follow(), LONG)


# Restart


async def test_restart_keeps_records_and_history(etcd: EtcdProcess) -> None:
    part = unused_prefix(etcd)
    store = await opened(part)
    begin = store.revision
    made = [await store.write(f"/{n}", b"%d" % n, expect=ABSENT) for n in range(3)]
    made.append(await store.write("/0", None, expect=made[0].revision))
    was = await store.list("", at=made[1].revision)
    now = await store.list("")
    await store.close()

    again = await opened(part)
    assert await again.list("") == now
    assert await again.list("", at=made[1].revision) == was
    assert await take(await again.watch("", after=begin), 4) == made
    await again.close()


async def test_load_and_replay_use_several_responses(etcd: EtcdProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    part = unused_prefix(etcd)
    store = await opened(part)
    await asyncio.gather(*(store.write(f"/{n:04}", b"", expect=ABSENT) for n in range(1100)))
    now = await store.list("")
    await store.close()

    # etcd replays a thousand revisions per response; each header has its current revision.
    replaying = await opened(part)
    assert await replaying.list("") == now
    await replaying.close()

    monkeypatch.setattr("mooring.store.etcd.follower.MAX_REPLAYED_REVISIONS", 0)
    loading = await opened(part)
    assert await loading.list("") == now
    with pytest.raises(Compacted):
        await loading.watch("", after=Revision(now.revision - 1))
    await loading.close()


async def test_watch_before_compaction_is_refused_after_restart(own_etcd: EtcdProcess) -> None:
    part = unused_prefix(own_etcd)
    store = await opened(part)
    await fill(store, "/a", "/b", "/c")
    oldest = own_etcd.compact()
    watch = await store.watch("", after=Revision(oldest - 3))
    assert len(watch.waiting()) == 3, "a running store keeps its history"
    await fill(store, "/d")
    await store.close()

    store = await opened(part)
    with pytest.raises(Compacted) as compacted:
        await store.watch("", after=Revision(oldest - 1))
    assert compacted.value.oldest == oldest
    assert len((await store.watch("", after=Revision(oldest))).waiting()) == 1
    assert store.count("") == 4
    await store.close()


# Ownership of the prefix


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        pytest.param("data/x", "{}", "has 1 keys under .* that are not Mooring's", id="something else"),
        pytest.param("format", "2", "was written by a newer Mooring .format 2, this one reads up to 1.", id="newer"),
        pytest.param("format", "xml", "is not Mooring's: choose another prefix", id="no format of ours"),
    ],
)
async def test_foreign_prefix_is_refused_and_unchanged(etcd: EtcdProcess, key: str, value: str, complaint: str) -> None:
    part = unused_prefix(etcd)
    etcd.put(f"{part.prefix}{key}", value)
    with pytest.raises(StoreUnusable, match=complaint):
        await opened(part)
    assert etcd.value(f"{part.prefix}{key}") == value.encode()


async def test_foreign_writers_advance_revision_only(etcd: EtcdProcess) -> None:
    """Foreign keys are not visible."""
    store = await opened(unused_prefix(etcd))
    neighbour = await opened(unused_prefix(etcd))
    for n in range(5):
        await fill(store, f"/{n}")
        last = etcd.put(f"/registry/{n}", "")
        async with asyncio.timeout(LONG):
            await store.wait_current()
        assert store.revision == last
    assert (store.count(""), neighbour.count("")) == (5, 0)
    await store.close()
    await neighbour.close()


async def test_value_is_stored_with_write_id(etcd: EtcdProcess) -> None:
    part = unused_prefix(etcd)
    store = await opened(part)
    await store.write("/core/pods/a/p", b'{"a":1}', expect=ABSENT)
    await store.close()
    value = etcd.value(f"{part.prefix}data/core/pods/a/p")
    assert value is not None
    assert value.startswith(b'{"a":1}\0moor')


async def test_value_of_foreign_writer_is_readable(etcd: EtcdProcess) -> None:
    part = unused_prefix(etcd)
    store = await opened(part)
    revision = etcd.put(f"{part.prefix}data/by-hand", "{}")
    await store.wait_current()
    found = await store.get("/by-hand")
    assert found is not None
    assert (found.value, found.revision) == (b"{}", revision)
    await store.write("/by-hand", None, expect=found.revision)
    await store.close()


async def test_foreign_multi_key_transaction_ends_watches(etcd: EtcdProcess) -> None:
    """Watches rely on one change per revision."""
    part = unused_prefix(etcd)
    store = await opened(part)
    await fill(store, "/a", "/b", "/c")
    watching = asyncio.create_task(until_overflow(store))
    await asyncio.sleep(0)
    etcd.delete_everything(f"{part.prefix}data")
    await watching
    await store.wait_current()
    assert store.count("") == 0
    await fill(store, "/a")
    await store.close()


# etcd failures


async def test_store_times_out_without_etcd_and_recovers(own_etcd: EtcdProcess) -> None:
    store = await opened(with_short_timeout(unused_prefix(own_etcd), 1.0))
    assert store.disconnect_reason() is None
    watch = await store.watch("", after=store.revision)
    await fill(store, "/a")
    own_etcd.stop()
    async with asyncio.timeout(LONG):
        with pytest.raises(StoreError):
            await store.write("/b", b"", expect=ABSENT)
        with pytest.raises(StoreError):
            await store.wait_current()
        with pytest.raises(StoreError, match=r"/b was not written: .* did not answer within 1 s"):
            await store.write("/b", b"", expect=ABSENT)
    assert store.disconnect_reason() is not None
    assert await store.get("/a") is not None, "replicated records stay readable"
    own_etcd.start()
    async with asyncio.timeout(LONG):
        await fill(store, "/c")
    assert store.disconnect_reason() is None
    changes = await take(watch, 2)
    assert [change.key for change in changes] == ["/a", "/c"]
    await store.close()


async def test_close_works_without_etcd(own_etcd: EtcdProcess) -> None:
    store = await opened(with_short_timeout(unused_prefix(own_etcd)))
    own_etcd.stop()
    writing = asyncio.create_task(store.write("/a", b"", expect=ABSENT))
    await asyncio.sleep(0)
    async with asyncio.timeout(LONG):
        await store.close()
    with pytest.raises(StoreError):
        await writing
    with pytest.raises(StoreClosed):
        await store.wait_current()


async def test_unreachable_endpoint_is_reported() -> None:
    with pytest.raises(StoreUnusable, match=f"etcd at {HOST}:1 did not answer within 0.2 s: .*Connection refused"):
        await opened(EtcdSettings((f"{HOST}:1",), request_timeout=0.2))


async def test_next_endpoint_is_used_if_one_is_down(etcd: EtcdProcess) -> None:
    part = unused_prefix(etcd)
    store = await opened(msgspec.structs.replace(part, servers=(f"{HOST}:1", *part.servers)))
    await fill(store, "/a")
    await store.close()


async def test_too_large_value_is_refused(etcd: EtcdProcess) -> None:
    store = await opened(unused_prefix(etcd))
    with pytest.raises(ValueTooLarge):
        await store.write("/large", b"x" * (2 << 20), expect=ABSENT)
    await fill(store, "/small")
    await store.close()


async def test_compaction_during_disconnect_ends_watches(own_etcd: EtcdProcess) -> None:
    part = unused_prefix(own_etcd)
    async with proxied(own_etcd.port) as proxy:
        away = await opened(msgspec.structs.replace(part, servers=(proxy.url.removeprefix("http://"),)))
        here = await opened(part)
        await fill(here, "/a", "/b")
        await away.wait_current()
        old = away.revision
        overflowed = asyncio.create_task(until_overflow(away))
        await asyncio.sleep(0)
        proxy.closed = True
        await proxy.cut()
        await fill(here, "/c", "/d")
        await here.write("/a", None, expect=Revision(old - 1))
        own_etcd.compact()
        proxy.closed = False
        await overflowed
        await away.wait_current()
        assert await away.list("") == await here.list("")
        with pytest.raises(Compacted):
            await away.watch("", after=old)
        await fill(away, "/e")
        await here.close()
        await away.close()


async def test_etcd_data_loss_ends_watches(own_etcd: EtcdProcess) -> None:
    store = await opened(unused_prefix(own_etcd))
    await fill(store, *(f"/{n}" for n in range(5)))
    overflowed = asyncio.create_task(until_overflow(store))
    await asyncio.sleep(0)
    own_etcd.stop()
    own_etcd.forget()
    own_etcd.start()
    await overflowed
    assert store.count("") == 0
    await fill(store, "/a")
    await store.close()


# Compaction


async def test_one_of_several_servers_compacts(own_etcd: EtcdProcess) -> None:
    part = unused_prefix(own_etcd)
    store = await opened(part)
    clock = SystemClock()
    channel = EtcdClient(part, clock)
    first, second = (Compactor(channel, KeyLayout(part.prefix), clock, interval=300) for _ in range(2))
    await fill(store, "/a")
    await first.compact()
    await store.wait_current()
    seen = store.revision
    await fill(store, "/b", "/c")
    await second.compact()  # finds the compaction of the first
    await first.compact()
    await channel.close()
    await store.close()

    store = await opened(part)
    changes: list[StoreChange] = [*(await store.watch("/", after=seen)).waiting()]
    assert [change.key for change in changes] == ["/b", "/c"]
    assert revisions(changes) == sorted(revisions(changes))
    with pytest.raises(Compacted):
        await store.watch("/", after=ABSENT)
    await store.close()


async def test_compaction_runs_every_interval(own_etcd: EtcdProcess) -> None:
    part = msgspec.structs.replace(unused_prefix(own_etcd), compaction=0.05)
    store = await opened(part)
    begin = store.revision
    watch = await store.watch("", after=begin)
    async with asyncio.timeout(LONG):
        while int(own_etcd.value(f"{part.prefix}compaction") or 0) <= begin:
            await fill(store, f"/{store.revision}")
            await asyncio.sleep(0.02)
    assert watch.waiting(), "watches continue"
    await store.close()
