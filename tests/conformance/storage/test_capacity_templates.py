"""Capacity of nodes that do not exist yet, with kube-scheduler as the simulated scheduler of an autoscaler.

Two nodes with 10 GiB each and a pod that needs 15 GiB. A node group's template promises 20 GiB; a Node object with the
template's label stands for the node that an autoscaler considers.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.storage.test_external_provisioner import (
    CONTROLLERS,
    KEY,
    PLACES,
    manifest,
    node_of,
    published_capacity,
    remove,
    waits_for,
    workload,
)
from conformance.storage.test_provisioner import FULL, ours
from mooring.hostpath.records import DRIVER_NAME
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import eventually
from support.hostpath.command import csi_hostpath

TEMPLATES: Final = f"""
- nodeGroup: ssd
  topologyKeys: [{KEY}]
  storageClasses:
    hostpath: {{capacity: 20Gi, maximumVolumeSize: 20Gi}}
"""
LABEL: Final = {KEY: "ssd_template"}
NODE: Final = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "considered", "labels": LABEL},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "100"}},
}
SHORT: Final = "did not have enough free storage"


@pytest.fixture
def driver_folder(tmp_path: Path) -> Iterator[Path]:
    options = ["--pool", "fast=10Gi", "--topology", f"{KEY}=nowhere"]
    for node, place in PLACES.items():
        options += ["--serve", f"{node}:{KEY}={place}"]
    with csi_hostpath(tmp_path, *options):
        yield tmp_path


@pytest.fixture
def cluster(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    monkeypatch.setenv("NAMESPACE", "default")
    kube.kubectl("delete", "nodes", "--all")
    kube.kubectl("apply", "-f", "-", stdin=manifest())
    yield kube
    kube.kubectl("delete", "csistoragecapacities", "-n", "default", "--all")
    kube.kubectl("delete", "node", "considered", "--ignore-not-found")
    kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=manifest())


def selected_node(kube: ControlPlane, claim: str) -> str:
    annotations = kube.kubectl_json("get", "pvc", claim)["metadata"].get("annotations", {})
    return str(annotations.get("volume.kubernetes.io/selected-node", ""))


def volume_of(kube: ControlPlane, claim: str) -> dict[str, Any]:
    """The volume that the driver of the new node would provision."""
    uid = kube.kubectl_json("get", "pvc", claim)["metadata"]["uid"]
    here = {"matchExpressions": [{"key": KEY, "operator": "In", "values": [LABEL[KEY]]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"of-{claim}"},
        "spec": {
            "capacity": {"storage": "15Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "hostpath",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER_NAME, "volumeHandle": "simulated"},
            "claimRef": {"namespace": "default", "name": claim, "uid": uid},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
    }


@pytest.mark.req("C24.template-nodes")
@pytest.mark.version_matrix("kube-apiserver", "provisioner", "capacity of nodes that do not exist yet")
async def test_upstream_scheduler_uses_the_capacity_of_template_nodes(
    cluster: ControlPlane, driver_folder: Path, tmp_path: Path
) -> None:
    kube = cluster
    file = tmp_path / "templates.yaml"
    file.write_text(TEMPLATES)
    with ours(kube, driver_folder):
        await eventually(lambda: published_capacity(kube) == FULL)
    with kube.scheduler(), kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)):
        # Without the objects, the template node does not help.
        kube.kubectl("apply", "-f", "-", stdin=json.dumps(NODE))
        kube.kubectl("apply", "-f", "-", stdin=workload("before").replace("6Gi", "15Gi"))
        await eventually(lambda: f"3 node(s) {SHORT}" in waits_for(kube, "before"))
        remove(kube, "before")
        kube.kubectl("delete", "node", "considered")

        # With the objects and without the template node: no existing node has the capacity.
        with ours(kube, driver_folder, f"--capacity-template-file={file}"):
            await eventually(lambda: published_capacity(kube) == FULL | {"ssd_template": "20Gi"})
        kube.kubectl("apply", "-f", "-", stdin=workload("big").replace("6Gi", "15Gi"))
        await eventually(lambda: f"2 node(s) {SHORT}" in waits_for(kube, "big"))

        # With both, the pod is placed. No publisher runs, so the volume is that of the driver's stand-in.
        kube.kubectl("apply", "-f", "-", stdin=json.dumps(NODE))
        await eventually(lambda: selected_node(kube, "big") == "considered")
        kube.kubectl("apply", "-f", "-", stdin=json.dumps(volume_of(kube, "big")))
        await eventually(lambda: node_of(kube, "big") == "considered")
        remove(kube, "big")
        kube.kubectl("delete", "pv", "of-big", "--wait=false")
        kube.kubectl("delete", "node", "considered")

    # A publisher without templates removes them.
    with ours(kube, driver_folder):
        await eventually(lambda: published_capacity(kube) == FULL)
