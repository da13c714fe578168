"""A driver with its own provisioner on a node, as in a DaemonSet."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.e2e.cluster import Cluster
from support.e2e.provisioner_process import claim, driver_objects, pod, provisioner, register
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath

pytestmark = pytest.mark.slow

DRIVER: Final = "local.example.com"
KEY: Final = "local.example.com/node"

Start = Callable[..., Cluster]


def driver_pod(node: str) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"name": "driver", "image": "driver"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"driver-{node}"}, "spec": spec}


@contextmanager
def driver(folder: Path, node: str, pool: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    topology = ("--drivername", DRIVER, "--topology", f"{KEY}={node}", "--pool", f"disk={pool}")
    with csi_hostpath(folder, *topology):
        yield


@contextmanager
def publisher(cluster: Cluster, folder: Path, node: str) -> Iterator[None]:
    options = ("--node-deployment", "--strict-topology", "--enable-capacity", "--capacity-ownerref-level=0")
    with provisioner(cluster, folder, *options, NODE_NAME=node, POD_NAME=f"driver-{node}"):
        yield


def published(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Objects by node."""
    found = cluster.items("csistoragecapacities", "-n", "default")
    return {each["nodeTopology"]["matchLabels"][KEY]: each for each in found}


def figures(cluster: Cluster) -> dict[str, str]:
    return {node: each["capacity"] for node, each in published(cluster).items()}


@pytest.mark.req("C5.owner", "C5.segment")
def test_capacity_is_owned_by_the_driver_pod(tmp_path: Path, start_cluster: Start) -> None:
    folder = tmp_path / "driver"
    with driver(folder, "node-1", "10Gi"):
        cluster = start_cluster("--in-memory")
        workspace = Workspace(cluster, "default")
        workspace.apply(driver_pod("node-1"))
        workspace.wait_ready("driver-node-1")
        register(cluster, DRIVER, KEY, "node-1")
        with publisher(cluster, folder, "node-1"):
            workspace.apply(*driver_objects(DRIVER, "here"), claim("data", "here", "4Gi"), pod("user", "data"))
            workspace.wait_ready("user")
            assert workspace.node_of("user") == "node-1"
            workspace.wait_for(lambda: figures(cluster) == {"node-1": "6Gi"})
            found = published(cluster)["node-1"]
            assert found["nodeTopology"] == {"matchLabels": {KEY: "node-1"}}
            assert found["metadata"]["labels"]["csi.storage.k8s.io/managed-by"] == "external-provisioner-node-1"
            (owner,) = found["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("Pod", "driver-node-1")
        workspace("delete", "pod", "driver-node-1", "--wait=false")
        workspace.wait_for(lambda: not published(cluster))


@pytest.mark.req("C5.several")
def test_publishers_of_several_nodes_leave_the_objects_of_others_alone(tmp_path: Path, start_cluster: Start) -> None:
    """1. Each node has a driver, a publisher and an object. 2. A volume on one changes its object only.
    3. A publisher restarts while another does not run: the other's object stays, until its pod is deleted."""
    sizes = {"node-1": "10Gi", "node-2": "20Gi", "node-3": "30Gi"}
    with ExitStack() as running:
        for node, size in sizes.items():
            running.enter_context(driver(tmp_path / node, node, size))
        cluster = start_cluster("--in-memory")
        workspace = Workspace(cluster, "default")
        workspace.apply(*driver_objects(DRIVER, "here"), *(driver_pod(node) for node in sizes))
        workspace.wait_ready(*(f"driver-{node}" for node in sizes))
        register(cluster, DRIVER, KEY, *sizes)
        others = [running.enter_context(publisher(cluster, tmp_path / node, node)) for node in ("node-1", "node-2")]
        assert len(others) == 2
        with publisher(cluster, tmp_path / "node-3", "node-3"):
            workspace.wait_for(lambda: figures(cluster) == sizes)
            before = published(cluster)
            workspace.apply(claim("data", "here", "4Gi"), pod("user", "data", node="node-1"))
            workspace.wait_ready("user")
            workspace.wait_for(lambda: figures(cluster) == sizes | {"node-1": "6Gi"})
            after = published(cluster)
            assert [after[node] == before[node] for node in sizes] == [False, True, True]
        with publisher(cluster, tmp_path / "node-3", "node-3"):
            workspace.apply(claim("more", "here", "5Gi"), pod("other", "more", node="node-3"))
            workspace.wait_ready("other")
            workspace.wait_for(lambda: figures(cluster) == {"node-1": "6Gi", "node-2": "20Gi", "node-3": "25Gi"})
            assert published(cluster)["node-2"] == before["node-2"]
            assert published(cluster)["node-3"]["metadata"]["uid"] == before["node-3"]["metadata"]["uid"], "adopted"
        workspace("delete", "pod", "driver-node-3", "--wait=false")
        workspace.wait_for(lambda: set(figures(cluster)) == {"node-1", "node-2"})
