"""Events have two forms, `v1` and `events.k8s.io/v1`, with the same content under other names.

They are kept in the first, which is the older one and the one kubectl shows. Here is the mapping, as plain renaming
of top-level fields; what both forms call alike stays as it is.

Clients generated from OpenAPI require `eventTime` in the new form, where kube-apiserver sends null for events that
were written in the old form without one. Such events are shown with the moment they were first seen.
"""

from collections.abc import Mapping
from typing import Any, Final

from mooring.api.timestamps import from_time, to_micro_time

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


def to_old(event: Mapping[str, Any]) -> dict[str, Any]:
    """An `events.k8s.io/v1` Event as a `v1` one."""
    return {_OLD_NAMES.get(field, field): value for field, value in event.items()} | {"apiVersion": "v1"}


def to_new(event: Mapping[str, Any]) -> dict[str, Any]:
    """A `v1` Event as an `events.k8s.io/v1` one."""
    renamed = {_NEW_NAMES.get(field, field): value for field, value in event.items()}
    seen = "" if event.get("eventTime") else _first_seen(event)
    return renamed | ({"eventTime": seen} if seen else {}) | {"apiVersion": "events.k8s.io/v1"}


def to_kept(event: Mapping[str, Any]) -> dict[str, Any]:
    """What `to_new` was given: without the moment that it showed as `eventTime`."""
    old = to_old(event)
    if old.get("eventTime") == _first_seen(old):
        old.pop("eventTime", None)
    return old


def _first_seen(event: Mapping[str, Any]) -> str:
    """When a `v1` Event was first seen, as `eventTime` spells it; "" where it does not say."""
    moment = event.get("firstTimestamp") or event.get("lastTimestamp")
    try:
        return to_micro_time(from_time(moment)) if moment else ""
    except ValueError:
        return ""
