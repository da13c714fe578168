"""Lines 1-9: version, health and discovery."""

import pytest

from support.checklist.programs import Programs
from support.checklist.wire import Wire
from support.e2e.kubectl import Kubectl

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_01_version(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37" in kubectl("version")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_02_health(kubectl: Kubectl, path: str) -> None:
    assert kubectl("get", "--raw", path) == "ok"


def test_03_api_versions(kubectl: Kubectl) -> None:
    wanted = {"v1", "apps/v1", "storage.k8s.io/v1", "policy/v1", "resource.k8s.io/v1"}
    assert wanted <= set(kubectl("api-versions").split())


def test_04_api_resources(kubectl: Kubectl) -> None:
    rows = {line.split()[0]: line.split() for line in kubectl("api-resources", "--no-headers").splitlines()}
    short = {"po": "Pod", "pvc": "PersistentVolumeClaim", "sc": "StorageClass", "sts": "StatefulSet"}
    short |= {"pc": "PriorityClass", "pdb": "PodDisruptionBudget"}
    assert {row[1]: row[-1] for row in rows.values() if row[1] in short} == short
    outside = kubectl("api-resources", "--namespaced=false", "--no-headers", "-o", "name").split()
    assert {"nodes", "persistentvolumes", "storageclasses.storage.k8s.io"} <= set(outside)
    assert "pods" not in outside


def test_05_aggregated_discovery(wire: Wire) -> None:
    aggregated = wire("GET", "/apis", Accept=AGGREGATED)
    assert "as=APIGroupDiscoveryList" in aggregated.headers["Content-Type"]
    assert aggregated.json["kind"] == "APIGroupDiscoveryList"
    assert wire("GET", "/apis").json["kind"] == "APIGroupList"


def test_06_kr8s_and_trailing_slashes(program: Programs, wire: Wire) -> None:
    assert program("import kr8s; print(kr8s.api().version()['minor'])") == "37"
    assert [wire("GET", path).code for path in ("/api/", "/apis/")] == [200, 200]


def test_07_namespaces(kubectl: Kubectl) -> None:
    rows = [line.split()[:2] for line in kubectl("get", "namespaces", "--no-headers").splitlines()]
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        assert [name, "Active"] in rows


def test_08_no_such_kind(kubectl: Kubectl) -> None:
    assert 'error: the server doesn\'t have a resource type "foo"' in kubectl.refusal("get", "foo")


def test_09_cluster_info(kubectl: Kubectl) -> None:
    assert "Kubernetes control plane" in kubectl("cluster-info")
