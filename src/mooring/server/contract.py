"""The Api protocol between the verbs and their callers (HTTP or in-process), its options and results.

Objects are JSON bytes with their resourceVersion; callers present them (Table, metadata only). Errors are ApiErrors.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from mooring.api.errors import method_not_allowed, no_such_resource
from mooring.api.kinds import Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject

#: The object that a request sends, which no verb changes.
SentBody: TypeAlias = Mapping[str, Any]
#: Between two bookmarks of a watch without events, as in kube-apiserver.
BOOKMARK_SECONDS: Final = 60.0


class User(msgspec.Struct, frozen=True):
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    #: Further attributes, such as the id of the token.
    extra: Mapping[str, tuple[str, ...]] = {}


class Target(msgspec.Struct, frozen=True):
    """An object, or a collection if `name` is empty."""

    kind: Kind[ApiObject]
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class WriteOptions(msgspec.Struct, frozen=True):
    """`dryRun`, `fieldValidation` and `fieldManager` of a writing request."""

    dry_run: bool = False
    #: For unknown fields: Strict rejects them, Warn returns warnings, Ignore drops them.
    field_validation: str = "Warn"
    field_manager: str = ""
    #: Size of the request body; 0 for in-process callers.
    body_bytes: int = 0


class SelectionOptions(msgspec.Struct, frozen=True):
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


class ListOptions(SelectionOptions, frozen=True):
    """The resourceVersion "" is the newest state, "0" any, a number not older than that."""

    limit: int = 0
    continue_token: str = ""


class WatchOptions(SelectionOptions, frozen=True):
    """The resourceVersion "" or "0" starts with synthetic ADDED events, a number continues after it."""

    send_initial_events: bool | None = None
    bookmarks: bool = False
    #: Seconds between bookmarks of an idle watch; 0 is never.
    bookmark_every: float = 0
    #: Seconds until the caller ends the watch; 0 is never. A bookmark shortly before saves the client a list.
    ends_after: float = 0


class DeleteOptions(msgspec.Struct, frozen=True):
    grace_seconds: int | None = None
    #: Background, Foreground, Orphan or "" for the kind's default.
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


class Written(msgspec.Struct, frozen=True):
    """Result of a write: the object, and warnings."""

    body: bytes
    code: int = 200
    warnings: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True):
    """Result of a list: objects ordered by namespace and name, and the resourceVersion of the list."""

    items: tuple[bytes, ...]
    resource_version: str
    #: Empty on the last page.
    continue_token: str = ""
    #: remainingItemCount; None if unknown.
    remaining: int | None = None


class StreamEvent:
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK, and the object's bytes (with kind and version).

    Shared by all watches of a kind: its line is encoded once, and in-process clients decode it once.
    """

    __slots__ = ("_line", "body", "decoded", "type")

    def __init__(self, type_: str, body: bytes) -> None:
        self.type = type_
        self.body = body
        self._line = b""
        #: The client's frozen event, once a client of this process has received it.
        self.decoded: Any = None

    @property
    def line(self) -> bytes:
        """A line of a watch over HTTP."""
        if not self._line:
            self._line = b'{"type":"%b","object":%b}\n' % (self.type.encode(), self.body)
        return self._line

    def __repr__(self) -> str:
        return f"StreamEvent({self.type!r}, {self.body!r})"


#: Events that occurred together; flush after each batch.
Batches = AsyncGenerator[Sequence[StreamEvent], None]


class Api(Protocol):
    """The verbs, implemented by `server.api.ApiServer`."""

    async def get(self, user: User, target: Target, *, resource_version: str = "") -> bytes:
        """The current object, which is at least as new as `resource_version`."""

    async def list(self, user: User, target: Target, options: ListOptions) -> Page: ...

    async def watch(self, user: User, target: Target, options: WatchOptions) -> Batches:
        """Raises request errors before the first event; later Expired and ServiceUnavailable.

        The generator ends only with an error or when closed; timeouts are the caller's.
        """

    async def create(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written: ...

    async def update(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written: ...

    async def patch(self, user: User, target: Target, patch: Patch, options: WriteOptions) -> Written: ...

    async def apply(self, user: User, target: Target, body: SentBody, options: WriteOptions, *, force: bool) -> Written:
        """Server-side apply; `force` takes ownership of conflicting fields."""

    async def delete(self, user: User, target: Target, options: DeleteOptions) -> Written: ...

    async def delete_collection(
        self, user: User, target: Target, selection: ListOptions, options: DeleteOptions
    ) -> Page: ...

    async def bind(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written:
        """`pods/{name}/binding`: set the pod's node, once."""

    async def evict(self, user: User, target: Target, body: SentBody, options: WriteOptions) -> Written:
        """`pods/{name}/eviction`: delete a pod gracefully, marked as disrupted."""


STATUS_VERBS: Final = ("get", "patch", "update")


def subresources(kind: Kind[ApiObject]) -> dict[str, tuple[str, ...]]:
    """Verbs by subresource, `status` first."""
    status = {"status": STATUS_VERBS} if kind.has_status else {}
    return status | dict(kind.subresources)


def require_endpoint(target: Target, verb: str) -> None:
    """Raises NotFound for an unknown subresource, MethodNotAllowed for a verb it does not have."""
    if not target.subresource:
        return
    allowed = subresources(target.kind).get(target.subresource)
    if allowed is None:
        raise no_such_resource()
    if verb not in allowed:
        raise method_not_allowed()
