"""Mooring's provisioner with csi-driver-host-path, the driver of Kubernetes' own tests.

With kube-scheduler and kube-controller-manager and with our components, one for the cluster and one per node, killed
while it works, and in `mooring up`. Differences of this driver from ours are in docs/own-driver.md.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.storage.test_external_provisioner import CONTROLLERS, node_of, remove, waits_for
from conformance.storage.test_provisioner import OPTIONS, theirs
from mooring.api import well_known
from mooring.api.kinds import CLAIM
from mooring.client.http import HttpClient
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.scheduler.component import Scheduler
from support.builders import claim_body, class_body, pod_body
from support.conformance.control_plane import ControlPlane
from support.conformance.host_path_plugin import (
    DRIVER,
    GLANCE_SECONDS,
    KEY,
    POOLS,
    HostPathPlugin,
    introduction,
    plugin,
)
from support.conformance.process import Process
from support.conformance.running import running
from support.conformance.waiting import TIMEOUT_SECONDS, eventually
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

NODES: Final = ("host-1", "host-2")
FULL: Final = {"slow": "10Gi", "fast": "100Gi"}
#: Number of claims of the run with kills, and after how many volumes each process is killed.
CLAIMS: Final = 32
STRIKES: Final = {4: "driver", 12: "provisioner", 20: "driver"}
#: Uses the pod's first volume as a folder and the second as a device.
CONTAINER: Final = {
    "name": "main",
    "image": "example.com/main:1",
    "volumeMounts": [{"name": "data-0", "mountPath": "/data"}],
    "volumeDevices": [{"name": "data-1", "devicePath": "/dev/data"}],
}


@contextmanager
def cluster(kube: ControlPlane, *nodes: str, without: tuple[str, ...] = ()) -> Iterator[None]:
    kube.kubectl("delete", "nodes", "--all")  # other tests of this server leave some, where pods would go too
    kube.kubectl("apply", "-f", "-", stdin=introduction(nodes, without=without))
    yield
    kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=introduction(nodes, without=without))
    kube.kubectl("delete", "csistoragecapacities", "-n", "default", "--all")


def start_provisioner(kube: ControlPlane, driver: HostPathPlugin, *options: str) -> Process:
    return Process(
        [
            *(sys.executable, "-m", "mooring", "provisioner", f"--csi-address={driver.socket}"),
            *(f"--kubeconfig={kube.kubeconfig}", *OPTIONS, *options),
        ],
        driver.folder / "provisioner.log",
        {"NAMESPACE": "default", "NODE_NAME": driver.node},
    )


@contextmanager
def provisioner(kube: ControlPlane, driver: HostPathPlugin, *options: str) -> Iterator[None]:
    process = start_provisioner(kube, driver, *options)
    try:
        yield
        assert process.running, process.log_tail()
    finally:
        process.stop()


def published_capacity(kube: ControlPlane) -> dict[str, dict[str, str]]:
    """Published capacity by node and class; other tests leave objects of other drivers on the server."""
    found: dict[str, dict[str, str]] = {}
    for each in kube.kubectl_json("get", "csistoragecapacities", "-n", "default")["items"]:
        node = each.get("nodeTopology", {}).get("matchLabels", {}).get(KEY)
        if node is not None:
            found.setdefault(node, {})[each["storageClassName"]] = each.get("capacity", "")
    return found


def volumes(kube: ControlPlane) -> list[dict[str, Any]]:
    """PersistentVolumes of this driver; other tests leave others on the server."""
    found = kube.kubectl_json("get", "pv")["items"]
    return [volume for volume in found if volume["spec"].get("csi", {}).get("driver") == DRIVER]


def made(kube: ControlPlane) -> dict[str, dict[str, Any]]:
    """Their specs by handle."""
    return {volume["spec"]["csi"]["volumeHandle"]: volume["spec"] for volume in volumes(kube)}


async def listed(*drivers: HostPathPlugin) -> set[str]:
    return {volume.volume_id for driver in drivers for volume in await driver.volumes()}


def apply(kube: ControlPlane, *bodies: dict[str, Any]) -> None:
    kube.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)}))


def use(kube: ControlPlane, name: str) -> None:
    """A pod and its claim of 6 GiB; no node has capacity for two."""
    apply(kube, claim_body(name=name, storage_class="slow", size="6Gi"), pod_body(name=name, claims=[name]))


def events_of(kube: ControlPlane, claim: str, reason: str) -> str:
    chosen = f"--field-selector=involvedObject.name={claim},reason={reason}"
    return " ".join(event["message"] for event in kube.kubectl_json("get", "events", chosen)["items"])


def selected(kube: ControlPlane, claim: str) -> str:
    node: str = (
        kube.kubectl_json("get", "pvc", claim)["metadata"].get("annotations", {}).get(well_known.SELECTED_NODE, "")
    )
    return node


def there(node: str) -> dict[str, Any]:
    """The node affinity of a volume on this node."""
    expression = {"key": KEY, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@pytest.mark.req("C6.upstream", "C9.upstream")
async def test_provisioner_with_upstream_scheduler_and_pv_controller(
    kube: ControlPlane, binaries: Path, tmp_path: Path
) -> None:
    """One for the cluster; one of two nodes has the driver. Ours is killed and restarted in between."""
    here = NODES[0]
    with (
        cluster(kube, here, without=NODES[1:]),
        plugin(binaries, tmp_path, here, *POOLS) as driver,
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)),
    ):
        first = start_provisioner(kube, driver)
        await eventually(lambda: published_capacity(kube) == {here: FULL})
        use(kube, "first")
        await eventually(lambda: node_of(kube, "first") == here)
        await eventually(lambda: published_capacity(kube) == {here: FULL | {"slow": "4Gi"}})
        first.stop(signal.SIGKILL)

        [(handle, spec)] = made(kube).items()
        assert await listed(driver) == {handle}
        source = spec["csi"]
        assert source.pop("volumeAttributes").keys() == {"kind", "storage.kubernetes.io/csiProvisionerIdentity"}
        assert source == {"driver": DRIVER, "volumeHandle": handle, "fsType": "xfs"}
        assert spec["nodeAffinity"] == there(here)
        assert spec["capacity"] == {"storage": "6Gi"}
        assert spec["accessModes"] == ["ReadWriteOnce"]
        assert spec["volumeMode"] == "Filesystem"
        assert spec["persistentVolumeReclaimPolicy"] == "Delete"

        with provisioner(kube, driver):
            use(kube, "second")
            await eventually(lambda: "did not have enough free storage" in waits_for(kube, "second"))
            remove(kube, "first")
            await eventually(lambda: node_of(kube, "second") == here)
            assert handle not in await listed(driver)
            remove(kube, "second")
            await eventually(lambda: published_capacity(kube) == {here: FULL} and not made(kube))
        assert await listed(driver) == set()


async def test_volumes_equal_those_of_external_provisioner(
    kube: ControlPlane, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESPACE", "default")
    modes_by_name = {"once": ["ReadWriteOnce"], "many": ["ReadOnlyMany", "ReadWriteMany"]}
    with (
        cluster(kube, NODES[0]),
        plugin(binaries, tmp_path, NODES[0], *POOLS) as driver,
        kube.controllers(*CONTROLLERS, options=("--pvclaimbinder-sync-period=1s",)),
    ):
        for who, makes in (("theirs", theirs(kube, binaries, driver.folder)), ("ours", provisioner(kube, driver))):
            with makes:
                names = {f"{name}-{who}" for name in modes_by_name}
                for name, modes in modes_by_name.items():
                    body = claim_body(name=f"{name}-{who}", storage_class="now", size="1500M", access_modes=modes)
                    apply(kube, body)
                await eventually(lambda names=names: bound(kube) >= names)  # type: ignore[misc]
        found = {volume["spec"]["claimRef"]["name"]: comparable(volume) for volume in volumes(kube)}
        for name in modes_by_name:
            assert found[f"{name}-ours"] == found[f"{name}-theirs"]
        with provisioner(kube, driver):
            kube.kubectl("delete", "pvc", *(f"{name}-{who}" for name in modes_by_name for who in ("ours", "theirs")))
            await eventually(lambda: not made(kube))
        assert await listed(driver) == set()


def comparable(volume: dict[str, Any]) -> dict[str, Any]:
    """What two provisioners must write equally: all but names, times and the provisioner."""
    spec = volume["spec"] | {"claimRef": None}
    attributes = spec["csi"]["volumeAttributes"] | {"storage.kubernetes.io/csiProvisionerIdentity": ""}
    spec["csi"] = spec["csi"] | {"volumeHandle": "", "volumeAttributes": attributes}
    metadata = volume["metadata"]
    notes = {key: note for key, note in metadata["annotations"].items() if key != well_known.VOLUME_CREATED_AT}
    return {"spec": spec, "annotations": notes, "finalizers": sorted(metadata["finalizers"])}


@pytest.mark.req("C5.several")
async def test_driver_per_node_with_our_scheduler_and_pv_controller(
    kube: ControlPlane, client: HttpClient, binaries: Path, tmp_path: Path
) -> None:
    alone = ("--node-deployment",)
    with (
        cluster(kube, *NODES),
        plugin(binaries, tmp_path / "1", NODES[0], *POOLS) as one,
        plugin(binaries, tmp_path / "2", NODES[1], *POOLS) as other,
        provisioner(kube, one, *alone),
        provisioner(kube, other, *alone),
    ):
        drivers = {one.node: one, other.node: other}
        async with running(client, [Scheduler, PersistentVolumeController, VolumeProtection]):
            await eventually(lambda: published_capacity(kube) == dict.fromkeys(NODES, FULL))
            for name in ("first", "second"):
                use(kube, name)
            await eventually(lambda: {node_of(kube, "first"), node_of(kube, "second")} == set(NODES))
            await eventually(lambda: published_capacity(kube) == dict.fromkeys(NODES, FULL | {"slow": "4Gi"}))
            for handle, spec in made(kube).items():
                [holder] = [node for node, driver in drivers.items() if handle in await listed(driver)]
                assert spec["nodeAffinity"] == there(holder)

            # A scheduler that ignores capacity selects a full node for the third pod. The driver returns an error about
            # the size instead of RESOURCE_EXHAUSTED: the claim keeps its selected node.
            kube.kubectl("patch", "csidriver", DRIVER, "--patch", '{"spec": {"storageCapacity": false}}')
            use(kube, "third")
            message = 'exceeds remaining capacity for "slow", 6Gi out of 10Gi already used'
            await eventually(lambda: message in events_of(kube, "third", "ProvisioningFailed"))
            full = selected(kube, "third")
            assert full in NODES
            remove(kube, next(name for name in ("first", "second") if node_of(kube, name) == full))
            await eventually(lambda: node_of(kube, "third") == full)
            assert await listed(one, other) == made(kube).keys()

            for name in ("first", "second", "third"):
                kube.kubectl("delete", "pod", name, "--force", "--grace-period=0", "--ignore-not-found")
                kube.kubectl("delete", "pvc", name, "--wait=false", "--ignore-not-found")
            await eventually(lambda: not made(kube))
            assert await listed(one, other) == set()
            await eventually(lambda: published_capacity(kube) == dict.fromkeys(NODES, FULL))


class KilledProcesses:
    """A driver and its provisioner, killed while they work and restarted."""

    def __init__(self, kube: ControlPlane, driver: HostPathPlugin) -> None:
        self._kube = kube
        self.driver = driver
        self.provisioner = start_provisioner(kube, driver)

    def kill_after(self, reached: Callable[[int], bool], *, driver: bool) -> None:
        """Kill once the driver has this many volumes."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (kept := self.driver.kept()) is None or not reached(kept):
            assert time.monotonic() < deadline, self.provisioner.log_tail()
            time.sleep(GLANCE_SECONDS)
        if driver:
            self.driver.kill()
            self.driver.start()
        else:
            self.provisioner.stop(signal.SIGKILL)
            self.provisioner = start_provisioner(self._kube, self.driver)


