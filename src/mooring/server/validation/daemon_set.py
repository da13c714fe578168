"""Rules for DaemonSets."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, required, unsupported
from mooring.server.body import Body, part
from mooring.server.defaulting.workload import ROLLING_UPDATE
from mooring.server.validation.pod_templates import validate_selector, validate_template
from mooring.server.validation.scalars import at_most_all, count_or_share, immutable, is_nothing, not_negative

_ON_DELETE: Final = "OnDelete"
_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def validate_daemon_set(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from validate_selector(spec, "daemonset", may_lack=True)
    yield from validate_template(spec, "DaemonSet")
    yield from not_negative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    yield from _strategy(spec["updateStrategy"])
    yield from not_negative(spec["revisionHistoryLimit"], "spec.revisionHistoryLimit")


def validate_daemon_set_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")
    yield from validate_daemon_set(new)


def validate_daemon_set_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    for field in _COUNTS:
        yield from not_negative(status.get(field, 0), f"status.{field}")
    if status.get("collisionCount", 0) < part(old, "status").get("collisionCount", 0):
        yield bad_value("status.collisionCount", status.get("collisionCount", 0), "cannot be decremented")


def _strategy(strategy: Body) -> Iterator[Cause]:
    if strategy["type"] == ROLLING_UPDATE:
        yield from _rolling(strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate")
    elif strategy["type"] != _ON_DELETE:
        yield unsupported("spec.updateStrategy", strategy, (ROLLING_UPDATE, _ON_DELETE))


def _rolling(rolling: Body, path: str) -> Iterator[Cause]:
    """Either the old pod goes first or the new one comes first."""
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    for check in (count_or_share, at_most_all):
        yield from check(unavailable, f"{path}.maxUnavailable")
        yield from check(surge, f"{path}.maxSurge")
    if is_nothing(unavailable) and is_nothing(surge):
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif not is_nothing(unavailable) and not is_nothing(surge):
        yield bad_value(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
