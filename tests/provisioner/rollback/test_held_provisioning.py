"""Volumes of pods that need several: held, committed together, rolled back, and never leaked, with the real rules on
both sides: provisioner, coordinator and PV controller in one small cluster. The test plays the scheduler.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from mooring.api.kinds import CLAIM, LEASE, NAMESPACE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.control.feature_gates import FeatureRollout
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import Code, DriverError
from mooring.provisioner.settings import ProvisionerSettings
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from mooring.volumes.holds import objects
from support.builders import pod_body
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Build, Plane, run_plane
from support.provisioner.cluster import (
    GI,
    accounted,
    all_gone,
    ask,
    bound,
    coordinator_lease,
    furnish,
    plane_of,
    provisioner,
    select,
    selected,
    volumes,
)
from support.provisioner.crashing_process import CrashingClient, alive

#: Strict, so that the driver makes a volume on the selected node or not at all.
SETTINGS = ProvisionerSettings(worker_threads=5, namespace=HOLD_NAMESPACE, rollback=True, strict_topology=True)
#: Either volume fits on the first node, but not both.
TIGHT = {"node-1": GI, "node-2": 10 * GI}
ROOMY = {"node-1": 10 * GI, "node-2": 10 * GI}
LOST = DriverError(Code.DEADLINE_EXCEEDED, "the answer got lost")

Scenario = Callable[[Plane], Awaitable[None]]


def play(
    driver: FakeCsiDriver,
    scenario: Scenario,
    *,
    coordinated: bool = True,
    claims: int = 2,
    settings: ProvisionerSettings = SETTINGS,
    rollout: FeatureRollout | None = None,
) -> None:
    async def run(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        if coordinated:
            await plane.client.create(LEASE, coordinator_lease(plane), namespace=HOLD_NAMESPACE)
        await furnish(plane)
        names = [f"claim-{number}" for number in range(1, claims + 1)]
        for name in names:
            await ask(plane, name, node=None)
        await plane.create(POD, pod_body(name="p", claims=tuple(names)))
        await plane.pass_time(1)
        await scenario(plane)

    builds: list[Build] = plane_of(driver, settings)
    run_plane([*builds, coordinator] if coordinated else builds, run, rollout=rollout)


def coordinator(context: Context) -> Component:
    return Coordinator(context)


async def choose(plane: Plane, node: str) -> None:
    """As a scheduler: one claim after the other."""
    for name in ("claim-1", "claim-2"):
        await select(plane, node, name)


async def states(plane: Plane) -> list[HoldState]:
    return [hold_state(volume, hold_namespace=HOLD_NAMESPACE) for volume in await volumes(plane)]


async def both_bound(plane: Plane) -> bool:
    return await bound(plane, "claim-1") and await bound(plane, "claim-2")


async def records(plane: Plane) -> list[str]:
    return [record.name for record in (await plane.client.list(objects.INTENT_RECORD, namespace=HOLD_NAMESPACE)).items]


@pytest.mark.req("T38.commit")
def test_both_volumes_are_committed_together_and_no_record_stays() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        assert await states(plane) == [HoldState.HELD]
        assert not await bound(plane, "claim-1")
        await select(plane, "node-1", "claim-2")
        await plane.until(lambda: both_bound(plane), within=5)
        await plane.pass_time(5)
        assert await records(plane) == []
        assert accounted(driver, await volumes(plane))
        said = await plane.events_about("claim-1")
        assert any(each.startswith("VolumeHeld") for each in said)

    play(driver, scenario)


@pytest.mark.req("R1.rolled-back")
def test_blocking_volume_is_rolled_back_for_another_node() -> None:
    driver = FakeCsiDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")

        async def free_again() -> bool:
            return await all_gone(plane) and not [n for n in ("claim-1", "claim-2") if await selected(plane, n)]

        await plane.until(free_again, within=30)
        assert driver.volumes == {}
        await choose(plane, "node-2")
        await plane.until(lambda: both_bound(plane), within=10)
        assert accounted(driver, await volumes(plane))
        said = await plane.events_about("claim-1") + await plane.events_about("claim-2")
        assert any("ProvisioningRolledBack" in each and "gets no volume on node node-1" in each for each in said)

    play(driver, scenario)


def test_volume_in_other_topology_is_not_committed() -> None:
    """Without strict topology a driver may make a volume where it has room, which is not where the pod will be."""
    driver = FakeCsiDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.pass_time(30)
        assert not [name for name in ("claim-1", "claim-2") if await bound(plane, name)]
        said = await plane.events_about("claim-1") + await plane.events_about("claim-2")
        assert any("its driver made it where node node-1 cannot reach it" in each for each in said)

    play(driver, scenario, settings=replace(SETTINGS, strict_topology=False))


def test_a_pod_with_one_claim_pays_nothing() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.until(lambda: bound(plane, "claim-1"), within=2)
        assert await records(plane) == []
        (volume,) = await volumes(plane)
        assert objects.ATTEMPT not in volume.metadata.annotations

    play(driver, scenario, claims=1)


def test_without_a_coordinator_volumes_are_given_at_once() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.until(lambda: bound(plane, "claim-1"), within=2)

    play(driver, scenario, coordinated=False)


@pytest.mark.req("T35.upgrade", "T35.downgrade")
def test_volumes_are_held_only_while_no_instance_lacks_the_feature() -> None:
    driver = FakeCsiDriver(ROOMY)
    rollout = FeatureRollout()

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.until(lambda: bound(plane, "claim-1"), within=2)
        rollout.update({})
        await select(plane, "node-1", "claim-2")
        await select(plane, "node-1", "claim-3")
        await plane.until(lambda: bound(plane, "claim-2"), within=5)
        told = [await plane.events_about(f"claim-{number}") for number in (1, 2)]
        assert [any(each.startswith("VolumeHeld") for each in events) for events in told] == [False, True]

    play(driver, scenario, claims=3, rollout=rollout)


@pytest.mark.req("R4.lost-answers")
@pytest.mark.parametrize("call", ["create", "delete"])
def test_lost_answers_leak_nothing(call: str) -> None:
    driver = FakeCsiDriver(TIGHT)
    driver.lost[call] = [LOST, LOST]

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.until(lambda: all_gone_and_free(plane), within=120)
        assert driver.volumes == {}
        await choose(plane, "node-2")
        await plane.until(lambda: both_bound(plane), within=60)
        assert accounted(driver, await volumes(plane))

    async def all_gone_and_free(plane: Plane) -> bool:
        free = not [name for name in ("claim-1", "claim-2") if await selected(plane, name)]
        return free and await all_gone(plane) and driver.volumes == {}

    play(driver, scenario)


def test_a_deleted_claim_takes_its_held_volume_along() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        unprotected: dict[str, object] = {"metadata": {"finalizers": None}}
        await plane.client.delete(POD, "p", namespace="default", grace_seconds=0)
        await plane.client.patch(CLAIM, "claim-1", MergePatch(unprotected), namespace="default")
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: all_gone(plane), within=30)
        await plane.pass_time(5)
        assert driver.volumes == {}
        assert await records(plane) == []

    play(driver, scenario)


def test_deleted_held_object_is_rolled_back() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        (volume,) = await volumes(plane)
        await plane.client.delete(VOLUME, volume.name)
        await plane.until(lambda: all_gone(plane), within=30)
        assert driver.volumes == {}
        assert await selected(plane, "claim-1") is None

    play(driver, scenario)


def test_failed_delete_keeps_object_and_is_retried() -> None:
    driver = FakeCsiDriver(ROOMY)
    driver.errors["delete"] = [DriverError(Code.INTERNAL, "the disk is stuck")] * 3

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        await select(plane, "node-2", "claim-1")
        await plane.pass_time(2)
        (volume,) = await volumes(plane)
        assert (await states(plane)) == [HoldState.ROLLING_BACK]
        said = await plane.events_about(volume.name)
        assert any("RollbackFailed" in each and "the disk is stuck" in each for each in said)

        async def on_the_new_node() -> bool:
            return [v.metadata.annotations.get(objects.NODE) for v in await volumes(plane)] == ["node-2"]

        await plane.until(on_the_new_node, within=60)
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


def test_claim_continues_after_late_object_deletion() -> None:
    """Foreign finalizers keep the object: until it is deleted no attempt may begin, and only the watch reports it."""
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        (volume,) = await volumes(plane)
        kept = MergePatch({"metadata": {"finalizers": [*volume.metadata.finalizers, "example.com/audit"]}})
        await plane.client.patch(VOLUME, volume.name, kept)
        await select(plane, "node-2", "claim-1")
        await plane.pass_time(30)
        assert (await volumes(plane))[0].metadata.finalizers == ("example.com/audit",)
        assert driver.volumes == {}
        released: dict[str, object] = {"metadata": {"finalizers": None}}
        await plane.client.patch(VOLUME, volume.name, MergePatch(released))
        await plane.pass_time(5)
        assert [each.metadata.annotations[objects.NODE] for each in await volumes(plane)] == ["node-2"]

    play(driver, scenario)


@pytest.mark.req("T48.bound")
def test_claim_of_a_preset_pod_that_was_observed_late_is_bound() -> None:
    """Nothing schedules that pod, so a held volume would be rolled back again and again."""
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await plane.client.delete(POD, "p", namespace="default")
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        assert await states(plane) == [HoldState.HELD]
        await plane.create(POD, pod_body(name="preset", claims=("claim-1",), node="node-1"))

        async def free_again() -> bool:
            return await all_gone(plane) and not await selected(plane, "claim-1")

        await plane.until(free_again, within=100)
        await select(plane, "node-1", "claim-1")
        await plane.until(lambda: bound(plane, "claim-1"), within=10)
        await plane.pass_time(5)
        assert await records(plane) == []
        assert accounted(driver, await volumes(plane))

    play(driver, scenario, claims=1)


@pytest.mark.req("T38.crashes")
def test_claim_with_another_node_after_a_crash_is_provisioned_there() -> None:
    """The process crashed after it had cleared the node, before the attempt was closed; the next one finds an open
    attempt for a node that has no space, and another selected node that it has known from the start."""
    driver = FakeCsiDriver({"node-1": 0, "node-2": 10 * GI})
    build = provisioner(driver, SETTINGS)

    async def scenario(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await plane.client.create(LEASE, coordinator_lease(plane), namespace=HOLD_NAMESPACE)
        await furnish(plane)
        for name in ("claim-1", "claim-2"):
            await ask(plane, name, node=None)
        await plane.create(POD, pod_body(name="p", claims=("claim-1", "claim-2")))
        async with alive(plane, build, CrashingClient(plane.client, 2)) as client:
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
            assert client.dead.is_set()
        assert await selected(plane) is None
        assert len(await records(plane)) == 1
        await select(plane, "node-2", "claim-1")
        async with alive(plane, build):
            await plane.pass_time(30)
            assert await states(plane) == [HoldState.HELD]
            assert accounted(driver, await volumes(plane))

    run_plane([PersistentVolumeController], scenario)
