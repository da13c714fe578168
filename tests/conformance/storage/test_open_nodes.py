"""A pod with two volumes on real Kubernetes, where two of three nodes have capacity for one of them.

All nodes are open all the time: after each rollback the scheduler alone chooses another node, until one has capacity
for both. With our scheduler, with kube-scheduler and `mooring extender`, and with kube-scheduler alone. The last one
remembers no failures and selects the first full node again and again, unless the coordinator nominates the pod to
another node (docs/rollback.md).
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.storage.test_external_provisioner import CONTROLLERS, KEY, node_of, provisioned_volumes
from conformance.storage.test_provisioner import ours
from conformance.storage.test_rollback import NAMESPACE, QUICK, coordinator, pair, phases
from mooring.hostpath.records import DRIVER_NAME
from support.builders import claim_body, class_body, node_body, pod_body
from support.conformance.components import identity_manifests
from support.conformance.control_plane import ControlPlane
from support.conformance.extended_scheduler import extended_scheduler
from support.conformance.process import Process
from support.conformance.waiting import eventually
from support.hostpath.command import csi_hostpath, recorded_volumes

FULL: Final = ("open-1", "open-2")
FREE: Final = "open-3"
NODES: Final = (*FULL, FREE)
ANYWHERE: Final = [{"operator": "Exists"}]
#: Seconds. Each rollback doubles the pause before the next attempt.
TIMEOUT_SECONDS: Final = 400.0

Scheduling = Callable[[ControlPlane, Path], AbstractContextManager[object]]


def extended(kube: ControlPlane, folder: Path) -> AbstractContextManager[object]:
    return extended_scheduler(kube, folder, "filter")


@contextmanager
def mooring_scheduler(kube: ControlPlane, folder: Path) -> Iterator[Process]:
    options = (f"--hold-namespace={NAMESPACE}", "--leader-elect=false", "--no-http")
    command = [sys.executable, "-m", "mooring", "scheduler", f"--kubeconfig={kube.kubeconfig}", *options]
    process = Process(command, folder / "scheduler.log")
    try:
        yield process
        assert process.running, process.log_tail()
    finally:
        process.stop()


def listed(*bodies: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})


def cluster_objects() -> str:
    """Three nodes with the driver, which publishes no capacity that the scheduler would use."""
    bodies: list[dict[str, Any]] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER_NAME},
            "spec": {"attachRequired": False, "storageCapacity": False},
        },
        class_body(name="hostpath", provisioner=DRIVER_NAME, parameters={"pool": "fast"}),
    ]
    for name in NODES:
        drivers = [{"name": DRIVER_NAME, "nodeID": name, "topologyKeys": [KEY]}]
        bodies += [
            node_body(name=name, labels={KEY: name, "kubernetes.io/hostname": name}),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": name},
                "spec": {"drivers": drivers},
            },
        ]
    return listed(*bodies)


def occupants() -> str:
    """A pod on each node, with 4 of its 10 GiB on the full ones. The free node has less CPU, so that it is last."""
    bodies: list[dict[str, Any]] = []
    for node in NODES:
        claims = [node] if node in FULL else []
        bodies += [claim_body(name=name, storage_class="hostpath", size="4Gi") for name in claims]
        requests = {"cpu": "3" if node == FREE else "100m"}
        where = {"kubernetes.io/hostname": node}
        body = pod_body(name=node, claims=claims, requests=requests, node_selector=where)
        body["spec"]["tolerations"] = ANYWHERE
        bodies.append(body)
    return listed(*bodies)


def remove(kube: ControlPlane, pods: tuple[str, ...], claims: tuple[str, ...]) -> None:
    kube.kubectl("delete", "pod", *pods, "--grace-period=0", "--force", "--ignore-not-found")
    kube.kubectl("delete", "pvc", *claims, "--ignore-not-found", "--wait=false")


@contextmanager
def cluster(kube: ControlPlane, folder: Path) -> Iterator[None]:
    kube.kubectl("delete", "nodes", "--all")  # other tests of this server leave some, where pods would go too
    kube.kubectl("delete", "events", "--all", "-n", "default")
    kube.kubectl("apply", "-f", "-", stdin=cluster_objects())
    kube.kubectl("apply", "-f", "-", stdin=listed(*identity_manifests()))
    served = [f"--served-node={node}:{KEY}={node}" for node in NODES]
    with csi_hostpath(folder, "--pool", "fast=10Gi", "--topology", f"{KEY}=nowhere", *served):
        try:
            yield
        finally:
            remove(kube, ("pair", *NODES), ("left", "right", *FULL))
            kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=cluster_objects())


async def place(kube: ControlPlane) -> None:
    """Create the pods, and wait until the last one has both volumes on the free node."""
    kube.kubectl("apply", "-f", "-", stdin=occupants())
    await eventually(lambda: all(node_of(kube, node) == node for node in NODES))
    kube.kubectl("apply", "-f", "-", stdin=pair())
    await eventually(lambda: node_of(kube, "pair") == FREE, timeout=TIMEOUT_SECONDS)
    assert phases(kube) == ["Bound", "Bound"]


async def clear(kube: ControlPlane) -> None:
    remove(kube, ("pair", *NODES), ("left", "right", *FULL))
    await eventually(lambda: not provisioned_volumes(kube))


def rollbacks(kube: ControlPlane) -> Counter[str]:
    """How often volumes of the pod were rolled back on each node, by its events."""
    found: Counter[str] = Counter()
    for event in kube.kubectl_json("get", "events", "-n", "default")["items"]:
        if event["reason"] == "ProvisioningRolledBack" and event["involvedObject"]["kind"] == "Pod":
            found[event["message"].rpartition("on node ")[2].split()[0]] += event.get("count") or 1
    return found


@pytest.mark.req("R1.other-node")
@pytest.mark.parametrize(
    "scheduling",
    [
        pytest.param(extended, id="kube-scheduler with extender"),
        pytest.param(mooring_scheduler, id="mooring scheduler"),
    ],
)
async def test_scheduler_alone_chooses_another_node(
    scheduling: Scheduling, kube: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The full nodes have more free CPU: both are tried before the one with capacity."""
    monkeypatch.setenv("NAMESPACE", NAMESPACE)
    with (
        cluster(kube, tmp_path),
        ours(kube, tmp_path, "--enable-rollback"),
        coordinator(kube, tmp_path),
        scheduling(kube, tmp_path),
        kube.controllers(*CONTROLLERS, options=QUICK),
    ):
        await place(kube)
        assert sorted(rollbacks(kube)) == sorted(FULL), "both were tried"
        await clear(kube)
    assert recorded_volumes(tmp_path) == []


@pytest.mark.req("R1.other-node")
async def test_kube_scheduler_follows_nominations(
    kube: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler without extender and without capacity, so that by its scores the free node is never selected."""
    monkeypatch.setenv("NAMESPACE", NAMESPACE)
    with (
        cluster(kube, tmp_path),
        ours(kube, tmp_path, "--enable-rollback"),
        coordinator(kube, tmp_path, "--nominate-for=default-scheduler"),
        kube.scheduler(),
        kube.controllers(*CONTROLLERS, options=QUICK),
    ):
        await place(kube)
        tried = rollbacks(kube)
        assert tried
        assert set(tried) <= set(FULL)
        assert max(tried.values()) == 1, "no full node was tried twice"
        await clear(kube)
    assert recorded_volumes(tmp_path) == []
