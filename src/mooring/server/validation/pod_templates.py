"""Rules that all workloads share: a selector, and a template whose pods it must select."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.api import label_selector
from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, forbidden, required, unsupported
from mooring.api.views.meta import LabelSelectorView
from mooring.server.body import Body, part, rows
from mooring.server.validation.metadata import validate_annotations, validate_labels
from mooring.server.validation.pod import validate_pod_spec
from mooring.server.validation.selectors import validate_label_selector

_NO_MATCH: Final = "`selector` does not match template `labels`"


def validate_selector(spec: Body, workload: str, *, may_lack: bool = False) -> Iterator[Cause]:
    """A workload owns the pods it selects, so the pods it makes must be among them. `may_lack` is for kinds where
    upstream complains only of what follows from having none: that it selects nothing."""
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
    if given is None or not _selector(given).matches(labels or {}):
        yield bad_value("spec.template.metadata.labels", labels, _NO_MATCH)


def validate_template(spec: Body, kind: str, *, more_volumes: Iterable[str] = ()) -> Iterator[Cause]:
    """A template of pods that run for ever. `kind` is the workload's, for the words."""
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


def _selector(given: Body) -> label_selector.LabelSelector:
    view = msgspec.convert(given, LabelSelectorView)
    return label_selector.from_view(view.match_labels, view.match_expressions)
