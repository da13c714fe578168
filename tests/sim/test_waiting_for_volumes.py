"""A pod whose volume is still being made, in virtual time: it is bound last, and keeps nobody else waiting."""

import pytest

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.sim.world import World, simulate
from scenarios import in_world, slow_provisioner
from scenarios.slow_provisioner import ELSEWHERE, NODE

LAYOUT = Layout(local_volumes=0)


async def is_waiting(world: World) -> bool:
    pods, claims, volumes = [await in_world.objects(world, kind) for kind in (POD, CLAIM, VOLUME)]
    return slow_provisioner.is_waiting(pods, claims, volumes)


async def runs(world: World, name: str) -> bool:
    return (await world.client.get(POD, name, namespace=in_world.NAMESPACE)).status.phase == "Running"


@pytest.mark.req("T15")
def test_many_pods_wait_for_their_volumes_at_once() -> None:
    async def scenario(world: World) -> None:
        await in_world.create(world, *slow_provisioner.many("", 100))

        async def all_asked_for() -> bool:
            return slow_provisioner.all_asked_for(await in_world.objects(world, CLAIM))

        assert await world.until(all_asked_for, within=10)

    simulate(scenario, layout=LAYOUT)


@pytest.mark.req("T15")
@pytest.mark.parametrize("seed", range(5))
def test_the_pod_is_bound_last_and_others_pass_it_meanwhile(seed: int) -> None:
    async def scenario(world: World) -> None:
        await in_world.create(world, *slow_provisioner.slow(""))
        assert await world.until(lambda: is_waiting(world), within=60)
        # A provisioner may take minutes; the scheduler waits for ten.
        await world.clock.sleep(300)
        await in_world.create(world, *slow_provisioner.quick(""))
        assert await world.until(lambda: runs(world, "quick"), within=5)
        assert await is_waiting(world)
        await in_world.create(world, slow_provisioner.made("", namespace=in_world.NAMESPACE))
        assert await world.until(lambda: runs(world, "slow"), within=5)
        assert (await world.client.get(POD, "slow", namespace=in_world.NAMESPACE)).spec.node_name == NODE

    simulate(scenario, layout=LAYOUT, seed=seed)


@pytest.mark.req("T47.affinity")
@pytest.mark.parametrize("seed", range(5))
def test_a_volume_made_in_the_wrong_place_takes_the_pod_there_instead_of_binding_it_blindly(seed: int) -> None:
    async def scenario(world: World) -> str:
        await in_world.create(world, *slow_provisioner.alone(""))

        async def asked() -> bool:
            claim = await world.client.get(CLAIM, "slow-new", namespace=in_world.NAMESPACE)
            return claim.selected_node == NODE

        assert await world.until(asked, within=60)
        await in_world.create(world, slow_provisioner.made("", namespace=in_world.NAMESPACE, node=ELSEWHERE))
        assert await world.until(lambda: runs(world, "slow"), within=60)
        return (await world.client.get(POD, "slow", namespace=in_world.NAMESPACE)).spec.node_name

    assert simulate(scenario, layout=LAYOUT, seed=seed) == ELSEWHERE
