"""Access control on kube-apiserver and on ours: the same requests, with equal responses and messages."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from aiohttp import ClientSession, TCPConnector

from mooring.api.kinds import CLUSTER_ROLE, GROUP_VERSIONS, ROLE
from mooring.api.views.core import PolicyRule, Role
from mooring.client.http import HttpClient
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import ROLES, install_policy
from mooring.server.api import ApiServer
from mooring.server.auth.authenticator import Authenticator
from mooring.server.auth.authorizer import cluster_security
from mooring.server.auth.coverage import uncovered
from mooring.server.auth.rbac import ALL
from mooring.server.contract import User
from mooring.server.http.handler import RequestHandler
from mooring.server.http.listener import listen
from mooring.store.watch_cache import MemoryStore
from support.conformance.control_plane import ControlPlane

TOKEN: Final = "ours"
#: Name of the administrator on kube-apiserver.
ADMIN: Final = User("administrator", ("system:masters",), "administrator")

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
HERE: Final = f"{RBAC}/namespaces/default"
AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1"
AUTHENTICATION: Final = "/apis/authentication.k8s.io/v1"
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture(scope="module")
def key_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pki")


@pytest.fixture
async def ours(key_folder: Path) -> AsyncIterator[ClientSession]:
    """Our server in this process, on a socket."""
    clock, store = SystemClock(), MemoryStore()
    security = cluster_security(store, clock=clock, directory=key_folder, tokens={TOKEN: ADMIN})
    api = ApiServer(store, clock, random.Random(0), security)
    await install_policy(api)
    shell = RequestHandler(
        api,
        authenticator=Authenticator(security.tokens),
        access=security.access,
        clock=clock,
        rng=random.Random(0),
    )
    listener = await listen(shell.handle, "127.0.0.1", 0, None)
    async with ClientSession(listener.url, headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        yield session
    shell.end_watches()
    await listener.close()


@pytest.fixture
async def theirs(kube: ControlPlane) -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {kube.token}"}
    connector = TCPConnector(ssl=ssl.create_default_context(cadata=kube.authority))
    async with ClientSession(kube.url, headers=headers, connector=connector) as session:
        yield session


CONFIGS: Final = "/api/v1/namespaces/default/configmaps"

FORBIDDEN: Final = 403
#: Five seconds in total; an informer needs a fraction of one.
LOOKS: Final = 50
PAUSE: Final = 0.1


class Ask(NamedTuple):
    method: str
    path: str
    body: dict[str, Any] | None = None
    #: The impersonated user.
    user: str = ""
    groups: tuple[str, ...] = ()

    def headers(self) -> list[tuple[str, str]]:
        impersonation = [("Impersonate-User", self.user)] if self.user else []
        merge = [("Content-Type", "application/merge-patch+json")] if self.method == "PATCH" else []
        return [*impersonation, *(("Impersonate-Group", group) for group in self.groups), *merge]


def post(path: str, body: dict[str, Any], user: str = "", *groups: str) -> Ask:
    return Ask("POST", path, body, user, groups)


def get(path: str, user: str) -> Ask:
    return Ask("GET", path, None, user)


def role(name: str, *rules: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)} | more


def bound(name: str, role: str, *users: str, kind: str = "ClusterRole", **more: object) -> dict[str, Any]:
    ref = {"kind": kind, "name": role}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": [{"kind": "User", "name": u} for u in users]} | more


def rule(verbs: str, resources: str, group: str = "", **more: object) -> dict[str, Any]:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()} | more


def resource(verb: str, resource: str, namespace: str = "default", **more: str) -> dict[str, Any]:
    return {"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": namespace} | more}}


WRITERS: Final = rule(
    "create update patch get", "roles rolebindings clusterroles clusterrolebindings", "rbac.authorization.k8s.io"
)
CHOSEN: Final = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
NOTHING: Final = {"apiVersion": "v1", "name": "nothing"}
POD: Final = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

STORIES: Final[dict[str, list[Ask]]] = {
    "refusals": [
        get("/api/v1/namespaces/default/pods", "alice"),
        get("/api/v1/namespaces/default/pods/p", "alice"),
        get("/api/v1/pods", "alice"),
        get("/api/v1/nodes/n/status", "alice"),
        get("/apis/apps/v1/namespaces/default/deployments/d/scale", "alice"),
        get("/api/v1/namespaces/default/pods?watch=1", "alice"),
        get("/api/v1/namespaces/default/pods?fieldSelector=metadata.name=p", "alice"),
        Ask("DELETE", "/api/v1/namespaces/default/pods", None, "alice"),
        post("/api/v1/namespaces/default/pods", POD, "alice"),
        get("/metrics", "alice"),
        get("/nowhere", "alice"),
    ],
    "a right by name": [
        post(f"{HERE}/roles", role("named", rule("get list", "configmaps", resourceNames=["one"]))),
        post(f"{HERE}/rolebindings", bound("named", "named", "bob", kind="Role")),
        get("/api/v1/namespaces/default/configmaps/one", "bob"),
        get("/api/v1/namespaces/default/configmaps/two", "bob"),
        get("/api/v1/namespaces/default/configmaps", "bob"),
        get("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name=two", "bob"),
    ],
    "a selector is a name only where something is listed": [
        post(f"{HERE}/roles", role("mine", rule("*", "configmaps", resourceNames=["mine"]))),
        post(f"{HERE}/rolebindings", bound("mine", "mine", "mallory", kind="Role")),
        get(f"{CONFIGS}?fieldSelector=metadata.name=mine", "mallory"),
        post(f"{CONFIGS}?fieldSelector=metadata.name=mine", {"metadata": {"name": "another"}}, "mallory"),
        Ask("DELETE", f"{CONFIGS}?fieldSelector=metadata.name=mine", None, "mallory"),
        get(f"{CONFIGS}?fieldSelector=metadata.name=..", "mallory"),
        get(f"{CONFIGS}/another", ""),
    ],
    "what is not there": [
        get("/apis/none.example/v1/things", "alice"),
        get("/api/v1/nothings", "alice"),
        get("/api/v1/namespaces/default/pods/p/nothing", "alice"),
        get("/api/v1/namespaces/default", "alice"),
        post("/api/v1/namespaces/default/pods/p", POD, "alice"),
    ],
    "labels hand out rights": [
        post(f"{RBAC}/clusterroles", role("labellers", WRITERS)),
        post(f"{RBAC}/clusterrolebindings", bound("labellers", "labellers", "mallory")),
        *(Ask("PATCH", f"{RBAC}/clusterroles/cluster-admin", {"metadata": {"labels": {
             f"rbac.authorization.k8s.io/aggregate-to-{target}": "true"}}}, "mallory") for target in ("edit", "view")),
        post(f"{RBAC}/clusterroles", role("strong", rule("get", "secrets"))),
        post(f"{RBAC}/clusterroles", role("chosen", aggregationRule=CHOSEN)),
        Ask("PATCH", f"{RBAC}/clusterroles/strong", {"metadata": {"labels": {"a": "b"}}}, "mallory"),
        Ask("PATCH", f"{RBAC}/clusterroles/strong", {"metadata": {"finalizers": ["example.com/x"]}}, "mallory"),
        Ask("PATCH", f"{RBAC}/clusterroles/strong", {"metadata": {"finalizers": None}}, "mallory"),
        Ask("PUT", f"{RBAC}/clusterroles/strong", role("strong", rule("get", "secrets")), "mallory"),
        Ask("PATCH", f"{RBAC}/clusterroles/chosen", {"aggregationRule": None}, "mallory"),
        post(f"{RBAC}/clusterroles", role("hollow", aggregationRule={}), "mallory"),
    ],
    "escalate by name": [
        post(f"{RBAC}/clusterroles", role("climbers", WRITERS, rule("escalate", "clusterroles",
             "rbac.authorization.k8s.io", resourceNames=["high"]))),
        post(f"{RBAC}/clusterrolebindings", bound("climbers", "climbers", "trudy")),
        post(f"{RBAC}/clusterroles", role("high", rule("get", "secrets")), "trudy"),
        post(f"{RBAC}/clusterroles", role("high")),
        Ask("PATCH", f"{RBAC}/clusterroles/high", {"rules": [rule("get", "secrets")]}, "trudy"),
    ],
    "a role that is not there": [
        post(f"{HERE}/rolebindings", bound("gone", "gone", "dave", kind="Role")),
        get("/api/v1/namespaces/default/pods", "dave"),
        post(f"{AUTHORIZATION}/selfsubjectaccessreviews", resource("get", "pods"), "dave"),
    ],
    "no more than one has": [
        post(f"{RBAC}/clusterroles", role("writers", WRITERS)),
        post(f"{RBAC}/clusterrolebindings", bound("writers", "writers", "carol")),
        post(f"{RBAC}/clusterroles", role("x1", rule("get list", "pods secrets"),
             {"verbs": ["get"], "nonResourceURLs": ["/x"]}), "carol"),
        post(f"{RBAC}/clusterroles", role("x2", rule("get", "pods", resourceNames=["a", "b"])), "carol"),
        post(f"{RBAC}/clusterroles", role("x3", aggregationRule=CHOSEN), "carol"),
        post(f"{RBAC}/clusterrolebindings", bound("x4", "cluster-admin", "z"), "carol"),
        post(f"{RBAC}/clusterrolebindings", bound("x5", "nothere", "z"), "carol"),
        post(f"{HERE}/roles", role("x6", WRITERS), "carol"),
    ],
    "validation": [
        post(f"{RBAC}/clusterroles", role("a/b", rule("", "pods"), {"verbs": ["get"]}, rule("get", "pods",
             nonResourceURLs=["/x"]), aggregationRule={})),
        post(f"{HERE}/roles", role("v", {"verbs": ["get"], "nonResourceURLs": ["/x"]})),
        post(f"{HERE}/rolebindings", {"metadata": {"name": "v"}, "roleRef": {"kind": "Foo", "apiGroup": "x"},
             "subjects": [{"kind": "User", "apiGroup": "zz"}, {"kind": "ServiceAccount", "name": "A_B"},
                          {"kind": "Other", "name": "q"}, {"kind": "ServiceAccount", "name": "ab", "apiGroup": "f"}]}),
        post(f"{RBAC}/clusterrolebindings", bound("v", "x", kind="Role")),
        post(f"{HERE}/rolebindings", bound("kept", "x", "u")),
        Ask("PATCH", f"{HERE}/rolebindings/kept", {"roleRef": {"name": "y"}}),
    ],
    "reviews": [
        post(f"{AUTHORIZATION}/selfsubjectaccessreviews", resource("get", "pods")),
        post(f"{AUTHORIZATION}/selfsubjectaccessreviews", resource("get", "pods"), "eve"),
        post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {"nonResourceAttributes": {"verb": "get",
             "path": "/openapi/v3"}}}, "eve"),
        post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}}),
        post(f"{AUTHORIZATION}/subjectaccessreviews", {"spec": resource("get", "pods")["spec"] | {
             "nonResourceAttributes": {"verb": "get", "path": "/x"}}}),
        post(f"{AUTHORIZATION}/subjectaccessreviews", {"spec": resource("get", "pods")["spec"] | {"user": "eve",
             "groups": ["system:masters"]}}),
        post(f"{AUTHORIZATION}/subjectaccessreviews", resource("get", "pods"), "eve"),
        post(f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews", {"spec": resource("get", "pods", "other")[
             "spec"] | {"user": "eve"}}),
        post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, "eve"),
        post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}, "eve"),
        post(f"{AUTHENTICATION}/selfsubjectreviews", {}),
        post(f"{AUTHENTICATION}/selfsubjectreviews", {}, "eve", "dev"),
        post(f"{AUTHENTICATION}/selfsubjectreviews", {}, "system:serviceaccount:default:x"),
        post(f"{AUTHENTICATION}/selfsubjectreviews", {}, "system:anonymous"),
        post(f"{AUTHENTICATION}/tokenreviews", {"spec": {"token": "unknown"}}),
        post(f"{AUTHENTICATION}/tokenreviews", {"spec": {}}),
    ],
    "tokens": [
        post(ACCOUNTS, {"metadata": {"name": "bot"}}),
        post(f"{ACCOUNTS}/bot/token", {"spec": {"expirationSeconds": 10}}),
        post(f"{ACCOUNTS}/bot/token", {"spec": {"expirationSeconds": 100000000000}}),
        post(f"{ACCOUNTS}/missing/token", {}),
        post(f"{ACCOUNTS}/bot/token", {"metadata": {"name": "other"}}),
        post(f"{ACCOUNTS}/bot/token", {"spec": {"boundObjectRef": {"kind": "Pod"} | NOTHING}}),
        post(f"{ACCOUNTS}/bot/token", {"spec": {"boundObjectRef": {"kind": "ConfigMap"} | NOTHING}}),
        post(f"{ACCOUNTS}/bot/token", {"spec": {"audiences": ["vault"]}}),
        post(f"{ACCOUNTS}/bot/token", {}, "eve"),
    ],
}  # fmt: skip


async def answer(session: ClientSession, ask: Ask) -> tuple[int, object]:
    async with session.request(ask.method, ask.path, json=ask.body, headers=ask.headers()) as answer:
        raw = await answer.read()
    return answer.status, _comparable(msgspec.json.decode(raw) if raw.startswith(b"{") else raw.decode())


async def answer_in_time(session: ClientSession, ask: Ask, expected: tuple[int, object]) -> tuple[int, object]:
    """The response of kube-apiserver once its informers have observed the roles written before.

    Only requests without side effects are repeated: rejections, and access reviews.
    """
    found = await answer(session, ask)
    for _ in range(LOOKS):
        if found == expected or not (found[0] == FORBIDDEN or "reviews" in ask.path):
            break
        await asyncio.sleep(PAUSE)
        found = await answer(session, ask)
    return found


#: Fields that differ between any two servers.
_OWN: Final = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "token", "expirationTimestamp"}


def _comparable(value: object) -> object:
    match value:
        case dict():
            known = {key: _comparable(item) for key, item in value.items() if key not in _OWN}
            return {key: item for key, item in known.items() if item not in (None, {}, [])}
        case list():
            # Rules are in the order of the bindings found, which is unspecified.
            return sorted((_comparable(item) for item in value), key=repr)
        case _:
            return value


@pytest.mark.parametrize("story", STORIES)
async def test_access_responses_are_equal(theirs: ClientSession, ours: ClientSession, story: str) -> None:
    for ask in STORIES[story]:
        got = await answer(ours, ask)
        assert got == await answer_in_time(theirs, ask, got), ask


def served(rules: tuple[PolicyRule, ...] | None) -> list[PolicyRule]:
    """Only groups that our server serves."""
    groups = {group for group, _ in GROUP_VERSIONS} | {ALL}
    narrowed = []
    for one in rules or ():
        kept = tuple(group for group in one.api_groups if group in groups)
        if kept or one.non_resource_urls:
            narrowed.append(msgspec.structs.replace(one, api_groups=kept))
    return narrowed


async def test_default_roles_grant_the_same(client: HttpClient) -> None:
    real: dict[tuple[str, str], Role] = {("", each.name): each for each in (await client.list(CLUSTER_ROLE)).items}
    real |= {(each.namespace, each.name): each for each in (await client.list(ROLE)).items}
    for row in ROLES:
        if row.made_of:
            continue
        theirs = real[row.namespace, row.name]
        assert uncovered(row.rules, served(theirs.rules)) == [], f"{row.name} lacks rights"
        assert uncovered(theirs.rules or (), row.rules) == [], f"{row.name} has more rights"
