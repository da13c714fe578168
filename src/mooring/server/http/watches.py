"""Watches over HTTP: one JSON line per event in a chunked response, and per-user limits.

    200, headers at once ──► lines, flushed per batch ──► EOF
                                   └──► ERROR line with a Status ──► EOF

A client that does not read for `drain_seconds` is disconnected and resumes from its last resourceVersion. Only one
chunk is buffered beyond the socket's buffers. WebSockets are not supported.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import structlog
from aiohttp import web

from mooring.api.errors import ApiError, Details, TooManyRequests
from mooring.clock import Clock
from mooring.server.contract import Batches, StreamEvent
from mooring.server.http.presentation import Presenter
from mooring.server.http.responses import internal_error, json_headers

#: Kubernetes' components have fewer than a hundred each; five hundred nodes with one user have one or two each.
MAX_WATCHES_PER_USER: Final = 1000


class WatchLimiter:
    def __init__(self, per_user: int = MAX_WATCHES_PER_USER) -> None:
        self._per_user = per_user
        self._taken: Counter[str] = Counter()

    @contextmanager
    def acquire(self, user: str) -> Iterator[None]:
        """Count one watch inside the block. Raises TooManyRequests."""
        if self._taken[user] >= self._per_user:
            raise TooManyRequests(
                f"User {user!r} has {self._per_user} watches open already, please try again later",
                details=Details(retry_after_seconds=1),
            )
        self._taken[user] += 1
        try:
            yield
        finally:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]


#: kube-apiserver's minRequestTimeout: a watch without timeout lasts up to twice that, at random, so that clients do not
#: reconnect at the same time.
MIN_LIFETIME_SECONDS: Final = 1800.0

#: Flush size; from this size on aiohttp waits for the socket.
CHUNK_BYTES: Final = 64 * 1024

#: From this number of watches on, writes are batched.
BATCHING_THRESHOLD: Final = 32
#: Per open watch, between two writes to one of them: a write takes about 50 µs, so all watches take a tenth of a core.
PAUSE_PER_WATCH_SECONDS: Final = 0.0005
#: Maximum delay of an event by batching.
MAX_PAUSE_SECONDS: Final = 0.25

#: Longer than a pause of the client or a slow link, shorter than the history is kept.
DRAIN_SECONDS: Final = 10.0

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class SlowClient(Exception):
    """The client did not read within `drain_seconds`."""


class WatchStreams:
    """Serves watches, and can end all open ones."""

    def __init__(self, *, clock: Clock, rng: random.Random, drain_seconds: float = DRAIN_SECONDS) -> None:
        self._clock = clock
        self._rng = rng
        self._drain_seconds = drain_seconds
        #: One per open watch; its end ends the watch.
        self._timers: set[asyncio.Task[None]] = set()

    def lifetime(self, seconds: int | None) -> float:
        """Duration of a watch with the client's timeoutSeconds."""
        return seconds or MIN_LIFETIME_SECONDS * (1 + self._rng.random())

    async def serve(
        self, request: web.BaseRequest, events: Batches, presenter: Presenter, *, lifetime: float
    ) -> web.StreamResponse:
        """Write events until the lifetime ends, the client disconnects, or the source fails."""
        response = web.StreamResponse(headers=json_headers())
        timer = asyncio.create_task(self._clock.sleep(lifetime))
        self._timers.add(timer)
        try:
            await response.prepare(request)
            if (failed := await self._write_until(timer, response, events, presenter)) is not None:
                error = failed if isinstance(failed, ApiError) else internal_error(request, failed, self._rng)
                await self._in_time(response.write(error_line(error)))
            await self._in_time(response.write_eof())
        except SlowClient:
            _log.warning("watch closed: client too slow", path=request.path, client=request.remote)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            _log.debug("watch closed by client", path=request.path, client=request.remote)
        finally:
            self._timers.discard(timer)
            timer.cancel()
            await events.aclose()
        return response

    def end(self) -> None:
        """End all open watches as at the end of their lifetime."""
        for timer in self._timers:
            timer.cancel()

    async def _write_until(
        self, timer: asyncio.Task[None], response: web.StreamResponse, events: Batches, presenter: Presenter
    ) -> Exception | None:
        """Write until the timer is done; returns the failure of the source."""
        # In the handler's task, which a disconnect cancels. The timer is a separate task, because the clock may be
        # simulated; it ends the block by moving its deadline to now.
        try:
            async with asyncio.timeout(None) as deadline:

                def expire(_: asyncio.Task[None]) -> None:
                    with contextlib.suppress(RuntimeError):  # the block has just ended
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
        """Write until the source ends; returns its failure."""
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
        """With many watches, each waits after a write, so that the next write has several events. The first event after
        an idle time is not delayed."""
        watches = len(self._timers)
        return min(watches * PAUSE_PER_WATCH_SECONDS, MAX_PAUSE_SECONDS) if watches > BATCHING_THRESHOLD else 0.0

    async def _in_time(self, writing: Awaitable[None]) -> None:
        """Raises SlowClient."""
        try:
            async with asyncio.timeout(self._drain_seconds):
                await writing
        except TimeoutError as error:
            raise SlowClient from error


def _chunks(batch: Sequence[StreamEvent], presenter: Presenter) -> Iterator[bytes]:
    """The lines of a batch, joined up to CHUNK_BYTES."""
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
    """The last line of a failed watch."""
    return StreamEvent("ERROR", msgspec.json.encode(error.to_status())).line
