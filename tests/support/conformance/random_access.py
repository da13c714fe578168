"""Random roles, bindings and requests from a seed, for differential tests of authorization.

`conformance/api/test_access_differential` sends them to kube-apiserver and to ours, and
`server/auth/test_random_access` to ours alone. A scenario has objects of its own, with unique names, and a list of
requests. They are sent by a user whose only rights are those of the scenario and whom the administrator impersonates,
or by a service account with a token. Few distinct values are used, so that rights and requests match often.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from msgspec import Struct

T = TypeVar("T")
Json = Any

RBAC: Final = "rbac.authorization.k8s.io"
RBAC_PATH: Final = f"/apis/{RBAC}/v1"
#: The label of all objects of a scenario, so that requests for collections affect no other scenario.
SCENARIO_LABEL: Final = "example.com/scenario"
AGGREGATE: Final = "example.com/aggregate"

ROLES: Final = ("roles", "clusterroles")
BINDINGS: Final = ("rolebindings", "clusterrolebindings")
_KINDS: Final = {
    "roles": "Role",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
    "clusterrolebindings": "ClusterRoleBinding",
}

#: Group, version, resource, whether it has a namespace, whether both servers have it.
_RESOURCES: Final = (
    ("", "v1", "configmaps", True, True),
    ("", "v1", "secrets", True, True),
    ("", "v1", "serviceaccounts", True, True),
    ("coordination.k8s.io", "v1", "leases", True, True),
    ("apps", "v1", "deployments", True, True),
    ("", "v1", "pods", True, True),
    ("", "v1", "nodes", False, True),
    ("storage.k8s.io", "v1", "storageclasses", False, True),
    ("batch", "v1", "jobs", True, False),
    ("none.example", "v1", "things", True, False),
)
#: Objects that every scenario grants one account a right to by name.
_NAMED: Final = _RESOURCES[:2]
_SUBRESOURCES: Final = (
    ("", "v1", "pods", "status", True),
    ("", "v1", "pods", "eviction", True),
    ("", "v1", "pods", "log", False),
    ("", "v1", "serviceaccounts", "token", True),
    ("apps", "v1", "deployments", "scale", True),
    ("apps", "v1", "deployments", "status", True),
    ("apps", "v1", "deployments", "nothing", False),
)
_VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_PATHS: Final = ("/metrics", "/x", "/x/y", "/xy", "/debug/x", "/apis", "/openapi/v2", "/api/v1", "/logs")
_URLS: Final = ("/metrics", "/x", "/x/*", "/x*", "/x/**", "*", "/debug/*", "/apis", "/logs*")
_NAMES: Final = ("a", "b", "c")
#: An aggregation rule that selects no role.
_HOLLOW: Final = {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE: "none"}}]}
#: Rules that hardly a user of a scenario has.
_STRONG: Final = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
#: Field selectors, and whether one names an object.
_SELECTORS: Final = (
    "metadata.name=a",
    "metadata.name==b",
    "metadata.namespace=x,metadata.name=a",
    "metadata.name!=a",
    "metadata.name=..",
    r"metadata.name=a\,b",
    "metadata.name",
    "metadata.name=a,metadata.name=b",
)


class Actor(Struct, frozen=True):
    """The impersonated user; with a token, impersonated by the service account of the token."""

    user: str
    groups: tuple[str, ...] = ()
    #: The service account that sends the request, instead of the administrator.
    by_account: bool = False
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    def headers(self) -> list[tuple[str, str]]:
        named = [("Impersonate-User", self.user)] if self.user else []
        impersonated_uid = [("Impersonate-Uid", self.uid)] if self.uid else []
        more = [(f"Impersonate-Extra-{key}", value) for key, value in self.extra]
        return [*named, *(("Impersonate-Group", group) for group in self.groups), *impersonated_uid, *more]


class Act(Struct, frozen=True):
    """One request of one actor."""

    label: str
    actor: Actor
    method: str
    path: str
    body: Json = None
    content_type: str = "application/json"
    #: Whether both servers serve the path: otherwise only rejections are compared.
    exists: bool = True
    #: The object at the path is read first, changed by this merge patch, and sent back whole.
    replay: bool = False

    @property
    def writes_access(self) -> bool:
        return RBAC in self.path and self.method != "GET"


class AccessScenario(Struct, frozen=True):
    seed: int
    namespaces: tuple[str, ...]
    account: str
    #: Collections and bodies, in the order in which the administrator creates them.
    objects: tuple[tuple[str, Json], ...]
    acts: tuple[Act, ...]


def draw_scenario(seed: int, acts: int) -> AccessScenario:
    return _ScenarioBuilder(seed).draw_scenario(acts)


class _ScenarioBuilder:
    def __init__(self, seed: int) -> None:
        self._dice = random.Random(f"access {seed}")
        self._seed = seed
        self._namespaces = (f"w{seed}-a", f"w{seed}-b")
        self._account = f"system:serviceaccount:{self._namespaces[0]}:bot"
        self._users = tuple(f"w{seed}-{name}" for name in ("alice", "bob", "carol"))
        self._groups = tuple(f"w{seed}-{name}" for name in ("dev", "ops"))
        #: Names that objects of each kind may have; some never exist.
        self._names = {plural: tuple(f"w{seed}-{plural[:-1]}-{n}" for n in range(5)) for plural in _KINDS}
        self._hollow = f"w{seed}-hollow"
        self._strong = f"w{seed}-strong"

    def draw_scenario(self, acts: int) -> AccessScenario:
        objects = [("/api/v1/namespaces", {"metadata": {"name": name}}) for name in self._namespaces]
        objects.append((f"/api/v1/namespaces/{self._namespaces[0]}/serviceaccounts", {"metadata": {"name": "bot"}}))
        for name in _NAMES[:2]:
            body = {"metadata": {"name": name, "labels": {SCENARIO_LABEL: f"w{self._seed}"}}}
            objects.append((f"/api/v1/namespaces/{self._namespaces[0]}/configmaps", body))
        for plural in (*ROLES, *BINDINGS):
            for name in self._names[plural][:-1]:
                places = self._namespaces if plural in ("roles", "rolebindings") else ("",)
                objects += [(collection(plural, place), self._object(plural, name)) for place in places]
        objects += self._permanent_roles()
        objects.append((collection("clusterroles", ""), {"metadata": {"name": self._strong}, "rules": _STRONG}))
        objects.append(
            (collection("clusterroles", ""), {"metadata": {"name": self._hollow}, "aggregationRule": _HOLLOW})
        )
        # Every scenario ends with the one request whose answers are known to differ.
        made = (*(self._act() for _ in range(acts - 1)), self._rules_review(Actor("", by_account=True)))
        return AccessScenario(self._seed, self._namespaces, self._account, tuple(objects), made)

    def _rules_review(self, actor: Actor) -> Act:
        spec = {"namespace": self._one((*self._namespaces, ""))}
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        return Act("rules review", actor, "POST", path, {"spec": spec})

    # Objects.

    def _permanent_roles(self) -> list[tuple[str, Json]]:
        """Rights that no request removes: without them most requests would be rejected early."""
        alice, bob, carol = self._users
        rows = (*_RESOURCES, (RBAC, "v1", "*", True, True))
        wide = [
            self._about(_VERBS, [row[0] for row in rows], [row[2] for row in rows] * 3, _NAMES, chance_of_names=0.1)
            for _ in range(4)
        ]
        verbs = ("get", "create", "update", "patch", "delete")
        writing = {"verbs": self._dice.sample(verbs, 4), "apiGroups": [RBAC], "resources": [*ROLES, *BINDINGS]}
        questions = {
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
        }
        by_name = [row[2] for row in _NAMED]
        given: list[tuple[str, Json]] = []
        for name, rules, users in (
            ("wide", [*wide, questions], (alice, bob)),
            ("named", [{"verbs": ["*"], "apiGroups": [""], "resources": by_name, "resourceNames": ["a"]}], (carol,)),
            ("writing", [writing, *self._rules(paths=True), questions], (carol, bob)),
        ):
            called = f"w{self._seed}-{name}"
            subjects = [{"kind": "User", "apiGroup": RBAC, "name": user} for user in users]
            subjects.append({"kind": "ServiceAccount", "name": "bot", "namespace": self._namespaces[0]})
            ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": called}
            given.append((collection("clusterroles", ""), {"metadata": {"name": called}, "rules": rules}))
            bound = {"metadata": {"name": called}, "roleRef": ref, "subjects": subjects}
            given.append((collection("clusterrolebindings", ""), bound))
        return given

    def _object(self, plural: str, name: str) -> Json:
        body: Json = {
            "apiVersion": f"{RBAC}/v1",
            "kind": _KINDS[plural],
            "metadata": {"name": name, "labels": self._labels()},
        }
        if plural in ROLES:
            body["rules"] = self._rules(paths=plural == "clusterroles")
            if plural == "clusterroles" and self._chance(0.25):
                body["aggregationRule"] = self._aggregation()
        else:
            body |= {"roleRef": self._role_ref(plural), "subjects": self._subjects()}
        return body

    def _labels(self) -> dict[str, str]:
        aggregated = {AGGREGATE: self._one(("x", "y"))} if self._chance(0.4) else {}
        return {SCENARIO_LABEL: f"w{self._seed}"} | aggregated

    def _aggregation(self) -> Json:
        return {
            "clusterRoleSelectors": [
                {"matchLabels": {AGGREGATE: self._one(("x", "y")), SCENARIO_LABEL: f"w{self._seed}"}}
            ]
        }

    def _rules(self, *, paths: bool) -> list[Json]:
        return [self._rule(paths=paths) for _ in range(self._dice.randint(0, 5))]

    def _rule(self, *, paths: bool) -> Json:
        kind = self._dice.random()
        if paths and kind < 0.15:
            return {"verbs": self._verbs(("get", "post", "delete")), "nonResourceURLs": self._some(_URLS, 2)}
        if kind < 0.3:
            verbs = ("get", "create", "update", "patch", "delete", "bind", "escalate", "deletecollection")
            named = self._some([name for names in self._names.values() for name in names], 3)
            return self._about(verbs, (RBAC,), (*ROLES, *BINDINGS), named, chance_of_names=0.2)
        if kind < 0.4:
            # Of accounts, in the core group; uids and extras are in another.
            named = [*self._users, *self._groups, "system:masters", "u1"]
            groups = ("", "authentication.k8s.io")
            resources = ("users", "groups", "serviceaccounts", "uids", "userextras/scopes")
            return self._about(("impersonate",), groups, resources, named, chance_of_names=0.2)
        if kind < 0.52:
            groups = [self._one(("", RBAC, "apps", "*"))]
            return {"verbs": self._verbs(_VERBS), "apiGroups": groups, "resources": [self._one(("*", "*", "pods"))]}
        rows = self._some(_RESOURCES, 3)
        resources = [row[2] for row in rows]
        if self._chance(0.3):
            resources.append(self._one([f"{row[2]}/{row[3]}" for row in _SUBRESOURCES] + ["*/scale", "*/status", "*"]))
        groups = [row[0] for row in rows] if self._chance(0.85) else ["*"]
        return self._about(_VERBS, groups, resources, (*_NAMES, "", *self._namespaces), chance_of_names=0.2)

    def _about(
        self,
        verbs: Sequence[str],
        groups: Sequence[str],
        resources: Sequence[str],
        names: Sequence[str],
        *,
        chance_of_names: float,
    ) -> Json:
        rule = {
            "verbs": self._verbs(verbs),
            "apiGroups": list(dict.fromkeys(groups)),
            "resources": self._some(resources, 3),
        }
        if self._chance(chance_of_names):
            rule["resourceNames"] = self._some(names, 2)
        return rule

    def _verbs(self, verbs: Sequence[str]) -> list[str]:
        return ["*"] if self._chance(0.2) else self._some(verbs, 6)

    def _role_ref(self, plural: str) -> Json:
        kind = "ClusterRole" if plural == "clusterrolebindings" or self._chance(0.5) else "Role"
        name = self._one(self._names["clusterroles" if kind == "ClusterRole" else "roles"])
        if kind == "ClusterRole" and self._chance(0.05):
            name = "cluster-admin"
        return {"apiGroup": RBAC, "kind": kind, "name": name}

    def _subjects(self) -> list[Json]:
        return [self._subject() for _ in range(self._dice.randint(0, 4))]

    def _subject(self) -> Json:
        kind = self._dice.random()
        if kind < 0.6:
            return {"kind": "User", "apiGroup": RBAC, "name": self._one(self._users)}
        if kind < 0.8:
            return {"kind": "Group", "apiGroup": RBAC, "name": self._one(self._groups)}
        return {"kind": "ServiceAccount", "name": "bot", "namespace": self._namespaces[0]}

    # Requests.

    def _act(self) -> Act:
        kind = self._dice.random()
        if kind < 0.30:
            return self._on_resource()
        if kind < 0.42:
            return self._selecting()
        if kind < 0.52:
            return self._on_subresource()
        if kind < 0.60:
            return self._on_path()
        if kind < 0.70:
            return self._question()
        return self._on_access()

    def _actor(self) -> Actor:
        groups = tuple(self._some(self._groups, 2)) if self._chance(0.4) else ()
        if self._chance(0.8):
            return Actor(self._one(self._users), groups)
        if self._chance(0.4):
            return Actor("", by_account=True)
        # The account with the token impersonates a user, if it may.
        whom = self._one((*self._users, self._account, "system:anonymous"))
        groups = groups if self._chance(0.8) else (*groups, self._one(("system:masters", "system:authenticated")))
        extra = (("scopes", self._one(("a", "b"))),) if self._chance(0.2) else ()
        return Actor(whom, groups, True, self._one(("u1", "")), extra)

    def _on_resource(self) -> Act:
        if self._chance(0.15):
            return self._on_namespace()
        group, version, resource, namespaced, known = self._one(_RESOURCES)
        place = self._place(namespaced)
        base = _base(group, version, place, resource)
        method = self._one(("GET", "GET", "POST", "PUT", "PATCH", "DELETE"))
        name = "" if method == "POST" or (method == "GET" and self._chance(0.4)) else self._one(_NAMES)
        if not place and namespaced and name:
            return Act("list everywhere", self._actor(), "GET", f"{base}?limit=1", exists=known)
        path = f"{base}/{name}" if name else base
        if method == "GET" and not name:
            path += self._one(("?limit=1", "?limit=1&watch=1&timeoutSeconds=1", "?limit=1&watch=false"))
        return self._request(f"{method} {resource}", method, path, self._one(_NAMES), resource, exists=known)

    def _on_namespace(self) -> Act:
        """A namespace is in the namespace of its name."""
        name = self._one((*self._namespaces, "default", "nowhere"))
        path = self._one(
            (f"/api/v1/namespaces/{name}", f"/api/v1/namespaces/{name}/status", "/api/v1/namespaces?limit=1")
        )
        return Act("GET namespaces", self._actor(), "GET", path)

    def _selecting(self) -> Act:
        """Selectors, also for verbs that ignore them."""
        rows = _NAMED if self._chance(0.6) else _RESOURCES
        group, version, resource, namespaced, known = self._one(rows)
        base = _base(group, version, self._place(namespaced), resource)
        selector = quote(self._one(_SELECTORS), safe="=")
        method = self._one(("GET", "GET", "POST", "DELETE"))
        query = f"limit=1&fieldSelector={selector}"
        if method == "GET" and self._chance(0.3):
            query += "&watch=1&timeoutSeconds=1"
        if method == "DELETE":
            query += f"&labelSelector={quote(SCENARIO_LABEL, safe='')}=w{self._seed}"
        label = f"{method} {resource} with a selector"
        return self._request(label, method, f"{base}?{query}", self._one(_NAMES), resource, exists=known)

    def _on_subresource(self) -> Act:
        group, version, resource, subresource, known = self._one(_SUBRESOURCES)
        base = _base(group, version, self._one(self._namespaces), resource)
        method = self._one(("GET", "POST", "PUT", "PATCH"))
        path = f"{base}/{self._one(_NAMES)}/{subresource}"
        return self._request(f"{method} {resource}/{subresource}", method, path, "a", resource, exists=known)

    def _on_path(self) -> Act:
        path = self._one(_PATHS)
        return Act(f"path {path}", self._actor(), self._one(("GET", "POST", "DELETE")), path, exists=False)

    def _question(self) -> Act:
        kind = self._dice.random()
        base = "/apis/authorization.k8s.io/v1"
        if kind < 0.15:
            return self._rules_review(self._actor())
        spec = self._asked()
        if kind < 0.55:
            return Act("self review", self._actor(), "POST", f"{base}/selfsubjectaccessreviews", {"spec": spec})
        about = {"user": self._one(self._users), "groups": self._some(self._groups, 2)}
        path = f"{base}/subjectaccessreviews"
        if self._chance(0.3) and "resourceAttributes" in spec:
            place = spec["resourceAttributes"]["namespace"] = self._one(self._namespaces)
            path = f"{base}/namespaces/{place}/localsubjectaccessreviews"
        actor = self._actor() if self._chance(0.3) else Actor("")
        return Act("review", actor, "POST", path, {"spec": spec | about})

    def _asked(self) -> Json:
        if self._chance(0.2):
            return {"nonResourceAttributes": {"verb": self._one(("get", "post")), "path": self._one(_PATHS)}}
        group, version, resource, _, _ = self._one((*_RESOURCES, (RBAC, "v1", self._one(ROLES), True, True)))
        attributes = {
            "verb": self._one((*_VERBS, "bind", "escalate", "impersonate")),
            "group": group,
            "version": version,
            "resource": resource,
            "namespace": self._one((*self._namespaces, "")),
            "name": self._one((*_NAMES, "")),
        }
        if self._chance(0.2):
            attributes["subresource"] = self._one(("status", "scale"))
        return {"resourceAttributes": attributes}

    def _on_access(self) -> Act:
        """Roles and bindings, read and written by users with some rights to them."""
        if self._chance(0.2):
            return self._on_hollow_role() if self._chance(0.5) else self._on_strong_role()
        plural = self._one(tuple(_KINDS))
        place = self._one(self._namespaces) if plural in ("roles", "rolebindings") else ""
        base, name = collection(plural, place), self._one(self._names[plural])
        one = f"{base}/{name}"
        kind = self._dice.random()
        if kind < 0.1:
            return Act(f"GET {plural}", self._actor(), "GET", one)
        if kind < 0.2:
            return Act(f"DELETE {plural}", self._actor(), "DELETE", one)
        if kind < 0.4:
            return Act(f"POST {plural}", self._actor(), "POST", self._with_selector(base), self._object(plural, name))
        if kind < 0.55:
            return Act(f"PUT {plural}", self._actor(), "PUT", one, self._object(plural, name))
        if kind < 0.7:
            return Act(f"replay {plural}", self._actor(), "PUT", one, self._change(plural), replay=True)
        if kind < 0.85:
            content_type = "application/merge-patch+json"
            return Act(f"PATCH {plural}", self._actor(), "PATCH", one, self._change(plural), content_type)
        content_type = "application/apply-patch+yaml"
        path = f"{one}?fieldManager=m&force=true"
        return Act(f"apply {plural}", self._actor(), "PATCH", path, self._object(plural, name), content_type)

    def _on_hollow_role(self) -> Act:
        """A role that aggregates no other: who may write it depends on its aggregation rule alone."""
        return self._change_of(self._hollow, {"aggregationRule": self._one((None, None, _HOLLOW))})

    def _on_strong_role(self) -> Act:
        """A role with all rights, of which only a label changes; no role aggregates those with that label."""
        return self._change_of(self._strong, {"metadata": {"labels": {AGGREGATE: self._one(("z", "zz"))}}})

    def _change_of(self, name: str, change: Json) -> Act:
        path = f"{collection('clusterroles', '')}/{name}"
        if self._chance(0.5):
            return Act(f"replay {name}", self._actor(), "PUT", path, change, replay=True)
        return Act(f"PATCH {name}", self._actor(), "PATCH", path, change, "application/merge-patch+json")

    def _with_selector(self, base: str) -> str:
        return f"{base}?fieldSelector=metadata.name={self._one(self._names['roles'])}" if self._chance(0.2) else base

    def _change(self, plural: str) -> Json:
        """A merge patch of owner references, labels, or rules."""
        kind = self._dice.random()
        if kind < 0.2:
            return {"metadata": {"finalizers": ["example.com/kept"] if self._chance(0.3) else None}}
        if kind < 0.3:
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
            return {"metadata": {"ownerReferences": [owner]}}
        if kind < 0.55:
            return {"metadata": {"labels": {AGGREGATE: self._one(("x", "y", None))}}}
        if kind < 0.6:
            return {}
        if plural in BINDINGS:
            return {"subjects": self._subjects()}
        if plural == "clusterroles" and kind < 0.75:
            return {"aggregationRule": self._one((None, self._aggregation()))}
        return {"rules": self._rules(paths=plural == "clusterroles")}

    def _request(self, label: str, method: str, path: str, name: str, resource: str, *, exists: bool) -> Act:
        body: Json = None
        content_type = "application/json"
        if method in ("POST", "PUT", "PATCH"):
            body = {"metadata": {"name": name, "labels": {SCENARIO_LABEL: f"w{self._seed}"}}}
        if method == "PATCH":
            content_type, body = "application/merge-patch+json", {"metadata": {"labels": {"patched": "yes"}}}
        return Act(label, self._actor(), method, path, body, content_type, exists)

    def _place(self, namespaced: bool) -> str:
        return self._one((*self._namespaces, *self._namespaces, "")) if namespaced else ""

    # Random choices.

    def _chance(self, chance: float) -> bool:
        return self._dice.random() < chance

    def _one(self, choices: Sequence[T]) -> T:
        return self._dice.choice(choices)

    def _some(self, choices: Sequence[T], most: int) -> list[T]:
        return self._dice.sample(choices, self._dice.randint(1, min(most, len(choices))))


def collection(plural: str, namespace: str) -> str:
    return f"{RBAC_PATH}/namespaces/{namespace}/{plural}" if namespace else f"{RBAC_PATH}/{plural}"


def _base(group: str, version: str, namespace: str, resource: str) -> str:
    start = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{start}/namespaces/{namespace}/{resource}" if namespace else f"{start}/{resource}"


def aggregated(roles: Mapping[str, Json]) -> dict[str, list[Json]]:
    """Missing rules of aggregated cluster roles by name, as a controller would write them.

    Roles may aggregate each other in cycles that never converge: one round is as good as any number.
    """
    current = dict(roles)
    for name in sorted(roles):
        selectors = (roles[name].get("aggregationRule") or {}).get("clusterRoleSelectors", [])
        if not selectors:
            continue
        rules: list[Json] = []
        for other in sorted(current):
            labels = current[other]["metadata"].get("labels", {})
            if other != name and any(selector["matchLabels"].items() <= labels.items() for selector in selectors):
                rules += [rule for rule in current[other].get("rules") or [] if rule not in rules]
        current[name] = current[name] | {"rules": rules}
    return {name: role["rules"] for name, role in current.items() if role.get("rules") != roles[name].get("rules")}


def merged(target: Json, patch: Json) -> Json:
    """The result of a merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
