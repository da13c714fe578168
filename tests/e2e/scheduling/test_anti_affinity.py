"""The anti-affinity StatefulSet with `mooring up` and kubectl."""

import signal
from collections.abc import Callable

import pytest

from support.e2e.cluster import Cluster
from support.scenarios import anti_affinity
from support.scenarios.anti_affinity import EXAMPLE
from support.scenarios.placements import ANTI_AFFINITY, NO_VOLUMES

pytestmark = pytest.mark.req("T43.anti-affinity")


def test_all_replicas_run_and_survive_restarts(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster("--data-dir", "data")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("rollout", "status", "statefulset/db", "--timeout=30s")
    before = cluster.placed()
    anti_affinity.assert_all_placed(before)

    shown = cluster("get", "pods,pvc,pv", "-o", "wide")
    assert "pod/db-0" in shown
    assert "persistentvolumeclaim/data-db-0" in shown
    assert "default/data-db-0" in shown

    assert cluster.stop() == 0
    cluster.start()
    assert cluster.placed() == before

    cluster.stop(signal.SIGKILL)
    cluster.start()
    assert cluster.placed() == before


def test_third_replica_is_pending_with_volumes_on_two_nodes(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster("--in-memory")
    cluster("delete", "pv", "local-node-3-1", "local-node-3-2")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("wait", "pod/db-1", "--for=condition=Ready", "--timeout=30s")
    cluster("wait", "pod/db-2", "--for=condition=PodScheduled=false", "--timeout=30s")
    anti_affinity.assert_third_waits(cluster.placed())
    output = cluster("describe", "pod", "db-2")
    assert "FailedScheduling" in output
    assert f"1 {NO_VOLUMES}" in output
    assert f"2 {ANTI_AFFINITY}" in output
