"""Answers of an API server: from bytes to views, watch events and errors. Pure.

A body that cannot be read says as little as no body: `Unreachable`. The same holds for JSON that is not the object
that was asked for, such as the `{}` or the error page of a proxy: a view of it would be an object without a name, and
a controller would act on its absent fields. A 404 counts as "the object is gone" only if it names that object;
otherwise it is about the path (a proxy, a server that is starting, a kind that is not served), and nothing may be
released or deleted because of it: `PathNotFound`.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

import msgspec

from mooring.api import keys
from mooring.api.errors import ApiError, NotFound, PathNotFound, Status, from_status
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Change, Listing, Unreachable, WatchEvent

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
    """The object of a successful answer; `name` is the one asked for, "" where the server chooses or there is none."""
    try:
        item = kind.decode(raw)
    except msgspec.DecodeError as error:
        raise unreadable(request, error) from error
    if name and not (item.name and item.metadata.resource_version):
        raise unreadable(request, f'it is not {kind.kind} "{name}": it has no name, or no version')
    return item


class ListAnswer(Generic[V]):
    """The body of a list, read item by item: long lists are read between other work."""

    def __init__(self, kind: Kind[V], raw: bytes, *, request: str) -> None:
        self._kind = kind
        self._request = request
        self._items: list[V] = []
        try:
            self._listed = _LIST.decode(raw)
        except msgspec.DecodeError as error:
            raise unreadable(request, error) from error

    def steps(self) -> Iterator[None]:
        """Read one item after the other."""
        for raw in self._listed.items or ():
            try:
                item = self._kind.decode(raw)
            except msgspec.DecodeError as error:
                raise unreadable(self._request, error) from error
            if not item.name:
                raise unreadable(self._request, "an item has no name")
            self._items.append(item)
            yield

    def listing(self) -> Listing[V]:
        """What was read."""
        version = self._listed.metadata.resource_version
        if not version:
            raise unreadable(self._request, "it has no version")
        return Listing(tuple(self._items), version)


def listing_of(kind: Kind[V], raw: bytes, *, request: str) -> Listing[V]:
    """The whole list at once."""
    answer = ListAnswer(kind, raw, request=request)
    for _ in answer.steps():
        pass
    return answer.listing()


def event_of(kind: Kind[V], line: bytes) -> WatchEvent[V]:
    """One line of a watch. An ERROR event is raised as the error it stands for."""
    request = f"WATCH {kind.plural}"
    try:
        event = _LINE.decode(line)
        if event.type == "ERROR":
            raise from_status(bytes(event.object), msgspec.json.decode(event.object, type=Status).code or 500)
        change = Change(event.type)
        item = kind.decode_bookmark(event.object) if change is Change.BOOKMARK else kind.decode(event.object)
    except (msgspec.DecodeError, ValueError) as error:
        raise unreadable(request, error) from error
    if not item.metadata.resource_version or not (item.name or change is Change.BOOKMARK):
        raise unreadable(request, "an event has no version, or an object without a name")
    ended = change is Change.BOOKMARK and item.metadata.annotations.get(keys.INITIAL_EVENTS_END) == "true"
    return WatchEvent(change, item, initial_end=ended)


def about_object(error: ApiError, name: str) -> ApiError:
    """What a refused request for a named object means: a 404 that does not name the object is about the path."""
    if isinstance(error, NotFound) and (error.details is None or error.details.name != name):
        return PathNotFound(f'{error.message or "404"} (about the path, not about "{name}")', details=error.details)
    return error


def unreadable(request: str, problem: object) -> Unreachable:
    return Unreachable(f"the answer cannot be read: {problem} ({request})")
