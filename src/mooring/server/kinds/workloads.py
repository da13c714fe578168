"""Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet and ControllerRevision."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from mooring.api import kinds
from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, forbidden, required, unsupported
from mooring.api.kinds import Kind
from mooring.api.names import check_dns1123_label
from mooring.server.encoding import meta, part, rows
from mooring.server.kinds import columns, field_checks, pod_templates
from mooring.server.kinds.claims import default_claim_template
from mooring.server.kinds.columns import AGE, NAME, NONE, Column, Json, labels, number, number_at, table, text_at
from mooring.server.kinds.field_checks import at_most_all, count_or_share, immutable_fields, is_nothing, none_negative
from mooring.server.kinds.pod_templates import selector_column, selector_text, validate_selector, validate_template
from mooring.server.kinds.pods import default_template
from mooring.server.kinds.rules import KindRules, spec_changed
from mooring.server.selection import selectable

ROLLING_UPDATE: Final = "RollingUpdate"
#: Old revisions kept for `kubectl rollout undo`.
_HISTORY_LIMIT: Final = 10
#: maxUnavailable and maxSurge of a Deployment.
_ROLLING_SHARE: Final = "25%"
_PROGRESS_DEADLINE_SECONDS: Final = 600


def default_stateful_set(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", _HISTORY_LIMIT)
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == ROLLING_UPDATE and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
        strategy["rollingUpdate"].setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    default_template(spec.setdefault("template", {}))
    for template in rows(spec, "volumeClaimTemplates"):
        default_claim_template(template)


def default_replica_set(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    default_template(spec.setdefault("template", {}))


def default_deployment(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", _HISTORY_LIMIT)
    spec.setdefault("progressDeadlineSeconds", _PROGRESS_DEADLINE_SECONDS)
    _default_rolling(spec.setdefault("strategy", {}), unavailable=_ROLLING_SHARE, surge=_ROLLING_SHARE)
    default_template(spec.setdefault("template", {}))


def default_daemon_set(obj: Body) -> None:
    spec = obj["spec"]
    spec.setdefault("revisionHistoryLimit", _HISTORY_LIMIT)
    _default_rolling(spec.setdefault("updateStrategy", {}), unavailable=1, surge=0)
    default_template(spec.setdefault("template", {}))


def default_replication_controller(obj: Body) -> None:
    """The default of its selector and labels are the labels of the template."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    if labels := part(spec, "template", "metadata").get("labels"):
        spec.setdefault("selector", labels)
        meta(obj).setdefault("labels", labels)
    if "template" in spec:
        default_template(spec["template"])


def _default_rolling(strategy: Body, *, unavailable: int | str, surge: int | str) -> None:
    strategy.setdefault("type", ROLLING_UPDATE)
    if strategy["type"] == ROLLING_UPDATE:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", unavailable)
        rolling.setdefault("maxSurge", surge)


_WORKLOAD_PODS: Final = pod_templates.pod_columns("spec", "template")


def _count(name: str, description: str, *path: str, default: int = 0, type_: str = "integer") -> Column:
    return Column(name, description, number(*path, default=default), type=type_)


def _ready_of_desired(workload: Json) -> str:
    # The default is one replica.
    return f"{number_at(workload, 'status', 'readyReplicas')}/{number_at(workload, 'spec', 'replicas', default=1)}"


def _controller(revision: Json) -> str:
    """`statefulset.apps/web`."""
    references = columns.objects_at(revision, "metadata", "ownerReferences")
    owners = [owner for owner in references if owner.get("controller") is True]
    if not owners:
        return NONE
    group, kind = text_at(owners[0], "apiVersion").rpartition("/")[0], text_at(owners[0], "kind").lower()
    return f"{kind}.{group}/{text_at(owners[0], 'name')}" if group else f"{kind}/{text_at(owners[0], 'name')}"


_READY: Final = Column("Ready", "Ready pods, of all desired.", _ready_of_desired)
_UP_TO_DATE: Final = "Pods of the current template."
_AVAILABLE: Final = "Pods that have been ready for minReadySeconds."

_STATEFUL_SETS: Final = table(NAME, _READY, AGE, *_WORKLOAD_PODS)

_DEPLOYMENTS: Final = table(
    NAME,
    _READY,
    _count("Up-to-date", _UP_TO_DATE, "status", "updatedReplicas", type_="string"),
    _count("Available", _AVAILABLE, "status", "availableReplicas", type_="string"),
    AGE,
    *_WORKLOAD_PODS,
    selector_column(selector_text),
)

_REPLICA_SET_COLUMNS: Final = (
    NAME,
    _count("Desired", "Desired number of pods.", "spec", "replicas", default=1),
    _count("Current", "Existing pods.", "status", "replicas"),
    _count("Ready", "Ready pods.", "status", "readyReplicas"),
    AGE,
    *_WORKLOAD_PODS,
)
_REPLICA_SETS: Final = table(*_REPLICA_SET_COLUMNS, selector_column(selector_text))
_REPLICATION_CONTROLLERS: Final = table(*_REPLICA_SET_COLUMNS, selector_column(labels("spec", "selector")))

