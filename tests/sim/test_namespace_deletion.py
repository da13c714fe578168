"""A namespace with a StatefulSet on local volumes is deleted: everything in it goes, its volumes are released."""

import pytest

from mooring.api.errors import ApiError, Forbidden, NotFound
from mooring.api.kinds import BY_KIND, CLAIM, CONFIG_MAP, NAMESPACE, POD, STATEFUL_SET, STORED, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.sim.faults import CALM, FaultPlan
from mooring.sim.hazards import Hazards, draw
from mooring.sim.world import World, simulate
from mooring.workloads.garbage import GarbageCollector
from mooring.workloads.namespaces import NamespaceController
from mooring.workloads.statefulset_controller import StatefulSetController
from scenarios import anti_affinity

HAZARDS = Hazards(
    who=(
        NamespaceController.name,
        f"{NamespaceController.name}-2",
        VolumeProtection.name,
        StatefulSetController.name,
        GarbageCollector.name,
        PersistentVolumeController.name,
    ),
    bad_calls=10,
    bad_watches=5,
    crashes=4,
    pauses=2,
    restarts=1,
    twins=(NamespaceController.name,),
    calls=60,
)


async def set_up(world: World) -> None:
    """The example in a namespace of its own, and a bystander of the same name elsewhere."""
    await world.client.create(NAMESPACE, {"metadata": {"name": "acc"}})
    for document in anti_affinity.manifests():
        kind = BY_KIND[document["apiVersion"], document["kind"]]
        await world.client.create(kind, document, namespace="acc")
    for namespace in ("acc", "default"):
        await world.client.create(CONFIG_MAP, {"metadata": {"name": "settings"}}, namespace=namespace)

    async def all_run() -> bool:
        pods = (await world.client.list(POD, namespace="acc")).items
        return [pod.status.phase for pod in pods] == ["Running"] * 3

    assert await world.until(all_run, within=300)


async def is_gone(world: World) -> bool:
    try:
        await world.client.get(NAMESPACE, "acc")
    except NotFound:
        return True
    return False


async def homeless(world: World) -> list[str]:
    """Objects in namespaces that do not exist."""
    there = {namespace.name for namespace in (await world.client.list(NAMESPACE)).items}
    return [
        f"{kind.plural} {item.key}"
        for kind in STORED
        if kind.namespaced
        for item in (await world.client.list(kind)).items
        if item.namespace not in there
    ]


async def phases(world: World) -> list[str]:
    return sorted(volume.status.phase for volume in (await world.client.list(VOLUME)).items)


def run(seed: int, plan: FaultPlan) -> None:
    async def scenario(world: World) -> None:
        await set_up(world)
        await world.client.delete(NAMESPACE, "acc")
        assert await world.until(lambda: is_gone(world), within=60) or plan is not CALM
        world.calm()
        assert await world.until(lambda: is_gone(world), within=150)
        assert await homeless(world) == []
        assert [item.key for item in (await world.client.list(CONFIG_MAP)).items] == ["default/settings"]

        async def released() -> bool:
            return await phases(world) == ["Available"] * 3 + ["Released"] * 3

        assert await world.until(released, within=150), await phases(world)

    simulate(scenario, layout=Layout(), seed=seed, plan=plan)


@pytest.mark.parametrize("seed", range(3))
def test_everything_in_it_goes_and_its_volumes_are_released(seed: int) -> None:
    run(seed, CALM)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_goes_wrong_meanwhile(seed: int) -> None:
    run(seed, draw(seed, HAZARDS))


def test_it_is_closed_from_the_first_moment() -> None:
    async def scenario(world: World) -> list[ApiError]:
        await set_up(world)
        await world.client.delete(NAMESPACE, "acc")
        refusals: list[ApiError] = []
        while not await is_gone(world):
            try:
                await world.client.create(CONFIG_MAP, {"metadata": {"generateName": "late-"}}, namespace="acc")
            except Forbidden as refusal:
                refusals.append(refusal)
            except NotFound:
                break
            await world.clock.sleep(0.01)
        return refusals

    refusals = simulate(scenario, layout=Layout())
    assert refusals
    assert {refusal.details.causes[0].reason for refusal in refusals if refusal.details} == {"NamespaceTerminating"}


def test_no_pod_is_made_again_while_the_namespace_goes() -> None:
    async def scenario(world: World) -> None:
        await set_up(world)
        before = {pod.uid for pod in (await world.client.list(POD)).items}
        await world.client.delete(NAMESPACE, "acc")
        while not await is_gone(world):
            assert {pod.uid for pod in (await world.client.list(POD)).items} <= before
            await world.clock.sleep(0.01)
        for kind in (STATEFUL_SET, CLAIM):
            assert (await world.client.list(kind)).items == ()

    simulate(scenario, layout=Layout())
