"""Lists objects as plain JSON documents with all fields, as `kubectl get -o json`, for one-shot commands.

Kinds that may not be listed in all namespaces are listed in one; kinds that may not be listed at all are reported.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.errors import Expired, Forbidden, NotFound
from mooring.api.kinds import RECENT, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.transport import TIMEOUT, Request, Transport
from mooring.clock import Clock

Document = dict[str, Any]

#: Objects per request; kubectl's --chunk-size.
PAGE: Final = 500
#: Enough to hide latency, and few of the requests a server grants one client.
MAX_CONCURRENT_LISTS: Final = 4


NOT_SERVED: Final = "not served by the API server"


class UnlistedKind(NamedTuple):
    """A kind that was not listed, or in one namespace only."""

    kind: Kind[ApiObject]
    reason: str
    #: The one namespace in which it was listed.
    seen_in: str = ""

    @property
    def is_optional(self) -> bool:
        """Whether a server without the kind is an ordinary one."""
        return self.kind in RECENT and self.reason == NOT_SERVED

    def __str__(self) -> str:
        where = f" outside of {self.seen_in}" if self.seen_in else ""
        return f"{self.kind.plural}{where}: {self.reason}"


class ListedDocuments(NamedTuple):
    documents: tuple[Document, ...]
    unseen: tuple[UnlistedKind, ...]


class _ListMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[Document] | None = None


async def list_documents(
    access: Access, kinds: Iterable[Kind[ApiObject]], *, component: str, clock: Clock, namespace: str = ""
) -> ListedDocuments:
    """List these kinds in all namespaces or, where that is forbidden, in `namespace`. Raises Unreachable, and any
    ApiError but Forbidden and NotFound."""
    transport = Transport(access, component=component, clock=clock, timeout=TIMEOUT, in_flight=MAX_CONCURRENT_LISTS)
    try:
        found = await asyncio.gather(*(_collect(transport, kind, namespace) for kind in kinds))
    finally:
        await transport.close()
    documents = tuple(document for listed, _ in found for document in listed)
    return ListedDocuments(documents, tuple(unlisted for _, unlisted in found if unlisted is not None))


async def _collect(
    transport: Transport, kind: Kind[ApiObject], namespace: str
) -> tuple[list[Document], UnlistedKind | None]:
    try:
        return await _list(transport, kind, ""), None
    except NotFound:
        return [], UnlistedKind(kind, NOT_SERVED)
    except Forbidden as error:
        reason = error.message
    if kind.namespaced and namespace:
        try:
            return await _list(transport, kind, namespace), UnlistedKind(kind, reason, namespace)
        except Forbidden as error:
            reason = error.message
    return [], UnlistedKind(kind, reason)


async def _list(transport: Transport, kind: Kind[ApiObject], namespace: str) -> list[Document]:
    """All pages; one unpaged list when the continue token has expired."""
    documents: list[Document] = []
    continued = ""
    while True:
        query = {"limit": str(PAGE)} | ({"continue": continued} if continued else {})
        try:
            page = await _page(transport, kind.path(namespace=namespace), query)
        except Expired:
            page, documents = await _page(transport, kind.path(namespace=namespace), {}), []
        # Lists state apiVersion and kind once for all items.
        documents += ({"apiVersion": kind.api_version, "kind": kind.kind} | item for item in page.items or ())
        continued = page.metadata.continue_
        if not continued:
            return documents


async def _page(transport: Transport, path: str, query: dict[str, str]) -> _Page:
    raw = await transport.call(Request("GET", path, query))
    try:
        return msgspec.json.decode(raw, type=_Page)
    except msgspec.DecodeError as error:
        raise Unreachable(f"malformed response: {error} (GET {path})") from error
