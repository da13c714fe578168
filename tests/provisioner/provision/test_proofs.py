"""That the driver was asked after a volume was made: shown even by a process that did not make it."""

import pytest

from mooring.api import well_known
from mooring.api.kinds import STORAGE_CAPACITY
from mooring.api.times import from_time
from mooring.provisioner.provision.eligibility import segments_of
from mooring.pvcontroller.component import PersistentVolumeController
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import CAPACITY, GI, ask, bound, furnish, provisioner, volumes
from support.provisioner.crashing_process import alive


async def polled(plane: Plane) -> dict[str, float]:
    """By node."""
    items = (await plane.client.list(STORAGE_CAPACITY)).items
    return {
        dict(each.node_topology.match_labels).popitem()[1]: from_time(
            each.metadata.annotations[well_known.CAPACITY_POLLED_AT]
        )
        for each in items
        if each.node_topology is not None
    }


@pytest.mark.req("C16.proof")
def test_restart_publishes_missed_capacity() -> None:
    """The figure is the same as before, so that only the proof is missing; other objects are left alone."""
    driver = FakeCsiDriver({"node-1": 5 * GI, "node-2": 5 * GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, provisioner(driver, capacity=CAPACITY)):
            await plane.pass_time(5.0)
        before = await polled(plane)
        async with alive(plane, provisioner(driver)):
            await ask(plane)
            await plane.until(lambda: bound(plane), within=5.0)
        driver.capacity["node-1"] += GI
        await plane.pass_time(5.0)
        (volume,) = await volumes(plane)
        made = from_time(volume.metadata.annotations[well_known.VOLUME_CREATED_AT])
        assert segments_of(volume)[0][0][1] == "node-1"
        async with alive(plane, provisioner(driver, capacity=CAPACITY)):
            await plane.pass_time(5.0)
            after = await polled(plane)
            assert after["node-1"] > made > before["node-1"]
            assert after["node-2"] == before["node-2"]
            await plane.pass_time(3 * CAPACITY.poll_interval)
            assert await polled(plane) == after, "shown once is enough"

    run_plane([PersistentVolumeController], scenario)
