"""A pod with two volumes of which the first node has room for one, on a fresh `mooring up`, seen through kubectl.

Schedulers of this cluster know nothing of room, or they would not choose that node.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.cluster import Cluster
from e2e.test_capacity import room
from e2e.workspace import Workspace

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
OTHERS: Final = ("node-2", "node-3")
ELSEWHERE: Final = "node(s) didn't match PersistentVolume's node affinity"

Start = Callable[..., Cluster]


def begin(start_cluster: Start, gates: str) -> Workspace:
    """The pod is there, and can only go to the node that has room for half of it."""
    cluster = start_cluster("--in-memory", f"--feature-gates=CSIStorageCapacity=false{gates}")
    workspace = Workspace(cluster, "default")
    cluster("cordon", *OTHERS)
    workspace("apply", "-f", str(EXAMPLES / "rollback" / "half-a-pod.yaml"))
    workspace.wait_ready("occupant")
    return workspace


def open_the_others(workspace: Workspace) -> None:
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
def test_without_the_rollback_the_pod_is_pending_for_ever(start_cluster: Start) -> None:
    workspace = begin(start_cluster, ",ProvisioningRollback=false")
    workspace.wait_for(lambda: sorted(phases(workspace)) == ["Bound", "Pending"])
    open_the_others(workspace)
    workspace.wait_unscheduled("pair", ELSEWHERE)
    time.sleep(5)
    assert workspace.node_of("pair") == ""
    assert sorted(phases(workspace)) == ["Bound", "Pending"]
    assert held(workspace) == []
    assert intents(workspace) == []


@pytest.mark.req("R1", "R3", "R4", "R5", "R6.events", "R6.metrics", "T38")
def test_with_it_the_pod_runs(start_cluster: Start) -> None:
    workspace = begin(start_cluster, "")

    # Half of it is made, marked for people to see, and given to nobody.
    workspace.wait_for(lambda: len(held(workspace)) == 1)
    (volume,) = held(workspace)
    assert volume["metadata"]["labels"]["mooring.dev/provisioned-for"] == "node-1"
    assert volume["status"]["phase"] == "Available"
    assert phases(workspace) == ["Pending", "Pending"]
    assert metric(workspace, "mooring_held_volumes ") == 1

    # It is removed again, and everybody is told why.
    (claim,) = {"left", "right"} & {volume["metadata"]["annotations"]["hold.mooring.dev/claim"].partition("/")[2]}
    (sibling,) = {"left", "right"} - {claim}
    why = f'claim "{sibling}" of the same pod gets no volume on node node-1'
    workspace.wait_event(f"pvc/{claim}", "VolumeHeld", "is made and held until the pod has all its volumes")
    workspace.wait_event(f"pvc/{claim}", "ProvisioningRolledBack", why)
    workspace.wait_event("pod/pair", "ProvisioningRolledBack", why)
    workspace.wait_for(lambda: metric(workspace, "mooring_held_volumes_rolled_back_total") >= 1)

    # Elsewhere there is room for both.
    open_the_others(workspace)
    workspace.wait_ready("pair")
    node = workspace.node_of("pair")
    assert node in OTHERS
    assert phases(workspace) == ["Bound", "Bound"]
    workspace.wait_event("pvc/left", "VolumeCommitted", "its pod has all its volumes")
    assert held(workspace) == []
    assert metric(workspace, "mooring_held_volumes_committed_total") == 2
    assert metric(workspace, "mooring_held_volumes ") == 0
    workspace.wait_for(lambda: intents(workspace) == [])

    # Used once, they are as persistent as any other: later pods follow them.
    workspace("delete", "pod", "pair")
    workspace.cluster("cordon", node)
    workspace.apply(pod_of_both("later"))
    workspace.wait_unscheduled("later", ELSEWHERE)
    workspace.cluster("uncordon", node)
    workspace.wait_ready("later")
    assert workspace.node_of("later") == node

    # And nothing was leaked on the way: the driver has all of its room again.
    workspace("delete", "pod", "later", "occupant")
    workspace("delete", "pvc", "left", "right", "occupant")
    workspace.wait_for(lambda: not [pv for pv in workspace.cluster.items("pv") if "csi" in pv["spec"]])
    workspace.wait_for(lambda: set(room(workspace.cluster, "fast").values()) == {"100Gi"})


@pytest.mark.req("R7")
def test_a_provisioner_that_takes_no_part_keeps_working_in_the_same_pod(start_cluster: Start) -> None:
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


def test_drain_ends_at_once_where_nothing_is_held(start_cluster: Start) -> None:
    cluster = start_cluster("--in-memory", "--feature-gates=ProvisioningRollback=false")
    command = [sys.executable, "-m", "mooring", "coordinator", "--drain", "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["0 held, 0 being rolled back, 0 attempts open", "nothing is held"]
