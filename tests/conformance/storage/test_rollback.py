"""A pod with two volumes on stock kube-scheduler and PV controller, where the first node has capacity for one.

Only our provisioner and our coordinator are added to the stock components. Without the rollback the first volume pins
the pod to the node without capacity for the second; with it the pod runs on the other node.
"""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.storage.test_external_provisioner import (
    CONTROLLERS,
    node_of,
    provisioned_volumes,
    remove,
    volumes,
    workload,
)
from conformance.storage.test_provisioner import cluster, driver_folder, ours
from mooring.hostpath.records import DRIVER_NAME
from support.conformance.control_plane import ControlPlane
from support.conformance.process import Process
from support.conformance.waiting import eventually

__all__ = ["cluster", "driver_folder"]

#: Namespace of the provisioner's records outside a pod.
NAMESPACE = "default"
SMALL, LARGE = "csi-node-1", "csi-node-2"
QUICK = ("--pvclaimbinder-sync-period=1s",)


@contextmanager
def coordinator(kube: ControlPlane, folder: Path, *options: str) -> Iterator[Process]:
    command = [sys.executable, "-m", "mooring", "coordinator", f"--hold-namespace={NAMESPACE}", "--grace=3s"]
    command += [f"--kubeconfig={kube.kubeconfig}", "--no-http", *options]
    process = Process(command, folder / "coordinator.log")
    try:
        yield process
        assert process.running, process.log_tail()
    finally:
        process.stop(signal.SIGTERM)


def pair() -> str:
    """A pod with two claims of 4 GiB; nodes have 10 GiB, of which one has 4 GiB in use."""
    claims = [json.loads(workload(name))["items"][0] for name in ("left", "right")]
    for claim in claims:
        claim["spec"]["resources"]["requests"]["storage"] = "4Gi"
    pod = json.loads(workload("pair"))["items"][1]
    pod["spec"]["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("left", "right")
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*claims, pod]})


def phases(kube: ControlPlane) -> list[str]:
    return [kube.kubectl_json("get", "pvc", name)["status"]["phase"] for name in ("left", "right")]


def events(kube: ControlPlane, reason: str) -> list[str]:
    found = kube.kubectl_json("get", "events", "-n", "default")["items"]
    return [event["message"] for event in found if event["reason"] == reason]


async def prepare(kube: ControlPlane) -> None:
    """Leaves 6 of 10 GiB on the small node; the scheduler ignores capacity."""
    kube.kubectl("patch", "csidriver", DRIVER_NAME, "--patch", json.dumps({"spec": {"storageCapacity": False}}))
    kube.kubectl("cordon", LARGE)
    first = json.loads(workload("first"))
    first["items"][0]["spec"]["resources"]["requests"]["storage"] = "4Gi"
    kube.kubectl("apply", "-f", "-", stdin=untolerant(json.dumps(first)))
    await eventually(lambda: node_of(kube, "first") == SMALL)


def clear(kube: ControlPlane) -> None:
    kube.kubectl("delete", "pod", "pair", "--grace-period=0", "--force", "--ignore-not-found")
    kube.kubectl("delete", "pvc", "left", "right", "--ignore-not-found")
    remove(kube, "first")


def untolerant(text: str) -> str:
    """Pods of this test must respect a cordon, unlike the others of this folder."""
    objects = json.loads(text)
    for item in objects["items"]:
        if item["kind"] == "Pod":
            item["spec"]["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    return json.dumps(objects)


@pytest.mark.req("R1.rolled-back", "R6.events", "T38.real-server")
@pytest.mark.version_matrix("kube-apiserver", "provisioner, coordinator", "rollback beside kube-scheduler")
async def test_pod_runs_after_rollback_on_first_node(cluster: ControlPlane, driver_folder: Path) -> None:
    kube = cluster
    with (
        ours(kube, driver_folder, "--enable-rollback"),
        coordinator(kube, driver_folder),
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=QUICK),
    ):
        await prepare(kube)
        kube.kubectl("apply", "-f", "-", stdin=untolerant(pair()))
        await eventually(lambda: bool(events(kube, "ProvisioningRolledBack")))
        assert phases(kube) == ["Pending", "Pending"]
        kube.kubectl("uncordon", LARGE)
        kube.kubectl("cordon", SMALL)
        await eventually(lambda: node_of(kube, "pair") == LARGE)
        assert phases(kube) == ["Bound", "Bound"]
        kube.kubectl("uncordon", SMALL)
        clear(kube)
        await eventually(lambda: not provisioned_volumes(kube))
    assert await volumes(driver_folder) == []


async def test_pod_is_stuck_without_rollback(cluster: ControlPlane, driver_folder: Path) -> None:
    """Shows that the test above can fail."""
    kube = cluster
    with ours(kube, driver_folder), kube.scheduler(), kube.controllers(*CONTROLLERS, options=QUICK):
        await prepare(kube)
        kube.kubectl("apply", "-f", "-", stdin=untolerant(pair()))
        await eventually(lambda: sorted(phases(kube)) == ["Bound", "Pending"])
        kube.kubectl("uncordon", LARGE)
        kube.kubectl("cordon", SMALL)
        stuck = "didn't match PersistentVolume's node affinity"
        await eventually(lambda: any(stuck in message for message in events(kube, "FailedScheduling")))
        assert sorted(phases(kube)) == ["Bound", "Pending"]
        kube.kubectl("uncordon", SMALL)
        clear(kube)
        await eventually(lambda: not provisioned_volumes(kube))
    assert await volumes(driver_folder) == []
