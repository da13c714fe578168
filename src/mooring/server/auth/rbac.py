"""RBAC: request attributes, rule matching, and the index of roles and bindings. Pure.

A star matches every verb, group or resource; `*/scale` is one subresource of every resource, and a path that ends in a
star matches everything below it. A resource does not include its subresources.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mooring.api import selectors
from mooring.api.kinds import NAMESPACE
from mooring.api.names import check_path_segment
from mooring.api.views.core import PolicyRule, Role, RoleBinding, RoleRef, Subject
from mooring.server.contract import Target, User

PREFIX: Final = "system:serviceaccount:"
_GROUP: Final = "system:serviceaccounts"


def service_account_user_name(namespace: str, name: str) -> str:
    return f"{PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    return _GROUP, f"{_GROUP}:{namespace}"


def service_account(
    namespace: str, name: str, uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> User:
    return User(service_account_user_name(namespace, name), service_account_groups(namespace), uid, dict(extra or {}))


def split_user_name(user: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name, else None."""
    namespace, colon, name = user.removeprefix(PREFIX).partition(":")
    is_account = user.startswith(PREFIX) and colon and namespace and name and ":" not in name
    return (namespace, name) if is_account else None


#: May do everything regardless of roles, so that a cluster cannot lock its administrators out.
SYSTEM_MASTERS: Final = "system:masters"

#: Path elements after `namespaces/{name}/` that are subresources of the Namespace, not a collection in it.
NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})

_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ON_COLLECTION: Final[Mapping[str, str]] = {"get": "list", "delete": "deletecollection"}
#: The verbs for which a field selector may name the object.
_BY_SELECTOR: Final = frozenset({"list", "watch"})


class ResourceRequest(msgspec.Struct, frozen=True, gc=False):
    """A verb on a resource; includes the verbs `bind`, `escalate` and `impersonate`."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """As rules spell it: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class PathRequest(msgspec.Struct, frozen=True, gc=False):
    """A verb (lower-case HTTP method) on a non-resource path."""

    verb: str
    path: str


Request: TypeAlias = ResourceRequest | PathRequest


class AuthorizationDecision(msgspec.Struct, frozen=True, gc=False):
    """The reason names the binding, or the missing roles; it may be empty."""

    allowed: bool
    reason: str = ""


def request_for(verb: str, target: Target, *, fields: str = "") -> ResourceRequest:
    """Attributes of a verb on a target. `fields` is the field selector."""
    kind = target.kind
    namespace = target.name if kind is NAMESPACE else target.namespace
    name = target.name or _selected_name(verb, fields)
    return ResourceRequest(verb, kind.group, kind.plural, target.subresource, namespace, name)


def request_at(method: str, path: Sequence[str], *, watching: bool = False, fields: str = "") -> Request:
    """Attributes of an HTTP request, also for resources the server does not have: only callers with the right to a
    resource learn that it does not exist. `fields` is the field selector of the query, `watching` its flag."""
    match path:
        case ("api", _, resource, *below):
            group = ""
        case ("apis", group, _, resource, *below):
            pass
        case _:
            return PathRequest(method.lower(), f"/{'/'.join(path)}")
    namespace = ""
    if resource == NAMESPACE.plural and below:
        # A Namespace belongs to itself: a Role in it may grant access to it.
        namespace = below[0]
        if below[1:] and below[1] not in NAMESPACE_SUBRESOURCES:
            resource, below = below[1], below[2:]
    name, subresource = (*below, "", "")[:2]
    verb = _VERBS.get(method, "")
    if not name:
        verb = _ON_COLLECTION.get(verb, verb)
        if verb == "list" and watching:
            verb = "watch"
    return ResourceRequest(verb, group, resource, subresource, namespace, name or _selected_name(verb, fields))


def _selected_name(verb: str, fields: str) -> str:
    """The name a field selector requires: a right to that name is enough to list or watch it.

    Other verbs ignore the selector, or are never granted by name (`deletecollection`).
    """
    if not fields or verb not in _BY_SELECTOR:
        return ""
    try:
        terms = selectors.parse_field_selector(fields).terms
    except selectors.FieldSelectorError:
        return ""  # the verb refuses the selector
    name = next((term.value for term in terms if (term.path, term.operator) == ("metadata.name", "=")), "")
    return "" if check_path_segment(name) else name


