"""The default policy: what it grants, and how it is kept."""

from typing import Any

import pytest

from mooring.api import kinds
from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NAMESPACE
from mooring.api.patches.contract import MergePatch
from mooring.cluster.bootstrap import BINDINGS, ROLES, reconcile
from mooring.server.auth.authorizer import RbacAuthorizer
from mooring.server.auth.policy import group
from mooring.server.auth.rbac import PathRequest, Request, ResourceRequest
from mooring.server.contract import User
from mooring.server.objects import Objects
from support.server.harness import Harness


@pytest.fixture
async def cluster() -> Harness:
    server = Harness()
    for name in ("default", "kube-system"):
        await server.create(NAMESPACE, {"metadata": {"name": name}})
    await reconcile(server.api)
    return server


def bound(role: str, namespace: str = "default") -> dict[str, Any]:
    return {
        "metadata": {"name": f"to-{role}", "namespace": namespace},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": role}],
    }


def ask(verb: str, resource: str, group: str = "", *, namespace: str = "default") -> ResourceRequest:
    return ResourceRequest(verb, group, *resource.partition("/")[::2], namespace)


RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("role", "request_", "want"),
    [
        pytest.param("view", ask("get", "pods"), True, id="viewers see pods"),
        pytest.param("view", ask("list", "deployments", "apps"), True, id="viewers see deployments"),
        pytest.param("view", ask("get", "secrets"), False, id="viewers see no secrets"),
        pytest.param("view", ask("create", "pods"), False, id="viewers change nothing"),
        pytest.param("view", ask("get", "pods", namespace="other"), False, id="not elsewhere"),
        pytest.param("edit", ask("get", "pods"), True, id="editors see what viewers see"),
        pytest.param("edit", ask("create", "persistentvolumeclaims"), True, id="editors make claims"),
        pytest.param("edit", ask("create", "serviceaccounts/token"), True, id="editors make tokens"),
        pytest.param("edit", ask("get", "roles", RBAC), False, id="editors see no roles"),
        pytest.param("admin", ask("create", "rolebindings", RBAC), True, id="admins bind roles"),
        pytest.param("admin", ask("delete", "pods"), True, id="admins do what editors do"),
        pytest.param("admin", ask("create", "nodes", namespace=""), False, id="admins have no cluster"),
        pytest.param("cluster-admin", ask("anything", "whatever", "x.io"), True, id="all there is, in the namespace"),
    ],
)
async def test_what_users_get(cluster: Harness, role: str, request_: Request, want: bool) -> None:
    await cluster.create(kinds.ROLE_BINDING, bound(role))
    decision = await RbacAuthorizer(Objects(cluster.store)).decide(User(role), request_)
    assert decision.allowed is want


AUTHENTICATED = User("jane", ("system:authenticated",))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@pytest.mark.parametrize(
    ("user", "request_", "want"),
    [
        pytest.param(AUTHENTICATED, PathRequest("get", "/apis/apps/v1"), True, id="authenticated users read discovery"),
        pytest.param(AUTHENTICATED, PathRequest("get", "/metrics"), False, id="not metrics"),
        pytest.param(AUTHENTICATED, ask("create", "selfsubjectaccessreviews", "authorization.k8s.io", namespace=""),
                     True, id="authenticated users review their own access"),
        pytest.param(AUTHENTICATED, ask("create", "subjectaccessreviews", "authorization.k8s.io", namespace=""), False,
                     id="but not what others may"),
        pytest.param(AUTHENTICATED, ask("list", "pods"), False, id="nothing else"),
        pytest.param(ANONYMOUS, PathRequest("get", "/version"), True, id="anonymous users read the version"),
        pytest.param(ANONYMOUS, PathRequest("get", "/api"), False, id="not discovery"),
        pytest.param(User("x", ("system:monitoring",)), PathRequest("get", "/metrics"), True, id="monitoring"),
        pytest.param(User("system:kube-scheduler"), ask("create", "pods/binding"), True, id="the scheduler binds"),
        pytest.param(User("system:kube-scheduler"), ask("update", "persistentvolumes", namespace=""), True,
                     id="and binds volumes"),
        pytest.param(User("system:kube-scheduler"), ask("get", "secrets"), False, id="it sees no secrets"),
        pytest.param(User("system:serviceaccount:kube-system:persistent-volume-binder"),
                     ask("update", "persistentvolumeclaims/status"), True, id="the volume binder's account"),
        pytest.param(User("system:serviceaccount:default:persistent-volume-binder"),
                     ask("update", "persistentvolumeclaims/status"), False, id="not a namesake's"),
    ],
)  # fmt: skip
async def test_default_roles_of_users_and_components(
    cluster: Harness, user: User, request_: Request, want: bool
) -> None:
    assert (await RbacAuthorizer(Objects(cluster.store)).decide(user, request_)).allowed is want


