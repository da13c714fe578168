"""external-provisioner, kube-scheduler and the PV controller with Mooring's driver and its capacity.

Two nodes with 10 GiB each, claims of 6 GiB: with the driver's GetCapacity values, published by `--enable-capacity`, the
second pod is scheduled to the other node and the third stays pending.
"""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.csi.client import CsiClient
from mooring.csi.contract import DriverVolume
from mooring.hostpath.records import DRIVER_NAME
from support.builders.hostpath import GIB
from support.checklist.bare_server import BareServer
from support.conformance.control_plane import ControlPlane
from support.conformance.our_control_plane import OurControlPlane, Plane
from support.conformance.process import Process
from support.conformance.waiting import eventually
from support.hostpath.command import csi_hostpath

KEY: Final = "topology.example.com/place"
PLACES: Final = {"csi-node-1": "here", "csi-node-2": "there"}
CONTROLLERS: Final = (
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)


def manifest() -> str:
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER_NAME},
            "spec": {"attachRequired": False, "storageCapacity": True},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "hostpath"},
            "provisioner": DRIVER_NAME,
            "parameters": {"pool": "fast"},
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]
    for node, place in PLACES.items():
        drivers = [{"name": DRIVER_NAME, "nodeID": node, "topologyKeys": [KEY]}]
        objects += [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "labels": {KEY: place}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "100"}},
            },
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": node},
                "spec": {"drivers": drivers},
            },
        ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def workload(name: str) -> str:
    """A pod and its claim of 6 GiB. The nodes have no kubelet, hence the tolerations."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "hostpath",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "6Gi"}},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "main"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        },
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim, pod]})


@pytest.fixture
def driver_folder(tmp_path: Path) -> Iterator[Path]:
    options = ["--pool", "fast=10Gi", "--topology", f"{KEY}=nowhere"]
    for node, place in PLACES.items():
        options += ["--serve", f"{node}:{KEY}={place}"]
    with csi_hostpath(tmp_path, *options):
        yield tmp_path


@contextmanager
def provisioner(kube: Plane, binaries: Path, folder: Path) -> Iterator[Process]:
    process = Process(
        [
            binaries / "csi-provisioner",
            f"--csi-address={folder / 'csi.sock'}",
            f"--kubeconfig={kube.kubeconfig}",
            "--feature-gates=Topology=true",
            "--strict-topology",
            "--enable-capacity",
            "--capacity-ownerref-level=-1",
            # Shorter than the defaults of a minute and one write a second.
            "--capacity-poll-interval=2s",
            "--kube-api-capacity-qps=20",
            "--retry-interval-max=1s",
        ],
        folder / "csi-provisioner.log",
    )
    yield process
    assert process.running, process.log_tail()
    process.stop(signal.SIGKILL)


def published_capacity(kube: Plane) -> dict[str, str]:
    """Maximum volume size by segment, as published."""
    objects = kube.kubectl_json("get", "csistoragecapacities", "-n", "default")["items"]
    return {
        capacity["nodeTopology"]["matchLabels"][KEY]: capacity["maximumVolumeSize"]
        for capacity in objects
        if capacity["storageClassName"] == "hostpath"
    }


def node_of(kube: Plane, pod: str) -> str:
    node: str = kube.kubectl_json("get", "pod", pod)["spec"].get("nodeName", "")
    return node


async def volumes(folder: Path) -> list[DriverVolume]:
    async with CsiClient(folder / "csi.sock") as driver:
        return list(await driver.list_volumes())


@pytest.mark.req("C11.external")
async def test_upstream_components_use_the_driver_capacity(
    kube: ControlPlane, binaries: Path, driver_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESPACE", "default")
    with provisioner(kube, binaries, driver_folder):
        await schedule_and_release(kube, driver_folder)


@pytest.mark.version_matrix("Mooring's API server", "external-provisioner", "provisioning by published capacity")
async def test_87_88_upstream_components_on_our_api_server(
    binaries: Path, driver_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines 87 and 88 of the compatibility list (`tests/checklist`)."""
    monkeypatch.setenv("NAMESPACE", "default")
    server = BareServer(tmp_path)
    server.start()
    try:
        ours = OurControlPlane(server, binaries, tmp_path / "components")
        with provisioner(ours, binaries, driver_folder):
            await schedule_and_release(ours, driver_folder)
    finally:
        server.stop()


async def schedule_and_release(kube: Plane, driver_folder: Path) -> None:
    kube.kubectl("delete", "nodes", "--all")  # other tests of this server leave some, where pods would go too
    kube.kubectl("apply", "-f", "-", stdin=manifest())
    try:
        with kube.scheduler(), kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)):
            await eventually(lambda: published_capacity(kube) == {"here": "10Gi", "there": "10Gi"})
            kube.kubectl("apply", "-f", "-", stdin=workload("first"))
            await eventually(lambda: node_of(kube, "first") in PLACES)
            place = PLACES[node_of(kube, "first")]
            other = next(name for name in PLACES.values() if name != place)
            await eventually(lambda: published_capacity(kube) == {place: "4Gi", other: "10Gi"})

            kube.kubectl("apply", "-f", "-", stdin=workload("second"))
            await eventually(lambda: node_of(kube, "second") in PLACES)
            assert PLACES[node_of(kube, "second")] == other
            await eventually(lambda: published_capacity(kube) == {place: "4Gi", other: "4Gi"})

            kube.kubectl("apply", "-f", "-", stdin=workload("third"))
            await eventually(lambda: "did not have enough free storage" in waits_for(kube, "third"))
            assert not node_of(kube, "third")

            made = await volumes(driver_folder)
            handles = {
                volume["spec"]["csi"]["volumeHandle"]: volume["spec"]["nodeAffinity"]["required"]
                for volume in provisioned_volumes(kube)
            }
            assert {volume.volume_id for volume in made} == handles.keys()
            assert [volume.capacity_bytes for volume in made] == [6 * GIB, 6 * GIB]
            for volume in made:
                (topology,) = volume.accessible_from
                (term,) = handles[volume.volume_id]["nodeSelectorTerms"]
                (expression,) = term["matchExpressions"]
                assert expression == {"key": KEY, "operator": "In", "values": [topology.segments[KEY]]}

            # Released capacity is observed, and used by the pod that waited for it.
            remove(kube, "first")
            await eventually(lambda: node_of(kube, "third") in PLACES)
            assert PLACES[node_of(kube, "third")] == place
            for name in ("second", "third"):
                remove(kube, name)
            await eventually(lambda: published_capacity(kube) == {"here": "10Gi", "there": "10Gi"})
        assert await volumes(driver_folder) == []
    finally:
        kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=manifest())
    await eventually(lambda: published_capacity(kube) == {})


def provisioned_volumes(kube: Plane) -> list[dict[str, Any]]:
    """PersistentVolumes of our driver; other tests leave others on the server."""
    found = kube.kubectl_json("get", "pv")["items"]
    return [volume for volume in found if volume["spec"].get("csi", {}).get("driver") == DRIVER_NAME]


def waits_for(kube: Plane, pod: str) -> str:
    """The scheduler's message about a pending pod."""
    conditions = kube.kubectl_json("get", "pod", pod)["status"].get("conditions", ())
    return " ".join(condition.get("message", "") for condition in conditions if condition["status"] == "False")


def remove(kube: Plane, name: str) -> None:
    kube.kubectl("delete", "pod", name, "--force", "--grace-period=0")
    kube.kubectl("delete", "pvc", name, "--wait=false")
