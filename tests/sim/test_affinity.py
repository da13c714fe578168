"""Replicas that must share a node, in virtual time, through the same API a user would use."""

import pytest

from mooring.cluster.bootstrap import Layout
from mooring.sim.world import World, simulate
from scenarios import affinity, in_world
from scenarios.placements import AFFINITY, NO_VOLUMES, Placed

pytestmark = pytest.mark.req("T43.affinity")


@pytest.mark.parametrize("seed", range(5))
def test_several_volumes_per_node_place_every_replica_on_one_node(seed: int) -> None:
    async def scenario(world: World) -> list[Placed]:
        await in_world.apply(world, affinity.EXAMPLE)
        assert await world.until(lambda: in_world.all_run(world, 2), within=60)
        return await in_world.placed(world)

    affinity.assert_all_placed(simulate(scenario, layout=Layout(local_volumes=2), seed=seed))


@pytest.mark.parametrize("seed", range(5))
def test_one_volume_per_node_leaves_the_second_replica_pending(seed: int) -> None:
    async def scenario(world: World) -> tuple[list[Placed], set[str]]:
        await in_world.apply(world, affinity.EXAMPLE)
        # Long enough for retries, wake-ups and backoff to have changed their mind if they could.
        await world.clock.sleep(600)
        return await in_world.placed(world), await in_world.refusals(world, "cache-1")

    placed, said = simulate(scenario, layout=Layout(local_volumes=1), seed=seed)
    affinity.assert_second_waits(placed)
    [reason] = said
    assert f"1 {NO_VOLUMES}" in reason
    assert f"2 {AFFINITY}" in reason
