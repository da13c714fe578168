"""Deleting a namespace with a StatefulSet on local volumes deletes its objects and releases its volumes."""

import pytest

from mooring.api.errors import ApiError, Forbidden, NotFound
from mooring.api.kinds import BY_KIND, CLAIM, CONFIG_MAP, NAMESPACE, POD, STATEFUL_SET, STORED, VOLUME
from mooring.cluster.bootstrap import Layout
from mooring.controllers.garbage_collector import GarbageCollector
from mooring.controllers.namespace_controller import NamespaceController
from mooring.controllers.workloads.statefulset_controller import StatefulSetController
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from support.scenarios import anti_affinity
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.faults import NO_FAULTS, FaultLimits, FaultPlan, draw

HAZARDS = FaultLimits(
    instances=(
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
    duplicates=(NamespaceController.name,),
    calls=60,
)


async def set_up(cluster: SimulatedCluster) -> None:
    """The example in a namespace of its own, and one of the same name in another namespace."""
    await cluster.client.create(NAMESPACE, {"metadata": {"name": "acc"}})
    for document in anti_affinity.manifests():
        kind = BY_KIND[document["apiVersion"], document["kind"]]
        await cluster.client.create(kind, document, namespace="acc")
    for namespace in ("acc", "default"):
        await cluster.client.create(CONFIG_MAP, {"metadata": {"name": "settings"}}, namespace=namespace)

    async def all_run() -> bool:
        pods = (await cluster.client.list(POD, namespace="acc")).items
        return [pod.status.phase for pod in pods] == ["Running"] * 3

    assert await cluster.until(all_run, within=300)


async def is_gone(cluster: SimulatedCluster) -> bool:
    try:
        await cluster.client.get(NAMESPACE, "acc")
    except NotFound:
        return True
    return False


async def objects_without_namespace(cluster: SimulatedCluster) -> list[str]:
    """Objects in namespaces that do not exist."""
    there = {namespace.name for namespace in (await cluster.client.list(NAMESPACE)).items}
    return [
        f"{kind.plural} {item.key}"
        for kind in STORED
        if kind.namespaced
        for item in (await cluster.client.list(kind)).items
        if item.namespace not in there
    ]


async def phases(cluster: SimulatedCluster) -> list[str]:
    return sorted(volume.status.phase for volume in (await cluster.client.list(VOLUME)).items)


def run(seed: int, plan: FaultPlan) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up(cluster)
        await cluster.client.delete(NAMESPACE, "acc")
        assert await cluster.until(lambda: is_gone(cluster), within=60) or plan is not NO_FAULTS
        cluster.stop()
        assert await cluster.until(lambda: is_gone(cluster), within=150)
        assert await objects_without_namespace(cluster) == []
        assert [item.key for item in (await cluster.client.list(CONFIG_MAP)).items] == ["default/settings"]

        async def released() -> bool:
            return await phases(cluster) == ["Available"] * 3 + ["Released"] * 3

        assert await cluster.until(released, within=150), await phases(cluster)

    simulate(scenario, layout=Layout(), seed=seed, plan=plan)


@pytest.mark.parametrize("seed", range(3))
def test_namespace_deletion_removes_objects_and_releases_volumes(seed: int) -> None:
    run(seed, NO_FAULTS)


@pytest.mark.parametrize("seed", range(20))
def test_namespace_deletion_completes_under_faults(seed: int) -> None:
    run(seed, draw(seed, HAZARDS))


def test_terminating_namespace_rejects_new_objects() -> None:
    async def scenario(cluster: SimulatedCluster) -> list[ApiError]:
        await set_up(cluster)
        await cluster.client.delete(NAMESPACE, "acc")
        refusals: list[ApiError] = []
        while not await is_gone(cluster):
            try:
                await cluster.client.create(CONFIG_MAP, {"metadata": {"generateName": "late-"}}, namespace="acc")
            except Forbidden as refusal:
                refusals.append(refusal)
            except NotFound:
                break
            await cluster.clock.sleep(0.01)
        return refusals

    refusals = simulate(scenario, layout=Layout())
    assert refusals
    assert {refusal.details.causes[0].reason for refusal in refusals if refusal.details} == {"NamespaceTerminating"}


def test_no_pod_is_recreated_in_terminating_namespace() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up(cluster)
        before = {pod.uid for pod in (await cluster.client.list(POD)).items}
        await cluster.client.delete(NAMESPACE, "acc")
        while not await is_gone(cluster):
            assert {pod.uid for pod in (await cluster.client.list(POD)).items} <= before
            await cluster.clock.sleep(0.01)
        for kind in (STATEFUL_SET, CLAIM):
            assert (await cluster.client.list(kind)).items == ()

    simulate(scenario, layout=Layout())