_DAEMON_SETS: Final = table(
    NAME,
    _count("Desired", "Desired number of pods.", "status", "desiredNumberScheduled"),
    _count("Current", "Existing pods.", "status", "currentNumberScheduled"),
    _count("Ready", "Ready pods.", "status", "numberReady"),
    _count("Up-to-date", _UP_TO_DATE, "status", "updatedNumberScheduled"),
    _count("Available", _AVAILABLE, "status", "numberAvailable"),
    Column("Node Selector", "Labels a node must have.", labels("spec", "template", "spec", "nodeSelector")),
    AGE,
    *_WORKLOAD_PODS,
    selector_column(selector_text),
)

_CONTROLLER_REVISIONS: Final = table(
    NAME,
    Column("Controller", "Controller of the revision.", _controller),
    _count("Revision", "Revision number.", "revision", type_="string"),
    AGE,
)

_ON_DELETE: Final = "OnDelete"
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
#: Not omitted from the status of a DaemonSet when they are zero.
_REQUIRED_COUNTS: Final = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_DAEMON_SET_COUNTS: Final = (
    *_REQUIRED_COUNTS,
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
    yield from none_negative(spec, "spec", "minReadySeconds")
    yield from _daemon_set_strategy(spec["updateStrategy"])
    yield from none_negative(spec, "spec", "revisionHistoryLimit")


def validate_daemon_set_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    yield from none_negative(status, "status", *_DAEMON_SET_COUNTS)
    yield from _collisions(status, old)


def _collisions(status: Body, old: Body) -> Iterator[Cause]:
    if status.get("collisionCount", 0) < part(old, "status").get("collisionCount", 0):
        yield bad_value("status.collisionCount", status.get("collisionCount", 0), "cannot be decremented")


def _daemon_set_strategy(strategy: Body) -> Iterator[Cause]:
    if strategy["type"] == ROLLING_UPDATE:
        yield from _daemon_set_rolling_update(strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate")
    elif strategy["type"] != _ON_DELETE:
        yield unsupported("spec.updateStrategy", strategy, (ROLLING_UPDATE, _ON_DELETE))


def _daemon_set_rolling_update(rolling: Body, path: str) -> Iterator[Cause]:
    """Exactly one of maxUnavailable and maxSurge is not zero."""
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    for check in (count_or_share, at_most_all):
        yield from check(unavailable, f"{path}.maxUnavailable")
        yield from check(surge, f"{path}.maxSurge")
    if is_nothing(unavailable) and is_nothing(surge):
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif not is_nothing(unavailable) and not is_nothing(surge):
        yield bad_value(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")


_RECREATE: Final = "Recreate"
_REPLICA_COUNTS: Final = ("observedGeneration", "replicas", "readyReplicas", "availableReplicas", "terminatingReplicas")


def validate_deployment(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from none_negative(spec, "spec", "replicas")
    yield from validate_selector(spec, "deployment")
    yield from validate_template(spec, "ReplicaSet")
    yield from _strategy(spec["strategy"])
    yield from none_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= spec.get("minReadySeconds", 0):
        yield bad_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def validate_deployment_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    yield from none_negative(status, "status", "updatedReplicas", "unavailableReplicas", "collisionCount")
    yield from _validate_counts(status, "updatedReplicas")
    yield from _collisions(status, old)


def validate_replica_set(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from none_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from validate_selector(spec, "deployment")  # kube-apiserver's text for both kinds
    yield from validate_template(spec, "ReplicaSet")


def validate_replica_set_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    yield from none_negative(status, "status", "fullyLabeledReplicas")
    yield from _validate_counts(status, "fullyLabeledReplicas")


def validate_replication_controller(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from none_negative(spec, "spec", "minReadySeconds", "replicas")
    selector: dict[str, str] = spec.get("selector", {})
    if not selector:
        yield required("spec.selector")
    if "template" not in spec:
        yield required("spec.template")
        return
    labels = part(spec, "template", "metadata").get("labels", {})
    if not selector.items() <= labels.items():
        yield bad_value("spec.template.metadata.labels", labels, pod_templates.NO_MATCH)
    yield from validate_template(spec, "ReplicationController")


def validate_revision(obj: Body) -> Iterator[Cause]:
    yield from field_checks.not_negative(obj.get("revision", 0), "revision")
    if obj.get("data") is None:
        yield required("data", "data is mandatory")
    elif not isinstance(obj["data"], dict):
        yield required("data", "data must be a valid JSON object")


def validate_revision_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from field_checks.not_negative(new.get("revision", 0), "revision")
    yield from immutable_fields(new, old, "data")


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


def _validate_counts(status: Body, also: str) -> Iterator[Cause]:
    yield from none_negative(status, "status", *_REPLICA_COUNTS)
    yield from _at_most_replicas(status, also, "readyReplicas", "availableReplicas")
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        yield bad_value("status.availableReplicas", status["availableReplicas"], "cannot be greater than readyReplicas")


def _at_most_replicas(status: Body, *fields: str) -> Iterator[Cause]:
    for field in fields:
        if status.get(field, 0) > status.get("replicas", 0):
            yield bad_value(f"status.{field}", status[field], "cannot be greater than status.replicas")


_POLICIES: Final = ("OrderedReady", "Parallel")
_STRATEGIES: Final = (ROLLING_UPDATE, "OnDelete")
_FIXED: Final = ("spec.selector", "spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy")
_STATEFUL_SET_COUNTS: Final = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")


def validate_stateful_set(obj: Body) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from _choice(spec["podManagementPolicy"], _POLICIES, "spec.podManagementPolicy")
    yield from _update_strategy(spec["updateStrategy"])
    retention = spec["persistentVolumeClaimRetentionPolicy"]
    for field in ("whenDeleted", "whenScaled"):
        yield from field_checks.one_of(
            retention, "spec.persistentVolumeClaimRetentionPolicy", field, "Delete", "Retain"
        )
    yield from none_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    yield from none_negative(part(spec, "ordinals"), "spec.ordinals", "start")
    yield from validate_selector(spec, "statefulset")
    # Containers may mount what the claim templates will provide.
    claims = [part(template, "metadata").get("name", "") for template in rows(spec, "volumeClaimTemplates")]
    yield from validate_template(spec, "StatefulSet", more_volumes=claims)


def validate_stateful_set_update(new: Body, old: Body) -> Iterator[Cause]:
    now, was = new["spec"], old["spec"]
    if now == was:
        return
    yield from validate_stateful_set(new)
    yield from immutable_fields(new, old, *_FIXED)


def validate_stateful_set_status(new: Body, old: Body) -> Iterator[Cause]:
    status = part(new, "status")
    yield from none_negative(status, "status", *_STATEFUL_SET_COUNTS)
    yield from _at_most_replicas(status, *_STATEFUL_SET_COUNTS[1:])


def _choice(value: str, choices: tuple[str, str], path: str) -> Iterator[Cause]:
    if value not in choices:
        yield bad_value(path, value, f"must be '{choices[0]}' or '{choices[1]}'")


def _update_strategy(strategy: Body) -> Iterator[Cause]:
    path = "spec.updateStrategy"
    yield from _choice(strategy["type"], _STRATEGIES, path)
    if "rollingUpdate" in strategy and strategy["type"] == "OnDelete":
        yield bad_value(f"{path}.rollingUpdate", "", f"only allowed for updateStrategy '{ROLLING_UPDATE}'")
    yield from none_negative(part(strategy, "rollingUpdate"), f"{path}.rollingUpdate", "partition")


def _count_template(new: Body, old: Body | None, now: str) -> None:
    """Counts template changes of a DaemonSet in an annotation that clients cannot set."""
    was = 0 if old is None else int(part(meta(old), "annotations").get(_TEMPLATE_GENERATION, 0))
    changed = old is None or new["spec"].get("template") != old["spec"].get("template")
    annotations = meta(new).setdefault("annotations", {})
    annotations[_TEMPLATE_GENERATION] = str(max(was + 1 if changed else was, 1))


def _new_deployment_generation(new: Body, old: Body) -> bool:
    """Upstream's exception: annotations of a Deployment are copied to its ReplicaSets."""
    return spec_changed(new, old) or meta(new).get("annotations") != meta(old).get("annotations")


RULES: Final[Mapping[Kind[Any], KindRules]] = {
    kinds.DEPLOYMENT: KindRules(
        defaults=default_deployment,
        create=validate_deployment,
        immutable=("spec.selector",),
        update_status=validate_deployment_status,
        new_generation=_new_deployment_generation,
        printer=_DEPLOYMENTS,
    ),
    kinds.REPLICA_SET: KindRules(
        defaults=default_replica_set,
        create=validate_replica_set,
        immutable=("spec.selector",),
        update_status=validate_replica_set_status,
        initial_status=lambda obj, now: {"replicas": 0},
        printer=_REPLICA_SETS,
    ),
    kinds.REPLICATION_CONTROLLER: KindRules(
        defaults=default_replication_controller,
        create=validate_replication_controller,
        update_status=validate_replica_set_status,
        initial_status=lambda obj, now: {"replicas": 0},
        printer=_REPLICATION_CONTROLLERS,
        selectable=selectable({"status.replicas": int}),
    ),
    kinds.STATEFUL_SET: KindRules(
        defaults=default_stateful_set,
        check_name=check_dns1123_label,
        create=validate_stateful_set,
        update=validate_stateful_set_update,
        update_status=validate_stateful_set_status,
        initial_status=lambda obj, now: {"replicas": 0, "availableReplicas": 0},
        printer=_STATEFUL_SETS,
    ),
    kinds.DAEMON_SET: KindRules(
        defaults=default_daemon_set,
        create=validate_daemon_set,
        update=lambda new, old: chain(immutable_fields(new, old, "spec.selector"), validate_daemon_set(new)),
        update_status=validate_daemon_set_status,
        initial_status=lambda obj, now: dict.fromkeys(_REQUIRED_COUNTS, 0),
        set_derived=_count_template,
        printer=_DAEMON_SETS,
    ),
    kinds.CONTROLLER_REVISION: KindRules(
        create=validate_revision, update=validate_revision_update, printer=_CONTROLLER_REVISIONS
    ),
}
