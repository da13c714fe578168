"""Deletes Events an hour after their last write, as kube-apiserver's etcd leases do.

    list ──► heap by expiry ──► sleep until the first expires ──► delete it, unless it was written again
    watch ─► push ─────────────────┘                                └► store error: retry with backoff

After a restart an event's age follows from its newest timestamp; an unreadable event counts as new.
"""

import asyncio
import heapq
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from mooring.api.kinds import EVENT
from mooring.api.times import from_time
from mooring.backoff import exponential_backoff
from mooring.clock import Clock
from mooring.store import contract
from mooring.store.contract import Record, Revision, Store, StoreChange, Watch

#: Backoff of failed deletions.
INITIAL_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 60.0

log: Final = structlog.get_logger(__name__)


class _Series(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    last_observed_time: str | None = None


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    creation_timestamp: str | None = None


class _Timestamps(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All timestamps of an event."""

    metadata: _Meta = _Meta()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_decode = msgspec.json.Decoder(_Timestamps).decode


class _Due(msgspec.Struct, frozen=True, gc=False, order=True):
    moment: float
    revision: Revision
    key: str
    #: Failed deletions.
    failures: int = 0


class EventExpiry:
    def __init__(self, store: Store, clock: Clock, *, seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._queue: list[_Due] = []
        #: Consecutive failed deletions, and the time of the next attempt.
        self._failures = 0
        self._resumes = 0.0

    async def run(self) -> None:
        """Until cancelled, or until the store is closed."""
        while True:
            try:
                await self._expire()
                return
            except contract.StoreClosed:
                return
            except contract.WatchOverflow:
                log.warning("event watch overflowed; listing all events")
            except contract.StoreError as error:
                self._failures += 1
                log.error("events not listed; retrying", error=str(error))
                await self._clock.sleep(exponential_backoff(INITIAL_PAUSE_SECONDS, MAX_PAUSE_SECONDS, self._failures))

    async def _expire(self) -> None:
        listing = await self._store.list(EVENT.store_prefix())
        now = self._clock.now()
        self._queue = [_Due(min(_write_time(r, now), now) + self._seconds, r.revision, r.key) for r in listing.records]
        heapq.heapify(self._queue)
        watch = await self._store.watch(EVENT.store_prefix(), after=listing.revision)
        try:
            await self._follow(watch)
        finally:
            watch.close()

    async def _follow(self, watch: Watch) -> None:
        timer: asyncio.Task[None] | None = None
        try:
            while True:
                await self._remove_due()
                if timer is None or timer.done():
                    timer = self._timer(watch)
                self._enqueue(await anext(watch))
        except StopAsyncIteration:
            return
        finally:
            if timer is not None:
                timer.cancel()

    def _timer(self, watch: Watch) -> asyncio.Task[None] | None:
        """Wakes the watch when the first event expires and the backoff has ended."""
        if not self._queue:
            return None

        async def ring(seconds: float) -> None:
            await self._clock.sleep(seconds)
            watch.progress()

        return asyncio.create_task(ring(max(self._queue[0].moment, self._resumes) - self._clock.now()))

    def _enqueue(self, changes: Sequence[StoreChange]) -> None:
        moment = self._clock.now() + self._seconds
        for change in changes:
            if change.after:
                heapq.heappush(self._queue, _Due(moment, change.revision, change.key))

    async def _remove_due(self) -> None:
        while self._queue and max(self._queue[0].moment, self._resumes) <= self._clock.now():
            due = heapq.heappop(self._queue)
            try:
                await self._store.write(due.key, None, expect=due.revision)
            except contract.RevisionConflict:
                pass  # written again, and in the queue, or deleted
            except contract.StoreError as error:
                self._postpone(due, error)
                return
            self._failures = 0

    def _postpone(self, due: _Due, error: contract.StoreError) -> None:
        """Back off for the store, and longer for this event: it may be the only one that cannot be deleted."""
        now = self._clock.now()
        self._failures += 1
        self._resumes = now + exponential_backoff(INITIAL_PAUSE_SECONDS, MAX_PAUSE_SECONDS, self._failures)
        later = now + exponential_backoff(INITIAL_PAUSE_SECONDS, self._seconds, due.failures + 1)
        heapq.heappush(self._queue, msgspec.structs.replace(due, moment=later, failures=due.failures + 1))
        log.error("expired event not deleted; retrying", key=due.key, error=str(error))


def _write_time(record: Record, now: float) -> float:
    """The newest timestamp of an event."""
    try:
        event = _decode(record.value)
        created, observed = event.metadata.creation_timestamp, event.series.last_observed_time if event.series else None
        timestamps = (created, event.first_timestamp, event.last_timestamp, event.event_time, observed)
        return max((from_time(moment) for moment in timestamps if moment), default=0.0)
    except ValueError as problem:
        log.error("event unreadable; expiry starts now", key=record.key, error=str(problem))
        return now
