"""A client that cannot write, and that says what it is not allowed or not able to read.

Wraps any `Client`. The page acts with somebody's rights, which may be an administrator's; whatever those are, nothing
the page does can change the cluster, because every verb that would is refused here. Failed reads are told to
`noted` kind by kind, so that the page can say what is missing and why.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Never, Unpack

from mooring.api.errors import ApiError, BadRequest, Expired, Forbidden, Invalid, NotImplementedHere, Unauthorized
from mooring.api.kinds import Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Deletion, Listing, Unreachable, V, WatchEvent

#: What is wrong with a kind ("" for nothing) and the server's own words.
Noted = Callable[[str, str, str], None]

FORBIDDEN, UNREACHABLE = "forbidden", "unreachable"

#: Answers after which an informer goes another way: it lists instead of streaming, or lists anew.
_OTHER_WAY: Final = (Expired, Invalid, BadRequest, NotImplementedHere)

#: Seconds a watch must have stood for the server to count as reached, where nothing happens that it could tell.
STEADY_SECONDS: Final = 1.5


class ReadOnlyClient:
    def __init__(self, client: Client, noted: Noted) -> None:
        self._client = client
        self._noted = noted

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self._client.get(kind, name, namespace=namespace)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
        try:
            listing = await self._client.list(kind, namespace=namespace, labels=labels, fields=fields)
        except (ApiError, Unreachable) as error:
            self._failed(kind, error)
            raise
        self._noted(kind.plural, "", "")
        return listing

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        # A watch on a quiet server says nothing at all, neither that it works.
        steady = asyncio.get_running_loop().call_later(STEADY_SECONDS, self._noted, kind.plural, "", "")
        stream = self._client.watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    steady.cancel()
                    self._noted(kind.plural, "", "")
                    yield event
        except (ApiError, Unreachable) as error:
            self._failed(kind, error)
            raise
        finally:
            steady.cancel()

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        _refuse("create", kind)

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        _refuse("update", kind)

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        _refuse("patch", kind)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        _refuse("delete", kind)

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        raise Forbidden("the page only reads: it binds no pod")

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        raise Forbidden("the page only reads: it evicts no pod")

    async def close(self) -> None:
        await self._client.close()

    def _failed(self, kind: Kind[ApiObject], error: ApiError | Unreachable) -> None:
        if isinstance(error, _OTHER_WAY):
            return
        refused = isinstance(error, Forbidden | Unauthorized)
        text = error.message if isinstance(error, ApiError) else str(error)
        self._noted(kind.plural, FORBIDDEN if refused else UNREACHABLE, text)


def _refuse(verb: str, kind: Kind[ApiObject]) -> Never:
    raise Forbidden(f"the page only reads: it does not {verb} {kind.plural}")


def _contract(client: ReadOnlyClient) -> Client:
    return client
