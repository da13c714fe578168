"""The `Client` protocol with its watch events, and the bodies of Binding, Eviction and DeleteOptions.

Two implementations pass one conformance suite: `client.http.HttpClient` and `cluster.local_client.LocalClient`. After
`Unreachable` a write may or may not have taken effect; callers must be correct in both cases.
"""

import enum
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from mooring.api.kinds import Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject


def binding_body(pod: str, *, namespace: str, uid: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def eviction_body(pod: str, *, namespace: str, uid: str, grace_seconds: int | None) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
        "deleteOptions": delete_options_body(uid=uid, grace_seconds=grace_seconds),
    }


def delete_options_body(
    *, uid: str = "", resource_version: str = "", grace_seconds: int | None = None, propagation: str = ""
) -> dict[str, Any]:
    """DeleteOptions without the fields that are empty."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if stated := {field: value for field, value in preconditions.items() if value}:
        options["preconditions"] = stated
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation:
        options["propagationPolicy"] = propagation
    return options


V = TypeVar("V", bound=ApiObject)


class Unreachable(Exception):
    """No response. Whether a write took effect is unknown."""


class ReportInternalError(Protocol):
    """Called with an exception that is neither an ApiError nor Unreachable, after it was logged; must not raise. `name`
    is the loop, queue or informer that raised it; `about` is the object being handled, where known."""

    def __call__(
        self, name: str, error: Exception, about: ApiObject | None = None, kind: Kind[Any] | None = None
    ) -> None: ...


def unreported(name: str, error: Exception, about: ApiObject | None = None, kind: Kind[Any] | None = None) -> None:
    """For processes without metrics and events."""


class ObjectList(msgspec.Struct, Generic[V], frozen=True):
    """A consistent list and its resourceVersion, from which a watch continues."""

    items: tuple[V, ...]
    resource_version: str


class WatchEventType(enum.Enum):
    """What a watch event tells."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    #: Only the resourceVersion advanced. `WatchEvent.initial_end` marks the end of a streamed list.
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, Generic[V], frozen=True):
    """One change; `object` is the state after it, of a deletion the last state."""

    change: WatchEventType
    object: V
    initial_end: bool = False


class Deletion(TypedDict, total=False):
    """DeleteOptions; `uid` and `resource_version` are preconditions."""

    uid: str
    resource_version: str
    #: None for the grace period of the object.
    grace_seconds: int | None
    #: Background, Foreground or Orphan; "" is the kind's default.
    propagation: str


class Client(Protocol):
    """One server, one identity. Safe to use from many tasks of one event loop."""

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V: ...

    async def list(
        self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> ObjectList[V]: ...

    def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        """Changes after a resourceVersion, until the server or the caller ends the stream.

        `after=None` streams the list first: ADDED for every object, then a BOOKMARK with `initial_end`.
        Raises Expired when the version is too old, Unreachable when the connection breaks. Use it under
        `contextlib.aclosing`.
        """

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V: ...

    async def update(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "", subresource: str = "") -> V:
        """Replace the whole object, conditional on its `metadata.resourceVersion`. Prefer `patch`."""

    async def patch(
        self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = ""
    ) -> V: ...

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        """Request deletion. Finalizers may delay it."""

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        """Bind the pod to a node. Conflict if it is bound, gated or replaced by a pod with another uid."""

    async def evict(self, pod: str, *, namespace: str, uid: str = "", grace_seconds: int | None = None) -> None:
        """Request an eviction. TooManyRequests if a PodDisruptionBudget forbids it now, Conflict if the uid differs.
        Without `grace_seconds` the grace period of the pod's spec applies."""

    async def close(self) -> None: ...
