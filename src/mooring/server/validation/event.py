"""Rules for Events.

Through `v1`, almost anything goes, as long as an event is beside what it is about; through `events.k8s.io/v1` it must
be whole, and nothing but its series may change. Upstream names the fields of the first form in both cases.
"""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.event_forms import to_kept, to_old
from mooring.api.field_errors import bad_value, required
from mooring.api.object_names import check_qualified_name
from mooring.server.body import Body, meta, part
from mooring.server.validation.scalars import immutable

#: Upstream's bounds.
_LONGEST: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_TYPES: Final = ("Normal", "Warning")
_ELSEWHERE: Final = "does not match event.namespace"
#: What describes an event of the older kind, which a whole one says in other ways.
_OUTDATED: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def validate_event(obj: Body) -> Iterator[Cause]:
    yield from _event(obj, "reportingComponent")


def validate_event_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_event(new)


def validate_new_event(obj: Body) -> Iterator[Cause]:
    event = to_old(obj)
    yield from _event(event, "reportingController")
    yield from _series(event)
    if not event.get("eventTime"):
        yield required("eventTime")
    if event.get("type") not in _TYPES:
        yield bad_value("type", "", f"has invalid value: {event.get('type', '')}")
    for field in _OUTDATED:
        if event.get(field):
            yield bad_value(field, "", "needs to be unset")


def validate_new_event_update(new: Body, old: Body) -> Iterator[Cause]:
    now, was = to_kept(new), to_kept(old)
    yield from _event(now, "reportingController")
    if now.get("series") != was.get("series"):
        yield from _series(now)
    for field in _FIXED:
        shown = "reportingController" if field == "reportingComponent" else field
        yield from immutable(now.get(field) or None, was.get(field) or None, shown)


def _event(event: Body, controller: str) -> Iterator[Cause]:
    """An event lives beside what it is about; those about cluster-wide objects live in `default`."""
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
    for why in check_qualified_name(reporter):
        yield bad_value(controller, reporter, why)
    for field, longest in _LONGEST.items():
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
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")
