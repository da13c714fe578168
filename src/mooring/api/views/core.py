"""Views of Namespace, Node, Event, Service, ReplicationController, Lease, PriorityClass and the RBAC kinds."""

from collections.abc import Iterable

import msgspec

from mooring.api.selectors import label_selector_from_view
from mooring.api.views.meta import Amount, ApiObject, Condition, LabelSelectorView, ObjectReference, View


class PolicyRule(View, frozen=True, gc=False):
    """Verbs on resources, or verbs on non-resource URLs."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    #: Empty for all names.
    resource_names: tuple[str, ...] = ()
    #: Paths; a trailing `*` matches anything below.
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class Role(ApiObject, frozen=True, gc=False):
    """A Role, and base of ClusterRole. Clients may send `rules: null`."""

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
    """A RoleBinding or a ClusterRoleBinding."""

    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> tuple[PolicyRule, ...]:
    """The rules of all other roles that the aggregation selects, ordered by role name, without duplicates."""
    if role.aggregation_rule is None:
        return role.rules or ()
    selectors = [label_selector_from_view(view) for view in role.aggregation_rule.cluster_role_selectors]
    chosen = [
        other
        for other in sorted(roles, key=lambda other: other.name)
        if other.name != role.name and any(selector.matches(other.metadata.labels) for selector in selectors)
    ]
    return tuple(dict.fromkeys(rule for other in chosen for rule in other.rules or ()))


class EventSource(View, frozen=True, gc=False):
    component: str = ""
    host: str = ""


class Event(ApiObject, frozen=True, gc=False):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    #: Reporting component, in `events.k8s.io` events.
    reporting_component: str = ""
    #: The process of that component, in `events.k8s.io` events.
    reporting_instance: str = ""
    #: The only timestamp that `events.k8s.io` events always have.
    event_time: str | None = None


class LeaseSpec(View, frozen=True, gc=False):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(ApiObject, frozen=True, gc=False):
    spec: LeaseSpec = LeaseSpec()


class NamespaceSpec(View, frozen=True, gc=False):
    #: Besides the finalizers of metadata; removed through the `finalize` subresource.
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(View, frozen=True, gc=False):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(ApiObject, frozen=True, gc=False):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class Taint(View, frozen=True, gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""
    #: Only on NoExecute taints.
    time_added: str | None = None


class NodeSpec(View, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeImage(View, frozen=True, gc=False):
    """A container image on the node, with all its names."""

    #: Kubelets may write null for an image without names.
    names: tuple[str, ...] | None = ()
    size_bytes: int = 0


class NodeStatus(View, frozen=True, gc=False):
    capacity: dict[str, Amount] = {}
    allocatable: dict[str, Amount] = {}
    conditions: tuple[Condition, ...] = ()
    #: Mounted volumes; they must not be detached.
    volumes_in_use: tuple[str, ...] = ()
    images: tuple[NodeImage, ...] = ()
    #: Optional features of the node.
    declared_features: tuple[str, ...] = ()


class Node(ApiObject, frozen=True, gc=False):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PriorityClass(ApiObject, frozen=True, gc=False):
    value: int = 0
    #: For pods without a class; at most one class.
    global_default: bool = False
    description: str = ""
    preemption_policy: str = "PreemptLowerPriority"


class PlainSelectorSpec(View, frozen=True, gc=False):
    #: None and {} select nothing.
    selector: dict[str, str] | None = None


class Service(ApiObject, frozen=True, gc=False):
    spec: PlainSelectorSpec = PlainSelectorSpec()


class ReplicationController(ApiObject, frozen=True, gc=False):
    spec: PlainSelectorSpec = PlainSelectorSpec()
