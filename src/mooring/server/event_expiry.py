"""Events go by themselves: an hour after they were last written, as upstream's leases have it.

    list ──► heap, first due on top ──► sleep until it is due ──► delete it, unless it was written again
    watch ─► pushed as it is written ──────┘                          └► the store fails: later, after a pause

Time is the Clock's. An event that a restart finds is as old as the newest moment it speaks of; one that cannot be read
is as old as the restart. A removal that fails is tried again ever later, and others come before it.
"""

import asyncio
import heapq
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from mooring.api.kinds import EVENT
from mooring.api.timestamps import from_time
from mooring.clock import Clock
from mooring.store.contract import Change, Mismatch, Overrun, Record, Revision, Store, StoreClosed, StoreError, Watch

#: Seconds until the next removal is tried after one that failed, doubled with each further failure up to the longest.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
_DOUBLINGS: Final = 32

log: Final = structlog.get_logger(__name__)


class _Series(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    last_observed_time: str | None = None


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    creation_timestamp: str | None = None


class _Moments(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All moments an event speaks of."""

    metadata: _Meta = _Meta()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_decode = msgspec.json.Decoder(_Moments).decode


class _Due(msgspec.Struct, frozen=True, gc=False, order=True):
    moment: float
    revision: Revision
    key: str
    #: How often it could not be removed.
    failures: int = 0


class EventExpiry:
    def __init__(self, store: Store, clock: Clock, *, seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._queue: list[_Due] = []
        #: Removals in a row that failed, and when the next may be tried.
        self._failures = 0
        self._resumes = 0.0

    async def run(self) -> None:
        """Until cancelled, or until the store is closed."""
        while True:
            try:
                await self._expire()
                return
            except StoreClosed:
                return
            except Overrun:
                log.warning("more events at once than could be followed; looking at all of them again")
            except StoreError as failed:
                self._failures += 1
                log.error("events cannot be looked at; they stay until they can", why=str(failed))
                await self._clock.sleep(_pause(self._failures, LONGEST_PAUSE))

    async def _expire(self) -> None:
        listing = await self._store.list(EVENT.store_prefix())
        now = self._clock.now()
        self._queue = [_Due(min(_written(r, now), now) + self._seconds, r.revision, r.key) for r in listing.records]
        heapq.heapify(self._queue)
        watch = await self._store.watch(EVENT.store_prefix(), after=listing.revision)
        try:
            await self._follow(watch)
        finally:
            watch.close()

    async def _follow(self, watch: Watch) -> None:
        alarm: asyncio.Task[None] | None = None
        try:
            while True:
                await self._remove_due()
                if alarm is None or alarm.done():
                    alarm = self._alarm(watch)
                self._note(await anext(watch))
        except StopAsyncIteration:
            return
        finally:
            if alarm is not None:
                alarm.cancel()

    def _alarm(self, watch: Watch) -> asyncio.Task[None] | None:
        """Wakes the watch when the first event is due, and the store has had its pause."""
        if not self._queue:
            return None

        async def ring(seconds: float) -> None:
            await self._clock.sleep(seconds)
            watch.wake()

        return asyncio.create_task(ring(max(self._queue[0].moment, self._resumes) - self._clock.now()))

    def _note(self, changes: Sequence[Change]) -> None:
        moment = self._clock.now() + self._seconds
        for change in changes:
            if change.after:
                heapq.heappush(self._queue, _Due(moment, change.revision, change.key))

    async def _remove_due(self) -> None:
        while self._queue and max(self._queue[0].moment, self._resumes) <= self._clock.now():
            due = heapq.heappop(self._queue)
            try:
                await self._store.write(due.key, None, expect=due.revision)
            except Mismatch:
                pass  # written again since, and queued again, or gone
            except StoreError as failed:
                self._put_off(due, failed)
                return
            self._failures = 0

    def _put_off(self, due: _Due, failed: StoreError) -> None:
        """The store gets a pause, and this event a longer one: it may be the only one that cannot be removed."""
        now = self._clock.now()
        self._failures += 1
        self._resumes = now + _pause(self._failures, LONGEST_PAUSE)
        later = now + _pause(due.failures + 1, self._seconds)
        heapq.heappush(self._queue, msgspec.structs.replace(due, moment=later, failures=due.failures + 1))
        log.error("an event that is due cannot be removed", key=due.key, why=str(failed))


def _pause(failures: int, longest: float) -> float:
    """Twice as long after each failure. The exponent has a bound of its own: failures have none."""
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, _DOUBLINGS), longest)


def _written(record: Record, now: float) -> float:
    """When an event was written, or what comes closest: the newest moment it speaks of."""
    try:
        event = _decode(record.value)
        observed = event.series.last_observed_time if event.series else None
        metadata = event.metadata
        said = (metadata.creation_timestamp, event.first_timestamp, event.last_timestamp, event.event_time, observed)
        return max((from_time(moment) for moment in said if moment), default=0.0)
    except ValueError as problem:
        log.error("an event cannot be read; it goes as if it were written now", key=record.key, why=str(problem))
        return now
