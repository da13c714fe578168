"""Events that go by themselves, on virtual time."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from mooring.api.kinds import EVENT, NEW_EVENT
from mooring.api.patches.contract import MergePatch
from mooring.server.event_expiry import MAX_PAUSE_SECONDS, EventExpiry
from mooring.store.contract import Listing, Record, Revision, StoreChange, StoreError
from mooring.store.state import Limits
from mooring.store.watch_cache import MemoryStore
from support.builders import Body
from support.server.harness import START, Harness, ManualClock

HOUR = 3600.0


class WaitingClock(ManualClock):
    """Sleeping tasks wait until the test advances the time."""

    def __init__(self) -> None:
        super().__init__()
        self._timers: list[tuple[float, int, asyncio.Event]] = []
        self.asked = 0

    async def sleep(self, seconds: float) -> None:
        self.asked += 1
        waking = asyncio.Event()
        heapq.heappush(self._timers, (self.seconds + seconds, self.asked, waking))
        await waking.wait()

    async def pass_(self, seconds: float) -> None:
        await settle()
        end = self.seconds + seconds
        while self._timers and self._timers[0][0] <= end:
            self.seconds, _, waking = heapq.heappop(self._timers)
            waking.set()
            await settle()
        self.seconds = end
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def event(name: str, **fields: object) -> Body:
    return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default"}, **fields}


async def names(server: Harness) -> list[str]:
    return [obj["metadata"]["name"] for obj in await server.listed(EVENT)]


@asynccontextmanager
async def expiring(server: Harness) -> AsyncIterator[WaitingClock]:
    clock = WaitingClock()
    clock.seconds = server.clock.seconds
    server.clock.now = clock.now  # type: ignore[method-assign]
    task = asyncio.create_task(EventExpiry(server.store, clock, seconds=HOUR).run())
    await settle()
    try:
        yield clock
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_event_expires_after_an_hour(server: Harness) -> None:
    async with expiring(server) as clock:
        await server.create(EVENT, event("a"))
        await clock.pass_(HOUR / 2)
        await server.create(EVENT, event("b"))
        await clock.pass_(HOUR / 2 - 1)
        assert await names(server) == ["a", "b"]
        await clock.pass_(1)
        assert await names(server) == ["b"]
        await clock.pass_(HOUR / 2)
        assert await names(server) == []


async def test_updated_event_expires_later(server: Harness) -> None:
    async with expiring(server) as clock:
        await server.create(EVENT, event("a"))
        await clock.pass_(HOUR - 1)
        await server.patch(EVENT, "a", MergePatch({"count": 2}))
        await clock.pass_(HOUR - 1)
        assert await names(server) == ["a"]
        await clock.pass_(1)
        assert await names(server) == []


async def test_expiry_sleeps_until_first_event_expires(server: Harness) -> None:
    async with expiring(server) as clock:
        await clock.pass_(100 * HOUR)
        assert clock.asked == 0
        for name in "abcdef":
            await server.create(EVENT, event(name))
        await clock.pass_(HOUR - 1)
        assert clock.asked == 1


async def test_event_age_survives_restart(server: Harness) -> None:
    await server.create(EVENT, event("old", lastTimestamp="2026-01-02T02:34:05Z"))
    await server.create(EVENT, event("young"))
    stored = await server.store.get(EVENT.store_key("default", "old"))
    assert stored is not None
    body = msgspec.json.decode(stored.value)
    body["metadata"]["creationTimestamp"] = "2026-01-02T02:14:05Z"
    await server.store.write(stored.key, msgspec.json.encode(body), expect=stored.revision)
    async with expiring(server) as clock:
        assert clock.now() == START
        await clock.pass_(HOUR / 2 - 1)
        assert await names(server) == ["old", "young"]
        await clock.pass_(1)
        assert await names(server) == ["young"]
        await clock.pass_(HOUR / 2)
        assert await names(server) == []


async def test_future_event_expires(server: Harness) -> None:
    await server.create(EVENT, event("a", lastTimestamp="2036-01-02T03:04:05Z"))
    async with expiring(server) as clock:
        await clock.pass_(HOUR)
        assert await names(server) == []


async def test_watch_overflow_relists_events() -> None:
    server = await Harness(MemoryStore(backlog=Limits(changes=2, bytes=1 << 20))).start()
    async with expiring(server) as clock:
        for name in "abcdef":
            await server.create(EVENT, event(name))
        await settle()
        await clock.pass_(HOUR)
        assert await names(server) == []


#: Ends a test in which virtual time stands still.
MANY = 10_000


class FailingStore(MemoryStore):
    """Does not let go of some keys, and counts how often it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""
        self.refusals = 0
        self.unreadable = False

    async def write(
        self, key: str, value: bytes | None, *, expect: Revision, precondition: Record | None = None
    ) -> StoreChange:
        if value is None and self.refused and key.endswith(self.refused):
            self.refusals += 1
            assert self.refusals < MANY, "it is retried without a pause"
            raise StoreError("disk full")
        return await super().write(key, value, expect=expect, precondition=precondition)

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        if self.unreadable and prefix == EVENT.store_prefix():
            self.refusals += 1
            raise StoreError("out of reach")
        return await super().list(prefix, at=at, start=start, limit=limit)


