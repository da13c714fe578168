"""The `Client` for an API server in the same process. Passes the conformance suite of the HTTP client."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Any, Final, TypeVar, Unpack

from mooring.api import well_known
from mooring.api.kinds import POD, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client import contract
from mooring.client.contract import Deletion, ObjectList, WatchEvent, WatchEventType
from mooring.server import contract as server
from mooring.server.auth.access import Authorizer, require
from mooring.server.auth.rbac import request_for

V = TypeVar("V", bound=ApiObject)

#: The newest views: the writer of an object and its watches get the same bytes shortly after each other.
CACHED_VIEWS: Final = 256
#: Of JSON; larger objects are decoded each time.
MAX_CACHED_VIEW_BYTES: Final = 16 * 1024
#: Components send what they mean; a field the server does not know would be our own mistake.
_STRICT: Final = server.WriteOptions(field_validation="Strict")


class LocalClient:
    """`access` authorizes its calls: unlike those over HTTP, the Api does not."""

    def __init__(self, api: server.Api, user: server.User, access: Authorizer | None = None) -> None:
        self._api = api
        self._user = user
        self._access = access

    async def _allowed(
        self, verb: str, kind: Kind[Any], namespace: str, name: str = "", subresource: str = "", *, fields: str = ""
    ) -> server.Target:
        """The target of a call. Raises Forbidden."""
        target = server.Target(kind, namespace, name, subresource)
        if self._access is not None:
            await require(self._access, self._user, request_for(verb, target, fields=fields))
        return target

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        target = await self._allowed("get", kind, namespace, name)
        return kind.decode(await self._api.get(self._user, target))

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        options = server.ListOptions(labels=labels, fields=fields)
        target = await self._allowed("list", kind, namespace, fields=fields)
        page = await self._api.list(self._user, target, options)
        return ObjectList(tuple(kind.decode(item) for item in page.items), page.resource_version)

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        if after is None:
            options = server.WatchOptions(
                labels=labels,
                fields=fields,
                resource_version_match="NotOlderThan",
                send_initial_events=True,
                bookmarks=True,
                bookmark_every=server.BOOKMARK_SECONDS,
            )
        else:
            options = server.WatchOptions(
                labels=labels,
                fields=fields,
                resource_version=after,
                bookmarks=True,
                bookmark_every=server.BOOKMARK_SECONDS,
            )
        target = await self._allowed("watch", kind, namespace, fields=fields)
        stream = await self._api.watch(self._user, target, options)
        async with aclosing(stream):
            async for batch in stream:
                for event in batch:
                    yield event.decoded or _to_event(kind, event)

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        target = await self._allowed("create", kind, namespace)
        return _decoded(kind, (await self._api.create(self._user, target, body, _STRICT)).body)

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        target = await self._allowed("update", kind, namespace, body["metadata"]["name"], subresource)
        return kind.decode((await self._api.update(self._user, target, body, _STRICT)).body)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        target = await self._allowed("patch", kind, namespace, name, subresource)
        return _decoded(kind, (await self._api.patch(self._user, target, patch, _STRICT)).body)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        target = await self._allowed("delete", kind, namespace, name)
        await self._api.delete(self._user, target, server.DeleteOptions(**options))

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        body = contract.binding_body(pod, namespace=namespace, uid=uid, node=node)
        target = await self._allowed("create", POD, namespace, pod, "binding")
        await self._api.bind(self._user, target, body, _STRICT)

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        body = contract.eviction_body(pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        target = await self._allowed("create", POD, namespace, pod, "eviction")
        await self._api.evict(self._user, target, body, _STRICT)

    async def close(self) -> None:
        """Nothing is held open."""


def _to_event(kind: Kind[V], event: server.StreamEvent) -> WatchEvent[V]:
    """Kept in the event: its other readers get the same frozen object."""
    made: WatchEvent[V]
    if event.type != "BOOKMARK":
        made = WatchEvent(WatchEventType(event.type), _decoded(kind, event.body))
    else:
        bookmark = kind.decode_bookmark(event.body)
        is_end = well_known.INITIAL_EVENTS_END in bookmark.metadata.annotations
        made = WatchEvent(WatchEventType.BOOKMARK, bookmark, is_end)
    event.decoded = made
    return made


def _decoded(kind: Kind[V], body: bytes) -> V:
    decode = _remembered_view if len(body) <= MAX_CACHED_VIEW_BYTES else _remembered_view.__wrapped__
    view: V = decode(kind, body)
    return view


@lru_cache(maxsize=CACHED_VIEWS)
def _remembered_view(kind: Kind[Any], body: bytes) -> Any:  # noqa: ANN401  # of the kind's view
    return kind.decode(body)
