"""Many pods at once with delayed-binding volumes, in virtual time: no pod gets another pod's volume."""

import pytest

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import Layout
from support.scenarios import crowd, simulated
from support.simulation.cluster import SimulatedCluster, simulate

pytestmark = pytest.mark.req("T15.many", "T13.later-decisions")

LAYOUT = Layout(local_volumes=0)


async def assert_one_volume_each(cluster: SimulatedCluster, count: int) -> None:
    pods, claims, volumes = [await simulated.objects(cluster, kind) for kind in (POD, CLAIM, VOLUME)]
    crowd.assert_one_volume_each("disks", count, pods, claims, volumes)


@pytest.mark.parametrize("seed", range(3))
def test_each_pod_gets_one_volume(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await simulated.create(cluster, *crowd.manifest("disks", pods=30, volume_count=30))
        assert await cluster.until(lambda: simulated.all_run(cluster, 30), within=60)
        await assert_one_volume_each(cluster, 30)

    simulate(scenario, layout=LAYOUT, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_pods_wait_until_more_volumes_are_created(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await simulated.create(cluster, *crowd.manifest("disks", pods=30, volume_count=21))
        # Longer than retries, requeues and backoff.
        await cluster.clock.sleep(600)
        await assert_one_volume_each(cluster, 21)
        await simulated.create(cluster, *crowd.volumes("disks", range(21, 30)))
        assert await cluster.until(lambda: simulated.all_run(cluster, 30), within=60)
        await assert_one_volume_each(cluster, 30)

    simulate(scenario, layout=LAYOUT, seed=seed)
