"""A pod with two claims on local volumes, in virtual time, through the API as a user calls it."""

import pytest

from mooring.cluster.bootstrap import Layout
from support.scenarios import several_claims, simulated
from support.scenarios.placements import NO_VOLUMES, Placed
from support.simulation.cluster import SimulatedCluster, simulate

pytestmark = pytest.mark.req("T43.several-claims")


@pytest.mark.parametrize("seed", range(5))
def test_pod_runs_on_node_with_enough_volumes(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> list[Placed]:
        await simulated.apply(cluster, several_claims.EXAMPLE)
        assert await cluster.until(lambda: simulated.all_run(cluster, 1), within=60)
        return await simulated.placed(cluster)

    several_claims.assert_placed(simulate(scenario, layout=Layout(local_volumes=2), seed=seed))


@pytest.mark.parametrize("seed", range(5))
def test_pod_without_enough_volumes_on_one_node_binds_none(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> tuple[list[Placed], set[str]]:
        await simulated.apply(cluster, several_claims.EXAMPLE)
        # Longer than retries, requeues and backoff.
        await cluster.clock.sleep(600)
        return await simulated.placed(cluster), await simulated.refusals(cluster, "search")

    placed, reasons = simulate(scenario, layout=Layout(local_volumes=1), seed=seed)
    several_claims.assert_waits(placed)
    [reason] = reasons
    assert f"3 {NO_VOLUMES}" in reason
