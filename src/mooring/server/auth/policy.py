"""Builders of Role and RoleBinding objects for the tables of default and component roles.

    role("system:kube-dns", rule("list watch", "endpoints services"))

Lists are separated by blanks.
"""

from typing import Any, Final

import msgspec

from mooring.api.views.core import PolicyRule, Subject

GROUP: Final = "rbac.authorization.k8s.io"
#: Kubernetes' label and annotation of objects that are reconciled at every start.
BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
DEFAULTS: Final = "rbac-defaults"
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"


def rule(verbs: str, resources: str, *groups: str, names: str = "") -> PolicyRule:
    """Without groups, the core group."""
    return PolicyRule(tuple(verbs.split()), groups or ("",), tuple(resources.split()), tuple(names.split()))


def rule_each(verbs: str, resources: str, *groups: str) -> tuple[PolicyRule, ...]:
    """One rule per resource, where Kubernetes has them apart."""
    return tuple(rule(verbs, resource, *groups) for resource in resources.split())


def path_rule(verbs: str, paths: str) -> PolicyRule:
    return PolicyRule(tuple(verbs.split()), non_resource_urls=tuple(paths.split()))


class RoleRow(msgspec.Struct, frozen=True):
    """A ClusterRole, or with a namespace a Role."""

    name: str
    rules: tuple[PolicyRule, ...] = ()
    namespace: str = ""
    labels: dict[str, str] = {}
    #: Label of the roles this one aggregates.
    made_of: str = ""

    def body(self) -> dict[str, Any]:
        kind = "Role" if self.namespace else "ClusterRole"
        body: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": self.name}}
        if self.namespace:
            body["metadata"]["namespace"] = self.namespace
        if self.labels:
            body["metadata"]["labels"] = self.labels
        body["rules"] = [rule_body(one) for one in self.rules]
        if self.made_of:
            body["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {self.made_of: "true"}}]}
        return body


class BindingRow(msgspec.Struct, frozen=True):
    """A binding of `role`, by default the role with the binding's name."""

    name: str
    subjects: tuple[Subject, ...] = ()
    namespace: str = ""
    role: str = ""

    def body(self) -> dict[str, Any]:
        kind = "Role" if self.namespace else "ClusterRole"
        metadata = {"name": self.name} | ({"namespace": self.namespace} if self.namespace else {})
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": self.role or self.name},
            "subjects": [subject_body(subject) for subject in self.subjects],
        }


def role(name: str, *rules: PolicyRule, namespace: str = "", labels: str = "", made_of: str = "") -> RoleRow:
    """`labels` get the value "true", as aggregation labels have."""
    return RoleRow(name, rules, namespace, dict.fromkeys(labels.split(), "true"), made_of)


def binding(name: str, *subjects: Subject, namespace: str = "", role: str = "") -> BindingRow:
    return BindingRow(name, subjects, namespace, role)


def user(name: str) -> Subject:
    return Subject("User", GROUP, name)


def group(name: str) -> Subject:
    return Subject("Group", GROUP, name)


def account(name: str, namespace: str = "kube-system") -> Subject:
    return Subject("ServiceAccount", "", name, namespace)


def rule_body(one: PolicyRule) -> dict[str, Any]:
    """As JSON: with lists, without empty fields."""
    return {field: list(values) for field, values in msgspec.to_builtins(one).items() if values}


def subject_body(subject: Subject) -> dict[str, str]:
    return {field: value for field, value in msgspec.to_builtins(subject).items() if value}


APPS: Final = "apps"
AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"
CERTIFICATES: Final = "certificates.k8s.io"
COORDINATION: Final = "coordination.k8s.io"
DEVICES: Final = "resource.k8s.io"
SCHEDULING: Final = "scheduling.k8s.io"
POLICY: Final = "policy"
RBAC: Final = "rbac.authorization.k8s.io"
STORAGE: Final = "storage.k8s.io"

READ: Final = "get list watch"
WRITE: Final = "create delete deletecollection patch update"
ALL_VERBS: Final = "create delete deletecollection get list patch update watch"

#: Recording events, through either API.
EVENTS: Final = rule("create patch update", "events", "", "events.k8s.io")
