"""A watch over HTTP: one JSON line per event on a chunked answer, until time is up.

    200, headers at once ──► lines, flushed per batch ──► EOF
                                   └──► ERROR line with a Status ──► EOF

The reader sets the pace: a flush waits for it, but not longer than `drain_seconds`, then the connection is cut and
the client continues elsewhere from its last version. Nothing is buffered beyond one chunk and the socket's own
buffers. Where events come from and what an object looks like is not known here; the WebSocket form is not offered.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Iterator, Sequence
from typing import Final

import msgspec
import structlog
from aiohttp import web

from mooring.api.errors import ApiError
from mooring.clock import Clock
from mooring.server.contract import Batches, StreamEvent
from mooring.server.http.answers import json_headers
from mooring.server.http.internal_errors import internal_error
from mooring.server.http.presentation import Presenter

#: Upstream ends a watch that names no time after its minRequestTimeout (30 min) to twice that, at random, so that
#: clients do not come back all at once.
SHORTEST_LIFETIME: Final = 1800.0

#: A line is not held back for more of a batch beyond this; the size after which aiohttp itself waits for the socket.
CHUNK_BYTES: Final = 64 * 1024

#: From so many watches on, each write to a socket is worth saving up for.
CROWD: Final = 32
#: Seconds per open watch between two writes to one of them: a write costs some 50 µs, so with any number of watches
#: they take a tenth of a core.
PAUSE_EACH: Final = 0.0005
#: What a watcher may be behind for that.
LONGEST_PAUSE: Final = 0.25

#: Long enough for a stopped laptop process or a slow link, short against the time history is kept.
DRAIN_SECONDS: Final = 10.0

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class SlowReader(Exception):
    """The client did not read what it was sent in time."""


class WatchStreams:
    """Serves watches, and can end all that are open."""

    def __init__(self, *, clock: Clock, rng: random.Random, drain_seconds: float = DRAIN_SECONDS) -> None:
        self._clock = clock
        self._rng = rng
        self._drain_seconds = drain_seconds
        #: One per open watch; whatever ends it ends the watch.
        self._timers: set[asyncio.Task[None]] = set()

    def lifetime(self, seconds: int | None) -> float:
        """How long a watch lasts whose client asks for so many seconds, or does not say."""
        return seconds or SHORTEST_LIFETIME * (1 + self._rng.random())

    async def serve(
        self, request: web.BaseRequest, events: Batches, presenter: Presenter, *, lifetime: float
    ) -> web.StreamResponse:
        """Write events until the lifetime is over, the client has gone, or the source fails."""
        response = web.StreamResponse(headers=json_headers())
        timer = asyncio.create_task(self._clock.sleep(lifetime))
        self._timers.add(timer)
        try:
            await response.prepare(request)
            if (failed := await self._write_until(timer, response, events, presenter)) is not None:
                error = failed if isinstance(failed, ApiError) else internal_error(request, failed, self._rng)
                await self._in_time(response.write(error_line(error)))
            await self._in_time(response.write_eof())
        except SlowReader:
            _log.warning("watch cut off: the client does not read", path=request.path, client=request.remote)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            _log.debug("a watcher has gone", path=request.path, client=request.remote)
        finally:
            self._timers.discard(timer)
            timer.cancel()
            await events.aclose()
        return response

    def end(self) -> None:
        """End all open watches cleanly, as if their time were up."""
        for timer in self._timers:
            timer.cancel()

    async def _write_until(
        self, timer: asyncio.Task[None], response: web.StreamResponse, events: Batches, presenter: Presenter
    ) -> Exception | None:
        """Lines until the timer is done, or until the source fails; then the failure."""
        # Written in the handler's own task, so that the client's going cancels it. The timer is a task apart because
        # only the clock knows how long a second is; it ends the block by moving its deadline to now.
        try:
            async with asyncio.timeout(None) as deadline:

                def expire(_: asyncio.Task[None]) -> None:
                    with contextlib.suppress(RuntimeError):  # the block has ended by itself in the same moment
                        deadline.reschedule(asyncio.get_running_loop().time())

                timer.add_done_callback(expire)
                try:
                    return await self._write(response, events, presenter)
                finally:
                    timer.remove_done_callback(expire)
        except TimeoutError:
            if not deadline.expired():
                raise
            return None

    async def _write(self, response: web.StreamResponse, events: Batches, presenter: Presenter) -> Exception | None:
        """Lines until the source ends; then why it did, where that was a failure."""
        while True:
            try:
                batch = await anext(events)
                chunks = tuple(_chunks(batch, presenter))
            except StopAsyncIteration:
                return None
            except Exception as error:
                return error
            for chunk in chunks:
                await self._in_time(response.write(chunk))
            if chunks and (pause := self._pause()):
                await self._clock.sleep(pause)

    def _pause(self) -> float:
        """Among many watchers each waits a little after it was served, so that what happens meanwhile is one write to
        its socket instead of many. The first event after a quiet time is never held back."""
        return min(len(self._timers) * PAUSE_EACH, LONGEST_PAUSE) if len(self._timers) > CROWD else 0.0

    async def _in_time(self, writing: Awaitable[None]) -> None:
        """Raises SlowReader."""
        try:
            async with asyncio.timeout(self._drain_seconds):
                await writing
        except TimeoutError as error:
            raise SlowReader from error


def _chunks(batch: Sequence[StreamEvent], presenter: Presenter) -> Iterator[bytes]:
    """The lines of a batch, joined as far as they should go out at once."""
    lines: list[bytes] = []
    size = 0
    for event in batch:
        lines.append(presenter.line(event))
        size += len(lines[-1])
        if size >= CHUNK_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)


def error_line(error: ApiError) -> bytes:
    """The last line of a watch that failed."""
    return StreamEvent("ERROR", msgspec.json.encode(error.to_status())).line
