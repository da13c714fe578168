"""What passes between the verbs and whoever calls them: the HTTP shell, or the in-process client.

The verbs know objects as JSON bytes stamped with their version; how those are presented (plain, as a Table, as
metadata only, on a socket or in process) is the caller's business. Everything that goes wrong is an ApiError.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from mooring.api.kinds import Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject


class User(msgspec.Struct, frozen=True):
    """Who asks, as authentication established it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    #: What else authentication knows, such as which token was used.
    extra: Mapping[str, tuple[str, ...]] = {}


class Target(msgspec.Struct, frozen=True):
    """What a request is about: an object, or a collection when `name` is empty."""

    kind: Kind[ApiObject]
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class WriteOptions(msgspec.Struct, frozen=True):
    """`dryRun`, `fieldValidation` and `fieldManager` of a writing request."""

    dry_run: bool = False
    #: Strict refuses unknown fields, Warn answers with warnings, Ignore drops them silently.
    field_validation: str = "Warn"
    field_manager: str = ""
    #: How much was sent; 0 where the writer is in this process.
    body_bytes: int = 0


class ListOptions(msgspec.Struct, frozen=True):
    labels: str = ""
    fields: str = ""
    #: "" is the newest state, "0" any, a number not older than that.
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""


class WatchOptions(msgspec.Struct, frozen=True):
    labels: str = ""
    fields: str = ""
    #: "" or "0" starts with synthetic ADDED events, a number continues after it.
    resource_version: str = ""
    resource_version_match: str = ""
    #: None when the client did not say.
    send_initial_events: bool | None = None
    bookmarks: bool = False
    #: How often a bookmark says where a quiet watch is, in seconds; 0 is never.
    bookmark_every: float = 0
    #: When the watch will be ended, in seconds from now; 0 is never. A bookmark shortly before saves its reader a list.
    ends_after: float = 0


class DeleteOptions(msgspec.Struct, frozen=True):
    grace_seconds: int | None = None
    #: Background, Foreground, Orphan or "" for the kind's default.
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


class Written(msgspec.Struct, frozen=True):
    """The answer to a write: the object as it is now, and what the writer should know."""

    body: bytes
    code: int = 200
    warnings: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True):
    """The answer to a list: objects in namespace and name order, and the version they were read at."""

    items: tuple[bytes, ...]
    resource_version: str
    #: What a client sends to get the rest; empty where this is all.
    continue_token: str = ""
    #: How many there are besides; None where that is not known.
    remaining: int | None = None


class StreamEvent:
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK, and the object's bytes (with kind and version).

    Shared by all who watch the same: what is derived from it is derived once.
    """

    __slots__ = ("_line", "body", "type")

    def __init__(self, type_: str, body: bytes) -> None:
        self.type = type_
        self.body = body
        self._line = b""

    @property
    def line(self) -> bytes:
        """As a line of a watch over HTTP."""
        if not self._line:
            self._line = b'{"type":"%b","object":%b}\n' % (self.type.encode(), self.body)
        return self._line

    def __repr__(self) -> str:
        return f"StreamEvent({self.type!r}, {self.body!r})"


#: What came at once: a good moment to pass it on is after each.
Batches = AsyncGenerator[Sequence[StreamEvent], None]


class Api(Protocol):
    """The verbs, one method per file of `verbs/`. Implemented by `server.api.ApiServer`."""

    async def get(self, user: User, target: Target, *, resource_version: str = "") -> bytes:
        """As it is now, which must not be older than a version that is named."""
        ...

    async def list(self, user: User, target: Target, options: ListOptions) -> Page: ...

    async def watch(self, user: User, target: Target, options: WatchOptions) -> Batches:
        """Raises before the first event where the request is wrong; after it, Expired and ServiceUnavailable.

        The generator ends only with an error or by being closed; time-outs are the caller's.
        """
        ...

    async def create(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written: ...

    async def update(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written: ...

    async def patch(self, user: User, target: Target, patch: Patch, options: WriteOptions) -> Written: ...

    async def apply(
        self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions, *, force: bool
    ) -> Written:
        """Server-side apply; `force` takes what other managers own instead of conflicting with them."""
        ...

    async def delete(self, user: User, target: Target, options: DeleteOptions) -> Written: ...

    async def delete_collection(
        self, user: User, target: Target, selection: ListOptions, options: DeleteOptions
    ) -> Page: ...

    async def bind(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        """`pods/{name}/binding`: give a pod its node, once."""
        ...

    async def evict(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        """`pods/{name}/eviction`: delete a pod gracefully, marked as disrupted."""
        ...
