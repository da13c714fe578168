"""Collections of any Kubernetes as plain documents, with all their fields, as `kubectl get -o json` prints them.

For those who look at a cluster once and with whatever rights they have: what may not be listed in all namespaces is
listed in one, and what may not be listed at all is named instead. Components, which need to hear of changes and know
which fields they read, use a `Client` and its informers.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.errors import Expired, Forbidden, NotFound
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.transport import TIMEOUT, Transport
from mooring.client.wire import Request
from mooring.clock import Clock

Document = dict[str, Any]

#: How many objects are asked for at once; kubectl's --chunk-size.
PAGE: Final = 500
#: Collections asked for at once: enough to hide the way there, and little of what a server gives one reader.
AT_ONCE: Final = 4


class Unseen(NamedTuple):
    """A kind of which not all objects were seen, and why."""

    kind: Kind[ApiObject]
    why: str
    #: The one namespace in which they were seen after all.
    seen_in: str = ""

    def __str__(self) -> str:
        where = f" outside of {self.seen_in}" if self.seen_in else ""
        return f"{self.kind.plural}{where}: {self.why}"


class Listed(NamedTuple):
    """Every object that could be seen, kind by kind, and what could not be."""

    documents: tuple[Document, ...]
    unseen: tuple[Unseen, ...]


class _ListMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[Document] | None = None


class _Collected(NamedTuple):
    documents: list[Document]
    unseen: Unseen | None


async def list_documents(
    access: Access, kinds: Iterable[Kind[ApiObject]], *, component: str, clock: Clock, namespace: str = ""
) -> Listed:
    """List these kinds, everywhere or, where that is not allowed, in the namespace.

    Raises Unreachable, and any ApiError but the one that says that a kind may not be listed or is not there.
    """
    transport = Transport(access, component=component, clock=clock, timeout=TIMEOUT, in_flight=AT_ONCE)
    try:
        found = await asyncio.gather(*(_collect(transport, kind, namespace) for kind in kinds))
    finally:
        await transport.close()
    documents = [document for collected in found for document in collected.documents]
    return Listed(tuple(documents), tuple(each.unseen for each in found if each.unseen is not None))


async def _collect(transport: Transport, kind: Kind[ApiObject], namespace: str) -> _Collected:
    try:
        return _Collected(await _list(transport, kind, ""), None)
    except NotFound:
        return _Collected([], Unseen(kind, "the server does not have them"))
    except Forbidden as error:
        everywhere = error.message
    if kind.namespaced and namespace:
        try:
            return _Collected(await _list(transport, kind, namespace), Unseen(kind, everywhere, namespace))
        except Forbidden as error:
            return _Collected([], Unseen(kind, error.message))
    return _Collected([], Unseen(kind, everywhere))


async def _list(transport: Transport, kind: Kind[ApiObject], namespace: str) -> list[Document]:
    """All of them, page by page; in one go where the server no longer knows what it showed at the first page."""
    documents: list[Document] = []
    continued = ""
    while True:
        query = {"limit": str(PAGE)} | ({"continue": continued} if continued else {})
        try:
            page = await _page(transport, kind.path(namespace=namespace), query)
        except Expired:
            page, documents = await _page(transport, kind.path(namespace=namespace), {}), []
        # What a list says once for all its items belongs to each of them where they stand alone.
        documents += ({"apiVersion": kind.api_version, "kind": kind.kind} | item for item in page.items or ())
        continued = page.metadata.continue_
        if not continued:
            return documents


async def _page(transport: Transport, path: str, query: dict[str, str]) -> _Page:
    raw = await transport.call(Request("GET", path, query))
    try:
        return msgspec.json.decode(raw, type=_Page)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the answer cannot be read: {error} (GET {path})") from error
