"""Capacity after changes that other components make: resized volumes and snapshots."""

import asyncio
import json
import random

import pytest

from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Volume
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.control.component import Context
from mooring.provisioner.capacity.volume_changes import (
    SNAPSHOT_CONTENT,
    SnapshotContent,
    VolumeChanges,
    was_resized,
    was_taken_or_deleted,
)
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders import Body, a_volume, volume_body
from support.csi_drivers.recording import DRIVER, FakeCsiDriver
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import CAPACITY, GI, ask, bound, furnish, plane_of

pytestmark = pytest.mark.req("C22.at-once")


def content(*, driver: str = DRIVER, handle: str = "", volume: str = "vol-1", size: int | None = None) -> Body:
    status: Body = {"snapshotHandle": handle, "restoreSize": size} if handle else {}
    return {
        "apiVersion": SNAPSHOT_CONTENT.api_version,
        "kind": SNAPSHOT_CONTENT.kind,
        "metadata": {"name": "content-1"},
        "spec": {"driver": driver, "source": {"volumeHandle": volume}, "deletionPolicy": "Delete"},
        "status": status,
    }


def view(handle: str = "", size: int | None = None) -> SnapshotContent:
    return SNAPSHOT_CONTENT.decode(json.dumps(content(handle=handle, size=size)).encode())


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        pytest.param(None, view(), False, id="requested"),
        pytest.param(view(), view(handle="s"), True, id="taken"),
        pytest.param(None, view(handle="s"), True, id="observed when it was taken"),
        pytest.param(view(handle="s"), view(handle="s"), False, id="other change"),
        pytest.param(view(handle="s"), view(handle="s", size=GI), True, id="its size became known"),
        pytest.param(view(handle="s"), None, True, id="deleted"),
        pytest.param(view(), None, False, id="deleted before it was taken"),
    ],
)
def test_changes_of_snapshots(before: SnapshotContent | None, after: SnapshotContent | None, changed: bool) -> None:
    assert was_taken_or_deleted(before, after) is changed


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        pytest.param(a_volume(size="1Gi", uid="u"), a_volume(size="2Gi", uid="u"), True, id="larger"),
        pytest.param(
            a_volume(size="1Gi", uid="u"), a_volume(size="1Gi", uid="u", phase="Bound"), False, id="same size"
        ),
        pytest.param(a_volume(size="1Gi", uid="u"), a_volume(size="2Gi", uid="other"), False, id="another volume"),
        pytest.param(None, a_volume(), False, id="created"),
        pytest.param(a_volume(), None, False, id="deleted"),
    ],
)
def test_changes_of_sizes(before: Volume | None, after: Volume | None, changed: bool) -> None:
    assert was_resized(before, after) is changed


def test_capacity_is_polled_at_once_when_a_volume_is_resized() -> None:
    """As external-resizer does it: the driver expands the volume, then its PersistentVolume gets the new size."""
    driver = FakeCsiDriver({"node-1": 10 * GI, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, size="4Gi")
        await plane.until(lambda: bound(plane), within=5.0)
        await plane.pass_time(CAPACITY.poll_interval + 5.0)
        name = (await plane.get(CLAIM, "claim-1")).spec.volume_name
        calls = len(driver.asked)
        driver.capacity["node-1"] -= 2 * GI
        await plane.client.patch(VOLUME, name, MergePatch({"metadata": {"labels": {"a": "b"}}}))
        await plane.pass_time(5.0)
        assert len(driver.asked) == calls
        await plane.client.patch(VOLUME, name, MergePatch({"spec": {"capacity": {"storage": "6Gi"}}}))
        await plane.pass_time(1.0)
        # Only of the segment of the volume.
        assert len(driver.asked) == calls + 1

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


def test_volume_of_another_driver_is_ignored() -> None:
    driver = FakeCsiDriver({"node-1": 10 * GI, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        source = {"csi": {"driver": "other.example.com", "volumeHandle": "x"}}
        await plane.create(VOLUME, volume_body(name="theirs", source=source))
        await plane.pass_time(5.0)
        calls = len(driver.asked)
        await plane.client.patch(VOLUME, "theirs", MergePatch({"spec": {"capacity": {"storage": "60Gi"}}}))
        await plane.pass_time(5.0)
        assert len(driver.asked) == calls

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)


def test_segment_of_a_volume_with_a_new_snapshot_is_polled() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        api, rng = FakeApiServer(), random.Random(0)
        client = FakeClient(api)
        informers = Informers(client, clock, rng)
        context = Context(client, informers, EventRecorder(client, clock, "test", rng), clock, rng)
        changed_volumes: list[str] = []
        changes = VolumeChanges(
            context, DRIVER, lambda volume: changed_volumes.append("?" if volume is None else volume.name)
        )
        informers.of(VOLUME)
        source = {"csi": {"driver": DRIVER, "volumeHandle": "vol-1"}}
        api.create(VOLUME, "", volume_body(name="pv-1", source=source))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informers.run()), group.create_task(changes.follow_snapshots())]
            await clock.sleep(1.0)
            api.create(SNAPSHOT_CONTENT, "", content())
            await clock.sleep(1.0)
            assert changed_volumes == []
            taken = {"status": {"snapshotHandle": "s"}}
            api.patch(SNAPSHOT_CONTENT, "", "content-1", MergePatch(taken), "")
            await clock.sleep(1.0)
            api.delete(SNAPSHOT_CONTENT, "", "content-1")
            await clock.sleep(1.0)
            api.create(SNAPSHOT_CONTENT, "", content(handle="s", volume="unknown"))
            api.delete(SNAPSHOT_CONTENT, "", "content-1")
            api.create(SNAPSHOT_CONTENT, "", content(handle="s", driver="other.example.com"))
            await clock.sleep(1.0)
            for task in tasks:
                task.cancel()
        return changed_volumes

    assert virtual_time.run_in_virtual_time(main) == ["pv-1", "pv-1", "?", "?"]
