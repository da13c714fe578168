"""Rules for Deployments, ReplicaSets and ReplicationControllers: so many pods of one template."""

from collections.abc import Iterator
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, unsupported
from mooring.server.body import Body, part
from mooring.server.defaulting.workload import ROLLING_UPDATE
from mooring.server.validation.pod_templates import validate_pod_template, validate_selector, validate_template
from mooring.server.validation.scalars import at_most_all, count_or_share, immutable, is_nothing, not_negative

_RECREATE: Final = "Recreate"
_MORE_THAN_ALL: Final = "cannot be greater than status.replicas"
_COUNTS: Final = ("observedGeneration", "replicas", "readyReplicas", "availableReplicas", "terminatingReplicas")


def validate_deployment(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from not_negative(spec["replicas"], "spec.replicas")
    yield from validate_selector(spec, "deployment")
    yield from validate_template(spec, "ReplicaSet")
    yield from _strategy(spec["strategy"])
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        yield from not_negative(spec.get(field, 0), f"spec.{field}")
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= spec.get("minReadySeconds", 0):
        yield bad_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def validate_deployment_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_deployment(new)
    yield from immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def validate_deployment_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    for field in ("updatedReplicas", "unavailableReplicas", "collisionCount"):
        yield from not_negative(status.get(field, 0), f"status.{field}")
    yield from _counts(status, "updatedReplicas")
    if status.get("collisionCount", 0) < part(old, "status").get("collisionCount", 0):
        yield bad_value("status.collisionCount", status.get("collisionCount", 0), "cannot be decremented")


def validate_replica_set(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from not_negative(spec["replicas"], "spec.replicas")
    yield from not_negative(spec.get("minReadySeconds", 0), "spec.minReadySeconds")
    yield from validate_selector(spec, "deployment")  # upstream's word, for both kinds
    yield from validate_template(spec, "ReplicaSet")


def validate_replica_set_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_replica_set(new)
    yield from immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def validate_replica_set_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    yield from not_negative(status.get("fullyLabeledReplicas", 0), "status.fullyLabeledReplicas")
    yield from _counts(status, "fullyLabeledReplicas")


def validate_replication_controller(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    for field in ("minReadySeconds", "replicas"):
        yield from not_negative(spec.get(field, 0), f"spec.{field}")
    selector: dict[str, str] = spec.get("selector", {})
    if not selector:
        yield required("spec.selector")
    if "template" not in spec:
        yield required("spec.template")
        return
    labels = part(spec, "template", "metadata").get("labels", {})
    if not selector.items() <= labels.items():
        yield bad_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from validate_template(spec, "ReplicationController")


def validate_replication_controller_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_replication_controller(new)


def validate_pod_template_object(obj: Body) -> Iterator[Cause]:
    yield from validate_pod_template(obj["template"], "template")


def validate_pod_template_object_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_pod_template_object(new)


def validate_revision(obj: Body) -> Iterator[Cause]:
    """ControllerRevisions: what was, which nobody may rewrite."""
    yield from not_negative(obj.get("revision", 0), "revision")
    if obj.get("data") is None:
        yield required("data", "data is mandatory")
    elif not isinstance(obj["data"], dict):
        yield required("data", "data must be a valid JSON object")


def validate_revision_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from not_negative(new.get("revision", 0), "revision")
    yield from immutable(new.get("data"), old.get("data"), "data")


def _strategy(strategy: Body) -> Iterator[Cause]:
    path = "spec.strategy"
    if strategy["type"] == ROLLING_UPDATE:
        yield from _rolling(strategy["rollingUpdate"], f"{path}.rollingUpdate")
    elif strategy["type"] != _RECREATE:
        yield unsupported(path, strategy, (_RECREATE, ROLLING_UPDATE))
    elif "rollingUpdate" in strategy:
        yield forbidden(f"{path}.rollingUpdate", f"may not be specified when strategy `type` is '{_RECREATE}'")


def _rolling(rolling: Body, path: str) -> Iterator[Cause]:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    yield from count_or_share(unavailable, f"{path}.maxUnavailable")
    yield from count_or_share(surge, f"{path}.maxSurge")
    if is_nothing(unavailable) and is_nothing(surge):
        yield bad_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_all(unavailable, f"{path}.maxUnavailable")


def _counts(status: Body, also: str) -> Iterator[Cause]:
    for field in _COUNTS:
        yield from not_negative(status.get(field, 0), f"status.{field}")
    for field in (also, "readyReplicas", "availableReplicas"):
        if status.get(field, 0) > status.get("replicas", 0):
            yield bad_value(f"status.{field}", status[field], _MORE_THAN_ALL)
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        yield bad_value("status.availableReplicas", status["availableReplicas"], "cannot be greater than readyReplicas")
