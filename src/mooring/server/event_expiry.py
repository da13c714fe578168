"""Events go by themselves: an hour after they were last written, as upstream's leases have it.

    list ──► queue, oldest first ──► sleep until the first is due ──► delete it, unless it was written again
    watch ─► appended to the end ──────┘

All events live equally long, so the order in which they were written is the order in which they go: a queue, no
scanning. Time is the Clock's. An event that a restart finds is as old as the newest moment it speaks of.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
import structlog

from mooring.api.kinds import EVENT
from mooring.api.timestamps import from_time
from mooring.clock import Clock
from mooring.store.contract import Change, Mismatch, Overrun, Record, Revision, Store, StoreError, Watch

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


class _Due(msgspec.Struct, frozen=True, gc=False):
    moment: float
    key: str
    revision: Revision


class EventExpiry:
    def __init__(self, store: Store, clock: Clock, *, seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._queue: deque[_Due] = deque()

    async def run(self) -> None:
        """Until cancelled, or until the store is closed."""
        while True:
            listing = await self._store.list(EVENT.store_prefix())
            now = self._clock.now()
            due = [_Due(min(_spoken_of(r), now) + self._seconds, r.key, r.revision) for r in listing.records]
            self._queue = deque(sorted(due, key=lambda one: (one.moment, one.revision)))
            watch = await self._store.watch(EVENT.store_prefix(), after=listing.revision)
            try:
                await self._follow(watch)
                return
            except Overrun:
                log.warning("more events at once than could be followed; looking at all of them again")
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
        """Wakes the watch when the first event is due."""
        if not self._queue:
            return None

        async def ring(seconds: float) -> None:
            await self._clock.sleep(seconds)
            watch.wake()

        return asyncio.create_task(ring(self._queue[0].moment - self._clock.now()))

    def _note(self, changes: Sequence[Change]) -> None:
        moment = self._clock.now() + self._seconds
        self._queue.extend(_Due(moment, change.key, change.revision) for change in changes if change.after)

    async def _remove_due(self) -> None:
        while self._queue and self._queue[0].moment <= self._clock.now():
            due = self._queue.popleft()
            try:
                await self._store.write(due.key, None, expect=due.revision)
            except Mismatch:
                continue  # written again since, and queued again, or gone
            except StoreError as failed:
                self._queue.appendleft(due)
                log.error("an event that is due cannot be removed", why=str(failed))
                return


def _spoken_of(record: Record) -> float:
    """The newest moment an event speaks of: what comes closest to when it was written."""
    event = _decode(record.value)
    observed = event.series.last_observed_time if event.series else None
    said = (event.metadata.creation_timestamp, event.first_timestamp, event.last_timestamp, event.event_time, observed)
    return max((from_time(moment) for moment in said if moment), default=0.0)
