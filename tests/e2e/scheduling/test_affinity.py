"""Replicas that must share a node, with `mooring up` and kubectl."""

from collections.abc import Callable

import pytest

from support.e2e.cluster import Cluster
from support.scenarios import affinity
from support.scenarios.affinity import EXAMPLE
from support.scenarios.placements import AFFINITY, NO_VOLUMES

pytestmark = pytest.mark.req("T43.affinity")


def test_all_replicas_run_on_one_node_with_enough_volumes(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "2")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("rollout", "status", "statefulset/cache", "--timeout=30s")
    affinity.assert_all_placed(cluster.placed())


def test_second_replica_is_pending_with_one_volume_per_node(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "1")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("wait", "pod/cache-0", "--for=condition=Ready", "--timeout=30s")
    cluster("wait", "pod/cache-1", "--for=condition=PodScheduled=false", "--timeout=30s")
    affinity.assert_second_waits(cluster.placed())
    output = cluster("describe", "pod", "cache-1")
    assert "FailedScheduling" in output
    assert f"1 {NO_VOLUMES}" in output
    assert f"2 {AFFINITY}" in output
