"""What the hold protocol must leave alone: volumes of other nodes, volumes that were never held; and what it finishes
although nothing is held any more.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest
from msgspec import structs

from mooring.api.kinds import CLAIM, LEASE, NAMESPACE, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import CreateVolume, DriverVolume
from mooring.provisioner.settings import NodeDeployment
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState
from mooring.volumes.holds import objects
from provisioner.rollback.test_held_provisioning import (
    ROOMY,
    SETTINGS,
    both_bound,
    choose,
    play,
    records,
    states,
)
from support.builders import a_claim, pod_body
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import (
    GI,
    accounted,
    all_gone,
    ask,
    bound,
    coordinator_lease,
    furnish,
    provisioner,
    select,
    selected,
    volumes,
)
from support.provisioner.crashing_process import CrashingClient, V, alive

OTHERS = [PersistentVolumeController, VolumeProtection]


async def begin(plane: Plane) -> None:
    await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
    await plane.client.create(LEASE, coordinator_lease(plane), namespace=HOLD_NAMESPACE)
    await furnish(plane)
    for name in ("claim-1", "claim-2"):
        await ask(plane, name, node=None)
    await plane.create(POD, pod_body(name="p", claims=("claim-1", "claim-2")))


@pytest.mark.req("R2.rebound")
def test_used_volume_with_forged_claim_ref_is_not_deleted() -> None:
    """People point a kept volume at a new claim by writing a claimRef without uid."""
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.until(lambda: both_bound(plane), within=10)
        name = (await plane.get(CLAIM, "claim-1")).spec.volume_name
        uid = (await plane.get(CLAIM, "claim-1")).uid
        await plane.client.delete(POD, "p", namespace="default", grace_seconds=0)
        turned = {"namespace": HOLD_NAMESPACE, "name": f"rollback-{uid}", "uid": None, "resourceVersion": None}
        kept: dict[str, object] = {"spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": turned}}
        unprotected: dict[str, object] = {"metadata": {"finalizers": None}}
        await plane.client.patch(VOLUME, name, MergePatch({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}))
        await plane.client.patch(CLAIM, "claim-1", MergePatch(unprotected), namespace="default")
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.client.patch(VOLUME, name, MergePatch(kept))
        await plane.pass_time(60)
        assert name in driver.volumes
        assert any("RollbackFailed" in each and "rollback refused" in each for each in await plane.events_about(name))

    play(driver, scenario)


def test_provisioner_with_rollback_off_still_rolls_back() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        async with alive(plane, provisioner(driver, SETTINGS)):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
        assert await states(plane) == [HoldState.HELD]
        async with alive(plane, provisioner(driver, replace(SETTINGS, rollback=False))), alive(plane, Coordinator):
            await select(plane, None, "claim-1")
            await plane.until(lambda: all_gone(plane), within=30)
            assert driver.volumes == {}
            await choose(plane, "node-2")
            await plane.until(lambda: both_bound(plane), within=10)
            await plane.pass_time(5)
            assert await records(plane) == []

    run_plane(OTHERS, scenario)


@pytest.mark.req("R4.node-deployment")
def test_provisioners_of_single_nodes_keep_to_their_own() -> None:
    """Each has a driver with volumes of its own: a DeleteVolume at the wrong one would succeed and leak the volume."""
    drivers = {node: FakeCsiDriver({node: 10 * GI}, node=node) for node in ("node-1", "node-2")}
    drivers["node-1"].capacity["node-1"] = GI

    def of(node: str) -> FakeCsiDriver:
        return drivers[node]

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        own = {node: replace(SETTINGS, node_deployment=NodeDeployment(node)) for node in drivers}
        async with (
            alive(plane, provisioner(of("node-2"), own["node-2"])),
            alive(plane, provisioner(of("node-1"), own["node-1"])),
            alive(plane, Coordinator),
        ):
            await choose(plane, "node-1")

            async def free_again() -> bool:
                return await all_gone(plane) and not [n for n in ("claim-1", "claim-2") if await selected(plane, n)]

            await plane.until(free_again, within=60)
            assert of("node-1").volumes == of("node-2").volumes == {}
            assert of("node-2").requests == []
            assert of("node-2").deleted == []
            await choose(plane, "node-2")
            await plane.until(lambda: both_bound(plane), within=30)
            assert accounted(of("node-2"), await volumes(plane))
            assert of("node-1").volumes == {}

    run_plane(OTHERS, scenario)


def test_given_volumes_carry_no_marks_of_held_ones() -> None:
    driver = FakeCsiDriver(ROOMY)

    async def scenario(plane: Plane) -> None:
        await choose(plane, "node-1")
        await plane.until(lambda: bound(plane, "claim-1"), within=10)
        for volume in await volumes(plane):
            assert objects.CLAIM not in volume.metadata.annotations

    play(driver, scenario)


@pytest.mark.parametrize(("length", "labelled"), [(63, True), (64, False)])
def test_nodes_may_have_longer_names_than_labels_have_values(length: int, labelled: bool) -> None:
    marks = objects.hold_metadata(a_claim(), "n" * length, since="2026-01-02T03:04:05Z", attempt=1)
    assert (objects.FOR_NODE_LABEL in marks["labels"]) is labelled
    assert marks["annotations"][objects.NODE] == "n" * length


@pytest.mark.req("R2.unusable")
def test_unusable_volume_is_deleted_after_attempt_is_closed() -> None:
    """Another instance may be about to save the same volume: volumes of a closed attempt are not committed."""
    driver = ShortDriver(ROOMY)
    phases: list[str] = []

    async def scenario(plane: Plane) -> None:
        async def record() -> str:
            listing = await plane.client.list(objects.INTENT_RECORD, namespace=HOLD_NAMESPACE)
            return ",".join(each.data["phase"] for each in listing.items)

        async def look() -> None:
            phases.append(await record())

        driver.on_delete = look
        await select(plane, "node-1", "claim-1")
        await plane.until(lambda: _held_once(plane), within=60)
        assert phases == ["Failed"]
        assert accounted(driver, await volumes(plane))

    play(driver, scenario)


async def _held_once(plane: Plane) -> bool:
    return await states(plane) == [HoldState.HELD]


class ShortDriver(FakeCsiDriver):
    """Its first answer is of a volume that is too small."""

    on_delete: Callable[[], Awaitable[None]]

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        volume = await super().create_volume(request, secrets=secrets)
        return structs.replace(volume, capacity_bytes=1) if len(self.requests) == 1 else volume

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        await self.on_delete()
        await super().delete_volume(volume_id, secrets=secrets)


class _Slow(CrashingClient):
    """The first look at a claim takes a minute."""

    def __init__(self, plane: Plane, claim: str) -> None:
        super().__init__(plane.client)
        self._clock = plane.clock
        self._claim = claim
        self.slow = 0

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        if (kind, name) == (CLAIM, self._claim) and not self.slow:
            self.slow += 1
            await self._clock.sleep(60)
        return await super().get(kind, name, namespace=namespace)


@pytest.mark.req("R4.late-creation")
def test_volume_rolled_back_during_read_is_not_recreated() -> None:
    driver = FakeCsiDriver({"node-1": GI, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        # Saved, but the attempt is still open: the next process has to complete it.
        async with alive(plane, provisioner(driver, SETTINGS), CrashingClient(plane.client, writes=2)):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(1)
        slow = _Slow(plane, "claim-1")
        async with alive(plane, provisioner(driver, SETTINGS), slow), alive(plane, Coordinator):
            await select(plane, "node-1", "claim-2")
            await plane.pass_time(1)
            assert (driver.made, slow.slow) == (1, 1)
            await plane.until(lambda: all_gone(plane), within=40)
            await plane.pass_time(120)
            assert driver.made == 1, "what was given up came back"
            assert driver.volumes == {}

    run_plane(OTHERS, scenario)
