"""Permissions for tests: the default policy and additional grants, without a store."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.api.views.core import ClusterRole, PolicyRule, RoleBinding, Subject
from mooring.cluster.bootstrap import BINDINGS, ROLES
from mooring.server.auth.access import Authorizer
from mooring.server.auth.policy import binding, role, user
from mooring.server.auth.rbac import AuthorizationDecision, PolicyIndex, Request, UserRules
from mooring.server.contract import User


class Policy:
    """An `Access` that decides by the given rows."""

    def __init__(self, *, defaults: bool = True) -> None:
        self.index = PolicyIndex()
        for row in ROLES if defaults else ():
            self.index.put_role(msgspec.convert(row.body(), ClusterRole))
        for default_binding in BINDINGS if defaults else ():
            self.index.put_binding(msgspec.convert(default_binding.body(), RoleBinding))
        self._granted = 0

    def grant(self, to: str | Subject, *rules: PolicyRule, namespace: str = "") -> "Policy":
        """Rules for a user (or another subject), in one namespace or in all."""
        self._granted += 1
        name = f"granted-{self._granted}"
        subject = user(to) if isinstance(to, str) else to
        self.index.put_role(msgspec.convert(role(name, *rules, namespace=namespace).body(), ClusterRole))
        self.index.put_binding(binding_view(binding(name, subject, namespace=namespace).body()))
        return self

    async def decide(self, user: User, request: Request) -> AuthorizationDecision:
        return self.index.decide(user, request)

    async def rules_of(self, user: User, namespace: str) -> UserRules:
        return self.index.rules_of(user, namespace)

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        return self.index.role(namespace, name)


def binding_view(body: dict[str, Any]) -> RoleBinding:
    return msgspec.convert(body, RoleBinding)


_contract: type[Authorizer] = Policy
