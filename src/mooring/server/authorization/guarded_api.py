"""The verbs behind the check: what a caller in the same process is given, so that it has its rights and no others.

Callers over HTTP are checked by the shell, before their bodies are read; there this would ask twice.
"""

from collections.abc import Mapping
from typing import Any

from mooring.api.patches.contract import Patch
from mooring.server.authorization.access import Access
from mooring.server.authorization.attributes import request_for
from mooring.server.authorization.refusals import require
from mooring.server.contract import (
    Api,
    Batches,
    DeleteOptions,
    ListOptions,
    Page,
    Target,
    User,
    WatchOptions,
    WriteOptions,
    Written,
)


class GuardedApi:
    def __init__(self, api: Api, access: Access) -> None:
        self._api = api
        self._access = access

    async def get(self, user: User, target: Target, *, resource_version: str = "") -> bytes:
        await self._check(user, "get", target)
        return await self._api.get(user, target, resource_version=resource_version)

    async def list(self, user: User, target: Target, options: ListOptions) -> Page:
        await self._check(user, "list", target, options.fields)
        return await self._api.list(user, target, options)

    async def watch(self, user: User, target: Target, options: WatchOptions) -> Batches:
        await self._check(user, "watch", target, options.fields)
        return await self._api.watch(user, target, options)

    async def create(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        await self._check(user, "create", target)
        return await self._api.create(user, target, body, options)

    async def update(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        await self._check(user, "update", target)
        return await self._api.update(user, target, body, options)

    async def patch(self, user: User, target: Target, patch: Patch, options: WriteOptions) -> Written:
        await self._check(user, "patch", target)
        return await self._api.patch(user, target, patch, options)

    async def apply(
        self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions, *, force: bool
    ) -> Written:
        await self._check(user, "patch", target)
        return await self._api.apply(user, target, body, options, force=force)

    async def delete(self, user: User, target: Target, options: DeleteOptions) -> Written:
        await self._check(user, "delete", target)
        return await self._api.delete(user, target, options)

    async def delete_collection(
        self, user: User, target: Target, selection: ListOptions, options: DeleteOptions
    ) -> Page:
        await self._check(user, "deletecollection", target, selection.fields)
        return await self._api.delete_collection(user, target, selection, options)

    async def bind(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        await self._check(user, "create", target)
        return await self._api.bind(user, target, body, options)

    async def evict(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        await self._check(user, "create", target)
        return await self._api.evict(user, target, body, options)

    async def _check(self, user: User, verb: str, target: Target, fields: str = "") -> None:
        await require(self._access, user, request_for(verb, target, fields=fields))


_contract: type[Api] = GuardedApi
