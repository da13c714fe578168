"""Replicas that must share a node, with `mooring up` and kubectl."""

from collections.abc import Callable

import pytest

from e2e.cluster import Cluster
from scenarios import affinity
from scenarios.affinity import EXAMPLE
from scenarios.placements import AFFINITY, NO_VOLUMES

pytestmark = pytest.mark.req("T43.affinity")


def test_several_volumes_per_node_place_every_replica_on_one_node(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "2")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("rollout", "status", "statefulset/cache", "--timeout=30s")
    affinity.assert_all_placed(cluster.placed())


def test_one_volume_per_node_leaves_the_second_replica_pending(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "1")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("wait", "pod/cache-0", "--for=condition=Ready", "--timeout=30s")
    cluster("wait", "pod/cache-1", "--for=condition=PodScheduled=false", "--timeout=30s")
    affinity.assert_second_waits(cluster.placed())
    told = cluster("describe", "pod", "cache-1")
    assert "FailedScheduling" in told
    assert f"1 {NO_VOLUMES}" in told
    assert f"2 {AFFINITY}" in told
