"""Data of a cluster after it was stopped, killed, or started with other options."""

import signal
from collections.abc import Callable
from typing import Any, Final

import pytest

from support.builders import claim_body, class_body, pod_body, volume_body
from support.e2e.cluster import Cluster
from support.e2e.workspace import Workspace
from support.scenarios import crowd

pytestmark = pytest.mark.slow

PODS: Final = 20


def everything(cluster: Cluster, *kinds: str) -> dict[str, Any]:
    """All objects of these kinds."""
    return {f"{kind}/{item['metadata']['name']}": item for kind in kinds for item in cluster.items(kind)}


def test_pending_pod_is_scheduled_after_restart(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--data-dir", "data")
    default = Workspace(cluster, "default")
    cluster("cordon", "node-3")
    default.apply(
        class_body(name="disks"),
        claim_body(name="data", namespace="", storage_class="disks"),
        pod_body(name="web", namespace="", claims=["data"]),
    )
    default.wait_unscheduled("web", "2 node(s) didn't find available persistent volumes to bind")
    kinds = ("pods", "pvc", "pv", "storageclass")
    before = everything(cluster, *kinds)
    version = int(cluster.item("pod", "web")["metadata"]["resourceVersion"])

    assert cluster.stop() == 0
    cluster.start()
    after = everything(cluster, *kinds)
    assert after == before
    assert "FailedScheduling" in cluster("describe", "pod", "web")

    default.apply(
        volume_body(name="disk-3", storage_class="disks", node="node-3"),
        volume_body(name="disk-2", storage_class="disks", node="node-2"),
    )
    default.wait_ready("web")
    assert default.node_of("web") == "node-2"
    assert "SchedulingDisabled" in cluster("get", "node", "node-3")
    assert int(cluster.item("pod", "web")["metadata"]["resourceVersion"]) > version


def test_kill_during_binding_loses_no_volume(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--data-dir", "data", "--local-pvs", "0")
    default = Workspace(cluster, "default")
    cluster.apply(*crowd.manifest("disks", pods=PODS, volume_count=0))
    volumes = crowd.volumes("disks", range(PODS))
    for _ in range(2):
        # Every new volume is bound at once, so the kill falls between writes of all components.
        cluster.kill_after(0.3)
        cluster.apply(*volumes, check=False)
        cluster.stop(signal.SIGKILL)
        cluster.start()
    # Objects that were not applied before are created now; the others are unchanged.
    cluster.apply(*volumes)
    default.wait_ready(*(f"member-{number}" for number in range(PODS)))
    crowd.assert_one_volume_each("disks", PODS, default.items("pods"), default.items("pvc"), default.items("pv"))


def test_changed_options_add_objects_and_remove_none(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--data-dir", "data", "--nodes", "2", "--zones", "2", "--local-pvs", "1")
    cluster("delete", "pv", "local-node-1-1")
    cluster("label", "node", "node-2", "rack=r2")
    cluster.stop()
    cluster = start_cluster("--data-dir", "data", "--nodes", "4", "--zones", "4", "--local-pvs", "1")
    cluster("wait", "node", "--all", "--for=condition=Ready", "--timeout=30s")
    assert [node["metadata"]["name"] for node in cluster.items("nodes")] == ["node-1", "node-2", "node-3", "node-4"]
    assert cluster("get", "nodes", "-l", "rack=r2", "-o", "name") == "node/node-2\n"
    # A start creates every missing local volume, also one that was deleted.
    assert [pv["metadata"]["name"] for pv in cluster.items("pv")] == [f"local-node-{n}-1" for n in range(1, 5)]
