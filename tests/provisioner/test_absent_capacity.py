"""An API server without CSIStorageCapacity: volumes are created all the same, and capacity follows an upgrade."""

import pytest
from structlog.testing import capture_logs

from mooring.api.kinds import STORAGE_CAPACITY
from support.csi_drivers.recording import FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.older_server import OlderServer, upgradable
from support.provisioner.cluster import CAPACITY, GI, ask, bound, furnish, plane_of


def test_volumes_are_made_without_capacity_objects() -> None:
    driver = FakeCsiDriver({"node-1": 10 * GI, "node-2": 20 * GI})

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane), within=5.0)
        await plane.pass_time(2 * CAPACITY.poll_interval)
        assert (await plane.client.list(STORAGE_CAPACITY)).items == ()

    with capture_logs() as logs:
        run_plane(plane_of(driver, capacity=CAPACITY), scenario, client=OlderServer)
    told = [line["event"] for line in logs if line["log_level"] == "error"]
    assert told == [
        "kind not served by the API server",
        "no capacity is published until the API server serves CSIStorageCapacity",
    ]
    assert driver.asked == []


@pytest.mark.level("s")
@pytest.mark.req("T31.kind-appears")
def test_capacity_is_published_when_the_server_is_upgraded() -> None:
    driver = FakeCsiDriver({"node-1": 10 * GI, "node-2": 20 * GI})
    client, upgrade = upgradable()

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await plane.pass_time(2 * CAPACITY.poll_interval)
        assert driver.asked == []
        upgrade()

        async def published() -> bool:
            return len((await plane.client.list(STORAGE_CAPACITY)).items) == 2

        await plane.until(published, within=60.0)

    with capture_logs():
        run_plane(plane_of(driver, capacity=CAPACITY), scenario, client=client)