async def test_failed_deletion_backs_off_without_blocking_others() -> None:
    store = FailingStore()
    server = await Harness(store).start()
    store.refused = "/bad"
    async with expiring(server) as clock:
        for name in ("bad", "a", "b"):
            await server.create(EVENT, event(name))
        await clock.pass_(HOUR + 5)
        assert await names(server) == ["bad"]
        await clock.pass_(10 * HOUR)
        assert store.refusals <= 25
        store.refused = ""
        await clock.pass_(HOUR)
        assert await names(server) == []


async def test_failing_store_is_retried_with_backoff() -> None:
    store = FailingStore()
    server = await Harness(store).start()
    store.refused = "e"
    async with expiring(server) as clock:
        for number in range(100):
            await server.create(EVENT, event(f"{number}e"))
        await clock.pass_(2 * HOUR)
        assert store.refusals <= HOUR / MAX_PAUSE_SECONDS + 10
        store.refused = ""
        await clock.pass_(HOUR)
        assert await names(server) == []


async def test_unreachable_store_is_retried() -> None:
    store = FailingStore()
    server = await Harness(store).start()
    await server.create(EVENT, event("a"))
    store.unreadable = True
    async with expiring(server) as clock:
        await clock.pass_(HOUR / 2)
        assert 5 <= store.refusals <= HOUR / 2 / MAX_PAUSE_SECONDS + 10
        store.unreadable = False
        await clock.pass_(HOUR)
        assert await names(server) == []


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:01Z"])
async def test_an_event_of_the_first_year_goes_with_the_others(server: Harness, moment: str) -> None:
    await server.create(EVENT, event("odd", firstTimestamp=moment, lastTimestamp=moment))
    await server.create(EVENT, event("a"))
    async with expiring(server) as clock:
        await clock.pass_(HOUR)
        assert await names(server) == []


@pytest.mark.parametrize("stored", [b"no JSON", b"{}", b'{"lastTimestamp": "1-01-01T00:00:01Z"}'])
async def test_an_event_that_cannot_be_read_goes_with_the_others(server: Harness, stored: bytes) -> None:
    """Earlier releases wrote years with fewer than four digits."""
    await server.create(EVENT, event("a"))
    await server.store.write(EVENT.store_key("default", "odd"), stored, expect=Revision(0))
    async with expiring(server) as clock:
        await clock.pass_(HOUR)
    assert (await server.store.list(EVENT.store_prefix())).records == ()


async def test_expiry_ends_with_the_store(server: Harness) -> None:
    task = asyncio.create_task(EventExpiry(server.store, WaitingClock(), seconds=HOUR).run())
    await settle()
    await server.store.close()
    await asyncio.wait_for(task, timeout=1)


async def test_both_forms_expire(server: Harness) -> None:
    body = {
        "metadata": {"name": "a"},
        "regarding": {"kind": "Pod", "namespace": "default"},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "c.io/x",
        "reportingInstance": "i",
        "action": "Act",
        "reason": "Because",
        "type": "Normal",
    }
    async with expiring(server) as clock:
        await server.create(NEW_EVENT, body)
        await clock.pass_(HOUR)
        assert await names(server) == []
