"""Upstream's words for "you may not"."""

import pytest

from mooring.api import kinds
from mooring.api.errors import Details, Forbidden
from mooring.api.kinds import Kind
from mooring.api.views.meta import ApiObject
from mooring.server.auth.access import refusal, require
from mooring.server.auth.rbac import (
    AuthorizationDecision,
    PathRequest,
    Request,
    ResourceRequest,
    request_at,
    request_for,
)
from mooring.server.contract import Target, User, subresources
from support.server.policies import Policy

ALICE = User("alice", ("dev", "system:authenticated"))
NOTHING = AuthorizationDecision(False)


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(
            request_for("list", Target(kinds.POD, "default")),
            'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"',
            id="collection in a namespace",
        ),
        pytest.param(
            request_for("watch", Target(kinds.POD)),
            'pods is forbidden: User "alice" cannot watch resource "pods" in API group "" at the cluster scope',
            id="collection everywhere",
        ),
        pytest.param(
            request_for("get", Target(kinds.STATEFUL_SET, "d", "web")),
            'statefulsets.apps "web" is forbidden: User "alice" cannot get resource "statefulsets" '
            'in API group "apps" in the namespace "d"',
            id="object in a group",
        ),
        pytest.param(
            request_for("patch", Target(kinds.NODE, "", "n", "status")),
            'nodes "n" is forbidden: User "alice" cannot patch resource "nodes/status" '
            'in API group "" at the cluster scope',
            id="subresource",
        ),
        pytest.param(
            request_for("list", Target(kinds.POD, "d"), fields="metadata.name=p"),
            'pods "p" is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "d"',
            id="one object of a collection",
        ),
        pytest.param(PathRequest("get", "/metrics"), 'forbidden: User "alice" cannot get path "/metrics"', id="a path"),
    ],
)
async def test_forbidden_texts(request_: Request, want: str) -> None:
    with pytest.raises(Forbidden) as refused:
        await require(Policy(), ALICE, request_)
    assert refused.value.message == want


def test_forbidden_status_details() -> None:
    error = refusal(ALICE, request_for("get", Target(kinds.STATEFUL_SET, "d", "web")), NOTHING)
    assert error.details == Details(name="web", group="apps", kind="statefulsets")


def test_forbidden_names_missing_roles() -> None:
    why = AuthorizationDecision(False, 'RBAC: role.rbac.authorization.k8s.io "gone" not found')
    error = refusal(ALICE, request_for("list", Target(kinds.NODE)), why)
    assert error.message.endswith('at the cluster scope: RBAC: role.rbac.authorization.k8s.io "gone" not found')


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        pytest.param("metadata.name=a", "a", id="equal"),
        pytest.param("spec.nodeName=n,metadata.name==a", "a", id="among others"),
        pytest.param("metadata.name!=a", "", id="unequal"),
        pytest.param("metadata.namespace=a", "", id="another field"),
        pytest.param("metadata.name", "", id="no selector at all"),
        pytest.param(r"metadata.name=a\,b", "a,b", id="escaped"),
        pytest.param("metadata.name=a/b", "", id="no name of an object"),
        pytest.param("metadata.name=..", "", id="no segment of a path"),
    ],
)
def test_field_selector_names_object_of_list(fields: str, name: str) -> None:
    assert request_for("list", Target(kinds.POD, "d"), fields=fields).name == name


@pytest.mark.parametrize("verb", ["get", "create", "update", "patch", "delete", "deletecollection", "bind"])
def test_a_selector_names_nothing_for_other_verbs(verb: str) -> None:
    """With it, a right to one name would be a right to create objects of any name."""
    assert request_for(verb, Target(kinds.SECRET, "d"), fields="metadata.name=mine").name == ""


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", "/metrics", PathRequest("get", "/metrics")),
        ("POST", "/apis/apps/v1", PathRequest("post", "/apis/apps/v1")),
        ("GET", "/apis/none.example/v1/things", ResourceRequest("list", "none.example", "things")),
        ("DELETE", "/api/v1/namespaces/d/pods", ResourceRequest("deletecollection", "", "pods", namespace="d")),
        ("GET", "/api/v1/namespaces/d", ResourceRequest("get", "", "namespaces", namespace="d", name="d")),
        ("PUT", "/api/v1/namespaces/d/status", ResourceRequest("update", "", "namespaces", "status", "d", "d")),
        ("POST", "/api/v1/namespaces", ResourceRequest("create", "", "namespaces")),
        ("POST", "/api/v1/namespaces/d/pods/p/exec/more", ResourceRequest("create", "", "pods", "exec", "d", "p")),
        ("BREW", "/api/v1/pods", ResourceRequest("", "", "pods")),
    ],
)
def test_what_a_path_needs(method: str, path: str, want: Request) -> None:
    assert request_at(method, path.strip("/").split("/")) == want


@pytest.mark.parametrize("kind", kinds.KINDS, ids=str)
def test_a_path_needs_what_its_target_needs(kind: Kind[ApiObject]) -> None:
    """Callers over HTTP and callers in the same process are judged alike."""
    for subresource in ("", *subresources(kind)):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            for fields in ("", "metadata.name=mine"):
                for name in ("x",) if subresource else ("x", ""):
                    target = Target(kind, "d" if kind.namespaced else "", name, subresource)
                    path = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
                    path += ["namespaces", "d"] if kind.namespaced else []
                    path += [kind.plural, *filter(None, (name, subresource))]
                    asked = request_at(method, path, fields=fields)
                    assert isinstance(asked, ResourceRequest)
                    assert asked == request_for(asked.verb, target, fields=fields)


async def test_masters_may_do_everything() -> None:
    root = User("root", ("system:masters",))
    await require(Policy(defaults=False), root, request_for("deletecollection", Target(kinds.SECRET, "kube-system")))
    await require(Policy(defaults=False), root, PathRequest("get", "/metrics"))
