"""Volumes that nothing names: found by listing, named again or deleted; and never one that may have been used."""

import pytest
import structlog.testing

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.csi.contract import AccessibilityRequirements as Requirements
from mooring.csi.contract import Code, ControllerCapability, CreateVolume, DriverError, Topology
from mooring.provisioner.rollback.orphans import SUSPECT_AFTER_SECONDS
from mooring.volumes.binding import HoldState
from provisioner.rollback.test_held_provisioning import ROOMY, TIGHT, both_bound, choose, play, records, states
from support.csi_drivers.recording import KEY, FakeCsiDriver
from support.partial_control_plane import Plane
from support.provisioner.cluster import GI, accounted, all_gone, ask, bound, select, selected, volumes

#: An orphan is listed at the latest after five minutes, suspect after ten more, and then looked at with the next list.
LONG_ENOUGH = SUSPECT_AFTER_SECONDS + 3 * 300.0
FINALIZERS: dict[str, object] = {"metadata": {"finalizers": None}}


async def late_create(driver: FakeCsiDriver, name: str, node: str) -> None:
    """An old leader's CreateVolume takes effect long after its caller has given up."""
    where = (Topology({KEY: node}),)
    await driver.create_volume(
        CreateVolume(name, GI, accessibility=Requirements(requisite=where, preferred=where)), secrets={}
    )


async def rolled_back(plane: Plane, driver: FakeCsiDriver) -> str:
    """Both claims have had an attempt on the first node that came to nothing; the name of one's volume."""
    await choose(plane, "node-1")

    async def free_again() -> bool:
        return await all_gone(plane) and not [n for n in ("claim-1", "claim-2") if await selected(plane, n)]

    await plane.until(free_again, within=60)
    assert driver.volumes == {}
    return f"pvc-{(await plane.get(CLAIM, 'claim-1')).uid}"


async def forget(plane: Plane, claim: str) -> None:
    await plane.client.delete(POD, "p", namespace="default", grace_seconds=0)
    await plane.client.patch(CLAIM, claim, MergePatch(FINALIZERS), namespace="default")
    await plane.client.delete(CLAIM, claim, namespace="default")


async def retain(plane: Plane, volume: str) -> None:
    keep: dict[str, object] = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
    await plane.client.patch(VOLUME, volume, MergePatch(keep))


async def is_gone(plane: Plane, volume: str) -> bool:
    return volume not in {each.name for each in await volumes(plane)}


@pytest.mark.req("R4.late-creation")
@pytest.mark.parametrize(
    "is_requested", [pytest.param(False, id="not requested there"), pytest.param(True, id="requested by a pod")]
)
def test_a_late_creation_for_a_claim_that_waits(is_requested: bool) -> None:
    """The volume is named again, then removed, or given if it happens to be where it is wanted."""
    driver = FakeCsiDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await late_create(driver, name, "node-2")
        if is_requested:
            await choose(plane, "node-2")
            await plane.until(lambda: both_bound(plane), within=10)
        await plane.pass_time(LONG_ENOUGH)
        assert (name in driver.volumes) is is_requested
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


@pytest.mark.req("R4.late-creation")
def test_a_young_orphan_is_given_time() -> None:
    driver = FakeCsiDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await late_create(driver, name, "node-2")
        await plane.pass_time(SUSPECT_AFTER_SECONDS - 1)
        assert name in driver.volumes

    play(driver, scenario)


@pytest.mark.req("R4.late-creation")
@pytest.mark.parametrize("stuck", [0, 2])
def test_a_late_creation_for_a_claim_that_is_gone(stuck: int) -> None:
    driver = FakeCsiDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await forget(plane, "claim-1")
        await plane.pass_time(30)
        await late_create(driver, name, "node-1")
        driver.errors["delete"] = [DriverError(Code.INTERNAL, "the disk is stuck")] * stuck
        await plane.pass_time(LONG_ENOUGH)
        assert name not in driver.volumes
        assert await all_gone(plane)

    play(driver, scenario)


