"""One pod with volumes of two drivers on stock kube-scheduler and PV controller; only one driver supports holds.

Two claims are held and rolled back by ours. The third is provisioned by external-provisioner, which does not support
holds: its claim is bound at once and stays bound, while the others are rolled back and provisioned again.
"""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.storage.test_external_provisioner import CONTROLLERS, PLACES, node_of, provisioned_volumes, volumes
from conformance.storage.test_external_provisioner import KEY as PLACE
from conformance.storage.test_provisioner import cluster, driver_folder, ours
from conformance.storage.test_rollback import (
    LARGE,
    QUICK,
    SMALL,
    clear,
    coordinator,
    events,
    pair,
    phases,
    prepare,
    untolerant,
)
from mooring.hostpath.records import DRIVER_NAME
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process
from support.conformance.waiting import eventually
from support.hostpath.command import csi_hostpath

__all__ = ["cluster", "driver_folder"]

FOREIGN: Final = "foreign.example.com"
#: Both nodes exist: volumes provisioned there do not conflict.
REGION: Final = "region.example.com/name"


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "foreign"
    folder.mkdir()
    with csi_hostpath(folder, "--drivername", FOREIGN, "--pool", "fast=10Gi", "--topology", f"{REGION}=one"):
        yield folder


@contextmanager
def their_provisioner(kube: ControlPlane, binaries: Path, folder: Path) -> Iterator[Process]:
    command = [binaries / "csi-provisioner", f"--csi-address={folder / 'csi.sock'}", "--feature-gates=Topology=true"]
    process = Process([*command, f"--kubeconfig={kube.kubeconfig}", "--strict-topology"], folder / "theirs.log")
    yield process
    assert process.running, process.log_tail()
    process.stop(signal.SIGKILL)


def second_driver() -> str:
    """The objects of the driver without holds; nodes have both drivers."""
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": FOREIGN},
            "spec": {"attachRequired": False},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "foreign"},
            "provisioner": FOREIGN,
            "parameters": {"pool": "fast"},
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]
    for node in PLACES:
        drivers = [
            {"name": DRIVER_NAME, "nodeID": node, "topologyKeys": [PLACE]},
            {"name": FOREIGN, "nodeID": "node-1", "topologyKeys": [REGION]},
        ]
        objects.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": node},
                "spec": {"drivers": drivers},
            }
        )
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def mixed() -> str:
    """The pod with two claims of which one fits on the small node, and a third claim of the other driver."""
    objects = json.loads(pair())
    claim = json.loads(json.dumps(objects["items"][0]))
    claim["metadata"]["name"] = "foreign"
    claim["spec"]["storageClassName"] = "foreign"
    objects["items"][-1]["spec"]["volumes"].append(
        {"name": "foreign", "persistentVolumeClaim": {"claimName": "foreign"}}
    )
    objects["items"].insert(0, claim)
    return json.dumps(objects)


def foreign_volume(kube: ControlPlane) -> str:
    claim = kube.kubectl_json("get", "pvc", "foreign")
    return str(claim["spec"].get("volumeName", "")) if claim["status"]["phase"] == "Bound" else ""


@pytest.mark.req("R1.rolled-back", "R7.beside")
async def test_other_driver_works_in_the_same_pod(
    cluster: ControlPlane, binaries: Path, driver_folder: Path, foreign_folder: Path
) -> None:
    kube = cluster
    kube.kubectl("label", "nodes", SMALL, LARGE, f"{REGION}=one")
    kube.kubectl("apply", "-f", "-", stdin=second_driver())
    with (
        ours(kube, driver_folder, "--enable-rollback"),
        coordinator(kube, driver_folder),
        their_provisioner(kube, binaries, foreign_folder),
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=QUICK),
    ):
        await prepare(kube)
        kube.kubectl("apply", "-f", "-", stdin=untolerant(mixed()))

        # Theirs is bound at once; of ours one is provisioned, and rolled back.
        await eventually(lambda: foreign_volume(kube) != "")
        bound = foreign_volume(kube)
        await eventually(lambda: bool(events(kube, "ProvisioningRolledBack")))
        assert phases(kube) == ["Pending", "Pending"]
        assert not any('"foreign"' in message for message in events(kube, "ProvisioningRolledBack"))

        # With capacity for both of ours the pod has all three, and theirs is unchanged.
        kube.kubectl("uncordon", LARGE)
        kube.kubectl("cordon", SMALL)
        await eventually(lambda: node_of(kube, "pair") == LARGE)
        assert phases(kube) == ["Bound", "Bound"]
        assert foreign_volume(kube) == bound
        events_about_foreign = kube.kubectl_json("get", "events", "--field-selector=involvedObject.name=foreign")[
            "items"
        ]
        assert not {"VolumeHeld", "VolumeCommitted"} & {event["reason"] for event in events_about_foreign}

        kube.kubectl("uncordon", SMALL)
        clear(kube)
        kube.kubectl("delete", "pvc", "foreign")
        await eventually(lambda: not provisioned_volumes(kube))
        await eventually(lambda: bound not in kube.kubectl("get", "pv", "-o", "name"))
    assert await volumes(driver_folder) == []
    assert await volumes(foreign_folder) == []
    kube.kubectl("delete", "csidriver/" + FOREIGN, "storageclass/foreign")
