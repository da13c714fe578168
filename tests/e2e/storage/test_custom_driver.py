"""`mooring up --csi-endpoint`: an external CSI driver in the cluster, correct and faulty."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.csi.client import CsiClient
from mooring.csi.contract import AccessMode, CreateVolume, VolumeCapability
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath, recorded_volumes, volume_records

pytestmark = pytest.mark.slow

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


@pytest.mark.req("C11.external")
def test_external_driver_is_registered_attaches_and_mounts(folder: Path, start_cluster: Start) -> None:
    """As the driver records it: attached, staged and published under the id that it gave itself, and the pod's
    file is in its volume; afterwards nothing is left there."""
    name, node_id, key = "theirs.example.com", "host-7", "example.com/host"
    options = ("--drivername", name, "--node-id", node_id, "--topology", f"{key}=seven")
    with csi_hostpath(folder, "--pool", "disk=10Gi", "--enable-attach", "--publish-mode", "link", *options):
        cluster = start_cluster("--data-dir", "data", "--nodes", "1", endpoint(folder))
        workspace = Workspace(cluster, "default")
        (registered,) = cluster.item("csinode", "node-1")["spec"]["drivers"]
        assert registered == {"name": name, "nodeID": node_id, "topologyKeys": [key]}
        assert cluster.item("node", "node-1")["metadata"]["labels"][key] == "seven"
        (driver,) = [one for one in cluster.items("csidrivers") if one["metadata"]["name"] == name]
        assert (driver["spec"]["attachRequired"], driver["spec"]["storageCapacity"]) == (True, True)

        workspace.apply(claim("data"), pod("data"))
        workspace.wait_ready("data")
        (attachment,) = cluster.items("volumeattachments")
        assert (attachment["spec"]["attacher"], attachment["status"]["attached"]) == (name, True)
        (volume,) = [pv["spec"] for pv in cluster.items("pv") if "csi" in pv["spec"]]
        (record,) = volume_records(folder)
        assert (record.volume_id, record.size) == (volume["csi"]["volumeHandle"], 2**30)
        for uses in (record.attached, record.staged, record.published):
            assert [use.node for use in uses] == [node_id]
        (term,) = volume["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": key, "operator": "In", "values": ["seven"]}]
        (publication,) = record.published
        Path(publication.target, "note").write_text("written by the pod")
        assert [file.read_text() for file in (folder / "state").rglob("note")] == ["written by the pod"]

        workspace("delete", "pod/data", "--timeout=30s")
        workspace.wait_for(lambda: not cluster.items("volumeattachments"))
        (record,) = volume_records(folder)
        assert not record.nodes(), "detached, unstaged and unpublished"
        workspace("delete", "pvc/data", "--timeout=30s")
        workspace.wait_for(lambda: not [pv for pv in cluster.items("pv") if "csi" in pv["spec"]])
        assert volume_records(folder) == []


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


@pytest.mark.req("C22.at-once")
def test_capacity_is_refreshed_when_a_volume_is_resized(folder: Path, start_cluster: Start) -> None:
    """As external-resizer does it: the driver takes more storage, then the PersistentVolume gets its new size. The next
    poll would be a minute after the start."""
    with csi_hostpath(folder, "--pool", "disk=10Gi"):
        workspace = Workspace(start_cluster("--in-memory", "--nodes", "1", endpoint(folder)), "default")

        def published() -> list[str]:
            found = workspace.cluster.items("csistoragecapacities", "-n", "kube-system")
            return [one["capacity"] for one in found]

        workspace.apply(claim("data"), pod("data"))
        workspace.wait_ready("data")
        workspace.wait_for(lambda: published() == ["9Gi"])

        async def take() -> None:
            async with CsiClient(folder / "csi.sock") as driver:
                capability = VolumeCapability(AccessMode.SINGLE_NODE_WRITER)
                await driver.create_volume(CreateVolume("grown", 2 * 2**30, capabilities=(capability,)), secrets={})

        asyncio.run(take())
        assert published() == ["9Gi"]
        name = workspace.item("pvc", "data")["spec"]["volumeName"]
        workspace("patch", "pv", name, "--type=merge", "-p", '{"spec":{"capacity":{"storage":"3Gi"}}}')
        workspace.wait_for(lambda: published() == ["7Gi"])
