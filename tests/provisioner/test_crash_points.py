"""A provisioner that dies after any of its writes, or in the middle of any call of the driver: nothing leaks, nothing
is made twice, and the next one finishes the work.
"""

import asyncio
from collections.abc import Mapping

import pytest

from mooring.api.kinds import CLAIM, CONFIG_MAP
from mooring.csi.contract import Code, CreateVolume, DriverError, DriverVolume
from mooring.provisioner.settings import ProvisionerSettings
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import (
    CAPACITY,
    GI,
    accounted,
    all_gone,
    ask,
    bound,
    furnish,
    provisioner,
    select,
    volumes,
)
from support.provisioner.crashing_process import CrashingClient, alive

CAPACITIES = {"node-1": 10 * GI, "node-2": 10 * GI}
OTHERS = [PersistentVolumeController, VolumeProtection]
STRICT = ProvisionerSettings(strict_topology=True, worker_threads=3)

#: More writes than any of the stories below makes.
ENOUGH = 12


async def settle(client: CrashingClient, plane: Plane) -> None:
    """Until it has died, or has had the time to finish everything."""
    for _ in range(100):
        if client.dead.is_set():
            return
        await plane.pass_time(0.1)


@pytest.mark.parametrize("writes", range(1, ENOUGH))
@pytest.mark.req("R4.crash-creating")
def test_crash_while_creating_volumes(writes: int) -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.lost["create"] = [DriverError(Code.UNAVAILABLE, "lost")]
    made = provisioner(driver, STRICT, CAPACITY)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, made, CrashingClient(plane.client, writes)) as client:
            await ask(plane, "claim-1")
            await ask(plane, "claim-2", node="node-2")
            await settle(client, plane)
        async with alive(plane, made):
            for name in ("claim-1", "claim-2"):
                await plane.until(lambda name=name: bound(plane, name), within=60.0)  # type: ignore[misc]
            await plane.pass_time(5.0)
            assert driver.made == 2
            assert accounted(driver, await volumes(plane))
            assert await plane.names(CONFIG_MAP) == []

    run_plane(OTHERS, scenario)


@pytest.mark.parametrize("writes", range(1, 8))
@pytest.mark.req("R4.crash-deleting")
def test_dies_while_deleting(writes: int) -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.lost["delete"] = [DriverError(Code.UNAVAILABLE, "lost")]
    made = provisioner(driver, STRICT)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, made):
            await ask(plane)
            await plane.until(lambda: bound(plane))
        async with alive(plane, made, CrashingClient(plane.client, writes)) as client:
            await plane.client.delete(CLAIM, "claim-1", namespace="default")
            await settle(client, plane)
        async with alive(plane, made):
            await plane.until(lambda: all_gone(plane), within=60.0)
            assert driver.volumes == {}

    run_plane(OTHERS, scenario)


class _DeadlyDriver(FakeCsiDriver):
    """The provisioner dies while this driver works: before the volume is made, or after."""

    def __init__(self, *, effect: bool) -> None:
        super().__init__(CAPACITIES)
        self._effect = effect
        self.victim: CrashingClient | None = None

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        if self.victim is None:
            return await super().create_volume(request, secrets=secrets)
        victim, self.victim = self.victim, None
        if self._effect:
            await super().create_volume(request, secrets=secrets)
        victim.die()
        await asyncio.Event().wait()
        raise AssertionError("no operation waits without a limit")


@pytest.mark.parametrize(
    "effect", [pytest.param(True, id="the volume was made"), pytest.param(False, id="no volume was made")]
)
@pytest.mark.req("R4.crash-calling")
def test_dies_during_the_call(effect: bool) -> None:
    driver = _DeadlyDriver(effect=effect)
    made = provisioner(driver, STRICT)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, made) as client:
            driver.victim = client
            await ask(plane)
            await settle(client, plane)
            assert client.dead.is_set()
        async with alive(plane, made):
            await plane.until(lambda: bound(plane), within=10.0)
        assert driver.made == 1
        assert accounted(driver, await volumes(plane))

    run_plane(OTHERS, scenario)


@pytest.mark.req("R4.restart-without-claim")
@pytest.mark.parametrize(
    "choice", [pytest.param(None, id="as it was"), pytest.param("node-2", id="another node meanwhile")]
)
def test_claim_deleted_while_provisioner_is_down(choice: str | None) -> None:
    """The answer was lost, the process ended, the claim went: the record is all that knows of the volume."""
    driver = FakeCsiDriver(CAPACITIES)
    driver.lost["create"] = [DriverError(Code.DEADLINE_EXCEEDED, "lost")]
    made = provisioner(driver, STRICT)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, made):
            await ask(plane)
            await plane.pass_time(0.5)
        assert len(driver.volumes) == 1
        if choice is not None:
            await select(plane, choice)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(1.0)
        assert await plane.names(CLAIM) == []
        async with alive(plane, made):
            await plane.pass_time(30.0)
        assert driver.volumes == {}
        assert await volumes(plane) == ()
        assert await plane.names(CONFIG_MAP) == []

    run_plane(OTHERS, scenario)


@pytest.mark.req("T35.two-provisioners")
def test_two_at_once_make_each_volume_once() -> None:
    """Two leaders for a moment: wasteful, but names follow from claims."""
    driver = FakeCsiDriver(CAPACITIES)
    made = provisioner(driver, STRICT)
    names = [f"claim-{number}" for number in range(6)]

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, made), alive(plane, made):
            for name in names:
                await ask(plane, name)
            for name in names:
                await plane.until(lambda name=name: bound(plane, name), within=30.0)  # type: ignore[misc]
        assert driver.made == len(names)
        assert accounted(driver, await volumes(plane))

    run_plane(OTHERS, scenario)