@pytest.mark.req("R4.killed")
async def test_kill_during_provisioning_leaks_no_volume(
    kube: ControlPlane, client: HttpClient, binaries: Path, tmp_path: Path
) -> None:
    """All claims are created and deleted at once; the driver is killed after some volumes, then the provisioner."""
    names = [f"many-{number}" for number in range(CLAIMS)]
    with cluster(kube, NODES[0]), plugin(binaries, tmp_path, NODES[0], *POOLS) as driver:
        apply(kube, *(claim_body(name=name, storage_class="now", size="1Gi") for name in names))
        async with running(client, [PersistentVolumeController, VolumeProtection]):
            victims = KilledProcesses(kube, driver)
            try:
                for number, whom in STRIKES.items():
                    await asyncio.to_thread(
                        victims.kill_after, lambda kept, n=number: kept >= n, driver=whom == "driver"
                    )
                await eventually(lambda: bound(kube) >= set(names))
                assert len(made(kube)) == CLAIMS
                assert await listed(driver) == made(kube).keys()

                await asyncio.gather(*(client.delete(CLAIM, name, namespace="default") for name in names))
                for number, whom in STRIKES.items():
                    few = CLAIMS - number
                    await asyncio.to_thread(victims.kill_after, lambda kept, n=few: kept <= n, driver=whom == "driver")
                await eventually(lambda: not made(kube))
                assert await listed(driver) == set()
                assert "configmap/intent-" not in kube.kubectl("get", "configmaps", "-o", "name")
            finally:
                victims.provisioner.stop()