def is_master(user: User) -> bool:
    return SYSTEM_MASTERS in user.groups


ALL: Final = "*"
FULL_AUTHORITY: Final = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), non_resource_urls=(ALL,)))


def allows_resource(rule: PolicyRule, request: ResourceRequest) -> bool:
    return (
        _has(rule.verbs, request.verb)
        and _has(rule.api_groups, request.group)
        and _has_resource(rule.resources, request.full_resource)
        and (not rule.resource_names or request.name in rule.resource_names)
    )


def allows_path(rule: PolicyRule, request: PathRequest) -> bool:
    return _has(rule.verbs, request.verb) and any(_is_below(url, request.path) for url in rule.non_resource_urls)


def compacted(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge resource rules that differ only in their verbs; path rules are unchanged."""
    paths: list[PolicyRule] = []
    verbs: dict[PolicyRule, list[str]] = {}
    for rule in rules:
        if rule.non_resource_urls:
            paths.append(rule)
        else:
            verbs.setdefault(msgspec.structs.replace(rule, verbs=()), []).extend(rule.verbs)
    return [*(msgspec.structs.replace(rule, verbs=tuple(merged)) for rule, merged in verbs.items()), *paths]


def described(rule: PolicyRule) -> str:
    """As in kube-apiserver's messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`."""
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.non_resource_urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """A list as Go prints it."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _has(allowed: Sequence[str], requested: str) -> bool:
    return requested in allowed or ALL in allowed


def _has_resource(allowed: Sequence[str], requested: str) -> bool:
    if requested in allowed or ALL in allowed:
        return True
    _, slash, subresource = requested.partition("/")
    return bool(slash) and f"{ALL}/{subresource}" in allowed


def _is_below(url: str, path: str) -> bool:
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


USER: Final = "User"
GROUP: Final = "Group"
SERVICE_ACCOUNT: Final = "ServiceAccount"

RoleKey: TypeAlias = tuple[str, str]
"""Namespace and name; a ClusterRole has no namespace."""


class RoleRules:
    """The rules of one role, indexed by resource, so that the length of a role does not matter."""

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
    """A rule without its resources, by which it is indexed."""

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
    """One subject of one binding, with the values every request needs."""

    binding: RoleBinding
    role_key: RoleKey
    #: kube-apiserver's text.
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
    """All rules of a user in a namespace, and referenced roles that do not exist."""

    rules: tuple[PolicyRule, ...]
    missing: tuple[RoleRef, ...] = ()


class PolicyIndex:
    """Roles and bindings, indexed by namespace and subject: a decision takes a few dictionary lookups.

    Objects are updated through `put_*` and `drop_*`, in the order of the store.
    """

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

    def decide(self, user: User, request: Request) -> AuthorizationDecision:
        if is_master(user):
            return AuthorizationDecision(True)
        missing: list[RoleRef] = []
        namespace = request.namespace if isinstance(request, ResourceRequest) else ""
        for grant in self._grants_of(user, namespace):
            role = self._roles.get(grant.role_key)
            if role is None:
                missing.append(grant.binding.role_ref)
            elif role.allow(request):
                return AuthorizationDecision(True, grant.reason)
        return AuthorizationDecision(False, f"rbac: RBAC: {missing_roles(missing)}" if missing else "")

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
        """Cluster-wide grants first. A binding occurs once per matching subject."""
        identities = [(USER, user.name), *((GROUP, group) for group in user.groups)]
        for scope in ("", namespace) if namespace else ("",):
            here = self._grants.get(scope, {})
            for identity in identities:
                for grants in here.get(identity, {}).values():
                    yield from grants


def _identity(subject: Subject, namespace: str) -> tuple[str, str]:
    """Kind and name; a service account is a user with a reserved name."""
    if subject.kind == SERVICE_ACCOUNT:
        return USER, service_account_user_name(subject.namespace or namespace, subject.name)
    return subject.kind, subject.name


def missing_roles(roles: Iterable[RoleRef], *, called: str = "") -> str:
    """kube-apiserver's error for referenced roles that do not exist. `called` replaces the kind, as upstream does when
    it resolves them while another kind is written."""
    errors = dict.fromkeys(
        f'{called or role.kind.lower()}.rbac.authorization.k8s.io "{role.name}" not found' for role in roles
    )
    return next(iter(errors)) if len(errors) == 1 else f"[{', '.join(errors)}]"
