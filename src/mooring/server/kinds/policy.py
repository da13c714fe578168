"""PodDisruptionBudget, PriorityClass, and the kinds of RBAC."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mooring.api import kinds
from mooring.api.documents import Body
from mooring.api.errors import Cause, bad_value, forbidden, required, unsupported
from mooring.api.kinds import Kind
from mooring.api.names import check_dns1123_subdomain, check_path_segment
from mooring.server.encoding import meta, part, rows
from mooring.server.kinds import columns, field_checks
from mooring.server.kinds.columns import AGE, NAME, NAME_AND_DATE, Column, Json, amount, table, text, text_at
from mooring.server.kinds.field_checks import at_most_all, count_or_share, present, validate_label_selector, violations
from mooring.server.kinds.rules import KindRules


def default_role_binding(obj: Body) -> None:
    if not part(obj, "roleRef").get("apiGroup"):
        obj["roleRef"] = part(obj, "roleRef") | {"apiGroup": kinds.ROLE.group}
    for subject in rows(obj, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", kinds.ROLE.group)


def _subject_names(kind: str) -> columns.CellReader:
    def read(binding: Json) -> str:
        named = [subject for subject in columns.objects_at(binding, "subjects") if text_at(subject, "kind") == kind]
        return ", ".join(
            f"{text_at(subject, 'namespace')}/{text_at(subject, 'name')}"
            if kind == "ServiceAccount"
            else text_at(subject, "name")
            for subject in named
        )

    return read


_ROLE_BINDINGS: Final = table(
    NAME,
    Column(
        "Role",
        "Kind and name of the role.",
        lambda binding: f"{text_at(binding, 'roleRef', 'kind')}/{text_at(binding, 'roleRef', 'name')}",
    ),
    AGE,
    Column("Users", "Users of the binding.", _subject_names("User"), wide=True),
    Column("Groups", "Groups of the binding.", _subject_names("Group"), wide=True),
    Column("ServiceAccounts", "ServiceAccounts of the binding.", _subject_names("ServiceAccount"), wide=True),
)

#: kubectl's text for the bound that is not set.
_UNSET_BOUND: Final = "N/A"


_PRIORITY_CLASSES: Final = table(
    NAME,
    Column("Value", "The priority of the pods.", columns.number("value"), type="integer"),
    Column("Global-Default", "Whether it is the default class.", columns.flag("globalDefault"), type="boolean"),
    AGE,
    Column("PreemptionPolicy", "Whether the pods may preempt others.", text("preemptionPolicy")),
)

_DISRUPTION_BUDGETS: Final = table(
    NAME,
    Column("Min Available", "Pods that must stay available.", amount("spec", "minAvailable", empty=_UNSET_BOUND)),
    Column("Max Unavailable", "Pods that may be unavailable.", amount("spec", "maxUnavailable", empty=_UNSET_BOUND)),
    Column(
        "Allowed Disruptions",
        "Pods that may be evicted now.",
        columns.number("status", "disruptionsAllowed"),
        type="integer",
    ),
    AGE,
)

_SERVICE_ACCOUNT: Final = "ServiceAccount"
_SUBJECT_KINDS: Final = (_SERVICE_ACCOUNT, "User", "Group")
#: kube-apiserver shows a roleRef with the names of its Go fields.
_REF_FIELDS: Final = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}


def validate_role(kind: Kind[Any], obj: Body) -> Iterator[Cause]:
    """Roles and ClusterRoles. As in kube-apiserver, what its types declare as required is reported last."""
    rules = rows(obj, "rules")
    for index, rule in enumerate(rules):
        yield from _rule(rule, f"rules[{index}]", namespaced=kind.namespaced)
    if "aggregationRule" in obj:
        yield from _aggregation(obj)
    for index, rule in enumerate(rules):
        yield from present(rule, f"rules[{index}]", "verbs")


def _aggregation(obj: Body) -> Iterator[Cause]:
    """Of ClusterRoles only."""
    path = "aggregationRule.clusterRoleSelectors"
    selectors = rows(obj, "aggregationRule", "clusterRoleSelectors")
    if not selectors:
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        yield from validate_label_selector(selector, f"{path}[{index}]")


def validate_binding(kind: Kind[Any], obj: Body) -> Iterator[Cause]:
    """RoleBindings and ClusterRoleBindings."""
    yield from _role_ref(part(obj, "roleRef"), ("Role", "ClusterRole") if kind.namespaced else ("ClusterRole",))
    subjects = rows(obj, "subjects")
    for index, subject in enumerate(subjects):
        yield from _subject(subject, f"subjects[{index}]", namespaced=kind.namespaced)
    for index, subject in enumerate(subjects):
        yield from present(subject, f"subjects[{index}]", "name")
    yield from present(part(obj, "roleRef"), "roleRef", "name")


def validate_binding_update(kind: Kind[Any], new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_binding(kind, new)
    ref = part(new, "roleRef")
    if ref != part(old, "roleRef"):
        shown = {field: ref.get(key, "") for field, key in _REF_FIELDS.items()}
        yield bad_value("roleRef", shown, "field is immutable")


def _rule(rule: Body, path: str, *, namespaced: bool) -> Iterator[Cause]:
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            yield bad_value(f"{path}.nonResourceURLs", urls, why)
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield bad_value(f"{path}.nonResourceURLs", urls, why)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def _role_ref(ref: Body, allowed: Sequence[str]) -> Iterator[Cause]:
    if ref.get("apiGroup", "") != kinds.ROLE.group:
        yield unsupported("roleRef.apiGroup", ref.get("apiGroup", ""), (kinds.ROLE.group,))
    if ref.get("kind", "") not in allowed:
        yield unsupported("roleRef.kind", ref.get("kind", ""), allowed)
    yield from violations(check_path_segment, ref.get("name", ""), "roleRef.name")


def _subject(subject: Body, path: str, *, namespaced: bool) -> Iterator[Cause]:
    kind, name, group = (subject.get(field, "") for field in ("kind", "name", "apiGroup"))
    if kind not in _SUBJECT_KINDS:
        yield unsupported(f"{path}.kind", kind, _SUBJECT_KINDS)
    elif kind == _SERVICE_ACCOUNT:
        if name:
            yield from violations(check_dns1123_subdomain, name, f"{path}.name")
        if group:
            yield unsupported(f"{path}.apiGroup", group, ("",))
        if not namespaced:
            yield from present(subject, path, "namespace")
    elif group != kinds.ROLE.group:
        yield unsupported(f"{path}.apiGroup", group, (kinds.ROLE.group,))


#: Kubernetes' built-in classes; other names with their prefix are reserved.
SYSTEM_CLASSES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_SYSTEM_PREFIX: Final = "system-"
#: Higher values are for the built-in classes.
MAX_USER_PRIORITY: Final = 1_000_000_000

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_BUDGET_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate_budget(obj: Body) -> Iterator[Cause]:
    spec = part(obj, "spec")
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield bad_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from count_or_share(spec[field], f"spec.{field}")
            yield from at_most_all(spec[field], f"spec.{field}")
    yield from validate_label_selector(part(spec, "selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)


def validate_priority_class(obj: Body) -> Iterator[Cause]:
    name, value = meta(obj).get("name", ""), obj.get("value", 0)
    if name.startswith(_SYSTEM_PREFIX):
        if why := _not_a_system_class(name, value, is_default=obj.get("globalDefault", False)):
            yield forbidden(
                "metadata.name",
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}",
            )
    elif value > MAX_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}")
    yield from field_checks.one_of(obj, "", "preemptionPolicy", "PreemptLowerPriority", "Never")


def validate_priority_class_update(new: Body, old: Body) -> Iterator[Cause]:
    if new.get("value", 0) != old.get("value", 0):
        yield forbidden("value", "may not be changed in an update.")
    yield from field_checks.immutable_fields(new, old, "preemptionPolicy")


def _not_a_system_class(name: str, value: int, *, is_default: bool) -> str:
    expected = SYSTEM_CLASSES.get(name)
    if expected is None:
        return f"{name} is not a known system priority class"
    if value != expected:
        return f"value of {name} PriorityClass must be {expected}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def default_priority_class(obj: Body) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


RULES: Final[Mapping[Kind[Any], KindRules]] = {
    kinds.DISRUPTION_BUDGET: KindRules(
        check_name=check_path_segment,
        create=validate_budget,
        update_status=lambda new, old: field_checks.none_negative(part(new, "status"), "status", *_BUDGET_COUNTS),
        initial_status=lambda obj, now: dict.fromkeys(_BUDGET_COUNTS, 0),
        printer=_DISRUPTION_BUDGETS,
    ),
    kinds.PRIORITY_CLASS: KindRules(
        defaults=default_priority_class,
        create=validate_priority_class,
        update=validate_priority_class_update,
        printer=_PRIORITY_CLASSES,
    ),
    **{
        kind: KindRules(check_name=check_path_segment, create=partial(validate_role, kind), printer=NAME_AND_DATE)
        for kind in (kinds.ROLE, kinds.CLUSTER_ROLE)
    },
    **{
        kind: KindRules(
            defaults=default_role_binding,
            check_name=check_path_segment,
            create=partial(validate_binding, kind),
            update=partial(validate_binding_update, kind),
            printer=_ROLE_BINDINGS,
        )
        for kind in (kinds.ROLE_BINDING, kinds.CLUSTER_ROLE_BINDING)
    },
}
