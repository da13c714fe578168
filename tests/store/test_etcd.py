"""What only the etcd store promises: it comes back with its history, says whose data it found, and waits for etcd."""

import asyncio

import msgspec
import pytest

from mooring.clock import SystemClock
from mooring.store.contract import (
    ABSENT,
    Change,
    Compacted,
    Overrun,
    Revision,
    Store,
    StoreClosed,
    StoreError,
    StoreUnusable,
    TooLarge,
)
from mooring.store.etcd.channel import Channel
from mooring.store.etcd.compaction import Compactor
from mooring.store.etcd.layout import Layout
from mooring.store.etcd.settings import EtcdSettings
from mooring.store.etcd.store import EtcdStore

from .conftest import a_part_of
from .cutting_proxy import proxied
from .etcd_process import HOST, EtcdProcess
from .test_conformance import fill, revisions, take

#: Seconds a test is ready to wait for something that takes milliseconds.
LONG = 10.0


def quickly(settings: EtcdSettings, patience: float = 0.5) -> EtcdSettings:
    """The same, for those who want to see patience end."""
    return msgspec.structs.replace(settings, patience=patience)


async def opened(settings: EtcdSettings) -> EtcdStore:
    return await EtcdStore.open(settings, SystemClock())


async def until_cut_off(store: Store) -> None:
    """Once watches of the store were ended because changes were missed."""
    watch = await store.watch("", after=store.revision)

    async def follow() -> None:
        async for _ in watch:
            pass

    with pytest.raises(Overrun):
        await asyncio.wait_for(follow(), LONG)


# Coming back


async def test_a_restart_forgets_nothing(etcd: EtcdProcess) -> None:
    part = a_part_of(etcd)
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


async def test_more_than_one_answer_of_etcd_is_loaded_and_replayed(
    etcd: EtcdProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = a_part_of(etcd)
    store = await opened(part)
    await asyncio.gather(*(store.write(f"/{n:04}", b"", expect=ABSENT) for n in range(1100)))
    now = await store.list("")
    await store.close()

    # etcd replays a thousand revisions at a time, and says with each how far it is by now.
    replaying = await opened(part)
    assert await replaying.list("") == now
    await replaying.close()

    monkeypatch.setattr("mooring.store.etcd.loading.REPLAYED", 0)
    loading = await opened(part)
    assert await loading.list("") == now
    with pytest.raises(Compacted):
        await loading.watch("", after=Revision(now.revision - 1))
    await loading.close()


async def test_what_etcd_has_forgotten_is_refused(own_etcd: EtcdProcess) -> None:
    part = a_part_of(own_etcd)
    store = await opened(part)
    await fill(store, "/a", "/b", "/c")
    oldest = own_etcd.compact()
    watch = await store.watch("", after=Revision(oldest - 3))
    assert len(watch.waiting()) == 3, "who runs does not forget with etcd"
    await fill(store, "/d")
    await store.close()

    store = await opened(part)
    with pytest.raises(Compacted) as compacted:
        await store.watch("", after=Revision(oldest - 1))
    assert compacted.value.oldest == oldest
    assert len((await store.watch("", after=Revision(oldest))).waiting()) == 1
    assert store.count("") == 4
    await store.close()


# Whose data


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        pytest.param("data/x", "{}", "has 1 keys under .* that are not Mooring's", id="something else"),
        pytest.param("format", "2", "was written by a newer Mooring .format 2, this one reads up to 1.", id="newer"),
        pytest.param("format", "xml", "is not Mooring's: choose another prefix", id="no format of ours"),
    ],
)
async def test_a_prefix_that_is_not_ours_is_left_alone(etcd: EtcdProcess, key: str, value: str, complaint: str) -> None:
    part = a_part_of(etcd)
    etcd.put(f"{part.prefix}{key}", value)
    with pytest.raises(StoreUnusable, match=complaint):
        await opened(part)
    assert etcd.value(f"{part.prefix}{key}") == value.encode()


async def test_others_may_use_the_same_etcd(etcd: EtcdProcess) -> None:
    """Their revisions are counted, their keys are not seen."""
    store = await opened(a_part_of(etcd))
    neighbour = await opened(a_part_of(etcd))
    for n in range(5):
        await fill(store, f"/{n}")
        last = etcd.put(f"/registry/{n}", "")
        async with asyncio.timeout(LONG):
            await store.catch_up()
        assert store.revision == last
    assert (store.count(""), neighbour.count("")) == (5, 0)
    await store.close()
    await neighbour.close()


async def test_values_lie_there_as_they_are_and_then_a_name(etcd: EtcdProcess) -> None:
    part = a_part_of(etcd)
    store = await opened(part)
    await store.write("/core/pods/a/p", b'{"a":1}', expect=ABSENT)
    await store.close()
    value = etcd.value(f"{part.prefix}data/core/pods/a/p")
    assert value is not None
    assert value.startswith(b'{"a":1}\0moor')


async def test_what_etcdctl_puts_there_is_taken_as_it_is(etcd: EtcdProcess) -> None:
    part = a_part_of(etcd)
    store = await opened(part)
    revision = etcd.put(f"{part.prefix}data/by-hand", "{}")
    await store.catch_up()
    found = await store.get("/by-hand")
    assert found is not None
    assert (found.value, found.revision) == (b"{}", revision)
    await store.write("/by-hand", None, expect=found.revision)
    await store.close()


async def test_several_keys_changed_at_once_by_somebody_else_end_the_watches(etcd: EtcdProcess) -> None:
    """A revision is one change here, and watches of clients rely on it."""
    part = a_part_of(etcd)
    store = await opened(part)
    await fill(store, "/a", "/b", "/c")
    watching = asyncio.create_task(until_cut_off(store))
    await asyncio.sleep(0)
    etcd.delete_everything(f"{part.prefix}data")
    await watching
    await store.catch_up()
    assert store.count("") == 0
    await fill(store, "/a")
    await store.close()


