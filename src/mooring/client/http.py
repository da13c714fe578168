"""A `Client` for any Kubernetes, over HTTP.

From verbs to requests and from answers to views: JSON both ways. How a request gets there and when it is sent again
is `transport`'s business. No controller imports this module: processes build an `HttpClient` and pass it on as the
contract.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Unpack

import msgspec

from mooring.api.errors import Forbidden, NotFound
from mooring.api.kinds import POD, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client import answers, bodies
from mooring.client.access import Access
from mooring.client.contract import Client, Deletion, Listing, Unreachable, V, WatchEvent
from mooring.client.transport import IN_FLIGHT, TIMEOUT, Transport
from mooring.client.watch_lines import LineTooLong, WatchLines
from mooring.client.wire import JSON, Request
from mooring.clock import Clock, in_batches


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
        return await self._object(kind, "GET", _path(kind, namespace, name), name)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        path = kind.path(namespace=namespace)
        raw = await self._call("GET", path, query=_selection(labels, fields))
        answer = answers.ListAnswer(kind, raw, request=f"GET {path}")
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
                        yield answers.event_of(kind, line)
                except LineTooLong as error:
                    raise Unreachable(f"{error} ({request})") from error
        if lines.unfinished:
            raise Unreachable(f"the stream ended within an event ({request})")

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        _require_namespace(kind, namespace)
        path, name = kind.path(namespace=namespace), body.get("metadata", {}).get("name", "")
        raw = await self._call("POST", path, body=_typed(kind, body))
        return answers.object_of(kind, raw, name=name, request=f"POST {path}")

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        name = body["metadata"]["name"]
        path = _path(kind, namespace, name, subresource)
        return await self._object(kind, "PUT", path, name, body=_typed(kind, body))

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        path = _path(kind, namespace, name, subresource)
        return await self._object(kind, "PATCH", path, name, body=patch.body, media_type=patch.media_type)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        await self._call_named("DELETE", _path(kind, namespace, name), name, body=bodies.delete_options(**options))

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        body = bodies.binding(pod, namespace=namespace, uid=uid, node=node)
        await self._call_named("POST", _path(POD, namespace, pod, "binding"), pod, body=body)

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        body = bodies.eviction(pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        await self._call_named("POST", _path(POD, namespace, pod, "eviction"), pod, body=body)

    async def close(self) -> None:
        """End every watch and refuse what follows; requests under way end with their time-out. Idempotent."""
        await self._transport.close()

    async def _object(
        self, kind: Kind[V], method: str, path: str, name: str, *, body: object = None, media_type: str = JSON
    ) -> V:
        raw = await self._call_named(method, path, name, body=body, media_type=media_type)
        return answers.object_of(kind, raw, name=name, request=f"{method} {path}")

    async def _call_named(
        self, method: str, path: str, name: str, *, body: object = None, media_type: str = JSON
    ) -> bytes:
        """A request about one object, which alone can be NotFound."""
        try:
            return await self._call(method, path, body=body, media_type=media_type)
        except NotFound as error:
            raise answers.about_object(error, name) from error

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


def _contract(client: HttpClient) -> Client:
    return client
