"""The controller that replaces claims of lost nodes: when it acts, when it does not, and crashes at every write."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CONFIG_MAP, NAMESPACE, NODE, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.client.live_reads import get_or_none
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.lost_storage_controller import LostStorageController
from mooring.pvcontroller.protection import VolumeProtection
from mooring.volumes.holds.objects import STORAGE_LOST
from support.builders import claim_body, class_body, node_body, volume_body
from support.partial_control_plane import Plane, run_plane
from support.provisioner.crashing_process import CrashingClient, alive

OTHERS = [PersistentVolumeController, VolumeProtection]
OUT = {"spec": {"taints": [{"key": well_known.OUT_OF_SERVICE, "effect": "NoExecute", "value": "nodeshutdown"}]}}
DELAY = 600.0


async def furnish(plane: Plane, policy: str | None = "10m", *, node: str = "n9") -> str:
    """A claim bound to a volume of the node with hostname n9; returns the claim's uid."""
    notes = {} if policy is None else {well_known.LOST_STORAGE: policy}
    await plane.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
    await plane.create(STORAGE_CLASS, class_body(binding_mode="Immediate", annotations=notes))
    await plane.create(NODE, node_body(name=node, labels={well_known.HOSTNAME: "n9"}))
    await plane.create(VOLUME, volume_body(name="disk", node="n9", reclaim="Delete"))
    await plane.create(CLAIM, claim_body(name="data"))

    async def bound() -> bool:
        return (await plane.get(CLAIM, "data")).status.phase == "Bound"

    await plane.until(bound)
    return await uid_of(plane)


async def uid_of(plane: Plane) -> str:
    found = await get_or_none(plane.client, CLAIM, "data", namespace="default")
    return found.uid if found is not None else ""


@pytest.mark.req("R9.given-up")
def test_claim_is_replaced_after_the_delay_and_not_before() -> None:
    async def scenario(plane: Plane) -> None:
        old = await furnish(plane)
        async with alive(plane, LostStorageController):
            await plane.client.delete(NODE, "n9")
            await plane.pass_time(DELAY - 5)
            assert await uid_of(plane) == old
            await plane.pass_time(60)
            assert await uid_of(plane) not in ("", old)
            assert await plane.names(VOLUME) == []
            assert await plane.names(CONFIG_MAP) == []
            assert any(each.startswith("LostStorageReplaced") for each in await plane.events_about("data"))

    run_plane(OTHERS, scenario)


@pytest.mark.req("R9.given-up")
def test_node_that_comes_back_ends_the_delay() -> None:
    async def scenario(plane: Plane) -> None:
        old = await furnish(plane)
        async with alive(plane, LostStorageController):
            await plane.client.delete(NODE, "n9")
            await plane.pass_time(DELAY - 5)
            await plane.create(NODE, node_body(name="n9", ready=False))
            await plane.pass_time(2 * DELAY)
            assert await uid_of(plane) == old
            await plane.client.delete(NODE, "n9")
            await plane.pass_time(DELAY - 5)
            assert await uid_of(plane) == old
            await plane.client.patch(STORAGE_CLASS, "local", MergePatch({"metadata": {"annotations": None}}))
            await plane.pass_time(2 * DELAY)
            assert await uid_of(plane) == old, "the class does not opt in any more"

    run_plane(OTHERS, scenario)


@pytest.mark.req("R9.given-up")
def test_delay_of_a_node_with_another_hostname_begins_with_its_deletion() -> None:
    async def scenario(plane: Plane) -> None:
        old = await furnish(plane, node="machine-9")
        async with alive(plane, LostStorageController):
            await plane.client.patch(VOLUME, "disk", MergePatch({"metadata": {"labels": {"seen": "again"}}}))
            await plane.pass_time(2 * DELAY)
            await plane.client.delete(NODE, "machine-9")
            await plane.pass_time(DELAY - 5)
            assert await uid_of(plane) == old
            await plane.pass_time(60)
            assert await uid_of(plane) not in ("", old)

    run_plane(OTHERS, scenario)


@pytest.mark.req("R9.given-up")
def test_restart_begins_the_delay_again() -> None:
    async def scenario(plane: Plane) -> None:
        old = await furnish(plane)
        async with alive(plane, LostStorageController):
            await plane.client.delete(NODE, "n9")
            await plane.pass_time(DELAY - 5)
        async with alive(plane, LostStorageController):
            await plane.pass_time(DELAY - 5)
            assert await uid_of(plane) == old
            await plane.pass_time(60)
            assert await uid_of(plane) not in ("", old)

    run_plane(OTHERS, scenario)


@pytest.mark.parametrize("policy", [None, "soon", "confirmed"])
@pytest.mark.req("R9.given-up")
def test_nothing_is_done_without_opt_in_or_confirmation(policy: str | None) -> None:
    async def scenario(plane: Plane) -> None:
        old = await furnish(plane, policy)
        async with alive(plane, LostStorageController):
            await plane.client.delete(NODE, "n9")
            await plane.pass_time(100 * DELAY)
            assert await uid_of(plane) == old

    run_plane(OTHERS, scenario)


@pytest.mark.req("R9.given-up")
def test_annotated_volume_of_an_out_of_service_node_is_replaced_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        old = await furnish(plane, "confirmed")
        async with alive(plane, LostStorageController):
            confirm = MergePatch({"metadata": {"annotations": {STORAGE_LOST: "yes"}}})
            await plane.client.patch(VOLUME, "disk", confirm)
            await plane.pass_time(60)
            assert await uid_of(plane) == old, "the Node exists"
            await plane.client.patch(NODE, "n9", MergePatch(OUT))
            await plane.pass_time(60)
            assert await uid_of(plane) not in ("", old)

    run_plane(OTHERS, scenario)


@pytest.mark.parametrize("writes", range(1, 8))
@pytest.mark.level("s")
@pytest.mark.req("R9.given-up")
def test_crash_after_any_write_is_continued_by_the_next_process(writes: int) -> None:
    async def scenario(plane: Plane) -> None:
        old = await furnish(plane)
        async with alive(plane, LostStorageController, CrashingClient(plane.client, writes)):
            await plane.client.delete(NODE, "n9")
            await plane.pass_time(DELAY + 60)
        async with alive(plane, LostStorageController):
            await plane.pass_time(DELAY + 60)
            assert await uid_of(plane) not in ("", old)
            assert await plane.names(VOLUME) == []
            assert await plane.names(CONFIG_MAP) == []

    run_plane(OTHERS, scenario)
