"""Reference implementation of RBAC, as simple as possible, for checking random requests.

Shares no code with the server. Roles and bindings are plain objects in lists, every decision scans all of them, and a
rule is expanded into single rights before it is compared.
"""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from support.conformance.random_access import BINDINGS, RBAC, ROLES, Act, merged

Json = Any

UNAUTHORIZED: Final = "unauthorized"
ESCALATION: Final = "escalation"
ALLOWED: Final = "allowed"
#: The response reports that the role of a binding does not exist.
MISSING: Final = "missing"
#: The effect of an apply depends on field managers, and that of an update on the existing object.
UNKNOWN: Final = "unknown"

_RESOURCE: Final = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)/(?P<rest>[^?]+)")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "DELETE": "delete"}
_FREE: Final = {"ownerReferences", "finalizers", "managedFields", "resourceVersion"}


class Caller(NamedTuple):
    user: str
    groups: tuple[str, ...]


class AccessAttributes(NamedTuple):
    """A verb on a resource, or on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def attributes_of(act: Act) -> AccessAttributes:
    url = urlsplit(act.path)
    found = _RESOURCE.fullmatch(url.path)
    if found is None:
        return AccessAttributes(act.method.lower(), path=url.path)
    parts = [unquote(part) for part in found["rest"].split("/")]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in ("status", "finalize"):
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    resource = parts[0] if len(parts) < 3 else f"{parts[0]}/{parts[2]}"
    verb, query = _VERBS[act.method], parse_qs(url.query)
    if not name and verb == "delete":
        verb = "deletecollection"
    if not name and verb == "get":
        verb = "watch" if query.get("watch", ["0"])[0] not in ("0", "false") else "list"
        name = _only_name(query.get("fieldSelector", [""])[0])
    return AccessAttributes(verb, found["group"] or "", resource, namespace, name)


def _only_name(selector: str) -> str:
    """Only for selectors of the generator: the first of several names counts; an escaped comma is part of it."""
    terms = [term.replace("\0", ",") for term in selector.replace(r"\,", "\0").split(",")]
    if any("=" not in term for term in terms):
        return ""
    names = [term.replace("==", "=").split("=")[1] for term in terms if re.match("metadata.name={1,2}[^=]", term)]
    return names[0] if names and names[0] not in (".", "..") else ""


class Oracle:
    def __init__(self, account: str) -> None:
        self._account = account
        #: Collection and name -> object.
        self.objects: dict[tuple[str, str, str], Json] = {}

    # Callers.

    def caller(self, act: Act) -> Caller | None:
        """The effective user of the request; None if the account may not impersonate that user."""
        actor, account = act.actor, self._caller_of_account()
        if actor.by_account and not actor.user:
            return account
        if not actor.user:
            return Caller("admin", ("system:masters",))
        if actor.by_account and not all(self.allows(account, attributes) for attributes in self._impersonation(act)):
            return None
        groups = list(actor.groups)
        if actor.user.startswith("system:serviceaccount:") and not groups:
            groups = [*account.groups[:2]]
        if actor.user == "system:anonymous":
            groups += ["system:unauthenticated"]
        elif "system:authenticated" not in groups:
            groups.append("system:authenticated")
        return Caller(actor.user, tuple(groups))

    def _caller_of_account(self) -> Caller:
        namespace = self._account.split(":")[2]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return Caller(self._account, groups)

    def _impersonation(self, act: Act) -> Iterator[AccessAttributes]:
        actor = act.actor
        if actor.user.startswith("system:serviceaccount:"):
            _, _, namespace, name = actor.user.split(":")
            yield AccessAttributes("impersonate", "", "serviceaccounts", namespace, name)
        else:
            yield AccessAttributes("impersonate", "", "users", "", actor.user)
        for group in actor.groups:
            yield AccessAttributes("impersonate", "", "groups", "", group)
        for key, value in actor.extra:
            yield AccessAttributes("impersonate", "authentication.k8s.io", f"userextras/{key}", "", value)
        if actor.uid:
            yield AccessAttributes("impersonate", "authentication.k8s.io", "uids", "", actor.uid)

    # Authorization.

    def rules(self, caller: Caller, namespace: str) -> Iterator[tuple[str, Json]]:
        """The namespace of the binding, and each rule it grants."""
        for (plural, place, _), binding in self.objects.items():
            if plural not in BINDINGS or place not in ("", namespace):
                continue
            if any(_is_of(subject, caller) for subject in binding.get("subjects") or []):
                ref = binding["roleRef"]
                where = ("clusterroles", "") if ref["kind"] == "ClusterRole" else ("roles", place)
                role = self.objects.get((*where, ref["name"]), {})
                for rule in role.get("rules") or []:
                    yield place, rule

    def allows(self, caller: Caller, attributes: AccessAttributes) -> bool:
        if "system:masters" in caller.groups:
            return True
        return any(
            _allows(rule, attributes)
            for place, rule in self.rules(caller, attributes.namespace)
            if not (attributes.path and place)
        )

    def verdict(self, act: Act) -> str:
        caller, attributes = self.caller(act), attributes_of(act)
        if caller is None or not self.allows(caller, attributes):
            return UNAUTHORIZED
        if (attributes.verb, attributes.resource) == ("update", "leases") and not self.allows(
            caller, attributes._replace(verb="create")
        ):
            return UNKNOWN  # it may be one that creates
        if (
            attributes.group != RBAC
            or attributes.verb not in ("create", "update", "patch")
            or "system:masters" in caller.groups
        ):
            return ALLOWED
        return self._write(act, caller, attributes)

    # Escalation checks.

    def _write(self, act: Act, caller: Caller, attributes: AccessAttributes) -> str:
        name = act.body.get("metadata", {}).get("name", "") if attributes.verb == "create" else attributes.name
        old = self.objects.get((attributes.resource, attributes.namespace, name))
        applies = "apply" in act.content_type
        if attributes.verb == "create":
            old, new = None, act.body
        elif old is None:
            if act.replay or (attributes.verb == "patch" and not applies):
                return ALLOWED  # a mistake, or nothing to change
            granted = self._grants(caller, attributes, None, act.body)
            return (
                granted
                if granted != ALLOWED or self.allows(caller, attributes._replace(verb="create"))
                else UNAUTHORIZED
            )
        elif applies:
            new = old | act.body
        elif act.replay or attributes.verb == "patch":
            new = merged(old, act.body)
        else:
            new = act.body
        return self._grants(caller, attributes, old, new, applies=applies)

    def _grants(
        self, caller: Caller, attributes: AccessAttributes, old: Json, new: Json, *, applies: bool = False
    ) -> str:
        if attributes.resource in ROLES and self.allows(caller, attributes._replace(verb="escalate")):
            return ALLOWED
        if old is not None and _weighty(new) == _weighty(old):
            labels = new["metadata"].get("labels", {}).items() - old["metadata"].get("labels", {}).items()
            if applies and not labels:
                return UNKNOWN
            if not applies and _rest(new) == _rest(old):
                return ALLOWED
        held = [rule for _, rule in self.rules(caller, attributes.namespace)]
        if attributes.resource in ROLES:
            aggregates = any((role or {}).get("aggregationRule") for role in (old, new))
            granted = new.get("rules") or []
            if aggregates:
                everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
                granted = [*granted, everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
        else:
            ref = new["roleRef"]
            plural, place = ("clusterroles", "") if ref["kind"] == "ClusterRole" else ("roles", attributes.namespace)
            if self.allows(caller, AccessAttributes("bind", RBAC, plural, attributes.namespace, ref["name"])):
                return ALLOWED
            role = self.objects.get((plural, place, ref["name"]))
            if role is None:
                return MISSING
            granted = role.get("rules") or []
        rights = [right for rule in granted for right in _rights(rule)]
        return ALLOWED if all(any(_covers(mine, right) for mine in held) for right in rights) else ESCALATION


def _is_of(subject: Json, caller: Caller) -> bool:
    match subject["kind"]:
        case "User":
            return bool(subject["name"] == caller.user)
        case "Group":
            return subject["name"] in caller.groups
        case _:
            return f"system:serviceaccount:{subject['namespace']}:{subject['name']}" == caller.user


def _allows(rule: Json, attributes: AccessAttributes) -> bool:
    if not _among(attributes.verb, rule["verbs"]):
        return False
    if attributes.path:
        return any(_below(url, attributes.path) for url in rule.get("nonResourceURLs", []))
    names = rule.get("resourceNames")
    return (
        _among(attributes.group, rule.get("apiGroups", []))
        and _among_resources(attributes.resource, rule.get("resources", []))
        and (not names or attributes.name in names)
    )


def _rights(rule: Json) -> Iterator[Json]:
    for verb, url in product(rule["verbs"], rule.get("nonResourceURLs", [])):
        yield {"verb": verb, "url": url}
    names = rule.get("resourceNames") or [None]
    for verb, group, resource, name in product(
        rule["verbs"], rule.get("apiGroups", []), rule.get("resources", []), names
    ):
        yield {"verb": verb, "group": group, "resource": resource, "name": name}


def _covers(held: Json, right: Json) -> bool:
    if not _among(right["verb"], held["verbs"]):
        return False
    if "url" in right:
        return any(_below(url, right["url"]) for url in held.get("nonResourceURLs", []))
    names = held.get("resourceNames")
    return (
        _among(right["group"], held.get("apiGroups", []))
        and _among_resources(right["resource"], held.get("resources", []))
        and (not names or right["name"] in names)
    )


def _among(word: str, words: list[str]) -> bool:
    return word in words or "*" in words


def _among_resources(resource: str, resources: list[str]) -> bool:
    below = resource.split("/", 1)[1:]
    return _among(resource, resources) or (bool(below) and f"*/{below[0]}" in resources)


def _below(url: str, path: str) -> bool:
    return url == path or (url[-1] == "*" and path.startswith(url.rstrip("*")))


def _weighty(obj: Json) -> Json:
    fields = ("rules", "aggregationRule", "roleRef", "subjects")
    return {field: obj[field] for field in fields if obj.get(field)}


def _rest(obj: Json) -> Json:
    """The compared metadata; a body that was not read before lacks some of it."""
    return {field: value for field, value in obj["metadata"].items() if field not in _FREE and value}
