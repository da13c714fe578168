"""The anti-affinity StatefulSet in virtual time, through the same API a user would use."""

import pytest

from mooring.api.kinds import VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.world import World, simulate
from scenarios import anti_affinity, in_world
from scenarios.placements import ANTI_AFFINITY, NO_VOLUMES, Placed

pytestmark = pytest.mark.req("T43.anti-affinity")


@pytest.mark.parametrize("seed", range(5))
def test_local_volumes_on_every_node_place_every_replica(seed: int) -> None:
    async def scenario(world: World) -> list[Placed]:
        await in_world.apply(world, anti_affinity.EXAMPLE)
        assert await world.until(lambda: in_world.all_run(world, 3), within=60)
        return await in_world.placed(world)

    anti_affinity.assert_all_placed(simulate(scenario, layout=Layout(), seed=seed))


@pytest.mark.parametrize("seed", range(5))
def test_local_volumes_on_two_of_three_nodes_leave_the_third_replica_pending(seed: int) -> None:
    async def scenario(world: World) -> tuple[list[Placed], set[str]]:
        for volume in (await world.client.list(VOLUME)).items:
            if volume.name.startswith("local-node-3-"):
                await world.client.delete(VOLUME, volume.name)
        await in_world.apply(world, anti_affinity.EXAMPLE)
        # Long enough for retries, wake-ups and backoff to have changed their mind if they could.
        await world.clock.sleep(600)
        return await in_world.placed(world), await in_world.refusals(world, "db-2")

    placed, said = simulate(scenario, layout=Layout(), seed=seed)
    anti_affinity.assert_third_waits(placed)
    [reason] = said
    assert reason.startswith("0/3 nodes are available")
    assert f"1 {NO_VOLUMES}" in reason
    assert f"2 {ANTI_AFFINITY}" in reason
