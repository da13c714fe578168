"""Replicas that must share a node, in virtual time, through the API as a user calls it."""

import pytest

from mooring.cluster.bootstrap import Layout
from support.scenarios import affinity, simulated
from support.scenarios.placements import AFFINITY, NO_VOLUMES, Placed
from support.simulation.cluster import SimulatedCluster, simulate

pytestmark = pytest.mark.req("T43.affinity")


@pytest.mark.parametrize("seed", range(5))
def test_all_replicas_run_on_one_node_with_enough_volumes(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> list[Placed]:
        await simulated.apply(cluster, affinity.EXAMPLE)
        assert await cluster.until(lambda: simulated.all_run(cluster, 2), within=60)
        return await simulated.placed(cluster)

    affinity.assert_all_placed(simulate(scenario, layout=Layout(local_volumes=2), seed=seed))


@pytest.mark.parametrize("seed", range(5))
def test_second_replica_is_pending_with_one_volume_per_node(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> tuple[list[Placed], set[str]]:
        await simulated.apply(cluster, affinity.EXAMPLE)
        # Longer than retries, requeues and backoff.
        await cluster.clock.sleep(600)
        return await simulated.placed(cluster), await simulated.refusals(cluster, "cache-1")

    placed, reasons = simulate(scenario, layout=Layout(local_volumes=1), seed=seed)
    affinity.assert_second_waits(placed)
    [reason] = reasons
    assert f"1 {NO_VOLUMES}" in reason
    assert f"2 {AFFINITY}" in reason
