"""A pod whose volume is being provisioned, in virtual time: it is bound last and does not block other pods."""

import pytest

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import Layout
from support.scenarios import simulated, slow_provisioner
from support.scenarios.slow_provisioner import ELSEWHERE, NODE
from support.simulation.cluster import SimulatedCluster, simulate

LAYOUT = Layout(local_volumes=0)


async def is_waiting(cluster: SimulatedCluster) -> bool:
    pods, claims, volumes = [await simulated.objects(cluster, kind) for kind in (POD, CLAIM, VOLUME)]
    return slow_provisioner.is_waiting(pods, claims, volumes)


async def runs(cluster: SimulatedCluster, name: str) -> bool:
    return (await cluster.client.get(POD, name, namespace=simulated.NAMESPACE)).status.phase == "Running"


@pytest.mark.req("T15.many")
def test_many_pods_wait_for_provisioning_concurrently() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await simulated.create(cluster, *slow_provisioner.many("", 100))

        async def all_asked_for() -> bool:
            return slow_provisioner.all_asked_for(await simulated.objects(cluster, CLAIM))

        assert await cluster.until(all_asked_for, within=10)

    simulate(scenario, layout=LAYOUT)


@pytest.mark.req("T15.asynchronous")
@pytest.mark.parametrize("seed", range(5))
def test_waiting_pod_does_not_block_others(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await simulated.create(cluster, *slow_provisioner.slow(""))
        assert await cluster.until(lambda: is_waiting(cluster), within=60)
        # A provisioner may take minutes; the scheduler waits for ten.
        await cluster.clock.sleep(300)
        await simulated.create(cluster, *slow_provisioner.quick(""))
        assert await cluster.until(lambda: runs(cluster, "quick"), within=5)
        assert await is_waiting(cluster)
        await simulated.create(cluster, slow_provisioner.made("", namespace=simulated.NAMESPACE))
        assert await cluster.until(lambda: runs(cluster, "slow"), within=5)
        assert (await cluster.client.get(POD, "slow", namespace=simulated.NAMESPACE)).spec.node_name == NODE

    simulate(scenario, layout=LAYOUT, seed=seed)


@pytest.mark.req("T47.affinity")
@pytest.mark.parametrize("seed", range(5))
def test_pod_follows_volume_provisioned_on_another_node(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> str:
        await simulated.create(cluster, *slow_provisioner.alone(""))

        async def asked() -> bool:
            claim = await cluster.client.get(CLAIM, "slow-new", namespace=simulated.NAMESPACE)
            return claim.selected_node == NODE

        assert await cluster.until(asked, within=60)
        await simulated.create(cluster, slow_provisioner.made("", namespace=simulated.NAMESPACE, node=ELSEWHERE))
        assert await cluster.until(lambda: runs(cluster, "slow"), within=60)
        return (await cluster.client.get(POD, "slow", namespace=simulated.NAMESPACE)).spec.node_name

    assert simulate(scenario, layout=LAYOUT, seed=seed) == ELSEWHERE
