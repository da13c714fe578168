"""Records a live cluster's objects and their changes, for `mooring simulate --replay`. Only reads.

Informers list and watch, so that interrupted watches are resumed; a change that happened meanwhile is recorded when it
is seen. The file is bounded: the recorder ends when it is full.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from mooring.api.errors import ApiError
from mooring.api.kinds import RECENT, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Unreachable
from mooring.client.informer import Informers
from mooring.clock import Clock, set_within
from mooring.whatif.recording import (
    ADDED,
    DELETED,
    END,
    EXISTING,
    LISTED,
    MODIFIED,
    RECORDED_KINDS,
    header_line,
    is_change,
    mark_line,
    object_line,
)

#: Seconds within which all kinds have to be listed.
LIST_SECONDS: Final = 120.0
FULL: Final = "the file has its largest size"


class CannotRecord(Exception):
    """The cluster's objects cannot be listed; the text says which."""


class RecordedCounts(NamedTuple):
    objects: int
    changes: int
    seconds: float
    #: Why it ended before it was told to; "" if it did not.
    reason: str


class ChangeRecorder:
    def __init__(
        self,
        client: Client,
        write: Callable[[bytes], object],
        *,
        clock: Clock,
        rng: random.Random,
        max_bytes: int,
    ) -> None:
        self._client = client
        self._clock = clock
        self._write = write
        self._left = max_bytes
        self._informers = Informers(client, clock, rng)
        #: Set when nothing more can be written.
        self._full = asyncio.Event()
        self._failure = ""
        self._listed = False
        self._began = clock.monotonic()
        self._objects = 0
        self._changes = 0

    async def record(self, stop: asyncio.Event, seconds: float) -> RecordedCounts:
        """Until `stop` is set, so many seconds have passed, or the file is full. Raises CannotRecord."""
        self._put(header_line(self._clock.now()))
        served = [kind for kind in RECORDED_KINDS if kind not in RECENT or await self._is_served(kind)]
        for kind in served:
            self._informers.of(kind)
        running = asyncio.ensure_future(self._informers.run())
        try:
            await self._list(served, stop)
            if not stop.is_set():
                await self._follow(stop, seconds)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if self._failure:
            raise CannotRecord(self._failure)
        reason = FULL if self._full.is_set() else ""
        self._write(mark_line(END, self._elapsed(), reason))
        return RecordedCounts(self._objects, self._changes, self._elapsed(), reason)

    async def _is_served(self, kind: Kind[ApiObject]) -> bool:
        try:
            await self._client.list(kind)
        except ApiError:
            return False
        except Unreachable as error:
            raise CannotRecord(str(error)) from error
        return True

    async def _list(self, served: Iterable[Kind[ApiObject]], stop: asyncio.Event) -> None:
        synced = asyncio.ensure_future(self._informers.wait_synced())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            deadline = asyncio.ensure_future(self._clock.sleep(LIST_SECONDS))
            await asyncio.wait({synced, stopped, deadline}, return_when=asyncio.FIRST_COMPLETED)
            deadline.cancel()
        finally:
            synced.cancel()
            stopped.cancel()
        if not stop.is_set() and (missing := self._informers.unsynced()):
            raise CannotRecord(f"{', '.join(missing)} could not be listed within {LIST_SECONDS:.0f} s")
        for kind in served:
            self._informers.of(kind).on_change(partial(self._on_change, kind))
        if self._full.is_set():
            raise CannotRecord(
                self._failure or "the objects of the cluster alone are larger than the largest size of the file"
            )
        self._began = self._clock.monotonic()
        self._listed = True
        self._put(mark_line(LISTED, 0.0))

    async def _follow(self, stop: asyncio.Event, seconds: float) -> None:
        full = asyncio.ensure_future(self._full.wait())
        full.add_done_callback(lambda _: stop.set())
        try:
            await set_within(stop, seconds, self._clock)
        finally:
            full.cancel()

    def _on_change(self, kind: Kind[ApiObject], before: ApiObject | None, after: ApiObject | None) -> None:
        if after is None:
            if before is not None:
                self._record(kind, before, DELETED)
        elif before is None:
            self._record(kind, after, ADDED if self._listed else EXISTING)
        elif before.metadata.resource_version != after.metadata.resource_version and is_change(before, after):
            self._record(kind, after, MODIFIED)

    def _record(self, kind: Kind[ApiObject], item: ApiObject, change: str) -> None:
        if self._put(object_line(kind, item, change, self._elapsed() if self._listed else 0.0)):
            self._changes += change != EXISTING
            self._objects += change == EXISTING

    def _put(self, line: bytes) -> bool:
        if self._full.is_set() or len(line) > self._left:
            self._full.set()
            return False
        self._left -= len(line)
        try:
            self._write(line)
        except OSError as error:
            # Informers would log it and go on.
            self._failure = error.strerror or str(error)
            self._full.set()
            return False
        return True

    def _elapsed(self) -> float:
        return self._clock.monotonic() - self._began
