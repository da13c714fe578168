"""PodGroup and Workload: defaults, validation and columns.

kube-apiserver declares most of these rules with the types: an update is checked only where it changes a value, and
messages do not show a value that may not change. Of the feature gates of Kubernetes 1.37, the server behaves as if
GenericWorkload and TopologyAwareWorkloadScheduling were on, and drops the fields of PodGroupPreemptionPolicy,
DRAWorkloadResourceClaims and CompositePodGroup, which are off.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from mooring.api import kinds
from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, duplicate, forbidden, required, too_many
from mooring.api.kinds import Kind
from mooring.api.names import check_dns1123_label, check_dns1123_subdomain, check_path_segment, check_qualified_name
from mooring.api.views.pod_groups import INITIALLY_SCHEDULED
from mooring.server.encoding import part, rows
from mooring.server.kinds import columns
from mooring.server.kinds.columns import AGE, NAME, NONE, Column, Json, object_at, table, text, text_at
from mooring.server.kinds.field_checks import repeated, validate_conditions, validate_name, violations
from mooring.server.kinds.policy import MAX_USER_PRIORITY
from mooring.server.kinds.rules import KindRules, restore_metadata

#: Templates of a Workload.
_MAX_TEMPLATES: Final = 8
#: Topology constraints of a PodGroup.
_MAX_TOPOLOGIES: Final = 1
#: Fields of a PodGroup, and of a template, whose gates are off.
_DISABLED: Final = ("preemptionPolicy", "resourceClaims", "parentCompositePodGroupName")
_POLICIES: Final = ("basic", "gang")
_MODES: Final = ("single", "all")

#: Checks a value at a path; the stored value is None for a new one.
_Check: TypeAlias = Callable[[Any, Any, str], Iterator[Cause]]


def default_pod_group(obj: Body) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {"single": {}}


def _drop_group_fields(obj: Body) -> None:
    for field in _DISABLED:
        part(obj, "spec").pop(field, None)
    part(obj, "status").pop("resourceClaimStatuses", None)


def _drop_workload_fields(obj: Body) -> None:
    spec = part(obj, "spec")
    spec.pop("compositePodGroupTemplates", None)
    for template in rows(spec, "podGroupTemplates"):
        for field in _DISABLED:
            template.pop(field, None)


def _restore_group(new: Body, old: Body, subresource: str) -> None:
    restore_metadata(new, old, subresource)
    _drop_group_fields(new)


def validate_pod_group(new: Body, old: Body | None = None) -> Iterator[Cause]:
    spec, was = part(new, "spec"), None if old is None else part(old, "spec")
    yield from _changed(spec, was, "spec", "workloadRef", _workload_reference, fixed=True)
    yield from _policy(part(spec, "schedulingPolicy"), None if was is None else part(was, "schedulingPolicy"), "spec")
    yield from _shared_fields(spec, was, "spec")


def validate_workload(new: Body, old: Body | None = None) -> Iterator[Cause]:
    spec, was = part(new, "spec"), None if old is None else part(old, "spec")
    templates = rows(spec, "podGroupTemplates")
    if len({(each.get("priorityClassName", ""), each.get("priority")) for each in templates}) > 1:
        yield bad_value("spec", None, "detected multiple priority configurations")
    if not templates and (was is None or rows(was, "podGroupTemplates")):
        yield bad_value("spec", "", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`")
    yield from _changed(spec, was, "spec", "controllerRef", _controller_reference, fixed=True)
    yield from _changed(spec, was, "spec", "podGroupTemplates", _templates)


def _changed(
    new: Body, old: Body | None, path: str, field: str, check: _Check, *, fixed: bool = False
) -> Iterator[Cause]:
    """The causes against a field that is new or has changed; `fixed` fields may not change."""
    now, was = new.get(field), None if old is None else old.get(field)
    if old is not None and now == was:
        return
    if fixed and old is not None:
        yield bad_value(f"{path}.{field}", None, "field is immutable")
    elif now is not None and now != "":
        yield from check(now, was, f"{path}.{field}")


def _exactly_one(new: Body, old: Body | None, path: str, members: tuple[str, ...]) -> Iterator[Cause]:
    """Of a union; as in kube-apiserver, one that sets the same members as before is not checked."""
    given = [member for member in members if new.get(member) is not None]
    if old is not None and given == [member for member in members if old.get(member) is not None]:
        return
    choices = ", ".join(f"`{member}`" for member in members)
    if not given:
        yield bad_value(path, "", f"must specify one of: {choices}")
    elif len(given) > 1:
        yield bad_value(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {choices}")


def _policy(policy: Body, was: Body | None, path: str) -> Iterator[Cause]:
    path = f"{path}.schedulingPolicy"
    yield from _exactly_one(policy, was, path, _POLICIES)
    yield from _changed(policy, was, path, "basic", _anything, fixed=True)
    gang, gang_was = policy.get("gang"), None if was is None else was.get("gang")
    if was is not None and (gang is None) != (gang_was is None):
        why = "field cannot be cleared once set" if gang is None else "field cannot be set once created"
        yield bad_value(f"{path}.gang", None, why)
    elif gang is not None:
        count = gang.get("minCount", 0)
        if gang_was is not None and count == gang_was.get("minCount", 0):
            return
        if not count:
            yield required(f"{path}.gang.minCount")
        elif count < 1:
            yield bad_value(f"{path}.gang.minCount", count, "must be greater than or equal to 1")


def _anything(_value: object, _was: object, _path: str) -> Iterator[Cause]:
    yield from ()


def _shared_fields(spec: Body, was: Body | None, path: str) -> Iterator[Cause]:
    """Of PodGroups and of templates."""
    yield from _changed(spec, was, path, "schedulingConstraints", _constraints, fixed=True)
    yield from _changed(spec, was, path, "disruptionMode", _mode, fixed=True)
    yield from _changed(spec, was, path, "priorityClassName", _long_name, fixed=True)
    yield from _changed(spec, was, path, "priority", _priority, fixed=True)


def _constraints(constraints: Body, _was: Body | None, path: str) -> Iterator[Cause]:
    topology = rows(constraints, "topology")
    if len(topology) > _MAX_TOPOLOGIES:
        yield too_many(f"{path}.topology", len(topology), _MAX_TOPOLOGIES)
        return
    for index, constraint in enumerate(topology):
        yield from validate_name(constraint.get("key", ""), check_qualified_name, f"{path}.topology[{index}].key")


def _mode(mode: Body, was: Body | None, path: str) -> Iterator[Cause]:
    yield from _exactly_one(mode, was, path, _MODES)


def _long_name(name: str, _was: str | None, path: str) -> Iterator[Cause]:
    yield from violations(check_dns1123_subdomain, name, path)


def _priority(priority: int, _was: int | None, path: str) -> Iterator[Cause]:
    if priority > MAX_USER_PRIORITY:
        yield bad_value(path, priority, f"must be less than or equal to {MAX_USER_PRIORITY}")


def _workload_reference(reference: Body, _was: Body | None, path: str) -> Iterator[Cause]:
    yield from validate_name(reference.get("workloadName", ""), check_dns1123_subdomain, f"{path}.workloadName")
    yield from validate_name(reference.get("templateName", ""), check_dns1123_label, f"{path}.templateName")


def _controller_reference(reference: Body, _was: Body | None, path: str) -> Iterator[Cause]:
    if group := reference.get("apiGroup"):
        yield from violations(check_dns1123_subdomain, group, f"{path}.apiGroup")
    for field in ("kind", "name"):
        yield from validate_name(reference.get(field, ""), check_path_segment, f"{path}.{field}")


def _templates(templates: list[Body], was: list[Body] | None, path: str) -> Iterator[Cause]:
    """Templates are the same ones, by name, as long as the Workload exists."""
    if len(templates) > _MAX_TEMPLATES:
        yield too_many(path, len(templates), _MAX_TEMPLATES)
        return
    names = [each.get("name", "") for each in templates]
    before = None if was is None else {each.get("name", ""): each for each in was}
    if before is not None:
        changed = [
            forbidden(f"{path}[{i}]", "item may not be added") for i, name in enumerate(names) if name not in before
        ]
        changed += [forbidden(path, "item may not be removed") for name in before if name not in names]
        if changed:
            yield from changed
            return
    for index, name in repeated(names):
        # kube-apiserver shows the template as it would write it.
        policy, constraints = (templates[index].get(field) for field in ("schedulingPolicy", "schedulingConstraints"))
        shown = {"name": name, "schedulingPolicy": policy or {}, "schedulingConstraints": constraints}
        yield duplicate(f"{path}[{index}]", shown | templates[index])
    for index, template in enumerate(templates):
        stored = None if before is None else before[names[index]]
        if stored is None:
            yield from validate_name(names[index], check_dns1123_label, f"{path}[{index}].name")
        policy_was = None if stored is None else part(stored, "schedulingPolicy")
        yield from _policy(part(template, "schedulingPolicy"), policy_was, f"{path}[{index}]")
        yield from _shared_fields(template, stored, f"{path}[{index}]")


def _printed_policy(group: Json) -> str:
    # An empty policy object is one too, so that its presence counts.
    policy = object_at(group, "spec", "schedulingPolicy")
    return "Gang" if "gang" in policy else "Basic"


def _printed_status(group: Json) -> str:
    if target := columns.conditions_at(group, "DisruptionTarget"):
        return text_at(target[-1], "reason")
    scheduled = columns.conditions_at(group, INITIALLY_SCHEDULED)
    if not scheduled:
        return "Pending"
    return "Scheduled" if text_at(scheduled[-1], "status") == "True" else "Unschedulable"


_POD_GROUPS: Final = table(
    NAME,
    Column("Policy", "Whether the pods are a gang.", _printed_policy),
    Column(
        "Workload", "Name of the referenced Workload object", text("spec", "workloadRef", "workloadName", empty=NONE)
    ),
    Column("Status", "Status of the PodGroup", _printed_status),
    AGE,
)


def _complete_group(new: Body, old: Body | None, _now: str) -> None:
    if old is None:
        _drop_group_fields(new)


def _complete_workload(new: Body, old: Body | None, _now: str) -> None:
    if old is None:
        _drop_workload_fields(new)


_GROUP_RULES: Final = KindRules(
    defaults=default_pod_group,
    create=validate_pod_group,
    update=validate_pod_group,
    update_status=lambda new, old: validate_conditions(rows(new, "status", "conditions"), "status.conditions"),
    restore=_restore_group,
    set_derived=_complete_group,
    printer=_POD_GROUPS,
)
_WORKLOAD_RULES: Final = KindRules(
    create=validate_workload,
    update=validate_workload,
    restore=lambda new, old, subresource: _drop_workload_fields(new),
    set_derived=_complete_workload,
)
RULES: Final[Mapping[Kind[Any], KindRules]] = {
    kinds.POD_GROUP: _GROUP_RULES,
    kinds.POD_GROUP_ALPHA: _GROUP_RULES,
    kinds.WORKLOAD: _WORKLOAD_RULES,
    kinds.WORKLOAD_ALPHA: _WORKLOAD_RULES,
}
