"""Events that go by themselves, on virtual time."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from builders import Body
from mooring.api.kinds import EVENT, NEW_EVENT
from mooring.api.patches.contract import MergePatch
from mooring.server.event_expiry import LONGEST_PAUSE, EventExpiry
from mooring.store.contract import Change, Listing, Record, Revision, StoreError
from mooring.store.history import Limits
from mooring.store.memory import MemoryStore
from server.harness import START, Harness, ManualClock

HOUR = 3600.0


class WaitingClock(ManualClock):
    """Whoever sleeps waits until somebody lets the time pass."""

    def __init__(self) -> None:
        super().__init__()
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self.asked = 0

    async def sleep(self, seconds: float) -> None:
        self.asked += 1
        waking = asyncio.Event()
        heapq.heappush(self._sleepers, (self.seconds + seconds, self.asked, waking))
        await waking.wait()

    async def pass_(self, seconds: float) -> None:
        await settle()
        end = self.seconds + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            self.seconds, _, waking = heapq.heappop(self._sleepers)
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


async def test_an_event_lives_an_hour(server: Harness) -> None:
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


async def test_what_happens_again_stays_longer(server: Harness) -> None:
    async with expiring(server) as clock:
        await server.create(EVENT, event("a"))
        await clock.pass_(HOUR - 1)
        await server.patch(EVENT, "a", MergePatch({"count": 2}))
        await clock.pass_(HOUR - 1)
        assert await names(server) == ["a"]
        await clock.pass_(1)
        assert await names(server) == []


async def test_nobody_looks_while_nothing_is_due(server: Harness) -> None:
    async with expiring(server) as clock:
        await clock.pass_(100 * HOUR)
        assert clock.asked == 0
        for name in "abcdef":
            await server.create(EVENT, event(name))
        await clock.pass_(HOUR - 1)
        assert clock.asked == 1


async def test_what_a_restart_finds_is_as_old_as_it_says(server: Harness) -> None:
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


async def test_events_of_the_future_do_not_stay_for_ever(server: Harness) -> None:
    await server.create(EVENT, event("a", lastTimestamp="2036-01-02T03:04:05Z"))
    async with expiring(server) as clock:
        await clock.pass_(HOUR)
        assert await names(server) == []


async def test_more_at_once_than_can_be_followed_are_found_by_looking_again() -> None:
    server = await Harness(MemoryStore(backlog=Limits(changes=2, bytes=1 << 20))).start()
    async with expiring(server) as clock:
        for name in "abcdef":
            await server.create(EVENT, event(name))
        await settle()
        await clock.pass_(HOUR)
        assert await names(server) == []


class PickyStore(MemoryStore):
    """Does not let go of some keys, and counts how often it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""
        self.refusals = 0
        self.unreadable = False

    async def write(self, key: str, value: bytes | None, *, expect: Revision, given: Record | None = None) -> Change:
        if value is None and self.refused and key.endswith(self.refused):
            self.refusals += 1
            raise StoreError("disk full")
        return await super().write(key, value, expect=expect, given=given)

    async def list(self, prefix: str, *, at: Revision | None = None, start: str = "", limit: int = 0) -> Listing:
        if self.unreadable and prefix == EVENT.store_prefix():
            self.refusals += 1
            raise StoreError("out of reach")
        return await super().list(prefix, at=at, start=start, limit=limit)


async def test_one_that_cannot_be_removed_keeps_no_other_and_is_tried_ever_later() -> None:
    store = PickyStore()
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


async def test_a_store_that_removes_nothing_is_asked_ever_less_often() -> None:
    store = PickyStore()
    server = await Harness(store).start()
    store.refused = "e"
    async with expiring(server) as clock:
        for number in range(100):
            await server.create(EVENT, event(f"{number}e"))
        await clock.pass_(2 * HOUR)
        assert store.refusals <= HOUR / LONGEST_PAUSE + 10
        store.refused = ""
        await clock.pass_(HOUR)
        assert await names(server) == []


async def test_a_store_out_of_reach_is_asked_again_after_a_pause() -> None:
    store = PickyStore()
    server = await Harness(store).start()
    await server.create(EVENT, event("a"))
    store.unreadable = True
    async with expiring(server) as clock:
        await clock.pass_(HOUR / 2)
        assert 5 <= store.refusals <= HOUR / 2 / LONGEST_PAUSE + 10
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


async def test_it_ends_with_the_store(server: Harness) -> None:
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
