"""The end of all holding: what is complete is given, the rest is given up, and nothing stays behind."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import LEASE, NAMESPACE, POD, VOLUME
from mooring.client.informer import Informers
from mooring.control.component import Component, Context
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.coordinator.drain import AnotherCoordinator, HoldDrain, RemainingHolds
from mooring.csi.contract import Code, DriverError
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from mooring.volumes.holds.group_record import GroupMark
from mooring.volumes.holds.policy import HoldTimeouts
from provisioner.rollback.test_held_provisioning import ROOMY, SETTINGS, both_bound, choose, records, states
from support.builders import pod_body
from support.builders.held_groups import HeldGroup, run_group
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import (
    accounted,
    all_gone,
    ask,
    bound,
    coordinator_lease,
    furnish,
    plane_of,
    select,
    volumes,
)
from support.provisioner.crashing_process import alive

Scenario = Callable[[Plane], Awaitable[None]]
ENDING = CoordinatorSettings(timeouts=HoldTimeouts(draining=True))


def draining_coordinator(context: Context) -> Component:
    return Coordinator(context, ENDING)


def play(driver: FakeCsiDriver, scenario: Scenario) -> None:
    """Volumes are held, because a coordinator seems to be there, and no coordinator decides about them."""

    async def run(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await plane.client.create(LEASE, coordinator_lease(plane), namespace=HOLD_NAMESPACE)
        await furnish(plane)
        for name in ("claim-1", "claim-2"):
            await ask(plane, name, node=None)
        await plane.create(POD, pod_body(name="p", claims=("claim-1", "claim-2")))
        await plane.pass_time(1)
        await scenario(plane)

    run_plane(plane_of(driver, SETTINGS), run)


async def stop_coordinator(plane: Plane) -> None:
    await plane.client.delete(LEASE, well_known.COORDINATOR_LEASE, namespace=HOLD_NAMESPACE)
    await plane.pass_time(3)


async def drain(plane: Plane, *, within: float = 60.0) -> list[RemainingHolds]:
    """What was told on the way; fails if it takes longer."""
    told: list[RemainingHolds] = []
    async with alive(plane, draining_coordinator) as client:
        informers = Informers(client, plane.clock, random.Random(1))  # type: ignore[arg-type]  # enough of it
        running = asyncio.ensure_future(informers.run())
        draining = HoldDrain(client, plane.clock, informers, hold_namespace=HOLD_NAMESPACE)  # type: ignore[arg-type]  # likewise
        await draining.wait_until_sole()
        await informers.wait_synced()
        work = asyncio.ensure_future(draining.drain(told.append))
        try:

            async def over() -> bool:
                return work.done()

            await plane.until(over, within=within)
        finally:
            for task in (work, running):
                task.cancel()
            await asyncio.wait((work, running))
    return told


def test_half_a_group_is_given_up_and_the_pod_goes_on_without_holds() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        assert await states(plane) == [HoldState.HELD]
        await stop_coordinator(plane)
        told = await drain(plane)
        assert told[0] in (RemainingHolds(held=1, open=1), RemainingHolds(rolling_back=1, open=1))
        assert told[-1] == RemainingHolds()
        assert await all_gone(plane)
        assert await records(plane) == []
        assert driver.volumes == {}
        await choose(plane, "node-2")
        await plane.until(lambda: both_bound(plane), within=5)
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


def test_a_complete_group_is_given() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.pass_time(5)
        assert await states(plane) == [HoldState.HELD, HoldState.HELD]
        await stop_coordinator(plane)
        await drain(plane)
        assert await both_bound(plane)
        assert await records(plane) == []
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


def test_drain_waits_for_open_attempts() -> None:
    driver = FakeCsiDriver(ROOMY)
    driver.lost["create"] = [DriverError(Code.DEADLINE_EXCEEDED, "lost")] * 4

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(1)
        await stop_coordinator(plane)
        told = await drain(plane, within=120)
        assert told[0] == RemainingHolds(open=1)
        assert driver.volumes == {}
        assert await records(plane) == []

    play(driver, scenario)


def test_it_does_not_end_while_a_driver_cannot_delete() -> None:
    driver = FakeCsiDriver(ROOMY)
    driver.errors["delete"] = [DriverError(Code.INTERNAL, "the disk is stuck")] * 100

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        await stop_coordinator(plane)
        with pytest.raises(AssertionError, match="did not become true in time"):
            await drain(plane, within=200)
        assert await states(plane) == [HoldState.ROLLING_BACK]

    play(driver, scenario)


def test_it_refuses_beside_another_coordinator() -> None:
    async def scenario(plane: Plane) -> None:
        with pytest.raises(AnotherCoordinator, match="stop it first"):
            await drain(plane)

    play(FakeCsiDriver(ROOMY), scenario)


def test_once_held_claim_gets_its_next_volume_without_a_coordinator() -> None:
    """Attempts stay numbered, but a held volume would keep its pod waiting for ever."""
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        async with alive(plane, Coordinator):
            await select(plane, None, "claim-1")
            await plane.until(lambda: all_gone(plane), within=30)
            await stop_coordinator(plane)
        assert len(await records(plane)) == 1
        await select(plane, "node-2", "claim-1")
        await plane.until(lambda: bound(plane, "claim-1"), within=30)
        await plane.pass_time(5)
        assert await records(plane) == []
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


def test_complete_groups_are_committed_and_others_given_up() -> None:
    """Case G63."""

    async def scenario(group: HeldGroup, *, complete: bool) -> None:
        stored = await group.write_record()
        mark = GroupMark(stored.uid, 1)
        for number in range(3 if complete else 2):
            await group.hold(number, mark=mark, static=True)
        await drain(group.plane)
        expected = [HoldState.COMMITTED] * 3 if complete else [HoldState.FREE] * 2
        volumes = [await group.plane.get(VOLUME, f"pv-{number}") for number in range(len(expected))]
        assert [hold_state(volume, hold_namespace=HOLD_NAMESPACE) for volume in volumes] == expected
        assert await group.record() is None

    for complete in (True, False):
        run_group(partial(scenario, complete=complete), components=[])
