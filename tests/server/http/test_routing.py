"""Kubernetes' URL grammar: which paths name what, and which methods they take."""

import pytest

from mooring.api import kinds
from mooring.api.errors import MethodNotAllowed, NotFound, NotSupported
from mooring.api.views import meta
from mooring.server.contract import Target
from mooring.server.http.requests import Verb, resolve, segments, verb_of


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("/api/v1/pods", Target(kinds.POD), id="all namespaces"),
        pytest.param("/api/v1/namespaces/d/pods", Target(kinds.POD, "d"), id="one namespace"),
        pytest.param("/api/v1/namespaces/d/pods/p", Target(kinds.POD, "d", "p"), id="object"),
        pytest.param("/api/v1/namespaces/d/pods/p/status", Target(kinds.POD, "d", "p", "status"), id="status"),
        pytest.param("/api/v1/namespaces/d/pods/p/binding", Target(kinds.POD, "d", "p", "binding"), id="binding"),
        pytest.param("/api/v1/nodes/n", Target(kinds.NODE, "", "n"), id="cluster-wide object"),
        pytest.param("/api/v1/nodes/n/status", Target(kinds.NODE, "", "n", "status"), id="its status"),
        pytest.param("/api/v1/namespaces", Target(kinds.NAMESPACE), id="namespaces"),
        pytest.param("/api/v1/namespaces/d", Target(kinds.NAMESPACE, "", "d"), id="a namespace itself"),
        pytest.param("/api/v1/namespaces/d/status", Target(kinds.NAMESPACE, "", "d", "status"), id="its own status"),
        pytest.param(
            "/api/v1/namespaces/d/finalize", Target(kinds.NAMESPACE, "", "d", "finalize"), id="its finalizers"
        ),
        pytest.param("/api/v1/namespaces/pods/pods/pods", Target(kinds.POD, "pods", "pods"), id="ambiguous words"),
        pytest.param(
            "/apis/apps/v1/namespaces/d/statefulsets", Target(kinds.STATEFUL_SET, "d"), id="namespaced in a group"
        ),
        pytest.param(
            "/apis/storage.k8s.io/v1/storageclasses/s", Target(kinds.STORAGE_CLASS, "", "s"), id="cluster in a group"
        ),
        pytest.param("/api/v1/namespaces/d/pods/p/", Target(kinds.POD, "d", "p"), id="trailing slash"),
        pytest.param("//api//v1/namespaces//d/pods", Target(kinds.POD, "d"), id="doubled slashes"),
        pytest.param("/api/v1/nodes/a%2Fb", Target(kinds.NODE, "", "a/b"), id="encoded slash in a name"),
    ],
)
def test_paths_name_targets(path: str, want: Target) -> None:
    assert resolve(segments(path)) == want


@pytest.mark.parametrize(
    "path",
    [
        "/", "/foo", "/api", "/apis", "/api/v1", "/api/v2/pods", "/apis/apps/v1beta1/statefulsets", "/apis/apps",
        "/apis/unknown.io/v1/things", "/openapi/v2", "/apis/apiextensions.k8s.io/v1", "/apis/apiextensions.k8s.io/v1/x",
    ],
)  # fmt: skip
def test_paths_outside_the_groups_name_nothing(path: str) -> None:
    assert resolve(segments(path)) is None


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/api/v1/foos", id="unknown resource"),
        pytest.param("/api/v1/statefulsets", id="resource of another group"),
        pytest.param("/api/v1/watch/pods", id="legacy watch"),
        pytest.param("/api/v1/pods/p", id="namespaced object without a namespace"),
        pytest.param("/api/v1/namespaces/d/nodes", id="cluster-wide kind in a namespace"),
        pytest.param("/api/v1/namespaces/d/namespaces/e", id="a namespace in a namespace"),
        pytest.param("/api/v1/namespaces/d/configmaps/c/status", id="status of a kind without one"),
        pytest.param("/api/v1/namespaces/d/pods/p/status/more", id="too deep"),
        pytest.param("/api/v1/nodes/n/finalize", id="subresource of another kind"),
        pytest.param("/apis/apps/v1/namespaces/d", id="a namespace of a group"),
    ],
)
def test_paths_inside_a_group_that_name_nothing(path: str) -> None:
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        resolve(segments(path))


