"""A pod with two volumes on stock kube-scheduler and PV controller, where the first node has room for one of them.

Nothing is added to the stock components but our provisioner and our coordinator. Without the rollback the first volume
pins the pod to the node that cannot have the second; with it the pod runs on the other node.
"""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.control_plane import ControlPlane
from conformance.process import Process
from conformance.test_external_provisioner import CONTROLLERS, made_volumes, node_of, remove, volumes, workload
from conformance.test_provisioner import cluster, driver_folder, ours
from conformance.waiting import eventually
from mooring.hostpath.layout import DRIVER_NAME

__all__ = ["cluster", "driver_folder"]

#: Where our provisioner keeps its records when it runs in no pod.
NAMESPACE = "default"
SMALL, LARGE = "csi-node-1", "csi-node-2"
QUICK = ("--pvclaimbinder-sync-period=1s",)


@contextmanager
def coordinator(kube: ControlPlane, folder: Path) -> Iterator[Process]:
    command = [sys.executable, "-m", "mooring", "coordinator", f"--hold-namespace={NAMESPACE}", "--grace=3s"]
    command += [f"--kubeconfig={kube.kubeconfig}", "--no-http"]
    process = Process(command, folder / "coordinator.log")
    yield process
    assert process.running, process.last_words()
    process.stop(signal.SIGTERM)


def pair() -> str:
    """A pod with two claims of four gibibytes; nodes have ten, of which one has given four away."""
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
    """The small node has six of ten gibibytes left after this; the scheduler knows nothing of room."""
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
    """Pods of this test must heed a cordon, unlike the others of this folder."""
    objects = json.loads(text)
    for item in objects["items"]:
        if item["kind"] == "Pod":
            item["spec"]["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]
    return json.dumps(objects)


@pytest.mark.req("R1", "R6", "T38")
async def test_a_pod_that_fits_half_on_one_node_runs_on_the_other(cluster: ControlPlane, driver_folder: Path) -> None:
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
        await eventually(lambda: not made_volumes(kube))
    assert await volumes(driver_folder) == []


async def test_without_the_rollback_it_is_stuck(cluster: ControlPlane, driver_folder: Path) -> None:
    """So that the test above is known to be able to fail."""
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
        await eventually(lambda: not made_volumes(kube))
    assert await volumes(driver_folder) == []
