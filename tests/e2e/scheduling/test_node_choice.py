"""Of the feasible nodes, the one with the best volume score is selected; none over its attach limit or capacity.

Every test has a cluster of its own, since scores depend on all objects of a cluster.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.builders import claim_body, class_body, pod_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.hostpath.command import csi_hostpath

Start = Callable[..., Cluster]

TOO_MANY: Final = "node(s) exceed max volume count"
INSUFFICIENT_STORAGE: Final = "node(s) did not have enough free storage"
#: A configuration of kube-scheduler, with the one argument that only Mooring has.
PACKING: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: packer
  pluginConfig:
  - name: VolumeBinding
    args: {capacityPolicy: Pack}
"""


def claim(name: str, storage_class: str, size: str) -> dict[str, Any]:
    return claim_body(name=name, namespace="", storage_class=storage_class, size=size)


def pod(name: str, *claims: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # the builder's
    return pod_body(name=name, namespace="", claims=list(claims), **more)


@pytest.fixture
def fresh(start_cluster: Start) -> Workspace:
    cluster = start_cluster("--in-memory", "--local-pvs", "0")
    workspace = Workspace(cluster, "default")
    workspace.wait_for(lambda: len(cluster.items("csistoragecapacities", "-n", "kube-system")) == 9)
    return workspace


@pytest.mark.req("T12.closeness")
def test_best_fitting_existing_volume_determines_the_node(fresh: Workspace) -> None:
    fresh.apply(
        class_body(name="closest"),
        *(
            volume_body(name=f"closest-{node}", storage_class="closest", node=node, size=size)
            for node, size in (("node-1", "100Gi"), ("node-2", "12Gi"), ("node-3", "50Gi"))
        ),
        volume_body(name="ready-made", storage_class="fast", node="node-3", size="10Gi"),
        claim("near", "closest", "10Gi"),
        pod("near", "near"),
        claim("spare", "fast", "10Gi"),
        pod("spare", "spare"),
    )
    fresh.wait_ready("near", "spare")
    assert fresh.node_of("near") == "node-2"
    assert fresh.item("pvc", "near")["spec"]["volumeName"] == "closest-node-2"
    assert fresh.node_of("spare") == "node-3"
    assert fresh.item("pvc", "spare")["spec"]["volumeName"] == "ready-made"


@pytest.mark.req("C15.preference")
def test_capacity_scoring_follows_the_profile(fresh: Workspace, tmp_path: Path) -> None:
    there = {"node_selector": {"kubernetes.io/hostname": "node-1"}}
    fresh.apply(claim("first", "fast", "60Gi"), pod("first", "first", **there))
    fresh.wait_ready("first")
    fresh.wait_for(lambda: published_capacity(fresh, "node-1") == "40Gi")
    fresh.apply(claim("spread", "fast", "10Gi"), pod("spread", "spread"))
    fresh.wait_ready("spread")
    assert fresh.node_of("spread") != "node-1"
    (tmp_path / "packing.yaml").write_text(PACKING)
    options = ("--kubeconfig", str(fresh.cluster.kubeconfig), "--config", str(tmp_path / "packing.yaml"))
    command = [sys.executable, "-m", "mooring", "scheduler", *options, "--no-http"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as packer:
        try:
            fresh.apply(claim("packed", "fast", "10Gi"), pod("packed", "packed", scheduler="packer"))
            fresh.wait_ready("packed")
            assert fresh.node_of("packed") == "node-1"
        finally:
            packer.terminate()


@pytest.mark.req("C16.exact-fit")
def test_concurrent_volumes_fill_the_pools_exactly(fresh: Workspace) -> None:
    """Three nodes with 100Gi each; first a pod whose volumes fit alone but not together."""
    names = [f"tenth-{number}" for number in range(30)]
    fresh.apply(claim("left", "fast", "60Gi"), claim("right", "fast", "60Gi"), pod("two", "left", "right"))
    fresh.wait_unscheduled("two", f"3 {INSUFFICIENT_STORAGE}")
    fresh("delete", "pod/two", "pvc/left", "pvc/right")
    fresh.apply(*(body for name in names for body in (claim(name, "fast", "10Gi"), pod(name, name))))
    fresh.wait_ready(*names)
    events = fresh.items("events", "--field-selector=reason=ProvisioningFailed")
    assert [event["message"] for event in events] == []
    fresh.wait_for(lambda: {published_capacity(fresh, f"node-{number}") for number in (1, 2, 3)} == {"0"})


@pytest.mark.req("T23.to-be-provisioned")
def test_attach_limit_includes_volumes_to_be_provisioned(tmp_path: Path, start_cluster: Start) -> None:
    """Real gRPC to a driver with pools, a limit and a topology; one of the volumes is a raw block device."""
    folder = tmp_path / "driver"
    folder.mkdir()
    with csi_hostpath(folder, "--pool", "disk=10Gi", "--max-volumes-per-node", "2"):
        cluster = start_cluster("--in-memory", "--nodes", "1", f"--csi-endpoint=unix://{folder / 'csi.sock'}")
        own = Workspace(cluster, "default")
        own.wait_for(lambda: capacities(own) == ["10Gi"])
        block = claim("raw", "csi", "1Gi")
        block["spec"]["volumeMode"] = "Block"
        own.apply(block, *(claim(name, "csi", "1Gi") for name in ("a", "b", "c")))
        own.apply(pod("three", "a", "b", "c"))
        own.wait_unscheduled("three", TOO_MANY)
        own("delete", "pod", "three")
        own.apply(pod("one", "a"), with_device(pod("device", "raw"), "raw"))
        own.wait_ready("one", "device")
        own.wait_for(lambda: capacities(own) == ["8Gi"])
        own.apply(pod("late", "b"))
        own.wait_unscheduled("late", TOO_MANY)
        assert own.item("csinode", "node-1")["spec"]["drivers"][0]["allocatable"] == {"count": 2}


def with_device(body: dict[str, Any], claim_name: str) -> dict[str, Any]:
    """The claim as a raw block device of the container."""
    volume = next(v for v in body["spec"]["volumes"] if v["persistentVolumeClaim"]["claimName"] == claim_name)
    container = body["spec"]["containers"][0]
    container.pop("volumeMounts", None)
    container["volumeDevices"] = [{"name": volume["name"], "devicePath": "/dev/data"}]
    return body


def published_capacity(workspace: Workspace, node: str) -> str:
    """Free capacity of the class `fast` on each node."""
    found = workspace.cluster.items("csistoragecapacities", "-n", "kube-system")
    of_node = [each for each in found if node in each["nodeTopology"]["matchLabels"].values()]
    return next(str(each["capacity"]) for each in of_node if each["storageClassName"] == "fast")


def capacities(workspace: Workspace) -> list[str]:
    return [str(each["capacity"]) for each in workspace.cluster.items("csistoragecapacities", "-n", "kube-system")]
