"""The end-to-end list of the topology design with Kubernetes' components on our API server.

kube-scheduler schedules, kube-controller-manager binds, protects volumes and manages StatefulSets, external-provisioner
provisions; ours are the API server, the simulated nodes and the CSI driver.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.storage.test_external_provisioner import provisioner
from mooring.api import well_known
from mooring.hostpath.records import DRIVER_NAME
from support.builders import Body, class_body, pod_body
from support.checklist.bare_server import BareServer
from support.conformance.our_control_plane import OurControlPlane
from support.conformance.simulated_nodes import PLACES, csi_node, nodes
from support.conformance.waiting import wait
from support.hostpath.command import csi_hostpath
from support.scenarios import design_list

CONTROLLERS: Final = (
    "statefulset-controller",
    "ephemeral-volume-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "garbage-collector-controller",
)
#: A generic ephemeral volume.
PASSING: Final = "passing"


@pytest.fixture
def ours(binaries: Path, tmp_path: Path) -> Iterator[OurControlPlane]:
    server = BareServer(tmp_path)
    server.start()
    yield OurControlPlane(server, binaries, tmp_path / "components")
    server.stop()


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Path]:
    here, there = (f"{well_known.HOSTNAME}={node}" for node in PLACES)
    with csi_hostpath(tmp_path, "--pool", "default=50Gi", "--topology", here, "--serve", f"{PLACES[1]}:{there}"):
        yield tmp_path


def bodies() -> Iterator[Body]:
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER_NAME},
        "spec": {"attachRequired": False, "storageCapacity": True},
    }
    yield from map(csi_node, PLACES)
    for body in design_list.bodies():
        if body["kind"] == "StorageClass" and body["metadata"]["name"] == "fallback":
            yield {**body, "provisioner": DRIVER_NAME}
        elif body["kind"] == "StatefulSet":
            # One after the other, so that it is known which of three pods get the volumes of two nodes.
            yield {**body, "spec": {**body["spec"], "podManagementPolicy": "OrderedReady"}}
        else:
            yield body
    yield class_body(name=PASSING, provisioner=DRIVER_NAME)
    pod = pod_body(name=PASSING, namespace="", ephemeral=["scratch"])
    [volume] = pod["spec"]["volumes"]
    volume["ephemeral"]["volumeClaimTemplate"]["spec"] = {
        "storageClassName": PASSING,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    yield pod


def items(ours: OurControlPlane, kind: str) -> list[dict[str, Any]]:
    return list(ours.kubectl_json("get", kind)["items"])


@pytest.mark.req("T43.upstream")
@pytest.mark.version_matrix(
    "Mooring's API server",
    "kube-scheduler, kube-controller-manager, external-provisioner, kubectl",
    "static, provisioned and ephemeral volumes of a StatefulSet",
)
def test_upstream_components_finish_the_design_list(
    ours: OurControlPlane, driver: Path, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESPACE", "default")
    quick = ("--pvclaimbinder-sync-period=1s",)
    with (
        nodes(ours, tmp_path),
        ours.controllers(*CONTROLLERS, options=quick),
        ours.scheduler(),
        provisioner(ours, binaries, driver),
    ):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies())})
        ours.kubectl("apply", "-f", "-", stdin=text)
        wait(lambda: design_list.placed(items(ours, "pods")))
        wait(lambda: PASSING in {pod["metadata"]["name"] for pod in items(ours, "pods") if pod["spec"].get("nodeName")})
        design_list.assert_as_designed(items(ours, "pods"), items(ours, "pvc"), items(ours, "pv"))
        claim = f"{PASSING}-scratch"
        assert claim in {body["metadata"]["name"] for body in items(ours, "pvc")}
        ours.kubectl("delete", "pod", PASSING, "--force", "--grace-period=0")
        # The claim is deleted with its pod, and its volume with the claim.
        wait(lambda: claim not in {body["metadata"]["name"] for body in items(ours, "pvc")})
        made = {"persistentVolumeReclaimPolicy": "Delete", "storageClassName": PASSING}
        wait(lambda: not any(made.items() <= body["spec"].items() for body in items(ours, "pv")))
