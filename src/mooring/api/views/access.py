"""Who may do what: roles, their rules, and bindings that hand roles to subjects."""

import msgspec

from mooring.api.views.meta import ApiObject, LabelSelectorView, View


class PolicyRule(View, frozen=True, gc=False):
    """What may be done: verbs on resources, or verbs on paths; never both."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    #: Empty is every name.
    resource_names: tuple[str, ...] = ()
    #: Paths; a `*` at the end is anything below.
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class Role(ApiObject, frozen=True, gc=False):
    """A Role, and what a ClusterRole has in common with it. Clients may send `rules: null`."""

    rules: tuple[PolicyRule, ...] | None = None


class AggregationRule(View, frozen=True, gc=False):
    cluster_role_selectors: tuple[LabelSelectorView, ...] = ()


class ClusterRole(Role, frozen=True, gc=False):
    aggregation_rule: AggregationRule | None = None


class RoleRef(View, frozen=True, gc=False):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(View, frozen=True, gc=False):
    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(ApiObject, frozen=True, gc=False):
    """A RoleBinding or a ClusterRoleBinding: they look alike."""

    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()