# etcd in trouble


async def test_without_etcd_there_is_an_answer_in_time_and_afterwards_all_goes_on(own_etcd: EtcdProcess) -> None:
    store = await opened(quickly(a_part_of(own_etcd), 1.0))
    assert store.trouble() is None
    watch = await store.watch("", after=store.revision)
    await fill(store, "/a")
    own_etcd.stop()
    async with asyncio.timeout(LONG):
        with pytest.raises(StoreError):
            await store.write("/b", b"", expect=ABSENT)
        with pytest.raises(StoreError):
            await store.catch_up()
        with pytest.raises(StoreError, match=r"/b was not written: .* did not answer within 1 s"):
            await store.write("/b", b"", expect=ABSENT)
    assert store.trouble() is not None
    assert await store.get("/a") is not None, "what is known can be read"
    own_etcd.start()
    async with asyncio.timeout(LONG):
        await fill(store, "/c")
    assert store.trouble() is None
    changes = await take(watch, 2)
    assert [change.key for change in changes] == ["/a", "/c"]
    await store.close()


async def test_closing_does_not_need_etcd(own_etcd: EtcdProcess) -> None:
    store = await opened(quickly(a_part_of(own_etcd)))
    own_etcd.stop()
    writing = asyncio.create_task(store.write("/a", b"", expect=ABSENT))
    await asyncio.sleep(0)
    async with asyncio.timeout(LONG):
        await store.close()
    with pytest.raises(StoreError):
        await writing
    with pytest.raises(StoreClosed):
        await store.catch_up()


async def test_nobody_at_the_address_is_said_in_a_sentence() -> None:
    with pytest.raises(StoreUnusable, match=f"etcd at {HOST}:1 did not answer within 0.2 s: .*Connection refused"):
        await opened(EtcdSettings((f"{HOST}:1",), patience=0.2))


async def test_the_next_member_is_asked_where_one_is_gone(etcd: EtcdProcess) -> None:
    part = a_part_of(etcd)
    store = await opened(msgspec.structs.replace(part, servers=(f"{HOST}:1", *part.servers)))
    await fill(store, "/a")
    await store.close()


async def test_what_is_too_large_is_refused_and_harms_nobody(etcd: EtcdProcess) -> None:
    store = await opened(a_part_of(etcd))
    with pytest.raises(TooLarge):
        await store.write("/large", b"x" * (2 << 20), expect=ABSENT)
    await fill(store, "/small")
    await store.close()


async def test_what_happened_while_the_line_was_gone_and_is_forgotten_ends_the_watches(own_etcd: EtcdProcess) -> None:
    part = a_part_of(own_etcd)
    async with proxied(own_etcd.port) as proxy:
        away = await opened(msgspec.structs.replace(part, servers=(proxy.url.removeprefix("http://"),)))
        here = await opened(part)
        await fill(here, "/a", "/b")
        await away.catch_up()
        old = away.revision
        cut_off = asyncio.create_task(until_cut_off(away))
        await asyncio.sleep(0)
        proxy.closed = True
        await proxy.cut()
        await fill(here, "/c", "/d")
        await here.write("/a", None, expect=Revision(old - 1))
        own_etcd.compact()
        proxy.closed = False
        await cut_off
        await away.catch_up()
        assert await away.list("") == await here.list("")
        with pytest.raises(Compacted):
            await away.watch("", after=old)
        await fill(away, "/e")
        await here.close()
        await away.close()


async def test_an_etcd_that_lost_its_data_is_noticed(own_etcd: EtcdProcess) -> None:
    store = await opened(a_part_of(own_etcd))
    await fill(store, *(f"/{n}" for n in range(5)))
    cut_off = asyncio.create_task(until_cut_off(store))
    await asyncio.sleep(0)
    own_etcd.stop()
    own_etcd.forget()
    own_etcd.start()
    await cut_off
    assert store.count("") == 0
    await fill(store, "/a")
    await store.close()


# Forgetting


async def test_of_several_servers_one_compacts_at_a_time(own_etcd: EtcdProcess) -> None:
    part = a_part_of(own_etcd)
    store = await opened(part)
    clock = SystemClock()
    channel = Channel(part, clock)
    first, second = (Compactor(channel, Layout(part.prefix), clock, interval=300) for _ in range(2))
    await fill(store, "/a")
    await first.compact()
    await store.catch_up()
    seen = store.revision
    await fill(store, "/b", "/c")
    await second.compact()  # finds that the first was here
    await first.compact()
    await channel.close()
    await store.close()

    store = await opened(part)
    changes: list[Change] = [*(await store.watch("/", after=seen)).waiting()]
    assert [change.key for change in changes] == ["/b", "/c"]
    assert revisions(changes) == sorted(revisions(changes))
    with pytest.raises(Compacted):
        await store.watch("/", after=ABSENT)
    await store.close()


async def test_compaction_keeps_to_its_interval(own_etcd: EtcdProcess) -> None:
    part = msgspec.structs.replace(a_part_of(own_etcd), compaction=0.05)
    store = await opened(part)
    begin = store.revision
    watch = await store.watch("", after=begin)
    async with asyncio.timeout(LONG):
        while int(own_etcd.value(f"{part.prefix}compaction") or 0) <= begin:
            await fill(store, f"/{store.revision}")
            await asyncio.sleep(0.02)
    assert watch.waiting(), "watches are not disturbed"
    await store.close()