async def test_aggregated_roles_are_filled(cluster: Harness) -> None:
    rules = {name: (await cluster.get(CLUSTER_ROLE, name))["rules"] for name in ("view", "edit", "admin")}
    for rule in rules["view"]:
        assert rule in rules["edit"]
    for rule in rules["edit"]:
        assert rule in rules["admin"]


async def test_every_binding_has_its_role() -> None:
    roles = {(row.namespace, row.name) for row in ROLES}
    assert all((row.namespace, row.role or row.name) in roles for row in BINDINGS)
    assert len(roles) == len(ROLES)


async def test_a_restart_writes_nothing(cluster: Harness) -> None:
    before = cluster.revision
    await reconcile(cluster.api)
    assert cluster.revision == before


async def test_a_restart_brings_back_what_is_missing_and_leaves_what_was_added(cluster: Harness) -> None:
    added = {"verbs": ["get"], "apiGroups": ["x.io"], "resources": ["things"]}
    await cluster.patch(CLUSTER_ROLE, "system:basic-user", MergePatch({"rules": [added]}))
    await cluster.patch(
        CLUSTER_ROLE_BINDING, "system:discovery", MergePatch({"subjects": [{"kind": "User", "name": "u"}]})
    )
    await cluster.delete(CLUSTER_ROLE, "view")
    await cluster.delete(CLUSTER_ROLE_BINDING, "cluster-admin")
    await reconcile(cluster.api)
    rules = (await cluster.get(CLUSTER_ROLE, "system:basic-user"))["rules"]
    assert added in rules
    assert {resource for rule in rules for resource in rule["resources"]} > {"selfsubjectreviews", "things"}
    subjects = (await cluster.get(CLUSTER_ROLE_BINDING, "system:discovery"))["subjects"]
    assert [subject["name"] for subject in subjects] == ["u", "system:authenticated"]
    assert (await cluster.get(CLUSTER_ROLE, "view"))["rules"]
    assert await cluster.get(CLUSTER_ROLE_BINDING, "cluster-admin")


async def test_objects_with_autoupdate_false_are_left_alone(cluster: Harness) -> None:
    mine = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
    await cluster.patch(CLUSTER_ROLE, "system:basic-user", MergePatch(mine | {"rules": []}))
    await reconcile(cluster.api)
    assert (await cluster.get(CLUSTER_ROLE, "system:basic-user")).get("rules", []) == []


async def test_a_binding_of_another_role_under_our_name_makes_way(cluster: Harness) -> None:
    await cluster.delete(CLUSTER_ROLE_BINDING, "system:discovery")
    theirs = bound("view")
    theirs["metadata"] = {"name": "system:discovery"}
    await cluster.create(CLUSTER_ROLE_BINDING, theirs)
    await reconcile(cluster.api)
    found = await cluster.get(CLUSTER_ROLE_BINDING, "system:discovery")
    assert found["roleRef"]["name"] == "system:discovery"
    assert found["subjects"][0]["name"] == group("system:authenticated").name
