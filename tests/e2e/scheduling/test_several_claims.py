"""A pod with two claims on local volumes, with `mooring up` and kubectl."""

from collections.abc import Callable

import pytest

from support.e2e.cluster import Cluster
from support.scenarios import several_claims
from support.scenarios.placements import NO_VOLUMES
from support.scenarios.several_claims import EXAMPLE

pytestmark = pytest.mark.req("T43.several-claims")


def test_pod_runs_on_node_with_enough_volumes(start_cluster: Callable[..., Cluster]) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "2")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("wait", "pod/search", "--for=condition=Ready", "--timeout=30s")
    several_claims.assert_placed(cluster.placed())


def test_pod_without_enough_volumes_on_one_node_binds_none(
    start_cluster: Callable[..., Cluster],
) -> None:
    cluster = start_cluster("--in-memory", "--local-pvs", "1")
    cluster("apply", "-f", str(EXAMPLE))
    cluster("wait", "pod/search", "--for=condition=PodScheduled=false", "--timeout=30s")
    several_claims.assert_waits(cluster.placed())
    assert f"0/3 nodes are available: 3 {NO_VOLUMES}." in cluster("describe", "pod", "search")
    assert {volume["status"]["phase"] for volume in cluster.items("pv")} == {"Available"}