@pytest.mark.req("R4.late-creation")
def test_a_late_creation_after_the_held_volume_of_a_deleted_claim_was_rolled_back() -> None:
    """The attempt has succeeded, and its record is deleted with the claim, before the volume is rolled back."""
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await select(plane, "node-1", "claim-1")
        await plane.pass_time(5)
        assert await states(plane) == [HoldState.HELD]
        [volume] = await volumes(plane)
        await forget(plane, "claim-1")
        await plane.until(lambda: all_gone(plane), within=60)
        assert await records(plane) == []
        await late_create(driver, volume.name, "node-1")
        await plane.pass_time(LONG_ENOUGH)
        assert driver.volumes == {}

    play(driver, scenario)


@pytest.mark.req("R4.late-creation")
def test_a_late_creation_after_the_volume_of_a_deleted_claim_was_reclaimed() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.until(lambda: both_bound(plane), within=10)
        name = (await plane.get(CLAIM, "claim-1")).spec.volume_name
        await forget(plane, "claim-1")
        await plane.until(lambda: is_gone(plane, name), within=60)
        assert name not in driver.volumes
        await late_create(driver, name, "node-1")
        await plane.pass_time(LONG_ENOUGH)
        assert name not in driver.volumes
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


@pytest.mark.req("R2.retained")
def test_retained_volume_is_kept_after_rollback_of_first_attempt() -> None:
    """The provisioner has deleted a volume of the claim, but not the last one."""
    driver = FakeCsiDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await choose(plane, "node-2")
        await plane.until(lambda: both_bound(plane), within=10)
        await retain(plane, name)
        await forget(plane, "claim-1")
        await plane.pass_time(5)
        await plane.client.patch(VOLUME, name, MergePatch(FINALIZERS))
        await plane.client.delete(VOLUME, name)
        await plane.pass_time(LONG_ENOUGH)
        assert name in driver.volumes

    play(driver, scenario)


@pytest.mark.req("R2.retained")
def test_volume_of_manually_deleted_object_is_kept() -> None:
    """Retain, and the object deleted by hand: it looks like an orphan, and may hold data."""
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.until(lambda: both_bound(plane), within=10)
        name = (await plane.get(CLAIM, "claim-1")).spec.volume_name
        await retain(plane, name)
        await forget(plane, "claim-1")
        await plane.pass_time(5)
        await plane.client.patch(VOLUME, name, MergePatch(FINALIZERS))
        await plane.client.delete(VOLUME, name)
        with structlog.testing.capture_logs() as logs:
            await plane.pass_time(LONG_ENOUGH)
        assert name in driver.volumes
        assert [each["volume"] for each in logs if each["event"] == "orphaned volume kept"] == ["volume-1"]

    play(driver, scenario)


@pytest.mark.req("R2.lost")
def test_volume_of_deleted_claim_object_is_kept() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.until(lambda: both_bound(plane), within=10)
        name = (await plane.get(CLAIM, "claim-1")).spec.volume_name
        await plane.client.delete(VOLUME, name)
        await plane.client.patch(VOLUME, name, MergePatch(FINALIZERS))
        await plane.pass_time(LONG_ENOUGH)
        assert name in driver.volumes

    play(driver, scenario)


def test_a_driver_that_lists_nothing_is_left_alone() -> None:
    driver = FakeCsiDriver(TIGHT)
    driver.able -= {ControllerCapability.LIST_VOLUMES}

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await late_create(driver, name, "node-2")
        await plane.pass_time(LONG_ENOUGH)
        assert name in driver.volumes

    with structlog.testing.capture_logs() as logs:
        play(driver, scenario)
    assert "the driver lacks LIST_VOLUMES" in [each.get("reason") for each in logs]


@pytest.mark.req("R4.late-creation")
def test_orphan_of_single_volume_claim_is_not_held() -> None:
    """Without a coordinator the orphan is not adopted: the ordinary attempt finds the volume by its name."""
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        claim = await ask(plane, "late", node=None)
        await late_create(driver, f"pvc-{claim.uid}", "node-1")
        await plane.pass_time(LONG_ENOUGH)
        assert await records(plane) == []
        await select(plane, "node-1", "late")
        await plane.until(lambda: bound(plane, "late"), within=10)
        assert accounted(driver, await volumes(plane))

    play(driver, scenario, coordinated=False)
