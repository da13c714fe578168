"""`mooring up --csi-endpoint`: an external CSI driver in the cluster, correct and faulty."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath, recorded_volumes

Start = Callable[..., Cluster]


def endpoint(folder: Path) -> str:
    return f"--csi-endpoint=unix://{folder / 'csi.sock'}"


def claim(name: str, size: str = "1Gi") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }


def pod(name: str) -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    spec = {"containers": [{"name": "main", "image": "main"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / "driver"
    own.mkdir()
    return own


@pytest.mark.req("T17.no-room", "C11.external")
def test_node_without_capacity_is_reselected(folder: Path, start_cluster: Start) -> None:
    rules = ("--fail", "CreateVolume=RESOURCE_EXHAUSTED,count=1", "--drivername", "theirs.example.com")
    with csi_hostpath(folder, "--pool", "disk=10Gi", *rules):
        workspace = Workspace(start_cluster("--in-memory", "--nodes", "1", endpoint(folder)), "default")
        workspace.apply(claim("data"), pod("data"))
        workspace.wait_event("pvc/data", "ProvisioningFailed", "code = ResourceExhausted")
        workspace.wait_ready("data")
        (volume,) = [pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]]
        assert volume["spec"]["csi"]["driver"] == "theirs.example.com"
        (capacity,) = workspace.cluster.items("csistoragecapacities", "-n", "kube-system")
        workspace.wait_for(
            lambda: workspace.cluster.items("csistoragecapacities", "-n", "kube-system")[0]["capacity"] == "9Gi"
        )
        assert capacity["storageClassName"] == "csi"


@pytest.mark.req("T17.vanished-node")
def test_selected_node_that_was_deleted_is_cleared(folder: Path, start_cluster: Start) -> None:
    with csi_hostpath(folder, "--pool", "disk=10Gi"):
        workspace = Workspace(start_cluster("--in-memory", "--nodes", "1", endpoint(folder)), "default")
        gone = claim("data")
        gone["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "gone"}
        workspace.apply(gone)
        workspace.wait_event("pvc/data", "ProvisioningFailed", '"gone"')

        def freed() -> bool:
            notes = workspace.item("pvc", "data")["metadata"].get("annotations", {})
            return "volume.kubernetes.io/selected-node" not in notes

        workspace.wait_for(freed)
        workspace.apply(pod("data"))
        workspace.wait_ready("data")


@pytest.mark.req("R4.lost-answers")
def test_lost_responses_leak_no_volume(folder: Path, start_cluster: Start) -> None:
    rules = ("--fail", "CreateVolume=UNAVAILABLE,after,count=2", "--fail", "DeleteVolume=UNAVAILABLE,after,count=1")
    with csi_hostpath(folder, "--pool", "disk=10Gi", *rules):
        workspace = Workspace(start_cluster("--in-memory", "--nodes", "1", endpoint(folder)), "default")
        workspace.apply(claim("data"), pod("data"))
        workspace.wait_ready("data")
        assert len(recorded_volumes(folder)) == 1
        workspace("delete", "pod/data", "pvc/data", "--wait=false")
        workspace.wait_for(lambda: not [pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]])
        assert recorded_volumes(folder) == []
        assert not workspace.cluster.items("configmaps", "-n", "kube-system")


@pytest.mark.req("C19.driver-away")
def test_stopped_driver_is_awaited(folder: Path, start_cluster: Start) -> None:
    """Its socket is removed with it: claims report that, wait, and are provisioned after its restart."""
    with csi_hostpath(folder, "--pool", "disk=10Gi"):
        workspace = Workspace(start_cluster("--in-memory", "--nodes", "1", endpoint(folder)), "default")
        workspace.apply(claim("before"), pod("before"))
        workspace.wait_ready("before")
    (folder / "csi.sock").unlink(missing_ok=True)
    workspace.apply(claim("after"), pod("after"))
    workspace.wait_event("pvc/after", "ProvisioningFailed", "code = Unavailable")
    with csi_hostpath(folder, "--pool", "disk=10Gi"):
        workspace.wait_ready("after")
        assert len([pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]]) == 2
        assert len(recorded_volumes(folder)) == 2


def test_missing_driver_is_a_clear_error(folder: Path, start_cluster: Start) -> None:
    with pytest.raises(AssertionError, match=r"The driver cannot be used: .*csi\.sock"):
        start_cluster("--in-memory", endpoint(folder))
