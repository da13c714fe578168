"""Cost of components: requests to the API server, and objects scanned in caches."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Unpack

import pytest

from mooring.api.kinds import Kind
from mooring.api.patches.contract import Patch
from mooring.client.contract import Deletion, ObjectList, V
from mooring.client.informer import Informer
from mooring.cluster.local_client import LocalClient
from mooring.server.api import ApiServer
from mooring.server.contract import User


class CountingClient(LocalClient):
    """Counts requests as `verb plural`; watches are not requests."""

    def __init__(self, api: ApiServer, user: User, counted: Counter[str]) -> None:
        super().__init__(api, user)
        self._counted = counted

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        self._counted[f"get {kind.plural}"] += 1
        return await super().get(kind, name, namespace=namespace)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        self._counted[f"list {kind.plural}"] += 1
        return await super().list(kind, namespace=namespace, labels=labels, fields=fields)

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        self._counted[f"create {kind.plural}"] += 1
        return await super().create(kind, body, namespace=namespace)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        self._counted[f"patch {kind.plural}"] += 1
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        self._counted[f"delete {kind.plural}"] += 1
        await super().delete(kind, name, namespace=namespace, **options)


def scanned(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """From now on: objects returned by full scans of an informer, by plural."""
    counted: Counter[str] = Counter()
    items = Informer.items

    def counting(self: Informer[V]) -> Collection[V]:
        found = items(self)
        counted[self.kind.plural] += len(found)
        return found

    monkeypatch.setattr(Informer, "items", counting)
    return counted
