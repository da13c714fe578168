"""The whole list of the topology design in virtual time, through the same API a user would use."""

import pytest

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.world import World, simulate
from scenarios import design_list, in_world


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.req("T43", "T20")
def test_every_case_ends_as_designed(seed: int) -> None:
    async def scenario(world: World) -> None:
        await in_world.create(world, *design_list.bodies())

        async def settled() -> bool:
            return design_list.settled(await in_world.objects(world, POD))

        assert await world.until(settled, within=120)
        # Long enough for retries, wake-ups and backoff to have changed their mind if they could.
        await world.clock.sleep(600)
        design_list.assert_as_designed(
            await in_world.objects(world, POD),
            await in_world.objects(world, CLAIM),
            await in_world.objects(world, VOLUME),
        )

    simulate(scenario, layout=Layout(local_volumes=0), seed=seed)
