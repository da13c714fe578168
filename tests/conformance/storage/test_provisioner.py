"""Mooring's provisioner and publisher with kube-scheduler and kube-controller-manager.

The same scenario as with external-provisioner; besides, each provisioner takes over the other's objects, and a claim on
a node without capacity is returned to kube-scheduler.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.storage.test_external_provisioner import (
    CONTROLLERS,
    KEY,
    PLACES,
    manifest,
    node_of,
    provisioned_volumes,
    published_capacity,
    remove,
    volumes,
    waits_for,
    workload,
)
from mooring.csi.client import CsiClient
from mooring.csi.contract import AccessibilityRequirements, AccessMode, CreateVolume, Topology, VolumeCapability
from mooring.hostpath.records import DRIVER_NAME
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process
from support.conformance.waiting import eventually
from support.hostpath.command import csi_hostpath

FULL: Final = {"here": "10Gi", "there": "10Gi"}
OPTIONS: Final = (
    "--strict-topology",
    "--enable-capacity",
    "--capacity-ownerref-level=-1",
    "--capacity-poll-interval=2s",
    "--retry-interval-max=1s",
)


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
    kube.kubectl("delete", "nodes", "--all")  # other tests of this server leave some, where pods would go too
    kube.kubectl("apply", "-f", "-", stdin=manifest())
    yield kube
    kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=manifest())


@contextmanager
def ours(kube: ControlPlane, folder: Path, *options: str) -> Iterator[Process]:
    command = [sys.executable, "-m", "mooring", "provisioner", f"--csi-address={folder / 'csi.sock'}"]
    process = Process([*command, f"--kubeconfig={kube.kubeconfig}", *OPTIONS, *options], folder / "ours.log")
    try:
        yield process
        assert process.running, process.log_tail()
    finally:
        process.stop(signal.SIGTERM)


@contextmanager
def theirs(kube: ControlPlane, binaries: Path, folder: Path) -> Iterator[Process]:
    command = [binaries / "csi-provisioner", f"--csi-address={folder / 'csi.sock'}"]
    fast = ("--kube-api-capacity-qps=20", "--feature-gates=Topology=true")
    process = Process([*command, f"--kubeconfig={kube.kubeconfig}", *OPTIONS, *fast], folder / "theirs.log")
    yield process
    assert process.running, process.log_tail()
    process.stop(signal.SIGKILL)


def published(kube: ControlPlane) -> set[str]:
    items = kube.kubectl_json("get", "csistoragecapacities", "-n", "default")["items"]
    return {item["metadata"]["name"] for item in items}


def shown(kube: ControlPlane, *options: str) -> list[dict[str, Any]]:
    """The output of `mooring capacity`."""
    command = [sys.executable, "-m", "mooring", "capacity", "--kubeconfig", str(kube.kubeconfig), "-o", "json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True, timeout=60)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.req("C6.upstream", "C8.adopt", "C9.upstream")
@pytest.mark.version_matrix("kube-apiserver", "provisioner", "capacity that kube-scheduler uses")
async def test_upstream_scheduler_uses_our_published_capacity(cluster: ControlPlane, driver_folder: Path) -> None:
    kube = cluster
    with (
        ours(kube, driver_folder),
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)),
    ):
        await eventually(lambda: published_capacity(kube) == FULL)
        for name in ("first", "second"):
            kube.kubectl("apply", "-f", "-", stdin=workload(name))
            await eventually(lambda name=name: node_of(kube, name) in PLACES)  # type: ignore[misc]
            await eventually(lambda: "4Gi" in published_capacity(kube).values())
        assert node_of(kube, "first") != node_of(kube, "second")
        await eventually(lambda: set(published_capacity(kube).values()) == {"4Gi"})

        kube.kubectl("apply", "-f", "-", stdin=workload("third"))
        await eventually(lambda: "enough free storage" in waits_for(kube, "third"))
        freed = node_of(kube, "first")
        remove(kube, "first")
        await eventually(lambda: node_of(kube, "third") == freed)

        rows = shown(kube, "--driver", DRIVER_NAME)
        assert {(row["segment"][KEY], row["capacity"]) for row in rows} == {("here", "4Gi"), ("there", "4Gi")}
        assert all(row["lastPolled"] and row["lastChanged"] and row["nodes"] == 1 for row in rows)
        for name in ("second", "third"):
            remove(kube, name)
        await eventually(lambda: published_capacity(kube) == FULL)
    assert await volumes(driver_folder) == []


@pytest.mark.req("T17.no-room")
@pytest.mark.version_matrix("kube-apiserver", "provisioner", "provisioning on another node")
async def test_upstream_scheduler_reselects_without_capacity(cluster: ControlPlane, driver_folder: Path) -> None:
    """The scheduler ignores capacity, so it may select one node for both pods; one of them must be rescheduled."""
    kube = cluster
    blind = json.dumps({"spec": {"storageCapacity": False}})
    kube.kubectl("patch", "csidriver", DRIVER_NAME, "--patch", blind)
    with (
        ours(kube, driver_folder),
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)),
    ):
        for name in ("first", "second"):
            kube.kubectl("apply", "-f", "-", stdin=workload(name))
        for name in ("first", "second"):
            await eventually(lambda name=name: node_of(kube, name) in PLACES)  # type: ignore[misc]
        assert node_of(kube, "first") != node_of(kube, "second")
        for name in ("first", "second"):
            remove(kube, name)
        await eventually(lambda: not provisioned_volumes(kube))
    assert await volumes(driver_folder) == []


@pytest.mark.req("C8.adopt")
@pytest.mark.version_matrix("kube-apiserver", "provisioner", "taking over from external-provisioner and back")
async def test_provisioners_take_over_from_each_other(
    cluster: ControlPlane, binaries: Path, driver_folder: Path
) -> None:
    """Objects and volumes of external-provisioner are managed and deleted by ours, and vice versa."""
    kube = cluster
    with kube.scheduler(), kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)):
        with theirs(kube, binaries, driver_folder):
            await eventually(lambda: published_capacity(kube) == FULL)
            kube.kubectl("apply", "-f", "-", stdin=workload("first"))
            await eventually(lambda: node_of(kube, "first") in PLACES)
            await eventually(lambda: "4Gi" in published_capacity(kube).values())
            before = published(kube)
        with ours(kube, driver_folder):
            kube.kubectl("apply", "-f", "-", stdin=workload("second"))
            await eventually(lambda: node_of(kube, "second") in PLACES)
            await eventually(lambda: set(published_capacity(kube).values()) == {"4Gi"})
            assert published(kube) == before
            remove(kube, "first")
            await eventually(lambda: sorted(published_capacity(kube).values()) == ["10Gi", "4Gi"])
        with theirs(kube, binaries, driver_folder):
            remove(kube, "second")
            await eventually(lambda: published_capacity(kube) == FULL)
            assert published(kube) == before
    assert await volumes(driver_folder) == []


SNAPSHOT_KIND: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "volumesnapshotcontents.snapshot.storage.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "snapshot.storage.k8s.io",
        "scope": "Cluster",
        "names": {"plural": "volumesnapshotcontents", "kind": "VolumeSnapshotContent"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.mark.req("C22.at-once")
@pytest.mark.version_matrix("kube-apiserver", "provisioner", "capacity after a snapshot")
async def test_capacity_is_refreshed_when_a_snapshot_is_taken(cluster: ControlPlane, driver_folder: Path) -> None:
    """With the kind served only after the start, and a poll interval of an hour."""
    with ours(cluster, driver_folder, "--capacity-watch-snapshots", "--capacity-poll-interval=1h"):
        await eventually(lambda: published_capacity(cluster) == FULL)

        async def take() -> None:
            async with CsiClient(driver_folder / "csi.sock") as driver:
                where = Topology({KEY: "here"})
                request = CreateVolume(
                    "taken-by-snapshots",
                    2 * 2**30,
                    capabilities=(VolumeCapability(AccessMode.SINGLE_NODE_WRITER),),
                    accessibility=AccessibilityRequirements((where,), (where,)),
                )
                await driver.create_volume(request, secrets={})

        await take()
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(SNAPSHOT_KIND))
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{SNAPSHOT_KIND['metadata']['name']}")
        content = {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": {"name": "taken"},
            "spec": {"driver": DRIVER_NAME, "source": {"volumeHandle": "unknown"}},
            "status": {"snapshotHandle": "taken"},
        }
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(content))
        taken = FULL | {"here": "8Gi"}
        await eventually(lambda: published_capacity(cluster) == taken)
    cluster.kubectl("delete", "crd", SNAPSHOT_KIND["metadata"]["name"])
