"""Decodes responses of an API server into views, watch events, errors and missing permissions. Pure.

A malformed body is `Unreachable`, and so is JSON that is not the requested object, such as the `{}` of a proxy:
controllers would act on its absent fields. A 404 means that the object is deleted only if it names that object;
otherwise it is about the path (proxy, starting server, kind not served) and becomes `PathNotFound`, so that nothing is
released or deleted because of it.
"""

import re
from collections.abc import Iterator
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from mooring.api import well_known
from mooring.api.errors import ApiError, Forbidden, NotFound, PathNotFound, Status, from_status
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import ObjectList, Unreachable, WatchEvent, WatchEventType

V = TypeVar("V", bound=ApiObject)


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_LIST: Final = msgspec.json.Decoder(_List)
_LINE: Final = msgspec.json.Decoder(_Line)


def object_of(kind: Kind[V], raw: bytes, *, name: str, request: str) -> V:
    """The object of a successful response; `name` is the requested one, "" if the server chooses it."""
    try:
        item = kind.decode(raw)
    except msgspec.DecodeError as error:
        raise unreadable(request, error) from error
    if name and not (item.name and item.metadata.resource_version):
        raise unreadable(request, f'expected {kind.kind} "{name}" with a name and a resourceVersion')
    return item


class ListAnswer(Generic[V]):
    """The body of a list, decoded item by item, so that the caller can yield in between."""

    def __init__(self, kind: Kind[V], raw: bytes, *, request: str) -> None:
        self._kind = kind
        self._request = request
        self._items: list[V] = []
        try:
            self._listed = _LIST.decode(raw)
        except msgspec.DecodeError as error:
            raise unreadable(request, error) from error

    def steps(self) -> Iterator[None]:
        """Decode one item per iteration."""
        for raw in self._listed.items or ():
            try:
                item = self._kind.decode(raw)
            except msgspec.DecodeError as error:
                raise unreadable(self._request, error) from error
            if not item.name:
                raise unreadable(self._request, "an item has no name")
            self._items.append(item)
            yield

    def listing(self) -> ObjectList[V]:
        """The decoded list."""
        version = self._listed.metadata.resource_version
        if not version:
            raise unreadable(self._request, "the list has no resourceVersion")
        return ObjectList(tuple(self._items), version)


def event_of(kind: Kind[V], line: bytes) -> WatchEvent[V]:
    """Decode one line of a watch; an ERROR event is raised as its ApiError."""
    request = f"WATCH {kind.plural}"
    try:
        event = _LINE.decode(line)
        if event.type == "ERROR":
            raise from_status(bytes(event.object), msgspec.json.decode(event.object, type=Status).code or 500)
        change = WatchEventType(event.type)
        item = kind.decode_bookmark(event.object) if change is WatchEventType.BOOKMARK else kind.decode(event.object)
    except (msgspec.DecodeError, ValueError) as error:
        raise unreadable(request, error) from error
    if not item.metadata.resource_version or not (item.name or change is WatchEventType.BOOKMARK):
        raise unreadable(request, "an event has no resourceVersion, or no object name")
    ended = change is WatchEventType.BOOKMARK and item.metadata.annotations.get(well_known.INITIAL_EVENTS_END) == "true"
    return WatchEvent(change, item, initial_end=ended)


def object_error(error: ApiError, name: str) -> ApiError:
    """The error, or PathNotFound for a 404 that does not name the object."""
    if isinstance(error, NotFound) and (error.details is None or error.details.name != name):
        return PathNotFound(f'{error.message or "404"} (about the path, not about "{name}")', details=error.details)
    return error


def unreadable(request: str, problem: object) -> Unreachable:
    return Unreachable(f"malformed response: {problem} ({request})")


_REFUSAL: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)" '
    r'(?:at the cluster scope|in the namespace "(?P<namespace>[^"]+)")'
)
#: Informers need both, and are denied one of them first.
_INFORMING: Final = ("list", "watch")


class MissingPermission(NamedTuple):
    """Equal for all denials that the same RBAC rule would allow."""

    user: str
    verbs: tuple[str, ...]
    resource: str
    group: str
    #: Empty for the whole cluster.
    namespace: str = ""

    @property
    def rule(self) -> str:
        """The missing entry of a role's `rules`."""
        return f'{{apiGroups: ["{self.group}"], resources: ["{self.resource}"], verbs: [{", ".join(self.verbs)}]}}'

    @property
    def role(self) -> str:
        return f"a Role in namespace {self.namespace}" if self.namespace else "a ClusterRole"

    def __str__(self) -> str:
        return f"{self.user} lacks a permission: add the rule {self.rule} to {self.role} that is bound to it"


def missing_permission(refusal: Forbidden) -> MissingPermission | None:
    """Parse the authorizer's message; None for other denials, such as quota or admission."""
    found = _REFUSAL.search(refusal.message)
    if found is None:
        return None
    verb = found["verb"]
    verbs = _INFORMING if verb in _INFORMING else (verb,)
    return MissingPermission(found["user"], verbs, found["resource"], found["group"], found["namespace"] or "")
