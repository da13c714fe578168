"""The page's requests: its files, the stream of frames, and the explanation of a pod.

    GET /                                    the page, without anything of the cluster in it
    GET /assets/NAME                         what it is made of
    GET /api/frames?epoch=E&number=N         a frame per line, from where the tab left off or from a whole picture
    GET /api/explanations/NAMESPACE/POD      why a pod waits

There is nothing else, and no other method: the page reads. The listener's `host_guard` has refused foreign names and
origins before; `/api/` needs the token.
"""

import asyncio
from typing import Final

import msgspec
import structlog
from aiohttp import web

from mooring.clock import Clock, set_within
from mooring.server.http.host_guard import is_cross_site
from mooring.web.assets import assets
from mooring.web.explanation import Busy, Explainer
from mooring.web.feed import Ended, Reader, TooFarBehind
from mooring.web.guard import HEADERS, Guard
from mooring.web.session import Readership, Session

#: An empty line now and then: the browser notices a dead connection, and so do we.
HEARTBEAT_SECONDS: Final = 10.0
#: A tab that takes nothing for so long is cut off; it comes back when it is awake again.
DRAIN_SECONDS: Final = 10.0
#: More than a person has tabs; each costs memory while it is slow.
MOST_STREAMS: Final = 24

INDEX: Final = "index.html"
FRAMES: Final = "/api/frames"
EXPLANATIONS: Final = "/api/explanations/"
ASSETS: Final = "/assets/"

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Application:
    def __init__(
        self,
        readership: Readership,
        guard: Guard,
        *,
        clock: Clock,
        heartbeat: float = HEARTBEAT_SECONDS,
        drain: float = DRAIN_SECONDS,
    ) -> None:
        self._readership = readership
        self._guard = guard
        self._clock = clock
        self._heartbeat = heartbeat
        self._drain = drain
        self._explainer = Explainer(clock)
        self._streams = 0
        self._closing = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET":
            return _refusal(405, "The page only reads: GET is all there is.")
        path = request.path
        if path == "/":
            return _asset(INDEX)
        if path.startswith(ASSETS):
            return _asset(path.removeprefix(ASSETS))
        if not path.startswith("/api/"):
            return _refusal(404, "There is no such page.")
        if is_cross_site(request.headers.get("Sec-Fetch-Site", "")):
            return _refusal(403, "Other sites may not ask.")
        if not self._guard.knows(request.headers.get("Authorization", "")):
            return _refusal(
                401, "The token is missing, wrong or of an earlier start: open the address that was printed."
            )
        if path == FRAMES:
            return await self._frames(request)
        if path.startswith(EXPLANATIONS):
            return await self._explanation(path.removeprefix(EXPLANATIONS))
        return _refusal(404, "There is no such thing.")

    def close(self) -> None:
        """End all streams; tabs come back when there is somebody to come back to."""
        self._closing.set()

    async def _explanation(self, key: str) -> web.StreamResponse:
        try:
            async with self._readership.reading() as session:
                found = await self._explainer.explain(session, key)
        except Busy:
            return _refusal(503, "Other explanations are being made: try again in a moment.")
        if found is None:
            return _refusal(404, f"There is no pod {key}, or it may not be seen.")
        return _json(200, msgspec.json.encode(found))

    async def _frames(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._streams >= MOST_STREAMS:
            return _refusal(503, "Too many tabs have the page open: close some.")
        self._streams += 1
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "application/x-ndjson"})
        try:
            async with self._readership.reading() as session:
                await response.prepare(request)
                await self._stream(request, response, session)
        except TooFarBehind:
            log.info("a tab was cut off: it does not read", client=request.remote)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            log.debug("a tab was closed", client=request.remote)
        finally:
            self._streams -= 1
        return response

    async def _stream(self, request: web.BaseRequest, response: web.StreamResponse, session: Session) -> None:
        missed = session.feed.missed(request.query.get("epoch", ""), _number(request.query.get("number", "")))
        # In this order without a pause: no frame falls between the first picture and the first news.
        first = session.whole() if missed is None else missed
        reader = session.feed.join()
        try:
            await self._write(response, first or b"\n")
            while (news := await self._news(reader)) is not None:
                await self._write(response, news)
        finally:
            reader.close()
        await response.write_eof()

    async def _news(self, reader: Reader) -> bytes | None:
        """What to write next, a heartbeat where nothing happens; None when it is over. Raises TooFarBehind."""
        coming = asyncio.ensure_future(reader.news())
        closing = asyncio.ensure_future(self._closing.wait())
        beat = asyncio.ensure_future(self._clock.sleep(self._heartbeat))
        try:
            await asyncio.wait((coming, closing, beat), return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                return coming.result()
            return None if self._closing.is_set() else b"\n"
        except Ended:
            return None
        finally:
            for task in (coming, closing, beat):
                task.cancel()

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        """Raises TooFarBehind when the tab does not take it in time."""
        written = asyncio.Event()

        async def write() -> None:
            try:
                await response.write(data)
            finally:
                written.set()

        writing = asyncio.ensure_future(write())
        try:
            if not await set_within(written, self._drain, self._clock):
                raise TooFarBehind
            await writing
        finally:
            writing.cancel()


def _asset(name: str) -> web.Response:
    asset = assets().get(name)
    if asset is None:
        return _refusal(404, "There is no such file.")
    return web.Response(body=asset.body, headers=HEADERS, content_type=asset.content_type, charset="utf-8")


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, headers=HEADERS, content_type="application/json")


def _refusal(status: int, sentence: str) -> web.Response:
    return _json(status, msgspec.json.encode({"error": sentence}))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1
