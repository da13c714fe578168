"""A pod with two volumes, where the first node has capacity for one, on a fresh `mooring up`, with kubectl.

The driver of this cluster asks for no capacity check, or the scheduler would not select that node.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.storage.test_capacity import published_capacity
from support.builders import claim_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
OTHERS: Final = ("node-2", "node-3")
ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"

Start = Callable[..., Cluster]


def without_capacity_check(start_cluster: Start, *options: str) -> Workspace:
    cluster = start_cluster("--in-memory", *options)
    cluster("patch", "csidriver", "hostpath.csi.mooring.dev", "-p", '{"spec": {"storageCapacity": false}}')
    return Workspace(cluster, "default")


def begin(start_cluster: Start, *options: str) -> Workspace:
    """Create the pod, which can only be scheduled to the node with capacity for one of its volumes."""
    workspace = without_capacity_check(start_cluster, *options)
    workspace.cluster("cordon", *OTHERS)
    workspace("apply", "-f", str(EXAMPLES / "rollback" / "half-a-pod.yaml"))
    workspace.wait_ready("occupant")
    return workspace


def uncordon_other_nodes(workspace: Workspace) -> None:
    workspace.cluster("uncordon", *OTHERS)
    workspace.cluster("cordon", "node-1")


def phases(workspace: Workspace) -> list[str]:
    return [workspace.item("pvc", name)["status"]["phase"] for name in ("left", "right")]


def held(workspace: Workspace) -> list[dict[str, Any]]:
    return workspace.cluster.items("pv", "-l", "mooring.dev/unused=true")


def intents(workspace: Workspace) -> list[str]:
    names = [each["metadata"]["name"] for each in workspace.cluster.items("configmaps", "-n", "kube-system")]
    return [name for name in names if name.startswith("intent-")]


def metric(workspace: Workspace, name: str) -> float:
    """The sum over all labels."""
    lines = workspace.cluster("get", "--raw", "/metrics").splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def pod_of_both(name: str) -> dict[str, Any]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in ("left", "right")]
    spec = {"containers": [{"name": "main", "image": "example/main:1"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.req("T40.gate-off")
def test_pod_stays_pending_without_rollback(start_cluster: Start) -> None:
    workspace = begin(start_cluster, "--feature-gates=ProvisioningRollback=false")
    workspace.wait_for(lambda: sorted(phases(workspace)) == ["Bound", "Pending"])
    uncordon_other_nodes(workspace)
    workspace.wait_unscheduled("pair", ELSEWHERE)
    time.sleep(5)
    assert workspace.node_of("pair") == ""
    assert sorted(phases(workspace)) == ["Bound", "Pending"]
    assert held(workspace) == []
    assert intents(workspace) == []


@pytest.mark.req(
    "R1.rolled-back", "R3.marks", "R4.accounted", "R5.later-pods", "R6.events", "R6.metrics", "T38.commit", "T38.none"
)
def test_pod_runs_with_rollback(start_cluster: Start) -> None:
    workspace = begin(start_cluster)

    # One volume is provisioned, visibly held, and not bound.
    workspace.wait_for(lambda: len(held(workspace)) == 1)
    (volume,) = held(workspace)
    assert volume["metadata"]["labels"]["mooring.dev/provisioned-for"] == "node-1"
    assert volume["status"]["phase"] == "Available"
    assert phases(workspace) == ["Pending", "Pending"]
    assert metric(workspace, "mooring_held_volumes ") == 1

    # It is rolled back, with events on pod and claim.
    (claim,) = {"left", "right"} & {volume["metadata"]["annotations"]["hold.mooring.dev/claim"].partition("/")[2]}
    (sibling,) = {"left", "right"} - {claim}
    why = f'claim "{sibling}" of the same pod gets no volume on node node-1'
    workspace.wait_event(f"pvc/{claim}", "VolumeHeld", "provisioned; held until all volumes of the pod are available")
    workspace.wait_event(f"pvc/{claim}", "ProvisioningRolledBack", why)
    workspace.wait_event("pod/pair", "ProvisioningRolledBack", why)
    workspace.wait_for(lambda: metric(workspace, "mooring_held_volumes_rolled_back_total") >= 1)

    # The other nodes have capacity for both.
    uncordon_other_nodes(workspace)
    workspace.wait_ready("pair")
    node = workspace.node_of("pair")
    assert node in OTHERS
    assert phases(workspace) == ["Bound", "Bound"]
    workspace.wait_event("pvc/left", "VolumeCommitted", "its pod has all its volumes")
    assert held(workspace) == []
    assert metric(workspace, "mooring_held_volumes_committed_total") == 2
    assert metric(workspace, "mooring_held_volumes ") == 0
    workspace.wait_for(lambda: intents(workspace) == [])

    # Once used, volumes are never rolled back: later pods are scheduled to their node.
    workspace("delete", "pod", "pair")
    workspace.cluster("cordon", node)
    workspace.apply(pod_of_both("later"))
    workspace.wait_unscheduled("later", ELSEWHERE)
    workspace.cluster("uncordon", node)
    workspace.wait_ready("later")
    assert workspace.node_of("later") == node

    # No volume is leaked: the driver's whole capacity is free again.
    workspace("delete", "pod", "later", "occupant")
    workspace("delete", "pvc", "left", "right", "occupant")
    workspace.wait_for(lambda: not [pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]])
    workspace.wait_for(lambda: set(published_capacity(workspace.cluster, "fast").values()) == {"100Gi"})


@pytest.mark.req("R1.other-node")
def test_scheduler_alone_finds_the_node_with_capacity(start_cluster: Start) -> None:
    """All nodes are open. Two have capacity for one of two volumes; the third has less free CPU and is chosen last."""
    workspace = without_capacity_check(start_cluster)
    for node in ("node-1", "node-2", "node-3"):
        full = node != "node-3"
        where = {"kubernetes.io/hostname": node}
        if full:
            workspace.apply(claim_body(name=node, namespace="", storage_class="fast", size="50Gi"))
        requests = {"cpu": "1m" if full else "6"}
        claims = [node] if full else []
        workspace.apply(pod_body(name=node, namespace="", claims=claims, requests=requests, node_selector=where))
    workspace.wait_ready("node-1", "node-2", "node-3")
    workspace.apply(
        *(claim_body(name=name, namespace="", storage_class="fast", size="40Gi") for name in ("left", "right")),
        pod_of_both("pair"),
    )
    workspace.wait_ready("pair")
    assert workspace.node_of("pair") == "node-3"
    assert metric(workspace, "mooring_held_volumes_rolled_back_total") >= 2, "both full nodes were tried"
    assert held(workspace) == []


@pytest.mark.req("R3.denied")
def test_ordinary_user_cannot_write_the_labels_of_a_held_volume(start_cluster: Start) -> None:
    workspace = begin(start_cluster)
    workspace.wait_for(lambda: len(held(workspace)) == 1)
    (volume,) = held(workspace)
    workspace("create", "rolebinding", "editor", "--clusterrole=admin", "--user=alice")
    # kubectl reads the volume before it patches it: a user that may not read would prove nothing.
    workspace.cluster("create", "clusterrole", "reader", "--verb=get,list,watch", "--resource=persistentvolumes")
    workspace.cluster("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=alice")
    assert workspace.cluster("get", "pv", volume["metadata"]["name"], "-o", "name", "--as=alice")
    labels = '{"metadata": {"labels": {"mooring.dev/unused": null, "mooring.dev/provisioned-for": "node-2"}}}'
    patch = ("patch", "pv", volume["metadata"]["name"], "-p", labels)
    refused = workspace.cluster(*patch, "--as=alice", check=False)
    assert 'User "alice" cannot patch resource "persistentvolumes"' in refused
    claim = volume["metadata"]["annotations"]["hold.mooring.dev/claim"].partition("/")[2]
    # As a word: kubectl also warns that a volume is not in a namespace.
    assert "yes" in workspace("auth", "can-i", "patch", f"pvc/{claim}", "--as=alice").split()
    for verb in ("patch", "update", "create", "delete"):
        assert "no" in workspace("auth", "can-i", verb, "pv", "--as=alice", check=False).split()


@pytest.mark.req("R7.beside")
def test_other_provisioner_works_in_the_same_pod(start_cluster: Start) -> None:
    cluster = start_cluster("--in-memory")
    workspace = Workspace(cluster, "default")
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "disks"},
        "provisioner": "zonal.standins.mooring.dev",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claims = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": class_name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        for name, class_name in (("left", "fast"), ("right", "fast"), ("foreign", "disks"))
    ]
    pod = pod_of_both("mixed")
    pod["spec"]["volumes"].append({"name": "foreign", "persistentVolumeClaim": {"claimName": "foreign"}})
    workspace.apply(storage_class, *claims, pod)
    workspace.wait_ready("mixed")
    workspace.wait_event("pvc/left", "VolumeCommitted", "its pod has all its volumes")
    assert held(workspace) == []


def test_drain_ends_at_once_without_holds(start_cluster: Start) -> None:
    cluster = start_cluster("--in-memory", "--feature-gates=ProvisioningRollback=false")
    command = [sys.executable, "-m", "mooring", "coordinator", "--drain", "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["0 held, 0 being rolled back, 0 attempts open", "nothing is held"]
