"""Pod templates: the kind PodTemplate, and what the templates and selectors of all workloads have in common."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api import selectors
from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, forbidden, required, unsupported
from mooring.api.kinds import POD_TEMPLATE, Kind
from mooring.api.views.meta import LabelSelectorView
from mooring.server.encoding import part, rows
from mooring.server.kinds import columns
from mooring.server.kinds.columns import NAME, NONE, CellReader, Column, Json, joined, labels, objects_at, text_at
from mooring.server.kinds.field_checks import validate_annotations, validate_label_selector, validate_labels
from mooring.server.kinds.pod_spec import validate_pod_spec
from mooring.server.kinds.pods import default_template
from mooring.server.kinds.rules import KindRules

NO_MATCH: Final = "`selector` does not match template `labels`"


def validate_selector(spec: Body, workload: str, *, may_lack: bool = False) -> Iterator[Cause]:
    """The selector of a workload must match its pods. `may_lack`: for kinds where kube-apiserver reports a missing
    selector only as one that does not match."""
    given = spec.get("selector")
    if given is None and not may_lack:
        yield required("spec.selector")
    problems = list(validate_label_selector(given or {}, "spec.selector"))
    if problems:
        yield from problems
        yield bad_value("spec.selector", given, "invalid label selector")
        return
    if given == {}:
        yield bad_value("spec.selector", given, f"empty selector is invalid for {workload}")
        return
    labels = part(spec, "template", "metadata").get("labels")
    if given is None or not _parsed_selector(given).matches(labels or {}):
        yield bad_value("spec.template.metadata.labels", labels, NO_MATCH)


def validate_template(spec: Body, kind: str, *, more_volumes: Iterable[str] = ()) -> Iterator[Cause]:
    """The pod template of a workload; `kind` is the name in messages."""
    yield from validate_pod_template(spec["template"], "spec.template", more_volumes=more_volumes)
    pod = spec["template"]["spec"]
    if pod["restartPolicy"] != "Always":
        yield unsupported("spec.template.spec.restartPolicy", pod["restartPolicy"], ("Always",))
    if "activeDeadlineSeconds" in pod:
        yield forbidden("spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported")


def validate_pod_template(template: Body, path: str, *, more_volumes: Iterable[str] = ()) -> Iterator[Cause]:
    metadata = part(template, "metadata")
    yield from validate_labels(metadata.get("labels", {}), f"{path}.labels")
    yield from validate_annotations(metadata.get("annotations", {}), f"{path}.annotations")
    yield from validate_pod_spec(template["spec"], f"{path}.spec", more_volumes=more_volumes)
    if rows(template, "spec", "ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _parsed_selector(given: Body) -> selectors.LabelSelector:
    return selectors.label_selector_from_view(msgspec.convert(given, LabelSelectorView))


def pod_columns(*template: str, wide: bool = True) -> tuple[Column, Column]:
    """Names and images of the containers of the pod template at a path."""

    def joined_fields(field: str) -> CellReader:
        return lambda value: joined(text_at(row, field) for row in objects_at(value, *template, "spec", "containers"))

    return (
        Column("Containers", "Names of the containers.", joined_fields("name"), wide=wide),
        Column("Images", "Images of the containers.", joined_fields("image"), wide=wide),
    )


def selector_column(read: CellReader) -> Column:
    return Column("Selector", "Selector of the pods.", read, wide=True)


def selector_text(workload: Json) -> str:
    """A label selector in the form of `kubectl -l`, ordered by key."""
    match_labels = columns.object_at(workload, "spec", "selector", "matchLabels")
    terms = [(key, f"{key}={text_at(match_labels, key)}") for key in match_labels]
    requirements = objects_at(workload, "spec", "selector", "matchExpressions")
    terms += [(text_at(row, "key"), _requirement(row)) for row in requirements]
    return joined((term for _, term in sorted(terms)), empty=NONE)


def _requirement(row: Json) -> str:
    key, values = text_at(row, "key"), ",".join(sorted(columns.texts_at(row, "values")))
    match text_at(row, "operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return key


_POD_TEMPLATES: Final = columns.table(
    NAME,
    *pod_columns("template", wide=False),
    Column("Pod Labels", "Labels of the pods.", labels("template", "metadata", "labels")),
)

RULES: Final[Mapping[Kind[Any], KindRules]] = {
    POD_TEMPLATE: KindRules(
        defaults=lambda obj: default_template(obj.setdefault("template", {})),
        create=lambda obj: validate_pod_template(obj["template"], "template"),
        printer=_POD_TEMPLATES,
        deletion_returns_object=True,
    ),
}
