"""Feature gates off and on again, with what a user sees of it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.builders import claim_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.processes import CLASS, NODES, ProcessCluster
from support.e2e.workspace import Workspace

pytestmark = pytest.mark.slow

Start = Callable[..., Cluster]
INSUFFICIENT_STORAGE: Final = "0/3 nodes are available: 3 node(s) did not have enough free storage"


def claim(name: str, size: str = "5Gi") -> dict[str, Any]:
    return claim_body(name=name, namespace="", storage_class="fast", size=size)


def pod(name: str, *, node: str = "") -> dict[str, Any]:
    return pod_body(name=name, namespace="", claims=[name], node=node)


@pytest.mark.req("T31.volume-scheduling-off")
def test_delayed_claim_is_provisioned_without_a_pod_while_the_gate_is_off(start_cluster: Start) -> None:
    workspace = Workspace(start_cluster("--in-memory", "--feature-gates=VolumeScheduling=false"), "default")
    workspace.apply(claim("data"))
    workspace.wait_bound("data")
    assert workspace.cluster.item("sc", "fast")["volumeBindingMode"] == "WaitForFirstConsumer"
    workspace.apply(pod("data"))
    workspace.wait_ready("data")
    (volume,) = [pv for pv in workspace.cluster.items("pv") if pv["spec"].get("claimRef", {}).get("name") == "data"]
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert [workspace.node_of("data")] in [row["values"] for row in term["matchExpressions"]]


@pytest.mark.req("T31.capacity-off", "C14.gate")
def test_capacity_is_ignored_while_its_gate_is_off_and_counts_again(start_cluster: Start, tmp_path: Path) -> None:
    def published() -> dict[str, str]:
        found = workspace.cluster.items("csistoragecapacities", "-n", "kube-system")
        return {each["metadata"]["name"]: json.dumps(each["nodeTopology"]) for each in found}

    def restarted(*options: str) -> Workspace:
        return Workspace(start_cluster("--data-dir", str(tmp_path / "data"), *options), "default")

    workspace = restarted()
    workspace.wait_for(lambda: len(published()) == 9)
    before = published()
    workspace.apply(claim("big", "200Gi"), pod("big"))
    workspace.wait_unscheduled("big", INSUFFICIENT_STORAGE)
    workspace.cluster.stop()

    workspace = restarted("--feature-gates=CSIStorageCapacity=false")
    workspace.wait_event("pvc/big", "ProvisioningFailed", "ResourceExhausted")
    workspace("delete", "pod/big", "pvc/big", "--wait=false")
    workspace.wait_for(lambda: not workspace.items("pvc"))
    workspace.cluster.stop()

    workspace = restarted()
    workspace.apply(claim("big", "200Gi"), pod("big"))
    workspace.wait_unscheduled("big", INSUFFICIENT_STORAGE)
    assert published() == before
    workspace.apply(claim("small"), pod("small"))
    workspace.wait_ready("small")


@pytest.mark.req("T31.capacity-off-server")
def test_api_server_does_not_serve_capacity_while_the_gate_is_off(start_cluster: Start) -> None:
    cluster = start_cluster("--in-memory", "--feature-gates=CSIStorageCapacity=false")
    resource = "csistoragecapacities"
    assert resource not in cluster("api-resources", "-o", "name", "--api-group=storage.k8s.io")
    assert "storageclasses" in cluster("api-resources", "-o", "name", "--api-group=storage.k8s.io")
    document = json.loads(cluster("get", "--raw", "/openapi/v3/apis/storage.k8s.io/v1"))
    assert not [path for path in document["paths"] if resource in path]
    missing = cluster("get", "--raw", f"/apis/storage.k8s.io/v1/{resource}", check=False)
    assert "the server could not find the requested resource" in missing
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "mine"}}
    assert "no matches for kind" in Workspace(cluster, "default").refused({**body, "storageClassName": "fast"})
    workspace = Workspace(cluster, "default")
    workspace.apply(claim("data"), pod("data"))
    workspace.wait_ready("data")
    explained = subprocess.run(
        [sys.executable, "-m", "mooring", "explain", "pod", "data", "--kubeconfig", str(cluster.kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "data" in explained.stdout, explained.stderr
    # Whose contents are listed by all kinds.
    cluster("create", "namespace", "short")
    cluster("delete", "namespace", "short", "--timeout=30s")


@pytest.mark.req("T31.kind-appears")
def test_capacity_kind_that_appears_later_is_published_and_counted(tmp_path: Path, kubectl_on_path: None) -> None:
    """An upgrade of the API server, which begins to serve the kind, under running components."""
    with ProcessCluster(tmp_path) as stack:
        server = stack.start_api_server("--feature-gates=CSIStorageCapacity=false")
        stack.start_nodes("default=10Gi")
        # Without election: a leader that cannot renew its Lease while the server restarts exits, and its
        # next process would find the kind served.
        components = [stack.start(component, "--leader-elect=false") for component in ("scheduler", "controller")]
        components.append(stack.start("provisioner", "--leader-election=false"))
        own = stack.own
        own.apply(claim_body(name="small", namespace="", storage_class=CLASS, size="1Gi"), pod("small"))
        own.wait_ready("small")
        # Without the kind every node counts as one with capacity: the driver rejects the volume.
        own.apply(claim_body(name="first", namespace="", storage_class=CLASS, size="50Gi"), pod("first"))
        own.wait_event("pvc/first", "ProvisioningFailed", "ResourceExhausted")
        own("delete", "pod/first", "pvc/first", "--wait=false")
        server.end()

        stack.start_api_server()
        own.wait_for(lambda: len(stack.system.items("csistoragecapacities")) == len(NODES))
        own.apply(claim_body(name="second", namespace="", storage_class=CLASS, size="50Gi"), pod("second"))
        own.wait_unscheduled("second", "2 node(s) did not have enough free storage")
        assert "volume.kubernetes.io/selected-node" not in own.item("pvc", "second")["metadata"].get("annotations", {})
        own.apply(claim_body(name="third", namespace="", storage_class=CLASS, size="1Gi"), pod("third"))
        own.wait_ready("third")
        assert all(process.runs for process in components)


@pytest.mark.req("T34.preset")
def test_pod_with_node_name_leaves_delayed_claim_unbound_while_the_gate_is_off(
    start_cluster: Start, tmp_path: Path
) -> None:
    workspace = Workspace(start_cluster("--in-memory", "--feature-gates=PresetNodeBinding=false"), "default")
    workspace.apply(claim("data"), pod("data", node="node-1"))
    why = "its class fast binds it when a pod that uses it is scheduled, and this pod's nodeName was set without"
    workspace.wait_event("pod/data", "FailedMount", why)
    workspace.wait_event("pvc/data", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    assert why in workspace("describe", "pod", "data")
    assert "ContainerCreating" in workspace("get", "pod", "data")
    assert workspace.item("pvc", "data")["status"]["phase"] == "Pending"
    dump = tmp_path / "dump.json"
    kinds = "pods,pvc,pv,nodes,storageclasses,csinodes"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": workspace.items(kinds)}))
    command = [sys.executable, "-m", "mooring", "explain", "pod/data", "-f", str(dump)]
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "a pod created with nodeName bypasses the scheduler" in output.stdout
