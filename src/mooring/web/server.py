"""HTTP server of the dashboard: assets, the frame stream, explanations.

    GET /                                    the page, without cluster data
    GET /assets/NAME                         files of `assets/`, nothing else
    GET /api/frames?epoch=E&number=N         one frame per line, resumed or from a full snapshot
    GET /api/explanations/NAMESPACE/POD      why a pod is pending
    GET /api/groups/NAMESPACE/NAME           why a group of pods is pending
    GET /api/recovery                        which claims of lost nodes could be replaced
    GET /api/node-groups?label=KEY           which node group would help the pending pods

`/api/` needs the token; the listener's `host_guard` has rejected foreign hosts and origins. Plain HTTP on loopback by
default.

The page listens on a port of this machine, where any web site that the browser shows can send requests. Everything that
tells of the cluster needs a token that only the printed address has. It is sent in a header, which no other site can
set without CORS, and there is none; in the address it is in the fragment, which browsers do not send. Each start makes
a new token: a tab that reconnects to a port which another program has taken since discloses an invalid token.
"""

import asyncio
import hmac
import random
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec
import structlog
from aiohttp import web

from mooring.client.contract import Client
from mooring.clock import Clock, set_within
from mooring.server.http.host_guard import FOREIGN, is_cross_site
from mooring.server.http.listener import CannotListen, ConnectionLimits, Listener, listen
from mooring.web.explanations import Busy, Explainer, Unlisted
from mooring.web.session import WHOLE_CLUSTER, FeedEnded, Reader, ReaderTooSlow, Session, SessionPool, ViewScope
from mooring.whatif import group_advisor

#: Longer than any token here; more is not even looked at.
MAX_HEADER_LENGTH: Final = 512
SCHEME: Final = "Bearer "

#: Scripts and styles from this server alone and never inline; nothing may be embedded, and nothing may embed it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Checks tokens. Raises ValueError for an empty one, which every request would have."""

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("the page's token must not be empty")
        self._token = token.encode()

    def has_valid_token(self, authorization: str) -> bool:
        """Whether the Authorization header has the token. Takes as long for a wrong one as for the right one."""
        if not authorization.startswith(SCHEME) or len(authorization) > MAX_HEADER_LENGTH:
            return False
        shown = authorization.removeprefix(SCHEME).encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, self._token)


_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    content_type: str
    body: bytes


@cache
def assets() -> dict[str, Asset]:
    """By file name. Some 60 kB altogether."""
    found: dict[str, Asset] = {}
    for file in files("mooring.web").joinpath("assets").iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if suffix in _TYPES:
            found[file.name] = Asset(_TYPES[suffix], file.read_bytes())
    return found


#: An empty line now and then: the browser notices a dead connection, and so do we.
HEARTBEAT_SECONDS: Final = 10.0
#: A tab that takes nothing for so long is cut off; it comes back when it is awake again.
DRAIN_SECONDS: Final = 10.0
#: More than a person has tabs; each costs memory while it is slow.
MAX_STREAMS: Final = 24

INDEX: Final = "index.html"
ASSETS: Final = "/assets/"
API: Final = "/api/"

