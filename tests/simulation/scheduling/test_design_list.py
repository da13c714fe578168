"""The whole list of the topology design in virtual time, through the API as a user calls it."""

import pytest

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import Layout
from support.scenarios import design_list, simulated
from support.simulation.cluster import SimulatedCluster, simulate


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.req("T43.anti-affinity", "T43.affinity", "T43.several-claims", "T43.fallback", "T20.provisioned")
def test_design_list_result(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await simulated.create(cluster, *design_list.bodies())

        async def settled() -> bool:
            return design_list.settled(await simulated.objects(cluster, POD))

        assert await cluster.until(settled, within=120)
        # Longer than retries, requeues and backoff.
        await cluster.clock.sleep(600)
        design_list.assert_as_designed(
            await simulated.objects(cluster, POD),
            await simulated.objects(cluster, CLAIM),
            await simulated.objects(cluster, VOLUME),
        )

    simulate(scenario, layout=Layout(local_volumes=0), seed=seed)
