"""Workloads: what makes pods, and how many of them are there."""

from typing import Final

from mooring.server.tables.columns import AGE, NAME, WIDE, Cell, Column, Printer
from mooring.server.tables.reading import NONE, Json, age, joined, name, number, part, parts, text, texts

_CONTAINERS: Final = Column("Containers", description="Names of the containers.", priority=WIDE)
_IMAGES: Final = Column("Images", description="Images of the containers.", priority=WIDE)
_SELECTOR: Final = Column("Selector", description="Which pods belong to it.", priority=WIDE)
_READY: Final = Column("Ready", description="Pods that are ready, of all that are wanted.")
_DESIRED: Final = Column("Desired", type="integer", description="Pods that are wanted.")
_CURRENT: Final = Column("Current", type="integer", description="Pods that are there.")
_READY_COUNT: Final = Column("Ready", type="integer", description="Pods that are ready.")


def _containers(template: Json) -> tuple[str, str]:
    containers = parts(template, "spec", "containers")
    return (
        joined(text(container, "name") for container in containers),
        joined(text(container, "image") for container in containers),
    )


def _labels(labels: Json) -> str:
    return joined((f"{key}={text(labels, key)}" for key in sorted(labels)), empty=NONE)


def _selector(value: Json) -> str:
    """A label selector in the words of `kubectl -l`, its requirements by key."""
    labels = part(value, "matchLabels")
    said = [(key, f"{key}={text(labels, key)}") for key in labels]
    said += [(text(row, "key"), _requirement(row)) for row in parts(value, "matchExpressions")]
    return joined((words for _, words in sorted(said)), empty=NONE)


def _requirement(row: Json) -> str:
    key, values = text(row, "key"), ",".join(sorted(texts(row, "values")))
    match text(row, "operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return key


def _ready_of_wanted(workload: Json) -> str:
    # A workload that does not say how many is one of one.
    return f"{number(workload, 'status', 'readyReplicas')}/{number(workload, 'spec', 'replicas', default=1)}"


def _stateful_set_cells(workload: Json, now: float) -> tuple[Cell, ...]:
    template = part(workload, "spec", "template")
    return (name(workload), _ready_of_wanted(workload), age(workload, now), *_containers(template))


def _deployment_cells(workload: Json, now: float) -> tuple[Cell, ...]:
    return (
        name(workload),
        _ready_of_wanted(workload),
        number(workload, "status", "updatedReplicas"),
        number(workload, "status", "availableReplicas"),
        age(workload, now),
        *_containers(part(workload, "spec", "template")),
        _selector(part(workload, "spec", "selector")),
    )


def _counts(workload: Json, now: float) -> tuple[Cell, ...]:
    return (
        name(workload),
        number(workload, "spec", "replicas", default=1),
        number(workload, "status", "replicas"),
        number(workload, "status", "readyReplicas"),
        age(workload, now),
        *_containers(part(workload, "spec", "template")),
    )


def _daemon_set_cells(workload: Json, now: float) -> tuple[Cell, ...]:
    status = part(workload, "status")
    return (
        name(workload),
        number(status, "desiredNumberScheduled"),
        number(status, "currentNumberScheduled"),
        number(status, "numberReady"),
        number(status, "updatedNumberScheduled"),
        number(status, "numberAvailable"),
        _labels(part(workload, "spec", "template", "spec", "nodeSelector")),
        age(workload, now),
        *_containers(part(workload, "spec", "template")),
        _selector(part(workload, "spec", "selector")),
    )


def _revision_cells(revision: Json, now: float) -> tuple[Cell, ...]:
    owners = [owner for owner in parts(revision, "metadata", "ownerReferences") if owner.get("controller") is True]
    return (
        name(revision),
        _reference(owners[0]) if owners else NONE,
        number(revision, "revision"),
        age(revision, now),
    )


def _reference(owner: Json) -> str:
    """`statefulset.apps/web`."""
    group = text(owner, "apiVersion").rpartition("/")[0]
    kind = text(owner, "kind").lower()
    return f"{kind}.{group}/{text(owner, 'name')}" if group else f"{kind}/{text(owner, 'name')}"


STATEFUL_SETS: Final = Printer(columns=(NAME, _READY, AGE, _CONTAINERS, _IMAGES), cells=_stateful_set_cells)

DEPLOYMENTS: Final = Printer(
    columns=(
        NAME,
        _READY,
        Column("Up-to-date", description="Pods of the newest template."),
        Column("Available", description="Pods that have been ready for long enough."),
        AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    cells=_deployment_cells,
)

REPLICA_SETS: Final = Printer(
    columns=(NAME, _DESIRED, _CURRENT, _READY_COUNT, AGE, _CONTAINERS, _IMAGES, _SELECTOR),
    cells=lambda workload, now: (*_counts(workload, now), _selector(part(workload, "spec", "selector"))),
)

REPLICATION_CONTROLLERS: Final = Printer(
    columns=REPLICA_SETS.columns,
    cells=lambda workload, now: (*_counts(workload, now), _labels(part(workload, "spec", "selector"))),
)

DAEMON_SETS: Final = Printer(
    columns=(
        NAME,
        _DESIRED,
        _CURRENT,
        _READY_COUNT,
        Column("Up-to-date", type="integer", description="Pods of the newest template."),
        Column("Available", type="integer", description="Pods that have been ready for long enough."),
        Column("Node Selector", description="Labels a node must have."),
        AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    cells=_daemon_set_cells,
)

CONTROLLER_REVISIONS: Final = Printer(
    columns=(
        NAME,
        Column("Controller", description="Whose template it was."),
        Column("Revision", description="Its place in the history."),
        AGE,
    ),
    cells=_revision_cells,
)

POD_TEMPLATES: Final = Printer(
    columns=(
        NAME,
        Column("Containers", description="Names of the containers."),
        Column("Images", description="Images of the containers."),
        Column("Pod Labels", description="Labels of the pods."),
    ),
    cells=lambda value, now: (
        name(value),
        *_containers(part(value, "template")),
        _labels(part(value, "template", "metadata", "labels")),
    ),
)