#: Answers a request, given the rest of its path.
Handler = Callable[[web.BaseRequest, str], Awaitable[web.StreamResponse]]

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Application:
    def __init__(
        self,
        sessions: SessionPool,
        guard: Guard,
        *,
        clock: Clock,
        heartbeat: float = HEARTBEAT_SECONDS,
        drain: float = DRAIN_SECONDS,
    ) -> None:
        self._sessions = sessions
        self._guard = guard
        self._clock = clock
        self._heartbeat = heartbeat
        self._drain = drain
        self._explainer = Explainer(clock)
        self._advisor = group_advisor.NodeGroupAdvisor(clock)
        self._streams = 0
        self._closing = asyncio.Event()
        #: By path; one that ends in a slash is followed by the key of an object.
        self._routes: Final[Mapping[str, Handler]] = {
            "/api/frames": self._frames,
            "/api/explanations/": self._pod,
            "/api/groups/": self._group,
            "/api/recovery": self._recovery,
            group_advisor.PATH: self._node_groups,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET":
            return _refusal(405, "Method not allowed: the dashboard is read-only.")
        path = request.path
        if path == "/":
            return _asset(INDEX)
        if path.startswith(ASSETS):
            return _asset(path.removeprefix(ASSETS))
        if not path.startswith(API):
            return _refusal(404, "Page not found.")
        if is_cross_site(request.headers.get("Sec-Fetch-Site", "")):
            code, text = FOREIGN
            return _refusal(code, text.rstrip())
        if not self._guard.has_valid_token(request.headers.get("Authorization", "")):
            return _refusal(401, "The token is missing, invalid or of an earlier start: open the printed address.")
        for route, handler in self._routes.items():
            if path == route or (route.endswith("/") and path.startswith(route)):
                return await handler(request, path.removeprefix(route))
        return _refusal(404, "Path not found.")

    def close(self) -> None:
        """End all streams; tabs reconnect by themselves."""
        self._closing.set()
        self._advisor.close()

    async def _pod(self, request: web.BaseRequest, key: str) -> web.StreamResponse:
        return await self._explained(lambda session: self._explainer.pod(session, key), f"Pod {key}")

    async def _group(self, request: web.BaseRequest, key: str) -> web.StreamResponse:
        return await self._explained(lambda session: self._explainer.group(session, key), f"PodGroup {key}")

    async def _recovery(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        return await self._explained(self._explainer.recovery, "The plan")

    async def _explained(self, explain: Callable[[Session], Awaitable[object]], subject: str) -> web.StreamResponse:
        try:
            async with self._sessions.reading() as session:
                found = await explain(session)
        except Busy:
            return _refusal(503, "Too many explanations are in progress: try again in a moment.")
        except Unlisted as error:
            return _refusal(409, str(error))
        if found is None:
            return _refusal(404, f"{subject} not found or not visible.")
        return _json(200, msgspec.json.encode(found))

    async def _node_groups(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        async with self._sessions.reading() as session:
            label = request.query.get("label", "")
            found = await self._advisor.answer(session.client, label, namespace=session.focus.namespace)
        return _json(found.status, found.body)

    async def _frames(self, request: web.BaseRequest, rest: str) -> web.StreamResponse:
        if self._streams >= MAX_STREAMS:
            return _refusal(503, "Too many tabs have the dashboard open: close some.")
        self._streams += 1
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "application/x-ndjson"})
        try:
            async with self._sessions.reading() as session:
                await response.prepare(request)
                await self._stream(request, response, session)
        except ReaderTooSlow:
            log.info("dashboard reader disconnected: too slow", client=request.remote)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            log.debug("dashboard reader closed the connection", client=request.remote)
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
            while (next_frames := await self._next_frames(reader)) is not None:
                await self._write(response, next_frames)
        finally:
            reader.close()
        await response.write_eof()

    async def _next_frames(self, reader: Reader) -> bytes | None:
        """What to write next, a heartbeat where nothing happens; None when it is over. Raises ReaderTooSlow."""
        coming = asyncio.ensure_future(reader.next_frames())
        closing = asyncio.ensure_future(self._closing.wait())
        beat = asyncio.ensure_future(self._clock.sleep(self._heartbeat))
        try:
            await asyncio.wait((coming, closing, beat), return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                return coming.result()
            return None if self._closing.is_set() else b"\n"
        except FeedEnded:
            return None
        finally:
            for task in (coming, closing, beat):
                task.cancel()

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        """Raises ReaderTooSlow when the tab does not take it in time."""
        written = asyncio.Event()

        async def write() -> None:
            try:
                await response.write(data)
            finally:
                written.set()

        writing = asyncio.ensure_future(write())
        try:
            if not await set_within(written, self._drain, self._clock):
                raise ReaderTooSlow
            await writing
        finally:
            writing.cancel()


def _asset(name: str) -> web.Response:
    asset = assets().get(name)
    if asset is None:
        return _refusal(404, "File not found.")
    return web.Response(body=asset.body, headers=HEADERS, content_type=asset.content_type, charset="utf-8")


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, headers=HEADERS, content_type="application/json")


def _refusal(status: int, sentence: str) -> web.Response:
    return _json(status, msgspec.json.encode({"error": sentence}))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1


LOOPBACK: Final = "127.0.0.1"
#: Two dozen streams, and the requests of as many tabs.
LIMITS: Final = ConnectionLimits(connections=96, first_request_seconds=10.0, stalled_seconds=15.0)


@dataclass(frozen=True)
class PageSettings:
    #: Secret: it grants what the client may read.
    token: str = field(repr=False)
    host: str = LOOPBACK
    #: 0 picks a free one.
    port: int = 0
    #: Whether another port will do where this one is taken.
    any_port: bool = False
    #: Host names, besides addresses and localhost, that people may write into the address bar.
    names: tuple[str, ...] = ()
    focus: ViewScope = WHOLE_CLUSTER


@asynccontextmanager
async def page(client: Client, settings: PageSettings, *, clock: Clock, rng: random.Random) -> AsyncIterator[str]:
    """The page, served inside the block at the address it is given. Raises CannotListen."""
    sessions = SessionPool(client, settings.focus, clock=clock, rng=rng)
    application = Application(sessions, Guard(settings.token), clock=clock)
    listener = await _listen(application, settings)
    try:
        yield f"{_reached_at(listener)}/#{settings.token}"
    finally:
        application.close()
        await listener.close()
        await sessions.close()


def new_token() -> str:
    """For one start. Kept nowhere: tabs of an earlier start may have shown theirs to another program on the port."""
    return secrets.token_urlsafe(32)


async def _listen(application: Application, settings: PageSettings) -> Listener:
    try:
        return await listen(application.handle, settings.host, settings.port, None, LIMITS, names=_names(settings))
    except CannotListen:
        if not settings.any_port:
            raise
        return await listen(application.handle, settings.host, 0, None, LIMITS, names=_names(settings))


def _names(settings: PageSettings) -> tuple[str, ...]:
    """The accepted host names: off loopback, those of the machine as well."""
    if settings.host == LOOPBACK:
        return settings.names
    return (*settings.names, socket.gethostname(), socket.getfqdn())


def _reached_at(listener: Listener) -> str:
    any_address = listener.host in ("0.0.0.0", "::")
    return f"http://{socket.gethostname()}:{listener.port}" if any_address else listener.url
