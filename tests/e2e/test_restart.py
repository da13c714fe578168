"""What a cluster with a data folder still knows after it was stopped, killed, or started with other options."""

import signal
from collections.abc import Callable
from typing import Any, Final

from builders import claim_body, class_body, pod_body, volume_body
from e2e.cluster import Cluster
from e2e.workspace import Workspace
from scenarios import crowd

CROWD: Final = 20


def everything(cluster: Cluster, *kinds: str) -> dict[str, Any]:
    """Everything of these kinds, whole."""
    return {f"{kind}/{item['metadata']['name']}": item for kind in kinds for item in cluster.items(kind)}


def test_what_waited_goes_on_waiting_and_gets_what_it_waited_for(start_cluster: Callable[..., Cluster]) -> None:
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


def test_killed_in_the_middle_of_it_all_nothing_is_lost_or_given_twice(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--data-dir", "data", "--local-pvs", "0")
    default = Workspace(cluster, "default")
    cluster.apply(*crowd.manifest("disks", pods=CROWD, volume_count=0))
    volumes = crowd.volumes("disks", range(CROWD))
    for _ in range(2):
        # Every volume that comes is bound at once, so this falls between writes of all components.
        cluster.kill_after(0.3)
        cluster.apply(*volumes, check=False)
        cluster.stop(signal.SIGKILL)
        cluster.start()
    # What kubectl could not apply it applies now; what it had applied is as it was.
    cluster.apply(*volumes)
    default.wait_ready(*(f"member-{number}" for number in range(CROWD)))
    crowd.assert_one_volume_each("disks", CROWD, default.items("pods"), default.items("pvc"), default.items("pv"))


def test_other_options_add_what_is_missing_and_remove_nothing(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--data-dir", "data", "--nodes", "2", "--zones", "2", "--local-pvs", "1")
    cluster("delete", "pv", "local-node-1-1")
    cluster("label", "node", "node-2", "rack=r2")
    cluster.stop()
    cluster = start_cluster("--data-dir", "data", "--nodes", "4", "--zones", "4", "--local-pvs", "1")
    cluster("wait", "node", "--all", "--for=condition=Ready", "--timeout=30s")
    assert [node["metadata"]["name"] for node in cluster.items("nodes")] == ["node-1", "node-2", "node-3", "node-4"]
    assert cluster("get", "nodes", "-l", "rack=r2", "-o", "name") == "node/node-2\n"
    # A start makes sure that every local volume is there, also one that was deleted.
    assert [pv["metadata"]["name"] for pv in cluster.items("pv")] == [f"local-node-{n}-1" for n in range(1, 5)]
