"""Encoding of stored objects, accessors of decoded objects (Body), conversion of the two Event forms.

    {"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"", "name":…},"spec":…}
                                                                  ^ the store's revision is inserted here

An object is encoded once, when it is written; a read inserts the revision at a known offset. Event forms are converted
at every read. The accessors rely on `decoding`: every present value has the type of its field.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from mooring.api.documents import Body
from mooring.api.kinds import NEW_EVENT, POD_GROUP_ALPHA, WORKLOAD_ALPHA, Kind
from mooring.api.times import from_time, to_micro_time
from mooring.store.contract import Record

_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}


def to_core_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """An `events.k8s.io/v1` Event as a `v1` one."""
    return {_OLD_NAMES.get(field, field): value for field, value in event.items()} | {"apiVersion": "v1"}


def to_events_v1(event: Mapping[str, Any]) -> dict[str, Any]:
    """A `v1` Event as an `events.k8s.io/v1` one."""
    renamed = {_NEW_NAMES.get(field, field): value for field, value in event.items()}
    seen = "" if event.get("eventTime") else _first_seen(event)
    return renamed | ({"eventTime": seen} if seen else {}) | {"apiVersion": "events.k8s.io/v1"}


def to_stored_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `to_events_v1`: without the `eventTime` it added."""
    old = to_core_event(event)
    if old.get("eventTime") == _first_seen(old):
        old.pop("eventTime", None)
    return old


def _first_seen(event: Mapping[str, Any]) -> str:
    """The first timestamp of a `v1` Event as `eventTime`, else "".

    Clients generated from OpenAPI require `eventTime`; kube-apiserver sends null for events without one.
    """
    moment = event.get("firstTimestamp") or event.get("lastTimestamp")
    try:
        return to_micro_time(from_time(moment)) if moment else ""
    except ValueError:
        return ""


def meta(obj: Body) -> Body:
    """`metadata`, which every decoded object has."""
    found: Body = obj["metadata"]
    return found


def part(obj: Body, *path: str) -> Body:
    """The object at a path, else a new empty one; for reading."""
    for step in path:
        obj = obj.get(step, {})
    return obj


def rows(obj: Body, *path: str) -> list[Body]:
    """The list of objects at a path, else a new empty one; for reading."""
    for step in path[:-1]:
        obj = obj.get(step, {})
    found: list[Body] = obj.get(path[-1], [])
    return found


def restore_field(field: str, new: Body, old: Body) -> None:
    """Sets the field of the new object to its value in the old one, or removes it."""
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def finalizers(obj: Body) -> list[str]:
    found: list[str] = meta(obj).get("finalizers", [])
    return found


def is_deleting(obj: Body) -> bool:
    return "deletionTimestamp" in meta(obj)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def _same_fields(obj: Body) -> Body:
    """For versions that differ in nothing but their name."""
    return obj


def _as_alpha(obj: Body) -> Body:
    return obj | {"apiVersion": POD_GROUP_ALPHA.api_version}


#: For kinds stored in another form: to that form, and back.
_CONVERSIONS: Final[Mapping[Kind[Any], tuple[Callable[[Body], Body], Callable[[Body], Body]]]] = {
    NEW_EVENT: (to_stored_event, to_events_v1),
    **dict.fromkeys((POD_GROUP_ALPHA, WORKLOAD_ALPHA), (_same_fields, _as_alpha)),
}


@cache
def opening(kind: Kind[Any]) -> bytes:
    """The bytes before the resourceVersion: the same for all objects of a kind."""
    return f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}","metadata":{{"resourceVersion":"'.encode()


def stored_form(kind: Kind[Any], obj: Body) -> bytes:
    """The bytes to store, without resourceVersion."""
    if kind.stored_as is not None:
        convert, _ = _CONVERSIONS[kind]
        return stored_form(kind.stored_as, convert(obj))
    hole = {"resourceVersion": ""}
    head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": hole | obj["metadata"] | hole}
    return _encode(head | obj | head)


def with_resource_version(kind: Kind[Any], value: bytes, revision: int) -> bytes:
    """The stored bytes with the revision as resourceVersion."""
    if kind.stored_as is not None:
        return _encode(decoded(kind, value, revision))
    before = opening(kind)
    return b"%b%d%b" % (before, revision, value[len(before) :])


def all_with_resource_version(kind: Kind[Any], records: Iterable[Record]) -> tuple[bytes, ...]:
    """`with_resource_version` for each record, at less than half the cost."""
    if kind.stored_as is not None:
        return tuple(with_resource_version(kind, record.value, record.revision) for record in records)
    before = opening(kind)
    cut = len(before)
    return tuple(b"%b%d%b" % (before, record.revision, record.value[cut:]) for record in records)


def without_resource_version(kind: Kind[Any], obj: Body) -> bytes:
    """An object that was not stored (dry run)."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return _encode(head | obj | head)


def decoded(kind: Kind[Any], value: bytes, revision: int) -> Body:
    """A stored object as a new dict, with resourceVersion."""
    obj = _decode(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    if kind.stored_as is None:
        return obj
    _, convert = _CONVERSIONS[kind]
    return convert(obj)
