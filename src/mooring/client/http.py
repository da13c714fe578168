"""The `Client` for any Kubernetes API server over HTTP: verbs to requests, JSON responses to views.

Only processes import it and pass it on as the `Client` contract; `transport` sends and retries.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any, Final, Unpack

import msgspec

from mooring.api.errors import Forbidden, NotFound
from mooring.api.kinds import POD, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client import contract, responses
from mooring.client.access import Access
from mooring.client.contract import Deletion, ObjectList, Unreachable, V, WatchEvent
from mooring.client.transport import IN_FLIGHT, JSON, TIMEOUT, Request, Transport
from mooring.clock import Clock, in_batches

#: Far above any object (etcd accepts 1.5 MiB); bounds the memory that a faulty server can use.
MAX_LINE_BYTES: Final = 8 * 1024 * 1024


class LineTooLong(Exception):
    pass


class WatchLines:
    """Assembles the lines of a watch from chunks. Pure."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def unfinished(self) -> bool:
        """Whether the last chunk ended within a line."""
        return self._size > 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The non-empty lines that this chunk completes. Raises LineTooLong."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._keep(piece)
            line = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            if line:
                yield line
        self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise LineTooLong(f"a line of the watch is longer than {self._max_bytes} bytes")
        if piece:
            self._parts.append(piece)


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
        """`timeout` of one request and the limit `in_flight` of concurrent ones do not apply to watches. `refused` is
        called for every Forbidden before it is raised."""
        self._clock = clock
        self._transport = Transport(
            access, component=component, clock=clock, timeout=timeout, in_flight=in_flight, refused=refused
        )

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self._object(kind, "GET", _path(kind, namespace, name), name)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        path = kind.path(namespace=namespace)
        raw = await self._transport.call(Request("GET", path, _selection(labels, fields)))
        answer = responses.ListAnswer(kind, raw, request=f"GET {path}")
        await in_batches(answer.steps(), self._clock)
        return answer.listing()

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
                        yield responses.event_of(kind, line)
                except LineTooLong as error:
                    raise Unreachable(f"{error} ({request})") from error
        if lines.unfinished:
            raise Unreachable(f"the stream ended within an event ({request})")

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        _require_namespace(kind, namespace)
        path, name = kind.path(namespace=namespace), body.get("metadata", {}).get("name", "")
        raw = await self._call("POST", path, body=_typed(kind, body))
        return responses.object_of(kind, raw, name=name, request=f"POST {path}")

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        name = body["metadata"]["name"]
        path = _path(kind, namespace, name, subresource)
        return await self._object(kind, "PUT", path, name, body=_typed(kind, body))

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        path = _path(kind, namespace, name, subresource)
        return await self._object(kind, "PATCH", path, name, body=patch.body, media_type=patch.media_type)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        await self._call("DELETE", _path(kind, namespace, name), name, body=contract.delete_options_body(**options))

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        body = contract.binding_body(pod, namespace=namespace, uid=uid, node=node)
        await self._call("POST", _path(POD, namespace, pod, "binding"), pod, body=body)

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        body = contract.eviction_body(pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        await self._call("POST", _path(POD, namespace, pod, "eviction"), pod, body=body)

    async def close(self) -> None:
        """End every watch and reject further requests; requests in flight end with their timeout. Idempotent."""
        await self._transport.close()

    async def _object(
        self, kind: Kind[V], method: str, path: str, name: str, *, body: object = None, media_type: str = JSON
    ) -> V:
        raw = await self._call(method, path, name, body=body, media_type=media_type)
        return responses.object_of(kind, raw, name=name, request=f"{method} {path}")

    async def _call(
        self, method: str, path: str, name: str = "", *, body: object = None, media_type: str = JSON
    ) -> bytes:
        """A NotFound for an object must have its `name`."""
        encoded = None if body is None else msgspec.json.encode(body)
        try:
            return await self._transport.call(Request(method, path, body=encoded, media_type=media_type))
        except NotFound as error:
            if not name:
                raise
            raise responses.object_error(error, name) from error


def _path(kind: Kind[ApiObject], namespace: str, name: str, subresource: str = "") -> str:
    _require_namespace(kind, namespace)
    return kind.path(namespace=namespace, name=name, subresource=subresource)


def _require_namespace(kind: Kind[ApiObject], namespace: str) -> None:
    # Without it the server returns NotFound, which a controller takes for "deleted".
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.plural} are namespaced: namespace is required")


def _typed(kind: Kind[ApiObject], body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def _selection(labels: str, fields: str) -> dict[str, str]:
    selection = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in selection.items() if value}
