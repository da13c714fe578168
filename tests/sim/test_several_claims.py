"""A pod with two claims on local volumes, in virtual time, through the same API a user would use."""

import pytest

from mooring.cluster.bootstrap import Layout
from mooring.sim.world import World, simulate
from scenarios import in_world, several_claims
from scenarios.placements import NO_VOLUMES, Placed

pytestmark = pytest.mark.req("T43.several-claims")


@pytest.mark.parametrize("seed", range(5))
def test_enough_volumes_on_one_node_run_the_pod_there(seed: int) -> None:
    async def scenario(world: World) -> list[Placed]:
        await in_world.apply(world, several_claims.EXAMPLE)
        assert await world.until(lambda: in_world.all_run(world, 1), within=60)
        return await in_world.placed(world)

    several_claims.assert_placed(simulate(scenario, layout=Layout(local_volumes=2), seed=seed))


@pytest.mark.parametrize("seed", range(5))
def test_too_few_volumes_on_every_single_node_leave_the_pod_pending_and_bind_nothing(seed: int) -> None:
    async def scenario(world: World) -> tuple[list[Placed], set[str]]:
        await in_world.apply(world, several_claims.EXAMPLE)
        # Long enough for retries, wake-ups and backoff to have changed their mind if they could.
        await world.clock.sleep(600)
        return await in_world.placed(world), await in_world.refusals(world, "search")

    placed, said = simulate(scenario, layout=Layout(local_volumes=1), seed=seed)
    several_claims.assert_waits(placed)
    [reason] = said
    assert f"3 {NO_VOLUMES}" in reason
