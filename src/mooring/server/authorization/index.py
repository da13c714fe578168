"""Which rules a user has: all roles and bindings, filed by whom they speak of. Pure.

A question costs a few dictionary lookups: bindings are filed by namespace and subject, the rules of a role by group and
resource, so that neither the number of bindings nor the length of a role matters. Objects come and go through `put` and
`drop`, in the order of the store.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mooring.api.views.access import PolicyRule, Role, RoleBinding, RoleRef, Subject
from mooring.server.authentication.service_accounts import user_name
from mooring.server.authorization.attributes import Decision, PathRequest, Request, ResourceRequest, is_master
from mooring.server.authorization.rules import ALL, FULL_AUTHORITY, allows_path
from mooring.server.contract import User

USER: Final = "User"
GROUP: Final = "Group"
SERVICE_ACCOUNT: Final = "ServiceAccount"

RoleKey: TypeAlias = tuple[str, str]
"""Namespace and name; a ClusterRole has no namespace."""


class RoleRules:
    """The rules of one role, filed by the resources they are about: as many entries as the role has words."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = tuple(rules)
        self._by_resource: dict[str, list[_FiledRule]] = defaultdict(list)
        for rule in rules:
            filed = _FiledRule(rule)
            for resource in dict.fromkeys(rule.resources):
                self._by_resource[resource].append(filed)
        self._with_paths = tuple(rule for rule in rules if rule.non_resource_urls)

    def allow(self, request: Request) -> bool:
        if isinstance(request, PathRequest):
            return any(allows_path(rule, request) for rule in self._with_paths)
        by_resource = self._by_resource
        names: tuple[str, ...] = (request.full_resource, ALL)
        if request.subresource:
            names = (*names, f"{ALL}/{request.subresource}")
        return any(filed.allows(request) for name in names for filed in by_resource.get(name, ()))


class _FiledRule:
    """What a rule says of the resources it is filed by, so that a long list costs no more than a short one."""

    __slots__ = ("_groups", "_names", "_verbs")

    def __init__(self, rule: PolicyRule) -> None:
        self._verbs = frozenset(rule.verbs)
        self._groups = frozenset(rule.api_groups)
        self._names = frozenset(rule.resource_names)

    def allows(self, request: ResourceRequest) -> bool:
        return (
            (request.verb in self._verbs or ALL in self._verbs)
            and (request.group in self._groups or ALL in self._groups)
            and (not self._names or request.name in self._names)
        )


class Grant(NamedTuple):
    """One subject of one binding, with what is asked of it at every request worked out beforehand."""

    binding: RoleBinding
    role_key: RoleKey
    #: As upstream explains why something is allowed.
    reason: str

    @classmethod
    def to(cls, subject: Subject, binding: RoleBinding) -> "Grant":
        ref = binding.role_ref
        kind = "RoleBinding" if binding.namespace else "ClusterRoleBinding"
        name = f"{binding.name}/{binding.namespace}" if binding.namespace else binding.name
        whom = f"{subject.name}/{subject.namespace}" if subject.kind == SERVICE_ACCOUNT else subject.name
        reason = f'RBAC: allowed by {kind} "{name}" of {ref.kind} "{ref.name}" to {subject.kind} "{whom}"'
        return cls(binding, (binding.namespace if ref.kind == "Role" else "", ref.name), reason)


class UserRules(msgspec.Struct, frozen=True):
    """Every rule a user has in a namespace, and which roles could not be found."""

    rules: tuple[PolicyRule, ...]
    missing: tuple[RoleRef, ...] = ()


class PolicyIndex:
    def __init__(self) -> None:
        self._roles: dict[RoleKey, RoleRules] = {}
        self._bindings: dict[RoleKey, RoleBinding] = {}
        #: Namespace ("" for the whole cluster) -> kind and name of a subject -> its grants, by binding.
        self._grants: dict[str, dict[tuple[str, str], dict[str, list[Grant]]]] = defaultdict(dict)

    def put_role(self, role: Role) -> None:
        self._roles[role.namespace, role.name] = RoleRules(role.rules or ())

    def drop_role(self, namespace: str, name: str) -> None:
        self._roles.pop((namespace, name), None)

    def put_binding(self, binding: RoleBinding) -> None:
        self.drop_binding(binding.namespace, binding.name)
        self._bindings[binding.namespace, binding.name] = binding
        here = self._grants[binding.namespace]
        for subject in binding.subjects:
            grants = here.setdefault(_identity(subject, binding.namespace), {})
            grants.setdefault(binding.name, []).append(Grant.to(subject, binding))

    def drop_binding(self, namespace: str, name: str) -> None:
        before = self._bindings.pop((namespace, name), None)
        if before is None:
            return
        here = self._grants[namespace]
        for subject in before.subjects:
            identity = _identity(subject, namespace)
            if (grants := here.get(identity)) is not None:
                grants.pop(name, None)
                if not grants:
                    del here[identity]

    def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        found = self._roles.get((namespace, name))
        return None if found is None else found.rules

    def decide(self, user: User, request: Request) -> Decision:
        if is_master(user):
            return Decision(True)
        missing: list[RoleRef] = []
        namespace = request.namespace if isinstance(request, ResourceRequest) else ""
        for grant in self._grants_of(user, namespace):
            role = self._roles.get(grant.role_key)
            if role is None:
                missing.append(grant.binding.role_ref)
            elif role.allow(request):
                return Decision(True, grant.reason)
        return Decision(False, f"RBAC: {missing_roles(missing)}" if missing else "")

    def rules_of(self, user: User, namespace: str) -> UserRules:
        rules: list[PolicyRule] = [*FULL_AUTHORITY] if is_master(user) else []
        missing: list[RoleRef] = []
        bindings = {(one.binding.namespace, one.binding.name): one for one in self._grants_of(user, namespace)}
        for grant in bindings.values():
            role = self._roles.get(grant.role_key)
            if role is None:
                missing.append(grant.binding.role_ref)
            else:
                rules += role.rules
        return UserRules(tuple(rules), tuple(missing))

    def _grants_of(self, user: User, namespace: str) -> Iterator[Grant]:
        """Those for the whole cluster first. A binding with several subjects that fit comes once for each."""
        identities = [(USER, user.name), *((GROUP, group) for group in user.groups)]
        for place in ("", namespace) if namespace else ("",):
            here = self._grants.get(place, {})
            for identity in identities:
                for grants in here.get(identity, {}).values():
                    yield from grants


def _identity(subject: Subject, namespace: str) -> tuple[str, str]:
    """Whom a subject speaks of: a service account is a user with a name that only it can have."""
    if subject.kind == SERVICE_ACCOUNT:
        return USER, user_name(subject.namespace or namespace, subject.name)
    return subject.kind, subject.name


def missing_roles(roles: Iterable[RoleRef], *, called: str = "") -> str:
    """One error for roles that bindings name and that do not exist, as upstream words and joins them. `called` is what
    it calls all of them where it looks them up while another kind is written."""
    errors = dict.fromkeys(
        f'{called or role.kind.lower()}.rbac.authorization.k8s.io "{role.name}" not found' for role in roles
    )
    return next(iter(errors)) if len(errors) == 1 else f"[{', '.join(errors)}]"
