"""HTTP server of the dashboard: assets, the frame stream, explanations.

    GET /                                    the page, without cluster data
    GET /assets/NAME                         files of `assets/`, nothing else
    GET /api/frames?epoch=E&number=N         one frame per line, resumed or from a full snapshot
    GET /api/explanations/NAMESPACE/POD      why a pod is pending

`/api/` needs the token; the listener's `host_guard` has rejected foreign hosts and origins. Plain HTTP on loopback by
default.

The page listens on a port of this machine, where any web site that the browser shows can send requests. Everything that
tells of the cluster needs a token that only the printed address has. It is sent in a header, which no other site can
set without CORS, and there is none; in the address it is in the fragment, which browsers do not send. Each start makes
a new token: a tab that reconnects to a port which another program has taken since discloses an invalid token.

An explanation is `explain`'s verdict with nodes grouped by reasons, of the objects the client may list; kinds it may
not list count as absent, and the notes say so. It is made in a thread, one at a time, because a decision on a large
cluster is slow and `mooring up` shares the process.
"""

import asyncio
import hmac
import random
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec
import structlog
from aiohttp import web

from mooring.api.errors import ApiError
from mooring.api.kinds import POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.client.contract import Client, Unreachable
from mooring.clock import Clock, set_within
from mooring.explain.cluster_objects import EXPLAINED_KINDS, ClusterObjects
from mooring.explain.pod import explain_pod
from mooring.explain.results import ClaimReport, ClaimVerdict, NodeVerdict, PodVerdict, Reason
from mooring.server.http.host_guard import FOREIGN, is_cross_site
from mooring.server.http.listener import CannotListen, ConnectionLimits, Listener, listen
from mooring.web.session import WHOLE_CLUSTER, FeedEnded, Reader, ReaderTooSlow, Session, SessionPool, ViewScope

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


#: How many nodes of a group are named; the others are counted.
MAX_LISTED_NODES: Final = 60
#: Asked for at the same time, by several tabs or an impatient finger; more are sent away.
MAX_CONCURRENT_EXPLANATIONS: Final = 4


class Busy(Exception):
    """Too many explanations are being made already."""


class NodeGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that the same speaks against; figures and `volumes` are those of the first of them."""

    fits: bool
    count: int
    nodes: tuple[str, ...]
    reasons: tuple[Reason, ...]
    volumes: tuple[ClaimVerdict, ...]


class GroupedExplanation(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    verdict: str
    ok: bool
    node: str | None
    #: What would help, the nearest first.
    remedy_texts: tuple[str, ...] = msgspec.field(name="helps")
    #: What speaks against the pod on every node.
    everywhere: tuple[Reason, ...]
    claims: tuple[ClaimReport, ...]
    groups: tuple[NodeGroup, ...]
    #: What else is known, what the verdict does not rest on, and what in the objects could not be understood.
    notes: tuple[str, ...]


class Explainer:
    """Explains pods of a session, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._asked = 0

    async def explain(self, session: Session, key: str) -> GroupedExplanation | None:
        """None when there is no such pod. Raises Busy."""
        if self._asked >= MAX_CONCURRENT_EXPLANATIONS:
            raise Busy
        self._asked += 1
        try:
            async with self._turn:
                objects = await self._collect(session)
                pod = objects.get(POD, key)
                return None if pod is None else await asyncio.to_thread(_explained, pod, objects)
        finally:
            self._asked -= 1

    async def _collect(self, session: Session) -> ClusterObjects:
        listed: list[tuple[Kind[ApiObject], Iterable[ApiObject]]] = []
        unlisted: dict[Kind[ApiObject], str] = {}
        for kind in EXPLAINED_KINDS:
            try:
                listed.append((kind, await _items(session, kind)))
            except ApiError as error:
                unlisted[kind] = error.message
            except Unreachable as error:
                unlisted[kind] = str(error)
        objects = ClusterObjects(now=self._clock.now(), unlisted=unlisted)
        for kind, items in listed:
            for item in items:
                objects.put(kind, item)
        return objects


