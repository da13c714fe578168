"""How roles are written down in tables: one short row per rule, and the objects made of them.

    role("system:kube-dns", rule("list watch", "endpoints services"))

Lists are words separated by blanks. Used for what every cluster grants and for the roles of Mooring's components.
"""

from typing import Any, Final

import msgspec

from mooring.api.views.access import PolicyRule, Subject

GROUP: Final = "rbac.authorization.k8s.io"
#: Marks what the server keeps in order at every start; upstream's label and annotation.
BOOTSTRAPPING: Final = "kubernetes.io/bootstrapping"
DEFAULTS: Final = "rbac-defaults"
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"


def rule(verbs: str, resources: str, *groups: str, names: str = "") -> PolicyRule:
    """Without a group, of the core group."""
    return PolicyRule(tuple(verbs.split()), groups or ("",), tuple(resources.split()), tuple(names.split()))


def path_rule(verbs: str, paths: str) -> PolicyRule:
    return PolicyRule(tuple(verbs.split()), non_resource_urls=tuple(paths.split()))


class RoleRow(msgspec.Struct, frozen=True):
    """A ClusterRole, or with a namespace a Role."""

    name: str
    rules: tuple[PolicyRule, ...] = ()
    namespace: str = ""
    labels: dict[str, str] = {}
    #: The label that roles have of which this one is made.
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
    """A binding of the role of the same name, unless another is given."""

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
    """`labels` are set to "true", as those by which roles are chosen for aggregation."""
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
    """As JSON has it: with lists, and without what is empty."""
    said = msgspec.to_builtins(one)
    return {field: list(values) for field, values in said.items() if values}


def subject_body(subject: Subject) -> dict[str, str]:
    said: dict[str, str] = msgspec.to_builtins(subject)
    return {field: value for field, value in said.items() if value}
