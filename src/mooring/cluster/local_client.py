"""The `Client` for an API server in the same process: the verbs without the wire.

Used by the components of the embedded cluster and by the simulated world. It passes the same conformance suite as the
HTTP client and hands out the same views, errors and watch semantics; only the network's own failures cannot happen.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeVar, Unpack

from mooring.api import keys
from mooring.api.kinds import POD, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client import bodies
from mooring.client.contract import Change, Deletion, Listing, WatchEvent
from mooring.server.contract import Api, DeleteOptions, ListOptions, Target, User, WatchOptions, WriteOptions

V = TypeVar("V", bound=ApiObject)

#: Components send what they mean; a field the server does not know would be our own mistake.
_STRICT: Final = WriteOptions(field_validation="Strict")


class LocalClient:
    def __init__(self, api: Api, user: User) -> None:
        self._api = api
        self._user = user

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return kind.decode(await self._api.get(self._user, Target(kind, namespace, name)))

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        options = ListOptions(labels=labels, fields=fields)
        page = await self._api.list(self._user, Target(kind, namespace), options)
        return Listing(tuple(kind.decode(item) for item in page.items), page.resource_version)

    async def watch(
        self,
        kind: Kind[V],
        *,
        after: str | None,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[V], None]:
        if after is None:
            options = WatchOptions(
                labels=labels,
                fields=fields,
                resource_version_match="NotOlderThan",
                send_initial_events=True,
                bookmarks=True,
            )
        else:
            options = WatchOptions(labels=labels, fields=fields, resource_version=after, bookmarks=True)
        stream = await self._api.watch(self._user, Target(kind, namespace), options)
        async with aclosing(stream):
            async for batch in stream:
                for event in batch:
                    yield _to_event(kind, event.type, event.body)

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        written = await self._api.create(self._user, Target(kind, namespace), body, _STRICT)
        return kind.decode(written.body)

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        target = Target(kind, namespace, body["metadata"]["name"], subresource)
        return kind.decode((await self._api.update(self._user, target, body, _STRICT)).body)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        target = Target(kind, namespace, name, subresource)
        return kind.decode((await self._api.patch(self._user, target, patch, _STRICT)).body)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        await self._api.delete(self._user, Target(kind, namespace, name), DeleteOptions(**options))

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        body = bodies.binding(pod, namespace=namespace, uid=uid, node=node)
        await self._api.bind(self._user, Target(POD, namespace, pod, "binding"), body, _STRICT)

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        body = bodies.eviction(pod, namespace=namespace, uid=uid, grace_seconds=grace_seconds)
        await self._api.evict(self._user, Target(POD, namespace, pod, "eviction"), body, _STRICT)

    async def close(self) -> None:
        """Nothing is held open."""


def _to_event(kind: Kind[V], change: str, body: bytes) -> WatchEvent[V]:
    if change != "BOOKMARK":
        return WatchEvent(Change(change), kind.decode(body))
    bookmark = kind.decode_bookmark(body)
    return WatchEvent(Change.BOOKMARK, bookmark, keys.INITIAL_EVENTS_END in bookmark.metadata.annotations)