async def _items(session: Session, kind: Kind[ApiObject]) -> Iterable[ApiObject]:
    informer = session.informer(kind)
    if informer is not None and informer.synced.is_set():
        return tuple(informer.items())
    return (await session.client.list(kind, namespace=session.focus.namespace_of(kind))).items


def _explained(pod: Pod, objects: ClusterObjects) -> GroupedExplanation:
    verdict, problems = explain_pod(pod, objects)
    missing = [
        f"{kind.plural} could not be listed and count as not there: {why}" for kind, why in objects.unlisted.items()
    ]
    return GroupedExplanation(
        verdict.pod,
        verdict.verdict,
        verdict.ok,
        verdict.node_name,
        verdict.remedy_texts,
        verdict.prefilter,
        verdict.claims,
        tuple(_groups(verdict)),
        (*verdict.notes, *missing, *problems),
    )


def _groups(verdict: PodVerdict) -> list[NodeGroup]:
    """Those that fit first, then by size. Figures differ from node to node; they make no groups of their own."""
    found: dict[tuple[bool, tuple[tuple[str, str], ...]], list[tuple[str, NodeVerdict]]] = {}
    for name, node in verdict.nodes.items():
        said = tuple((one.plugin, one.reason) for one in node.reasons)
        found.setdefault((node.fits, said), []).append((name, node))
    groups = [
        NodeGroup(
            fits,
            len(nodes),
            tuple(name for name, _ in nodes[:MAX_LISTED_NODES]),
            nodes[0][1].reasons,
            nodes[0][1].volumes,
        )
        for (fits, _), nodes in found.items()
    ]
    return sorted(groups, key=lambda group: (not group.fits, -group.count, group.nodes))


#: An empty line now and then: the browser notices a dead connection, and so do we.
HEARTBEAT_SECONDS: Final = 10.0
#: A tab that takes nothing for so long is cut off; it comes back when it is awake again.
DRAIN_SECONDS: Final = 10.0
#: More than a person has tabs; each costs memory while it is slow.
MAX_STREAMS: Final = 24

INDEX: Final = "index.html"
FRAMES: Final = "/api/frames"
EXPLANATIONS: Final = "/api/explanations/"
ASSETS: Final = "/assets/"

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
        self._streams = 0
        self._closing = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET":
            return _refusal(405, "Method not allowed: the dashboard is read-only.")
        path = request.path
        if path == "/":
            return _asset(INDEX)
        if path.startswith(ASSETS):
            return _asset(path.removeprefix(ASSETS))
        if not path.startswith("/api/"):
            return _refusal(404, "Page not found.")
        if is_cross_site(request.headers.get("Sec-Fetch-Site", "")):
            code, text = FOREIGN
            return _refusal(code, text.rstrip())
        if not self._guard.has_valid_token(request.headers.get("Authorization", "")):
            return _refusal(401, "The token is missing, invalid or of an earlier start: open the printed address.")
        if path == FRAMES:
            return await self._frames(request)
        if path.startswith(EXPLANATIONS):
            return await self._explanation(path.removeprefix(EXPLANATIONS))
        return _refusal(404, "Path not found.")

    def close(self) -> None:
        """End all streams; tabs reconnect by themselves."""
        self._closing.set()

    async def _explanation(self, key: str) -> web.StreamResponse:
        try:
            async with self._sessions.reading() as session:
                found = await self._explainer.explain(session, key)
        except Busy:
            return _refusal(503, "Too many explanations are in progress: try again in a moment.")
        if found is None:
            return _refusal(404, f"Pod {key} not found or not visible.")
        return _json(200, msgspec.json.encode(found))

    async def _frames(self, request: web.BaseRequest) -> web.StreamResponse:
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
