"""A `Client` for a `FakeApiServer` in the same process, whose requests can be made to fail."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Unpack

import msgspec

from mooring.api.kinds import Kind
from mooring.api.patches.contract import Patch
from mooring.api.well_known import INITIAL_EVENTS_END
from mooring.client.contract import Client, Deletion, ObjectList, V, WatchEvent, WatchEventType
from support.fake_api_server import FakeApiServer


class FakeClient:
    def __init__(self, api: FakeApiServer) -> None:
        self.api = api
        #: Errors of the next requests, one each.
        self.failures: list[Exception] = []
        #: The error of a server that does not support streamed lists.
        self.refuses_streams: Exception | None = None
        #: One line per request.
        self.requests: list[str] = []

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        self._request(f"get {kind.plural}")
        return _view(kind, self.api.get(kind, namespace, name))

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        self._request(f"list {kind.plural}")
        items = tuple(_view(kind, body) for body in self.api.list(kind, namespace, labels))
        return ObjectList(items, str(self.api.version))

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        self._request(f"watch {kind.plural} after {after}")
        if after is None and self.refuses_streams is not None:
            raise self.refuses_streams
        async with aclosing(self.api.watch(kind, after, namespace, labels)) as events:
            async for event in events:
                ended = INITIAL_EVENTS_END in event.body["metadata"].get("annotations", {})
                yield WatchEvent(WatchEventType(event.type), _view(kind, event.body), initial_end=ended)

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        self._request(f"create {kind.plural}")
        return _view(kind, self.api.create(kind, namespace, body))

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        self._request(f"update {kind.plural}")
        return _view(kind, self.api.update(kind, namespace, body["metadata"]["name"], body, subresource))

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        self._request(f"patch {kind.plural}")
        return _view(kind, self.api.patch(kind, namespace, name, patch, subresource))

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        self._request(f"delete {kind.plural}")
        self.api.delete(kind, namespace, name, uid=options.get("uid", ""), version=options.get("resource_version", ""))

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        self._request("bind")
        self.api.bind(namespace, pod, {"metadata": {"uid": uid}, "target": {"name": node}})

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        self._request("evict")
        self.api.evict(namespace, pod, uid=uid)

    async def close(self) -> None:
        """Does nothing."""

    def _request(self, line: str) -> None:
        self.requests.append(line)
        if self.failures:
            raise self.failures.pop(0)


def _view(kind: Kind[V], body: Mapping[str, Any]) -> V:
    return kind.decode(msgspec.json.encode(body))


def _contract(client: FakeClient) -> Client:
    return client
