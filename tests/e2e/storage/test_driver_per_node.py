"""A driver with its own provisioner on a node, as in a DaemonSet."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath

DRIVER: Final = "local.example.com"
KEY: Final = "local.example.com/node"

Start = Callable[..., Cluster]


def driver_pod() -> dict[str, Any]:
    spec = {"nodeName": "node-1", "containers": [{"name": "driver", "image": "driver"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "driver-node-1"}, "spec": spec}


def introduced(cluster: Cluster) -> None:
    """The objects that a kubelet writes when a driver registers."""
    cluster("label", "node", "node-1", f"{KEY}=node-1")
    driver = {"name": DRIVER, "nodeID": "node-1", "topologyKeys": [KEY]}
    entry = json.dumps([{"op": "add", "path": "/spec/drivers/-", "value": driver}])
    cluster("patch", "csinode", "node-1", "--type=json", "-p", entry)


def objects() -> list[dict[str, Any]]:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "here",
        "resources": {"requests": {"storage": "4Gi"}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"storageCapacity": True, "attachRequired": False},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "here"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "user"},
            "spec": {"containers": [{"name": "main", "image": "main"}], "volumes": volumes},
        },
    ]


@contextmanager
def provisioner(cluster: Cluster, folder: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "mooring", "provisioner", f"--csi-address={folder / 'csi.sock'}"]
    options = ["--node-deployment", "--strict-topology", "--enable-capacity", "--capacity-ownerref-level=0"]
    environment = os.environ | {"NODE_NAME": "node-1", "NAMESPACE": "default", "POD_NAME": "driver-node-1"}
    with (folder / "provisioner.log").open("w") as log:
        process = subprocess.Popen(
            [*command, f"--kubeconfig={cluster.kubeconfig}", *options], env=environment, stdout=log, stderr=log
        )
    try:
        yield
        assert process.poll() is None, (folder / "provisioner.log").read_text()
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.req("C5.owner", "C5.segment")
def test_capacity_is_owned_by_the_driver_pod(tmp_path: Path, start_cluster: Start) -> None:
    folder = tmp_path / "driver"
    folder.mkdir()
    topology = ("--drivername", DRIVER, "--topology", f"{KEY}=node-1", "--pool", "disk=10Gi")
    with csi_hostpath(folder, *topology):
        cluster = start_cluster("--in-memory")
        workspace = Workspace(cluster, "default")
        workspace.apply(driver_pod())
        workspace.wait_ready("driver-node-1")
        introduced(cluster)

        def published() -> list[dict[str, Any]]:
            return cluster.items("csistoragecapacities", "-n", "default")

        with provisioner(cluster, folder):
            workspace.apply(*objects())
            workspace.wait_ready("user")
            assert workspace.node_of("user") == "node-1"
            workspace.wait_for(lambda: [each["capacity"] for each in published()] == ["6Gi"])
            (found,) = published()
            assert found["nodeTopology"] == {"matchLabels": {KEY: "node-1"}}
            assert found["metadata"]["labels"]["csi.storage.k8s.io/managed-by"] == "external-provisioner-node-1"
            (owner,) = found["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("Pod", "driver-node-1")
        workspace("delete", "pod", "driver-node-1", "--wait=false")
        workspace.wait_for(lambda: not published())
