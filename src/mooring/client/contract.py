"""The `Client`: typed views out, plain bodies and patches in, ApiErrors when the server says no.

Two implementations pass one conformance suite: `client.http.HttpClient` and `cluster.local_client.LocalClient`.
A broken connection or an answer that never came is `Unreachable`: the write may or may not have happened, and
callers must be right in both cases.
"""

import enum
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from mooring.api.kinds import Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject

V = TypeVar("V", bound=ApiObject)


class Unreachable(Exception):
    """No answer. Whether a write took effect is unknown."""


class Listing(msgspec.Struct, Generic[V], frozen=True):
    """A consistent list and the version it was taken at, from which a watch continues."""

    items: tuple[V, ...]
    resource_version: str


class Change(enum.Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    #: Only the version moved on. `WatchEvent.initial_end` marks the end of a streamed list.
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[V], frozen=True):
    change: Change
    object: V
    initial_end: bool = False


class Deletion(TypedDict, total=False):
    """How to delete: what must still hold, how much time a pod gets, and what becomes of dependents."""

    uid: str
    resource_version: str
    #: None leaves it to the object.
    grace_seconds: int | None
    #: Background, Foreground or Orphan; "" is the kind's default.
    propagation: str


class Client(Protocol):
    """One server, one identity. Safe to use from many tasks of one event loop."""

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V: ...

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]: ...

    def watch(
        self,
        kind: Kind[V],
        *,
        after: str | None,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent[V], None]:
        """Changes after a version, until the server or the caller ends the stream.

        `after=None` streams the list first: ADDED for every object, then a BOOKMARK with `initial_end`.
        Raises Expired when the version is too old, Unreachable when the connection breaks. Use it under
        `contextlib.aclosing`.
        """
        ...

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V: ...

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        """Replace the whole object, as its `metadata.resourceVersion` says. Prefer `patch`."""
        ...

    async def patch(
        self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = ""
    ) -> V: ...

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        """Ask for deletion; `uid` and `resource_version` are preconditions. Finalizers may delay it."""
        ...

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        """Give the pod its node. Conflict if it has one, if it is gating, or if it is another pod by now."""
        ...

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        """Ask for the pod to go, gently. TooManyRequests if a disruption budget forbids it right now, Conflict if it
        is another pod than `uid`; without `grace_seconds` it has as long as its own spec says."""
        ...

    async def close(self) -> None: ...
