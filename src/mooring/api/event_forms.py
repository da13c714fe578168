"""Events have two forms, `v1` and `events.k8s.io/v1`, with the same content under other names.

They are kept in the first, which is the older one and the one kubectl shows. Here is the mapping, as plain renaming
of top-level fields; what both forms call alike stays as it is.
"""

from collections.abc import Mapping
from typing import Any, Final

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
    return renamed | {"apiVersion": "events.k8s.io/v1"}