POD = Target(kinds.POD, "d", "p")
PODS = Target(kinds.POD, "d")
ALL_PODS = Target(kinds.POD)
STATUS = Target(kinds.POD, "d", "p", "status")
BINDING = Target(kinds.POD, "d", "p", "binding")
EVICTION = Target(kinds.POD, "d", "p", "eviction")
NAMESPACES = Target(kinds.NAMESPACE)
FINALIZE = Target(kinds.NAMESPACE, "", "d", "finalize")


@pytest.mark.parametrize(
    ("method", "target", "watching", "want"),
    [
        pytest.param("GET", POD, False, Verb.GET, id="get"),
        pytest.param("GET", POD, True, Verb.GET, id="watch on an object is a plain get"),
        pytest.param("PUT", POD, False, Verb.UPDATE, id="update"),
        pytest.param("PATCH", POD, False, Verb.PATCH, id="patch"),
        pytest.param("DELETE", POD, False, Verb.DELETE, id="delete"),
        pytest.param("GET", PODS, False, Verb.LIST, id="list"),
        pytest.param("GET", PODS, True, Verb.WATCH, id="watch"),
        pytest.param("POST", PODS, False, Verb.CREATE, id="create"),
        pytest.param("DELETE", PODS, False, Verb.DELETE_COLLECTION, id="delete collection"),
        pytest.param("GET", ALL_PODS, False, Verb.LIST, id="list everywhere"),
        pytest.param("GET", ALL_PODS, True, Verb.WATCH, id="watch everywhere"),
        pytest.param("POST", NAMESPACES, False, Verb.CREATE, id="create cluster-wide"),
        pytest.param("GET", STATUS, False, Verb.GET, id="get status"),
        pytest.param("PUT", STATUS, False, Verb.UPDATE, id="update status"),
        pytest.param("PATCH", STATUS, False, Verb.PATCH, id="patch status"),
        pytest.param("POST", BINDING, False, Verb.CREATE, id="bind"),
        pytest.param("PUT", FINALIZE, False, Verb.UPDATE, id="finalize"),
        pytest.param("POST", EVICTION, False, Verb.CREATE, id="evict"),
    ],
)
def test_methods_mean_verbs(method: str, target: Target, watching: bool, want: Verb) -> None:
    assert verb_of(method, target, watching=watching) is want


@pytest.mark.parametrize(
    ("method", "target"),
    [
        pytest.param("POST", POD, id="create on an object"),
        pytest.param("PUT", PODS, id="update on a collection"),
        pytest.param("PATCH", PODS, id="patch on a collection"),
        pytest.param("POST", ALL_PODS, id="create without a namespace"),
        pytest.param("DELETE", ALL_PODS, id="delete in all namespaces"),
        pytest.param("DELETE", NAMESPACES, id="delete all namespaces"),
        pytest.param("DELETE", STATUS, id="delete a status"),
        pytest.param("POST", STATUS, id="create a status"),
        pytest.param("GET", BINDING, id="get a binding"),
        pytest.param("PATCH", FINALIZE, id="patch of a finalization"),
        pytest.param("GET", EVICTION, id="get an eviction"),
        pytest.param("HEAD", POD, id="HEAD"),
        pytest.param("OPTIONS", PODS, id="OPTIONS"),
    ],
)
def test_methods_that_are_not_allowed(method: str, target: Target) -> None:
    with pytest.raises(MethodNotAllowed, match="does not allow this method"):
        verb_of(method, target, watching=False)


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.plural)
def test_every_path_of_the_kinds_table_leads_back_to_its_kind(kind: kinds.Kind[meta.ApiObject]) -> None:
    namespace = "d" if kind.namespaced else ""
    assert resolve(segments(kind.path(namespace=namespace))) == Target(kind, namespace)
    assert resolve(segments(kind.path(namespace=namespace, name="x"))) == Target(kind, namespace, "x")


@pytest.mark.parametrize("path", ["", "/foos.example.com", "/foos.example.com/status"])
def test_custom_resource_definitions_are_not_supported(path: str) -> None:
    with pytest.raises(NotSupported, match=r"^this API server has no custom resources: .* mooring docs kinds"):
        resolve(segments(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions{path}"))


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward", "proxy"])
def test_container_subresources_are_not_supported(subresource: str) -> None:
    with pytest.raises(NotSupported, match=r"^pods are simulated and run no containers: there .*pod/p show") as refusal:
        resolve(("api", "v1", "namespaces", "d", "pods", "p", subresource))
    assert refusal.value.code == 501
