"""Rules for StatefulSets."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden
from mooring.server.body import Body, part, rows
from mooring.server.defaulting.workload import ROLLING_UPDATE
from mooring.server.validation.pod_templates import validate_selector, validate_template
from mooring.server.validation.scalars import not_negative, one_of

_POLICIES: Final = ("OrderedReady", "Parallel")
_STRATEGIES: Final = (ROLLING_UPDATE, "OnDelete")
_RETENTION: Final = ("Delete", "Retain")
_MUTABLE: Final = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)
_IMMUTABLE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_COUNTS: Final = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def validate_stateful_set(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from _choice(spec["podManagementPolicy"], _POLICIES, "spec.podManagementPolicy")
    yield from _update_strategy(spec["updateStrategy"])
    for field in ("whenDeleted", "whenScaled"):
        path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
        yield from one_of(spec["persistentVolumeClaimRetentionPolicy"][field], _RETENTION, path)
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        yield from not_negative(spec.get(field, 0), f"spec.{field}")
    yield from not_negative(part(spec, "ordinals").get("start", 0), "spec.ordinals.start")
    yield from validate_selector(spec, "statefulset")
    # Containers may mount what the claim templates will provide.
    claims = [part(template, "metadata").get("name", "") for template in rows(spec, "volumeClaimTemplates")]
    yield from validate_template(spec, "StatefulSet", more_volumes=claims)


def validate_stateful_set_update(new: Body, old: Body) -> Iterator[Cause]:
    now, was = new["spec"], old["spec"]
    if now == was:
        return
    yield from validate_stateful_set(new)
    if _fixed(now) != _fixed(was):
        yield forbidden("spec", _IMMUTABLE)


def validate_stateful_set_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    for field in _COUNTS:
        yield from not_negative(status.get(field, 0), f"status.{field}")
    for field in _COUNTS[1:]:
        if status.get(field, 0) > status.get("replicas", 0):
            yield bad_value(f"status.{field}", status[field], "cannot be greater than status.replicas")


def _fixed(spec: Body) -> Body:
    return {field: value for field, value in spec.items() if field not in _MUTABLE}


def _choice(value: str, choices: tuple[str, str], path: str) -> Iterator[Cause]:
    if value not in choices:
        yield bad_value(path, value, f"must be '{choices[0]}' or '{choices[1]}'")


def _update_strategy(strategy: Body) -> Iterator[Cause]:
    path = "spec.updateStrategy"
    yield from _choice(strategy["type"], _STRATEGIES, path)
    if "rollingUpdate" in strategy and strategy["type"] == "OnDelete":
        yield bad_value(f"{path}.rollingUpdate", "", f"only allowed for updateStrategy '{ROLLING_UPDATE}'")
    partition = part(strategy, "rollingUpdate").get("partition", 0)
    yield from not_negative(partition, f"{path}.rollingUpdate.partition")
