"""Many pods at once on late-bound volumes, in virtual time: nobody gets another's volume."""

import pytest

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.world import World, simulate
from scenarios import crowd, in_world

pytestmark = pytest.mark.req("T15.many", "T13.later-decisions")

LAYOUT = Layout(local_volumes=0)


async def assert_one_volume_each(world: World, count: int) -> None:
    pods, claims, volumes = [await in_world.objects(world, kind) for kind in (POD, CLAIM, VOLUME)]
    crowd.assert_one_volume_each("disks", count, pods, claims, volumes)


@pytest.mark.parametrize("seed", range(3))
def test_as_many_volumes_as_pods_are_one_for_each(seed: int) -> None:
    async def scenario(world: World) -> None:
        await in_world.create(world, *crowd.manifest("disks", pods=30, volume_count=30))
        assert await world.until(lambda: in_world.all_run(world, 30), within=60)
        await assert_one_volume_each(world, 30)

    simulate(scenario, layout=LAYOUT, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_fewer_volumes_than_pods_leave_some_waiting_until_more_volumes_come(seed: int) -> None:
    async def scenario(world: World) -> None:
        await in_world.create(world, *crowd.manifest("disks", pods=30, volume_count=21))
        # Long enough for retries, wake-ups and backoff to have changed their mind if they could.
        await world.clock.sleep(600)
        await assert_one_volume_each(world, 21)
        await in_world.create(world, *crowd.volumes("disks", range(21, 30)))
        assert await world.until(lambda: in_world.all_run(world, 30), within=60)
        await assert_one_volume_each(world, 30)

    simulate(scenario, layout=LAYOUT, seed=seed)
