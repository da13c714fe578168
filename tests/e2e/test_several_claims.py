"""A pod with two claims on local volumes, with `mooring up` and kubectl."""

from collections.abc import Callable

import pytest

from e2e.cluster import Cluster
from scenarios import several_claims
from scenarios.placements import NO_VOLUMES
from scenarios.several_claims import EXAMPLE

pytestmark = pytest.mark.req("T43.several-claims")


def test_enough_volumes_on_one_node_run_the_pod_there(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "2")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("wait", "pod/search", "--for=condition=Ready", "--timeout=30s")
    several_claims.assert_placed(cluster.placed())


def test_too_few_volumes_on_every_single_node_leave_the_pod_pending_and_bind_nothing(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "1")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("wait", "pod/search", "--for=condition=PodScheduled=false", "--timeout=30s")
    several_claims.assert_waits(cluster.placed())
    assert f"0/3 nodes are available: 3 {NO_VOLUMES}." in cluster("describe", "pod", "search")
    assert {volume["status"]["phase"] for volume in cluster.items("pv")} == {"Available"}
