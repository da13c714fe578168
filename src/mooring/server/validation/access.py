"""Rules for roles and for the bindings that hand them out. The texts are upstream's."""

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api.errors import Cause
from mooring.api.field_errors import bad_value, required, unsupported
from mooring.api.object_names import check_dns1123_subdomain, check_path_segment
from mooring.server.body import Body, part, rows
from mooring.server.defaulting.access import GROUP
from mooring.server.validation.selectors import validate_label_selector

_SERVICE_ACCOUNT: Final = "ServiceAccount"
_SUBJECT_KINDS: Final = (_SERVICE_ACCOUNT, "User", "Group")
#: As upstream shows a roleRef: by the names of its Go fields.
_REF_FIELDS: Final = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}


def validate_role(obj: Body) -> Iterator[Cause]:
    for index, rule in enumerate(rows(obj, "rules")):
        yield from _rule(rule, f"rules[{index}]", namespaced=True)


def validate_cluster_role(obj: Body) -> Iterator[Cause]:
    for index, rule in enumerate(rows(obj, "rules")):
        yield from _rule(rule, f"rules[{index}]", namespaced=False)
    if "aggregationRule" not in obj:
        return
    path = "aggregationRule.clusterRoleSelectors"
    selectors = rows(obj, "aggregationRule", "clusterRoleSelectors")
    if not selectors:
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        yield from validate_label_selector(selector, f"{path}[{index}]")


def validate_role_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_role(new)


def validate_cluster_role_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_cluster_role(new)


def validate_role_binding(obj: Body) -> Iterator[Cause]:
    yield from _role_ref(part(obj, "roleRef"), ("Role", "ClusterRole"))
    yield from _subjects(obj, namespaced=True)


def validate_cluster_role_binding(obj: Body) -> Iterator[Cause]:
    yield from _role_ref(part(obj, "roleRef"), ("ClusterRole",))
    yield from _subjects(obj, namespaced=False)


def validate_role_binding_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_role_binding(new)
    yield from _same_role(new, old)


def validate_cluster_role_binding_update(new: Body, old: Body) -> Iterator[Cause]:
    yield from validate_cluster_role_binding(new)
    yield from _same_role(new, old)


def _rule(rule: Body, path: str, *, namespaced: bool) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
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


def _role_ref(ref: Body, kinds: Sequence[str]) -> Iterator[Cause]:
    if ref.get("apiGroup", "") != GROUP:
        yield unsupported("roleRef.apiGroup", ref.get("apiGroup", ""), (GROUP,))
    if ref.get("kind", "") not in kinds:
        yield unsupported("roleRef.kind", ref.get("kind", ""), kinds)
    if not (name := ref.get("name", "")):
        yield required("roleRef.name")
    for why in check_path_segment(name):
        yield bad_value("roleRef.name", name, why)


def _subjects(obj: Body, *, namespaced: bool) -> Iterator[Cause]:
    for index, subject in enumerate(rows(obj, "subjects")):
        path = f"subjects[{index}]"
        kind, name, group = (subject.get(field, "") for field in ("kind", "name", "apiGroup"))
        if not name:
            yield required(f"{path}.name")
        if kind not in _SUBJECT_KINDS:
            yield unsupported(f"{path}.kind", kind, _SUBJECT_KINDS)
        elif kind == _SERVICE_ACCOUNT:
            for why in check_dns1123_subdomain(name) if name else ():
                yield bad_value(f"{path}.name", name, why)
            if group:
                yield unsupported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        elif group != GROUP:
            yield unsupported(f"{path}.apiGroup", group, (GROUP,))


def _same_role(new: Body, old: Body) -> Iterator[Cause]:
    if part(new, "roleRef") != part(old, "roleRef"):
        ref = part(new, "roleRef")
        shown = {field: ref.get(key, "") for field, key in _REF_FIELDS.items()}
        yield bad_value("roleRef", shown, "cannot change roleRef")
