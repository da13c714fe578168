"""A `Client` for any Kubernetes, over HTTP.

JSON both ways, one pool of kept-alive connections, and one time-out per request; a watch has none, but its
connection is probed so that a peer that vanished is noticed. No controller imports this module: processes build
an `HttpClient` and pass it on as the contract.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import msgspec

from mooring import __version__
from mooring.api.errors import ApiError, ServiceUnavailable, Status, TooManyRequests, from_status
from mooring.api.kinds import POD, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client import bodies
from mooring.client.access import Access, Token
from mooring.client.contract import Change, Client, Listing, Unreachable, V, WatchEvent
from mooring.client.watch_lines import LineTooLong, WatchLines
from mooring.clock import Clock

#: Seconds a request may take; kube-apiserver itself gives up after 60.
TIMEOUT: Final = 30.0
#: How often a request is sent again because the server asked for it, and the longest wait it may ask for.
RESENDS: Final = 3
LONGEST_WAIT: Final = 30
#: Seconds an idle connection is kept: below the 75 after which aiohttp's server, the shortest we know, closes it.
KEPT_IDLE: Final = 60.0
#: Seconds without traffic before a connection is probed, between probes, and probes until it counts as dead.
PROBE_AFTER, PROBE_EVERY, PROBES = 30, 15, 3

#: Marks the bookmark that ends a streamed list.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
JSON: Final = "application/json"


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_LIST: Final = msgspec.json.Decoder(_List)
_LINE: Final = msgspec.json.Decoder(_Line)


class HttpClient:
    """Needs a running loop at the first request, and `close` at the end."""

    def __init__(self, access: Access, *, component: str, clock: Clock, timeout: float = TIMEOUT) -> None:
        self._access = access
        self._component = component
        self._clock = clock
        self._timeout = timeout
        self._token = Token(access, clock)
        self._session: aiohttp.ClientSession | None = None
        self._watches: set[aiohttp.ClientResponse] = set()
        self._closed = False

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self._object(kind, "GET", _path(kind, namespace, name))

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        path = kind.path(namespace=namespace)
        raw = await self._call("GET", path, query=_selection(labels, fields))
        try:
            listed = _LIST.decode(raw)
            items = tuple(kind.decode(item) for item in listed.items or ())
        except msgspec.DecodeError as error:
            raise _unintelligible("GET", path, error) from error
        return Listing(items, listed.metadata.resource_version)

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        path = kind.path(namespace=namespace)
        query = {"watch": "true", "allowWatchBookmarks": "true"} | _selection(labels, fields)
        if after is None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = after
        lines = WatchLines()
        async with _reaching("WATCH", path):
            # The time-out is for the answer to begin; how long it lasts is the server's business.
            async with asyncio.timeout(self._timeout):
                response = await self._send("GET", path, query=query, timeout=aiohttp.ClientTimeout(total=None))
            async with response:
                if response.status != 200:
                    raise from_status(await response.read(), response.status)
                self._watches.add(response)
                try:
                    async for chunk in response.content.iter_any():
                        for line in lines.feed(chunk):
                            yield _event(kind, line)
                finally:
                    self._watches.remove(response)
                    # Left early, there is nobody to say good-bye to: TLS would wait for an answer long after `close`.
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()
        if lines.unfinished:
            raise Unreachable(f"WATCH {path}: the stream ended within an event")

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        _require_namespace(kind, namespace)
        return await self._object(kind, "POST", kind.path(namespace=namespace), body=_typed(kind, body))

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        path = _path(kind, namespace, body["metadata"]["name"], subresource)
        return await self._object(kind, "PUT", path, body=_typed(kind, body))

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        path = _path(kind, namespace, name, subresource)
        return await self._object(kind, "PATCH", path, body=patch.body, media_type=patch.media_type)

    async def delete(
        self,
        kind: Kind[V],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "",
    ) -> None:
        options = bodies.delete_options(
            uid=uid, resource_version=resource_version, grace_seconds=grace_seconds, propagation=propagation
        )
        await self._call("DELETE", _path(kind, namespace, name), body=options)

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        body = bodies.binding(pod, namespace=namespace, uid=uid, node=node)
        await self._call("POST", _path(POD, namespace, pod, "binding"), body=body)

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        body = bodies.eviction(pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        await self._call("POST", _path(POD, namespace, pod, "eviction"), body=body)

    async def close(self) -> None:
        """End every watch and refuse what follows; requests under way end with their time-out. Idempotent."""
        self._closed = True
        for watch in self._watches:
            # Closing the session alone would leave its readers waiting for ever.
            watch.content.set_exception(aiohttp.ClientConnectionError("the client was closed"))
        if self._session is not None:
            await self._session.close()

    async def _object(self, kind: Kind[V], method: str, path: str, *, body: object = None, media_type: str = JSON) -> V:
        raw = await self._call(method, path, body=body, media_type=media_type)
        try:
            return kind.decode(raw)
        except msgspec.DecodeError as error:
            raise _unintelligible(method, path, error) from error

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        media_type: str = JSON,
    ) -> bytes:
        """One request and its answer, sent again where the server is busy and says for how long."""
        resends = 0
        while True:
            async with _reaching(method, path):
                response = await self._send(method, path, query=query, body=body, media_type=media_type)
                async with response:
                    raw = await response.read()
            if response.status < 300:
                return raw
            error = from_status(raw, response.status)
            wait = _wanted_wait(error, response.headers.get("Retry-After", ""))
            if wait is None or resends == RESENDS:
                raise error
            resends += 1
            await self._clock.sleep(wait)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        media_type: str = JSON,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        headers = {}
        if token := self._token.current():
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = media_type
        return await self._open_session().request(
            method,
            self._access.server + path,
            params=query,
            data=None if body is None else msgspec.json.encode(body),
            headers=headers,
            timeout=timeout or aiohttp.ClientTimeout(total=self._timeout),
            allow_redirects=False,
            server_hostname=self._access.server_name or None,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the client was used after it was closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._access.tls() or True, keepalive_timeout=KEPT_IDLE, socket_factory=_probed_socket
                ),
                headers={"Accept": JSON, "User-Agent": f"mooring/{__version__} ({self._component})"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _path(kind: Kind[ApiObject], namespace: str, name: str, subresource: str = "") -> str:
    _require_namespace(kind, namespace)
    return kind.path(namespace=namespace, name=name, subresource=subresource)


def _require_namespace(kind: Kind[ApiObject], namespace: str) -> None:
    # Without it the server would answer NotFound, which a controller takes for "deleted".
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.plural} live in namespaces, and none was named")


def _typed(kind: Kind[ApiObject], body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def _selection(labels: str, fields: str) -> dict[str, str]:
    selection = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in selection.items() if value}


def _event(kind: Kind[V], line: bytes) -> WatchEvent[V]:
    try:
        event = _LINE.decode(line)
        if event.type == "ERROR":
            raise from_status(bytes(event.object), msgspec.json.decode(event.object, type=Status).code)
        change = Change(event.type)
        item = kind.decode_bookmark(event.object) if change is Change.BOOKMARK else kind.decode(event.object)
    except (msgspec.DecodeError, ValueError) as error:
        raise _unintelligible("WATCH", kind.plural, error) from error
    ended = change is Change.BOOKMARK and item.metadata.annotations.get(INITIAL_EVENTS_END) == "true"
    return WatchEvent(change, item, initial_end=ended)


def _wanted_wait(error: ApiError, header: str) -> float | None:
    """How long the server asks to wait before the same request, if it does: it has done nothing yet."""
    if not isinstance(error, TooManyRequests | ServiceUnavailable) or not header.isdecimal():
        return None
    return float(min(int(header), LONGEST_WAIT))


def _unintelligible(method: str, path: str, error: Exception) -> Unreachable:
    """An answer that cannot be read tells as little as none."""
    return Unreachable(f"{method} {path}: the answer cannot be read: {error}")


@asynccontextmanager
async def _reaching(method: str, path: str) -> AsyncIterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise Unreachable(f"{method} {path}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"{method} {path}: {str(error) or type(error).__name__}") from error
    except LineTooLong as error:
        raise Unreachable(f"{method} {path}: {error}") from error


def _probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices when its peer is gone, so that a silent watch is not waited on for ever."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", PROBE_AFTER), ("TCP_KEEPINTVL", PROBE_EVERY), ("TCP_KEEPCNT", PROBES)):
        # Other systems than Linux lack some of them; the probe is then as often as the system has it.
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    made.setblocking(False)
    return made


def _contract(client: HttpClient) -> Client:
    return client
