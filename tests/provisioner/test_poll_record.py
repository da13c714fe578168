"""When the driver was last asked about everything is on record, and only then."""

import pytest

from mooring.api.kinds import LEASE
from mooring.api.timestamps import from_time
from mooring.csi.contract import Code, DriverError
from partial_plane import Plane, run_plane
from provisioner.paper_driver import PaperDriver
from provisioner.world import CAPACITY, GI, furnish, plane_of

POLL = CAPACITY.poll_interval


@pytest.mark.req("C17.last-polled")
def test_the_last_complete_poll_is_on_record() -> None:
    driver = PaperDriver({"node-1": GI, "node-2": GI})

    async def polled(plane: Plane) -> float:
        lease = await plane.get(LEASE, "capacity-disks-example-com")
        assert lease.spec.renew_time is not None
        return from_time(lease.spec.renew_time)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(POLL + 1)
        first = await polled(plane)
        await plane.pass_time(POLL)
        second = await polled(plane)
        assert POLL - 1 < second - first < POLL + 1
        driver.troubles["capacity"] = [DriverError(Code.UNAVAILABLE, "away")] * 1000
        await plane.pass_time(3 * POLL)
        assert await polled(plane) == second, "nobody has answered since"

    run_plane(plane_of(driver, capacity=CAPACITY), scenario)
