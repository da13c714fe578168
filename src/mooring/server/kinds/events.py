"""Events of `v1` and of `events.k8s.io/v1`.

`v1` accepts almost any event in the namespace of its object; `events.k8s.io/v1` requires all fields and allows only the
series to change. kube-apiserver's messages name the fields of `v1` in both cases.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, required
from mooring.api.kinds import EVENT, NEW_EVENT, Kind
from mooring.api.names import check_path_segment, check_qualified_name
from mooring.api.schema.types import type_named
from mooring.api.times import UNKNOWN
from mooring.server.encoding import meta, part, to_core_event, to_stored_event
from mooring.server.kinds.columns import Column, Json, Printer, number, number_at, object_at, since, text, text_at
from mooring.server.kinds.field_checks import immutable, present, violations
from mooring.server.kinds.rules import KindRules
from mooring.server.selection import selectable


def _times(event: Json, now: float) -> Json:
    first = since(text_at(event, "firstTimestamp") or text_at(event, "eventTime"), now)
    last, count = since(text_at(event, "lastTimestamp"), now), number_at(event, "count") or 1
    if last == UNKNOWN:
        last = first
    if series := object_at(event, "series"):
        last, count = since(text_at(series, "lastObservedTime"), now), number_at(series, "count")
    return {"firstSeen": first, "lastSeen": last, "count": count}


def _times_of_new(event: Json, now: float) -> Json:
    core = to_core_event(event)
    return {**core, **_times(core, now)}


def _involved(event: Json) -> str:
    reference = object_at(event, "involvedObject")
    kind = text_at(reference, "kind").lower()
    return f"{kind}/{text_at(reference, 'name')}" if text_at(reference, "name") else kind


def _source(event: Json) -> str:
    component = text_at(event, "source", "component") or text_at(event, "reportingComponent")
    instance = text_at(event, "source", "host") or text_at(event, "reportingInstance")
    return f"{component}, {instance}" if instance else component


_EVENTS: Final = Printer(
    (
        Column("Last Seen", "Time since the last occurrence.", text("lastSeen")),
        Column("Type", "Normal or Warning.", text("type")),
        Column("Reason", "Reason of the event.", text("reason")),
        Column("Object", "Object of the event.", _involved),
        Column("Subobject", "Field path in the object.", text("involvedObject", "fieldPath"), wide=True),
        Column("Source", "Reporting component.", _source, wide=True),
        Column("Message", "Message of the event.", lambda event: text_at(event, "message").strip()),
        Column("First Seen", "Time since the first occurrence.", text("firstSeen"), wide=True),
        Column("Count", "Number of occurrences.", number("count"), wide=True),
        Column("Name", "Name of the event.", text("metadata", "name"), format="name", wide=True),
    ),
    derive=_times,
)

_NEW_EVENTS: Final = replace(_EVENTS, derive=_times_of_new)

#: kube-apiserver's bounds, in bytes.
_MAX_BYTES: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_TYPES: Final = ("Normal", "Warning")
_ELSEWHERE: Final = "does not match event.namespace"
#: Fields of `v1` that `events.k8s.io/v1` deprecates.
_DEPRECATED: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
#: Fields of an Event that are checked apart, or may change.
_NOT_FIXED: Final = ("apiVersion", "kind", "metadata", "series")


def validate_new_event(obj: Body) -> Iterator[Cause]:
    event = to_core_event(obj)
    yield from _event(event, "reportingController")
    yield from _series(event)
    yield from present(event, "", "eventTime")
    if event.get("type") not in _TYPES:
        yield bad_value("type", "", f"has invalid value: {event.get('type', '')}")
    for field in _DEPRECATED:
        if event.get(field):
            yield bad_value(field, "", "needs to be unset")


def validate_new_event_update(new: Body, old: Body) -> Iterator[Cause]:
    now, was = to_stored_event(new), to_stored_event(old)
    yield from _event(now, "reportingController")
    if now.get("series") != was.get("series"):
        yield from _series(now)
    for field in type_named("core/v1.Event").by_name:
        if field not in _NOT_FIXED:
            shown = "reportingController" if field == "reportingComponent" else field
            yield from immutable(now.get(field) or None, was.get(field) or None, shown)


def _event(event: Body, controller: str) -> Iterator[Cause]:
    """An event is in the namespace of its object, or in `default` for cluster-scoped objects."""
    about, namespace = part(event, "involvedObject").get("namespace", ""), meta(event).get("namespace", "")
    if not event.get("eventTime"):
        if namespace != (about or "default"):
            yield bad_value("involvedObject.namespace", about, _ELSEWHERE)
        return
    if not about and namespace not in ("default", "kube-system"):
        yield bad_value("involvedObject.namespace", about, _ELSEWHERE)
    reporter = event.get("reportingComponent", "")
    if not reporter:
        yield required(controller)
    yield from violations(check_qualified_name, reporter, controller)
    for field, longest in _MAX_BYTES.items():
        text = event.get(field, "")
        if not text and field != "message":
            yield required(field)
        if len(text.encode()) > longest:
            yield bad_value(field, "", f"can have at most {longest} characters")


def _series(event: Body) -> Iterator[Cause]:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield bad_value("series.count", "", "should be at least 2")
    yield from present(series, "series", "lastObservedTime")


#: Fields of the reference to the object an event is about.
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE: Final = selectable(
    {
        **{f"involvedObject.{field}": str for field in _REFERENCE},
        "reason": str,
        "reportingComponent": str,
        "source": dict[str, str],
        "type": str,
    },
    {"source": lambda event: event.source.get("component") or event.reportingComponent},
)


def _new_name(field: str) -> str:
    return field.replace("involvedObject", "regarding").replace("reportingComponent", "reportingController")


RULES: Final[Mapping[Kind[Any], KindRules]] = {
    EVENT: KindRules(
        check_name=check_path_segment,
        create=lambda obj: _event(obj, "reportingComponent"),
        printer=_EVENTS,
        selectable=_SELECTABLE,
    ),
    NEW_EVENT: KindRules(
        create=validate_new_event,
        update=validate_new_event_update,
        printer=_NEW_EVENTS,
        selectable=replace(
            _SELECTABLE,
            readers={_new_name(field): read for field, read in _SELECTABLE.readers.items() if field != "source"},
        ),
    ),
}
