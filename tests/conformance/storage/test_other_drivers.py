"""Mooring's provisioner and coordinator with further CSI drivers of others, on kube-scheduler and the PV controller.

Neither driver supports topology, and both report a capacity that volumes do not reduce. What other drivers need that
cannot be had here is in docs/own-driver.md.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from conformance.storage.test_external_provisioner import CONTROLLERS, node_of
from conformance.storage.test_provisioner import ours
from conformance.storage.test_rollback import NAMESPACE, QUICK, coordinator, events, pair, phases
from mooring.api import quantity
from mooring.api.well_known import COORDINATOR_LEASE
from mooring.control.leader_election import POLL_INTERVAL_SECONDS
from mooring.csi.client import CsiClient
from support.builders import class_body, node_body
from support.conformance.control_plane import ControlPlane
from support.conformance.process import START_SECONDS, Process
from support.conformance.waiting import eventually

NODE: Final = "other-1"
POLL_SECONDS: Final = 0.05


class OtherDriver(NamedTuple):
    #: Begins the name of its binary.
    binary: str
    name: str
    #: GetCapacity of an empty driver, in bytes.
    capacity: int
    #: Whether it rejects volumes over its capacity.
    limited: bool


CSI_MOCK: Final = OtherDriver("csi-mock-driver", "io.kubernetes.storage.mock", 1024**4, limited=True)
GOCSI_MOCK: Final = OtherDriver("gocsi-mock", "mock.gocsi.rexray.com", 100 * 1024**4, limited=False)
BOTH: Final = [pytest.param(each, id=each.binary) for each in (CSI_MOCK, GOCSI_MOCK)]


def answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def running(binaries: Path, folder: Path, driver: OtherDriver) -> Iterator[None]:
    (binary,) = binaries.glob(f"{driver.binary}-v*")
    path = folder / "csi.sock"
    process = Process([binary], folder / "driver.log", {"CSI_ENDPOINT": f"unix://{path}"})
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(path):
            assert process.running, process.log_tail()
            assert time.monotonic() < deadline, process.log_tail()
            time.sleep(POLL_SECONDS)
        yield
    finally:
        process.stop()


def introduction(driver: OtherDriver) -> str:
    bodies: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": driver.name},
            "spec": {"attachRequired": False, "storageCapacity": True},
        },
        class_body(name="hostpath", provisioner=driver.name),
        node_body(name=NODE),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": NODE},
            "spec": {"drivers": [{"name": driver.name, "nodeID": NODE, "topologyKeys": []}]},
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})


@contextmanager
def cluster(kube: ControlPlane, driver: OtherDriver) -> Iterator[None]:
    kube.kubectl("delete", "nodes", "--all")  # other tests of this server leave some, where pods would go too
    kube.kubectl("delete", "events,csistoragecapacities", "--all", "-n", "default")
    kube.kubectl("apply", "-f", "-", stdin=introduction(driver))
    try:
        yield
    finally:
        clear(kube)
        kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=introduction(driver))
        kube.kubectl("delete", "csistoragecapacities", "-n", "default", "--all")


def clear(kube: ControlPlane) -> None:
    kube.kubectl("delete", "pod", "pair", "--grace-period=0", "--force", "--ignore-not-found")
    kube.kubectl("delete", "pvc", "left", "right", "--ignore-not-found", "--wait=false")


def volumes(kube: ControlPlane, driver: OtherDriver) -> list[dict[str, Any]]:
    found = kube.kubectl_json("get", "pv")["items"]
    return [volume for volume in found if volume["spec"].get("csi", {}).get("driver") == driver.name]


def published(kube: ControlPlane) -> list[tuple[dict[str, Any], str, int]]:
    found = kube.kubectl_json("get", "csistoragecapacities", "-n", "default")["items"]
    return [
        (each.get("nodeTopology", {}), each["storageClassName"], quantity.to_bytes(each["capacity"])) for each in found
    ]


async def listed(folder: Path) -> set[str]:
    async with CsiClient(folder / "csi.sock") as client:
        return {volume.volume_id for volume in await client.list_volumes()}


async def coordinated(kube: ControlPlane) -> None:
    """Until the provisioner sees the coordinator's lease: before, it commits every volume at once."""

    def is_held() -> bool:
        found = kube.kubectl_json("get", "leases", "-n", NAMESPACE)["items"]
        return any(
            each["metadata"]["name"] == COORDINATOR_LEASE and each["spec"].get("holderIdentity") for each in found
        )

    await eventually(is_held)
    await asyncio.sleep(POLL_INTERVAL_SECONDS)


@pytest.mark.req("C26.four")
@pytest.mark.parametrize("driver", BOTH)
async def test_both_volumes_of_a_pod_are_held_and_committed(
    driver: OtherDriver, kube: ControlPlane, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESPACE", NAMESPACE)
    with (
        running(binaries, tmp_path, driver),
        cluster(kube, driver),
        ours(kube, tmp_path, "--enable-rollback"),
        coordinator(kube, tmp_path),
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=QUICK),
    ):
        await coordinated(kube)
        before = await listed(tmp_path)
        await eventually(lambda: published(kube) == [({}, "hostpath", driver.capacity)])
        kube.kubectl("apply", "-f", "-", stdin=pair())
        await eventually(lambda: node_of(kube, "pair") == NODE)
        assert phases(kube) == ["Bound", "Bound"]
        assert len(events(kube, "VolumeHeld")) == 2
        own = {volume["spec"]["csi"]["volumeHandle"] for volume in volumes(kube, driver)}
        assert await listed(tmp_path) == before | own
        assert len(own) == 2
        clear(kube)
        await eventually(lambda: not volumes(kube, driver))
        assert await listed(tmp_path) == before


@pytest.mark.req("C26.four")
@pytest.mark.parametrize("driver", [each for each in BOTH if each.values[0].limited])  # type: ignore[union-attr]
async def test_volume_is_held_while_the_other_is_rejected(
    driver: OtherDriver, kube: ControlPlane, binaries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver rejects one of two volumes as too large on any node: the other is never bound, and is deleted with its
    claim."""
    monkeypatch.setenv("NAMESPACE", NAMESPACE)
    objects = json.loads(pair())
    objects["items"][1]["spec"]["resources"]["requests"]["storage"] = "2Ti"
    with (
        running(binaries, tmp_path, driver),
        cluster(kube, driver),
        ours(kube, tmp_path, "--enable-rollback"),
        coordinator(kube, tmp_path),
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=QUICK),
    ):
        kube.kubectl("patch", "csidriver", driver.name, "--patch", json.dumps({"spec": {"storageCapacity": False}}))
        await coordinated(kube)
        before = await listed(tmp_path)
        kube.kubectl("apply", "-f", "-", stdin=json.dumps(objects))
        await eventually(lambda: bool(events(kube, "VolumeHeld")))
        await eventually(lambda: "OutOfRange" in " ".join(events(kube, "ProvisioningFailed")))
        (held,) = volumes(kube, driver)
        assert await listed(tmp_path) == before | {held["spec"]["csi"]["volumeHandle"]}
        assert phases(kube) == ["Pending", "Pending"]
        clear(kube)
        await eventually(lambda: not volumes(kube, driver))
        assert await listed(tmp_path) == before
