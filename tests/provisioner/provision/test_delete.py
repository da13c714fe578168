"""Released volumes: storage first, object last, and never with policy Retain."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, VOLUME, VOLUME_ATTACHMENT, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Volume
from mooring.client.contract import V
from mooring.cluster.local_client import LocalClient
from mooring.csi.contract import Code, ControllerCapability, DriverError
from support.builders import attachment_body
from support.csi_drivers.recording import ABLE, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import GI, all_gone, ask, bound, furnish, plane_of, volumes

CAPACITIES = {"node-1": 10 * GI, "node-2": 10 * GI}


def test_deleted_claims_take_their_volumes_along() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane))
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: all_gone(plane), within=5.0)
        assert driver.volumes == {}

    run_plane(plane_of(driver), scenario)


def test_deleted_object_stays_until_storage_is_deleted() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane))
        (volume,) = await volumes(plane)
        await plane.client.delete(VOLUME, volume.name)
        await plane.pass_time(60.0)
        assert len(await volumes(plane)) == 1, "the claim is still bound to it"
        assert len(driver.volumes) == 1
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.until(lambda: all_gone(plane), within=30.0)
        assert driver.volumes == {}

    run_plane(plane_of(driver), scenario)


def test_a_volume_the_driver_cannot_delete_stays_and_says_why() -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.errors["delete"] = [DriverError(Code.FAILED_PRECONDITION, "still in use")] * 2

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane))
        (volume,) = await volumes(plane)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(2.0)
        assert (await volumes(plane))[0].status.phase == "Released"
        assert (
            "VolumeFailedDelete: rpc error: code = FailedPrecondition desc = still in use"
            in await plane.events_about(volume.name)
        )
        await plane.until(lambda: all_gone(plane), within=10.0)
        assert len(driver.deleted) == 3

    run_plane(plane_of(driver), scenario)


def test_an_attached_volume_is_not_deleted() -> None:
    driver = FakeCsiDriver(CAPACITIES)
    driver.able = ABLE | {ControllerCapability.PUBLISH_UNPUBLISH_VOLUME}

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane))
        (volume,) = await volumes(plane)
        await plane.create(VOLUME_ATTACHMENT, attachment_body(volume=volume.name))
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(5.0)
        assert driver.deleted == []
        text = f"VolumeFailedDelete: persistentvolume {volume.name} is still attached to node node-1"
        assert text in await plane.events_about(volume.name)
        await plane.client.delete(VOLUME_ATTACHMENT, "attachment-1")
        await plane.until(lambda: all_gone(plane), within=30.0)

    run_plane(plane_of(driver), scenario)


def test_a_policy_changed_to_retain_keeps_the_storage() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane))
        (volume,) = await volumes(plane)
        keep = MergePatch({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await plane.client.patch(VOLUME, volume.name, keep)
        await plane.until(lambda: _unguarded(plane), within=5.0)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(60.0)
        assert driver.deleted == []
        assert [each.status.phase for each in await volumes(plane)] == ["Released"]

    run_plane(plane_of(driver), scenario)


async def _unguarded(plane: Plane) -> bool:
    return all(well_known.EXTERNAL_PROVISIONER not in each.metadata.finalizers for each in await volumes(plane))


class _KeptMeanwhile(LocalClient):
    """An administrator keeps a released volume right before it is read once more."""

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        found = await super().get(kind, name, namespace=namespace)
        if isinstance(found, Volume) and found.status.phase == "Released":
            await self.patch(VOLUME, name, MergePatch({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}))
            return await super().get(kind, name, namespace=namespace)
        return found


@pytest.mark.req("T42.PC24")
def test_volume_that_is_kept_meanwhile_is_not_deleted() -> None:
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane))
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(60.0)
        assert [volume.status.phase for volume in await volumes(plane)] == ["Released"]
        assert len(driver.volumes) == 1

    run_plane(plane_of(driver), scenario, client=_KeptMeanwhile)
