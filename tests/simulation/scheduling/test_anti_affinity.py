"""The anti-affinity StatefulSet in virtual time, through the API as a user calls it."""

import pytest

from mooring.api.kinds import VOLUME
from mooring.cluster.bootstrap import Layout
from support.scenarios import anti_affinity, simulated
from support.scenarios.placements import ANTI_AFFINITY, NO_VOLUMES, Placed
from support.simulation.cluster import SimulatedCluster, simulate

pytestmark = pytest.mark.req("T43.anti-affinity")


@pytest.mark.parametrize("seed", range(5))
def test_all_replicas_run_with_local_volumes_on_every_node(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> list[Placed]:
        await simulated.apply(cluster, anti_affinity.EXAMPLE)
        assert await cluster.until(lambda: simulated.all_run(cluster, 3), within=60)
        return await simulated.placed(cluster)

    anti_affinity.assert_all_placed(simulate(scenario, layout=Layout(), seed=seed))


@pytest.mark.parametrize("seed", range(5))
def test_third_replica_is_pending_with_volumes_on_two_nodes(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> tuple[list[Placed], set[str]]:
        for volume in (await cluster.client.list(VOLUME)).items:
            if volume.name.startswith("local-node-3-"):
                await cluster.client.delete(VOLUME, volume.name)
        await simulated.apply(cluster, anti_affinity.EXAMPLE)
        # Longer than retries, requeues and backoff.
        await cluster.clock.sleep(600)
        return await simulated.placed(cluster), await simulated.refusals(cluster, "db-2")

    placed, reasons = simulate(scenario, layout=Layout(), seed=seed)
    anti_affinity.assert_third_waits(placed)
    [reason] = reasons
    assert reason.startswith("0/3 nodes are available")
    assert f"1 {NO_VOLUMES}" in reason
    assert f"2 {ANTI_AFFINITY}" in reason
