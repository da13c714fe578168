"""Storage capacity: the user stories of the design as manifests for a fresh `mooring up`."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.builders import claim_body, pod_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
DRIVER: Final = "hostpath.csi.mooring.dev"
KEY: Final = "topology.hostpath.csi.mooring.dev/node"
INSUFFICIENT_STORAGE: Final = "node(s) did not have enough free storage"
NODE_SELECTOR: Final = "node(s) didn't match Pod's node affinity/selector"
ZONE: Final = "topology.kubernetes.io/zone"

Start = Callable[..., Cluster]


@pytest.fixture
def fresh(start_cluster: Start) -> Workspace:
    """Every node has its whole capacity free."""
    cluster = start_cluster("--in-memory")
    workspace = Workspace(cluster, "default")
    workspace.wait_for(lambda: len(cluster.items("csistoragecapacities", "-n", "kube-system")) == 9)
    return workspace


def reported(cluster: Cluster) -> list[dict[str, Any]]:
    """The output of `mooring capacity`."""
    command = [sys.executable, "-m", "mooring", "capacity", "--kubeconfig", str(cluster.kubeconfig), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def published_capacity(cluster: Cluster, storage_class: str) -> dict[str, str]:
    """Capacity by node."""
    found = cluster.items("csistoragecapacities", "-n", "kube-system")
    of_class = [each for each in found if each["storageClassName"] == storage_class]
    return {each["nodeTopology"]["matchLabels"][KEY]: each["capacity"] for each in of_class}


def apply(workspace: Workspace, name: str) -> None:
    workspace("apply", "-f", str(EXAMPLES / "capacity" / name))


def pods(workspace: Workspace) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in workspace.items("pods")}


@pytest.mark.req("C13.ephemeral", "C9.volume-created", "C9.volume-deleted", "C12.figures")
def test_ephemeral_volumes_for_cache_servers(fresh: Workspace) -> None:
    apply(fresh, "ephemeral-cache.yaml")
    fresh.wait_for(lambda: sorted(pods(fresh).values()) == ["Pending", "Running", "Running", "Running"])
    assert len({pod["spec"].get("nodeName", "") for pod in fresh.items("pods")}) == 4
    (waiting,) = fresh.wait_refused(1, f"0/3 nodes are available: 3 {INSUFFICIENT_STORAGE}")
    fresh.wait_event(f"pod/{waiting}", "NotEnoughStorage", "60Gi of class fast; free: ")
    fresh.wait_for(lambda: set(published_capacity(fresh.cluster, "fast").values()) == {"40Gi"})

    # A deleted pod's volume is deleted: the freed capacity is observed and used.
    (victim, *_) = [name for name, phase in pods(fresh).items() if phase == "Running"]
    fresh("scale", "deployment/cache", "--replicas=3")
    fresh("delete", "pod", victim, "--wait=false")
    fresh.wait_for(lambda: list(pods(fresh).values()) == ["Running"] * 3)
    fresh("delete", "deployment", "cache")
    fresh.wait_for(lambda: set(published_capacity(fresh.cluster, "fast").values()) == {"100Gi"})
    assert not [pv for pv in fresh.cluster.items("pv") if pv["spec"]["storageClassName"] == "fast"]


@pytest.mark.req("C13.lvm")
def test_striped_and_mirrored_classes_of_the_same_disks(fresh: Workspace) -> None:
    apply(fresh, "striped-and-mirrored.yaml")
    fresh.wait_ready("striped", "smaller")
    fresh.wait_unscheduled("mirrored", f"0/3 nodes are available: 3 {INSUFFICIENT_STORAGE}")
    fresh.wait_event("pod/mirrored", "NotEnoughStorage", "400Gi of class mirrored")
    assert fresh.node_of("striped") != fresh.node_of("smaller")
    left = {fresh.node_of("striped"): "100Gi", fresh.node_of("smaller"): "100Gi"}
    fresh.wait_for(lambda: left.items() <= published_capacity(fresh.cluster, "slow").items())
    assert dict.fromkeys(left, "50Gi").items() <= published_capacity(fresh.cluster, "mirrored").items()


@pytest.mark.req("C13.network")
def test_network_storage_in_part_of_the_cluster(fresh: Workspace) -> None:
    apply(fresh, "network-storage.yaml")
    fresh.wait_ready("archive")
    assert fresh.node_of("archive") == "node-2"
    failed = fresh.items("events", "--field-selector=reason=ProvisioningFailed")
    assert [event["message"] for event in failed] == [], "no node without the storage was tried"
    fresh.wait_unscheduled("too-much", f"0/3 nodes are available: 3 {INSUFFICIENT_STORAGE}")
    assert zone_of_volume(fresh, "archive") == "zone-b"

    # Pods that can run in one zone only: a chance placement on the right node proves nothing.
    for zone, size in (("zone-a", "5Gi"), ("zone-a", "20Gi"), ("zone-b", "20Gi"), ("zone-c", "5Gi")):
        name = f"{zone}-{size.lower()}"
        fresh.apply(
            claim_body(name=name, namespace="", storage_class="network", size=size),
            pod_body(name=name, namespace="", claims=[name], node_selector={ZONE: zone}),
        )
    fresh.wait_ready("zone-a-5gi", "zone-b-20gi")
    assert [zone_of_volume(fresh, name) for name in ("zone-a-5gi", "zone-b-20gi")] == ["zone-a", "zone-b"]
    for refused in ("zone-a-20gi", "zone-c-5gi"):
        fresh.wait_unscheduled(refused, f"0/3 nodes are available: 1 {INSUFFICIENT_STORAGE}, 2 {NODE_SELECTOR}")


def zone_of_volume(workspace: Workspace, claim: str) -> str:
    volume = workspace.item("pv", workspace.item("pvc", claim)["spec"]["volumeName"])
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (zone,) = next(each["values"] for each in term["matchExpressions"] if each["key"] == ZONE)
    return str(zone)


@pytest.mark.req("C13.custom-scheduler", "C13.custom")
def test_custom_scheduler_uses_published_capacity(fresh: Workspace, tmp_path: Path) -> None:
    """The example prefers the node with the fewest pods: that is node-1, which has too little capacity."""
    apply(fresh, "own-scheduler.yaml")
    others = [f"{node}-{number}" for node in ("node-2", "node-3") for number in range(2)]
    fresh.apply(*(pod_body(name=name, namespace="", node=name[:-2]) for name in others))
    fresh.wait_ready("hog", *others)
    fresh.wait_for(lambda: published_capacity(fresh.cluster, "fast")["node-1"] == "10Gi")
    kinds = "nodes,pv,pvc,sc,csinodes,csidrivers,csistoragecapacities,pods"
    (tmp_path / "cluster.json").write_text(fresh("get", kinds, "-A", "-o", "json"))
    script = [sys.executable, str(EXAMPLES / "custom_scheduler.py"), str(tmp_path / "cluster.json")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True, timeout=30).stdout
    (command, binding) = printed.splitlines()
    assert binding.startswith("# once its claims are bound: bind pod default/mine to node-")
    node = binding.rsplit(" ", 1)[1]
    assert node in ("node-2", "node-3")
    fresh(*command.removeprefix("kubectl ").split())
    fresh.wait_bound("mine")
    (volume,) = [pv for pv in fresh.cluster.items("pv") if pv["spec"].get("claimRef", {}).get("name") == "mine"]
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": KEY, "operator": "In", "values": [node]}]
    binding_body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "mine"},
        "target": {"kind": "Node", "name": node},
    }
    path = "/api/v1/namespaces/default/pods/mine/binding"
    fresh.cluster("create", "--raw", path, "-f", "-", stdin=json.dumps(binding_body))
    fresh.wait_ready("mine")
    assert fresh.node_of("mine") == node


@pytest.mark.req(
    "C2.off", "C2.on", "C2.at-run-time", "C6.objects", "C14.driver-field", "C17.visible", "C18.counts", "C18.failures"
)
def test_capacity_tracking_is_disabled_and_enabled(fresh: Workspace) -> None:
    """Disabled, nodes are selected where provisioning fails, repeatedly; enabled, the pod is pending with a reason."""
    cluster = fresh.cluster
    objects = {row["name"] for row in reported(cluster)}
    turn = {on: json.dumps({"spec": {"storageCapacity": on}}) for on in (True, False)}
    fresh("patch", "csidriver", DRIVER, "-p", turn[False])
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "big"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "200Gi"}}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "big"}}]
    spec = {"containers": [{"name": "main", "image": "main"}], "volumes": volumes}
    fresh.apply(claim, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"}, "spec": spec})
    fresh.wait_event("pvc/big", "ProvisioningFailed", "ResourceExhausted")
    fresh("patch", "csidriver", DRIVER, "-p", turn[True])
    fresh.wait_unscheduled("big", f"0/3 nodes are available: 3 {INSUFFICIENT_STORAGE}")
    rows = reported(cluster)
    assert {row["name"] for row in rows} == objects, "nothing was lost"
    assert all(row["lastPolled"] and row["lastChanged"] and row["driver"] == DRIVER for row in rows)
    metrics = fresh("get", "--raw", "/metrics").splitlines()
    # Objects, complete and none obsolete; time of the last poll; provisioning failures for lack of capacity.
    assert "csistoragecapacities_desired_goal 9.0" in metrics
    assert "csistoragecapacities_desired_current 9.0" in metrics
    assert "csistoragecapacities_obsolete 0.0" in metrics
    assert any(line.startswith("mooring_capacity_last_poll_timestamp_seconds 1.") for line in metrics)
    assert any(line.startswith('mooring_provision_out_of_capacity_total{class="fast"}') for line in metrics)
    assert {(row["storageClass"], row["capacity"]) for row in rows} == {
        ("fast", "100Gi"),
        ("slow", "500Gi"),
        ("mirrored", "250Gi"),
    }


@pytest.mark.req("C8.restart")
def test_volumes_and_capacity_survive_a_restart(start_cluster: Start, tmp_path: Path) -> None:
    """After SIGKILL: volumes of the driver and mounts of the nodes are found again."""
    cluster = start_cluster("--data-dir", str(tmp_path / "data"))
    workspace = Workspace(cluster, "default")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "30Gi"}}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"containers": [{"name": "main", "image": "main"}], "volumes": volumes}
    workspace.apply(claim, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "data"}, "spec": spec})
    workspace.wait_ready("data")
    node = workspace.node_of("data")
    workspace.wait_for(lambda: published_capacity(cluster, "fast")[node] == "70Gi")
    cluster.stop(signal.SIGKILL)
    cluster.start()
    assert published_capacity(cluster, "fast")[node] == "70Gi"
    workspace("delete", "pod/data", "pvc/data", "--wait=false")
    workspace.wait_for(lambda: published_capacity(cluster, "fast")[node] == "100Gi")
    assert not [pv for pv in cluster.items("pv") if "csi" in pv["spec"]]
    assert not list((tmp_path / "data" / "csi" / "hostpath" / "volumes").iterdir())


def metric(workspace: Workspace, name: str) -> float:
    lines = workspace("get", "--raw", "/metrics").splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.req("C18.blocked", "C18.avoided")
def test_blocked_pods_and_avoided_failures_are_counted(fresh: Workspace) -> None:
    """Of four pods with 60Gi each, three nodes of 100Gi take one each: the last waits, and no CreateVolume was tried in
    vain. When it is deleted, no pod waits for capacity."""
    blocked, avoided = (
        "mooring_scheduler_pods_blocked_by_capacity",
        "mooring_scheduler_provisioning_failures_avoided_total",
    )
    fresh.apply(pod_body(name="huge", namespace="", requests={"cpu": "1000"}))
    fresh.wait_unscheduled("huge", "Insufficient cpu")
    assert (metric(fresh, blocked), metric(fresh, avoided)) == (0, 0), "a pod that lacks CPU does not count"
    fresh("delete", "pod", "huge")
    apply(fresh, "ephemeral-cache.yaml")
    fresh.wait_for(lambda: sorted(pods(fresh).values()) == ["Pending", "Running", "Running", "Running"])
    fresh.wait_refused(1, f"0/3 nodes are available: 3 {INSUFFICIENT_STORAGE}")
    fresh.wait_for(lambda: metric(fresh, blocked) == 1)
    assert metric(fresh, avoided) >= 1
    text = fresh("get", "--raw", "/metrics")
    assert "mooring_provision_out_of_capacity_total{" not in text, "no CreateVolume failed for lack of capacity"
    assert 'pv_collector_bound_pvc_count{namespace="default",storage_class="fast",volume_attributes_class=""} 3' in text
    fresh("delete", "deployment", "cache")
    fresh.wait_for(lambda: metric(fresh, blocked) == 0)


@pytest.mark.req("C21.counted")
def test_capacity_of_inline_volumes_counts(fresh: Workspace) -> None:
    """Without the annotation the pod is bound to a node where its volume cannot be created."""
    workspace = fresh

    def inline(name: str, size: str) -> dict[str, Any]:
        attributes = {"size": size, "pool": "fast"}
        volume = {"name": "scratch", "csi": {"driver": DRIVER, "volumeAttributes": attributes}}
        return pod_body(name=name, namespace="", volumes=[volume])

    workspace.apply(inline("stuck", "200Gi"))
    workspace.wait_event("pod/stuck", "FailedMount", "RESOURCE_EXHAUSTED")
    assert workspace.node_of("stuck")
    workspace("delete", "pod/stuck", "--wait=false")
    workspace.cluster("annotate", "storageclass", "fast", "mooring.dev/inline-size-attribute=size")
    workspace.wait_for(lambda: not workspace.items("pods"))
    workspace.apply(inline("refused", "200Gi"))
    workspace.wait_unscheduled("refused", f"3 {INSUFFICIENT_STORAGE}")
    workspace.apply(inline("small", "1Gi"))
    workspace.wait_ready("small")
