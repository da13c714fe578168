"""A `Client` for any Kubernetes, over HTTP.

From verbs to requests and from answers to views: JSON both ways. How a request gets there and when it is sent again
is `transport`'s business. No controller imports this module: processes build an `HttpClient` and pass it on as the
contract.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Unpack

import msgspec

from mooring.api import keys
from mooring.api.errors import Forbidden, Status, from_status
from mooring.api.kinds import POD, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client import bodies
from mooring.client.access import Access
from mooring.client.contract import Change, Client, Deletion, Listing, Unreachable, V, WatchEvent
from mooring.client.transport import IN_FLIGHT, TIMEOUT, Transport
from mooring.client.watch_lines import LineTooLong, WatchLines
from mooring.client.wire import JSON, Request
from mooring.clock import Clock, in_batches


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

    def __init__(
        self,
        access: Access,
        *,
        component: str,
        clock: Clock,
        timeout: float = TIMEOUT,
        in_flight: int = IN_FLIGHT,
        refused: Callable[[Forbidden], None] = lambda _: None,
    ) -> None:
        """`timeout` is for one request, `in_flight` bounds how many there are at once; neither is for watches.
        `refused` hears of every request that we may not make, before whoever made it does."""
        self._clock = clock
        self._transport = Transport(
            access, component=component, clock=clock, timeout=timeout, in_flight=in_flight, refused=refused
        )

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self._object(kind, "GET", _path(kind, namespace, name))

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        path = kind.path(namespace=namespace)
        raw = await self._call("GET", path, query=_selection(labels, fields))
        try:
            listed = _LIST.decode(raw)
            items: list[V] = []
            await in_batches(_decoding(kind, listed.items or (), items), self._clock)
        except msgspec.DecodeError as error:
            raise _unintelligible(f"GET {path}", error) from error
        return Listing(tuple(items), listed.metadata.resource_version)

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
        request = Request("GET", path, query)
        async with self._transport.stream(request) as stream:
            async for chunk in stream.iter_any():
                try:
                    for line in lines.feed(chunk):
                        yield _event(kind, line)
                except LineTooLong as error:
                    raise Unreachable(f"{error} ({request})") from error
        if lines.unfinished:
            raise Unreachable(f"the stream ended within an event ({request})")

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        _require_namespace(kind, namespace)
        return await self._object(kind, "POST", kind.path(namespace=namespace), body=_typed(kind, body))

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        path = _path(kind, namespace, body["metadata"]["name"], subresource)
        return await self._object(kind, "PUT", path, body=_typed(kind, body))

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        path = _path(kind, namespace, name, subresource)
        return await self._object(kind, "PATCH", path, body=patch.body, media_type=patch.media_type)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        await self._call("DELETE", _path(kind, namespace, name), body=bodies.delete_options(**options))

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        body = bodies.binding(pod, namespace=namespace, uid=uid, node=node)
        await self._call("POST", _path(POD, namespace, pod, "binding"), body=body)

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        body = bodies.eviction(pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        await self._call("POST", _path(POD, namespace, pod, "eviction"), body=body)

    async def close(self) -> None:
        """End every watch and refuse what follows; requests under way end with their time-out. Idempotent."""
        await self._transport.close()

    async def _object(self, kind: Kind[V], method: str, path: str, *, body: object = None, media_type: str = JSON) -> V:
        raw = await self._call(method, path, body=body, media_type=media_type)
        try:
            return kind.decode(raw)
        except msgspec.DecodeError as error:
            raise _unintelligible(f"{method} {path}", error) from error

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        media_type: str = JSON,
    ) -> bytes:
        encoded = None if body is None else msgspec.json.encode(body)
        return await self._transport.call(Request(method, path, query, encoded, media_type))


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


def _decoding(kind: Kind[V], raw: Iterable[msgspec.Raw], items: list[V]) -> Iterator[None]:
    for each in raw:
        items.append(kind.decode(each))
        yield


def _event(kind: Kind[V], line: bytes) -> WatchEvent[V]:
    try:
        event = _LINE.decode(line)
        if event.type == "ERROR":
            raise from_status(bytes(event.object), msgspec.json.decode(event.object, type=Status).code or 500)
        change = Change(event.type)
        item = kind.decode_bookmark(event.object) if change is Change.BOOKMARK else kind.decode(event.object)
    except (msgspec.DecodeError, ValueError) as error:
        raise _unintelligible(f"WATCH {kind.plural}", error) from error
    ended = change is Change.BOOKMARK and item.metadata.annotations.get(keys.INITIAL_EVENTS_END) == "true"
    return WatchEvent(change, item, initial_end=ended)


def _unintelligible(request: str, error: Exception) -> Unreachable:
    """An answer that cannot be read tells as little as none."""
    return Unreachable(f"the answer cannot be read: {error} ({request})")


def _contract(client: HttpClient) -> Client:
    return client
