"""Volumes that nothing names: found by listing, named again or deleted; and never one that may have been used."""

import pytest
import structlog.testing

from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.csi.contract import AccessibilityRequirements as Requirements
from mooring.csi.contract import Code, ControllerCapability, CreateVolume, DriverError, Topology
from mooring.provisioner.orphans import SUSPECT_AFTER
from partial_plane import Plane
from provisioner.paper_driver import KEY, PaperDriver
from provisioner.test_holding import GI, ROOMY, TIGHT, both_bound, choose, play, records
from provisioner.world import accounted, all_gone, ask, bound, select, selected, volumes

#: An orphan is listed at the latest after five minutes, suspect after ten more, and then looked at with the next list.
LONG_ENOUGH = SUSPECT_AFTER + 3 * 300.0
FINALIZERS: dict[str, object] = {"metadata": {"finalizers": None}}


async def late_create(driver: PaperDriver, name: str, node: str) -> None:
    """An old leader's CreateVolume takes effect long after anybody waited for it."""
    where = (Topology({KEY: node}),)
    await driver.create_volume(
        CreateVolume(name, GI, accessibility=Requirements(requisite=where, preferred=where)), secrets={}
    )


async def rolled_back(plane: Plane, driver: PaperDriver) -> str:
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


@pytest.mark.req("R4.late-creation")
@pytest.mark.parametrize(
    "is_wanted", [pytest.param(False, id="nobody wants it there"), pytest.param(True, id="a pod wants it there")]
)
def test_a_late_creation_for_a_claim_that_waits(is_wanted: bool) -> None:
    """The volume is named again, then removed, or given if it happens to be where it is wanted."""
    driver = PaperDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await late_create(driver, name, "node-2")
        if is_wanted:
            await choose(plane, "node-2")
            await plane.until(lambda: both_bound(plane), within=10)
        await plane.pass_time(LONG_ENOUGH)
        assert (name in driver.volumes) is is_wanted
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


@pytest.mark.req("R4.late-creation")
def test_a_young_orphan_is_given_time() -> None:
    driver = PaperDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await late_create(driver, name, "node-2")
        await plane.pass_time(SUSPECT_AFTER - 1)
        assert name in driver.volumes

    play(driver, scenario)


@pytest.mark.req("R4.late-creation")
@pytest.mark.parametrize("stuck", [0, 2])
def test_a_late_creation_for_a_claim_that_is_gone(stuck: int) -> None:
    driver = PaperDriver(TIGHT)

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await forget(plane, "claim-1")
        await plane.pass_time(30)
        await late_create(driver, name, "node-1")
        driver.troubles["delete"] = [DriverError(Code.INTERNAL, "the disk is stuck")] * stuck
        await plane.pass_time(LONG_ENOUGH)
        assert name not in driver.volumes
        assert await all_gone(plane)

    play(driver, scenario)


@pytest.mark.req("R2.retained")
def test_a_volume_whose_object_a_person_deleted_keeps_its_data() -> None:
    """Retain, and the object deleted by hand: it looks like an orphan, and is somebody's data."""
    driver = PaperDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.until(lambda: both_bound(plane), within=10)
        name = (await plane.get(CLAIM, "claim-1")).spec.volume_name
        keep: dict[str, object] = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
        await plane.client.patch(VOLUME, name, MergePatch(keep))
        await forget(plane, "claim-1")
        await plane.pass_time(5)
        await plane.client.patch(VOLUME, name, MergePatch(FINALIZERS))
        await plane.client.delete(VOLUME, name)
        with structlog.testing.capture_logs() as logs:
            await plane.pass_time(LONG_ENOUGH)
        assert name in driver.volumes
        assert [each["volume"] for each in logs if each["event"] == "volume left alone"] == ["volume-1"]

    play(driver, scenario)


@pytest.mark.req("R2.lost")
def test_the_volume_of_a_claim_that_lost_its_object_keeps_its_data() -> None:
    driver = PaperDriver(ROOMY)

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
    driver = PaperDriver(TIGHT)
    driver.able -= {ControllerCapability.LIST_VOLUMES}

    async def scenario(plane: Plane) -> None:
        name = await rolled_back(plane, driver)
        await late_create(driver, name, "node-2")
        await plane.pass_time(LONG_ENOUGH)
        assert name in driver.volumes

    with structlog.testing.capture_logs() as logs:
        play(driver, scenario)
    assert "the driver does not list its volumes" in [each.get("why") for each in logs]


@pytest.mark.req("R4.late-creation")
def test_an_orphan_of_a_claim_with_nothing_to_hold_does_not_turn_it_into_a_held_one() -> None:
    """Without a coordinator nobody would decide: the ordinary attempt finds the volume by its name."""
    driver = PaperDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        claim = await ask(plane, "late", node=None)
        await late_create(driver, f"pvc-{claim.uid}", "node-1")
        await plane.pass_time(LONG_ENOUGH)
        assert await records(plane) == []
        await select(plane, "node-1", "late")
        await plane.until(lambda: bound(plane, "late"), within=10)
        assert accounted(driver, await volumes(plane))

    play(driver, scenario, coordinated=False)