def bound(kube: ControlPlane) -> set[str]:
    claims = kube.kubectl_json("get", "pvc")["items"]
    return {claim["metadata"]["name"] for claim in claims if claim["status"]["phase"] == "Bound"}


@pytest.mark.skipif(os.geteuid() != 0, reason="the driver mounts, and makes loop devices of block volumes")
@pytest.mark.req("C11.external")
async def test_volumes_are_attached_and_mounted_in_mooring_up(binaries: Path, tmp_path: Path) -> None:
    """`--csi-endpoint`, as in docs/own-driver.md: a mount and a raw block device for one pod."""
    with plugin(
        binaries, tmp_path / "driver", "host-1", *POOLS, "--enable-attach", "--check-volume-lifecycle"
    ) as driver:
        ours = Cluster(tmp_path, "--nodes", "1", "--data-dir", "data", f"--csi-endpoint=unix://{driver.socket}")
        ours.start()
        try:
            workspace = Workspace(ours, "default")
            workspace.apply(
                class_body(name="slow", provisioner=DRIVER, parameters={"kind": "slow"}),
                claim_body(name="files", storage_class="slow", size="1Gi"),
                claim_body(name="device", storage_class="slow", size="8Mi", mode="Block"),
                pod_body(name="user", claims=["files", "device"], containers=[CONTAINER]),
            )
            await asyncio.to_thread(workspace.wait_ready, "user")
            handles = {spec["claimRef"]["name"]: spec["csi"]["volumeHandle"] for spec in _specs(ours)}
            assert {spec["claimRef"]["name"]: spec["volumeMode"] for spec in _specs(ours)} == {
                "files": "Filesystem",
                "device": "Block",
            }
            assert await listed(driver) == set(handles.values())
            assert all(attachment["status"]["attached"] for attachment in ours.items("volumeattachments"))
            [folder, device] = sorted(map(Path, driver.mounts(tmp_path)), key=lambda point: point.is_block_device())
            (folder / "greeting").write_text("hello")
            assert (driver.state / handles["files"] / "greeting").read_text() == "hello"
            assert device.is_block_device()
            assert driver.devices() == [str(driver.state / handles["device"])]

            workspace("delete", "pod/user", "pvc/files", "pvc/device", "--wait=false")
            await asyncio.to_thread(workspace.wait_for, lambda: not _specs(ours))
            assert driver.mounts(tmp_path) == driver.devices() == []
            assert await listed(driver) == set()
        finally:
            ours.end()
            driver.unmount(tmp_path)


def _specs(ours: Cluster) -> list[dict[str, Any]]:
    return [volume["spec"] for volume in ours.items("pv") if "csi" in volume["spec"]]
