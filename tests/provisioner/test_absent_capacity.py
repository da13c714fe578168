"""An API server that knows no CSIStorageCapacity: volumes are made all the same, and people are told."""

from structlog.testing import capture_logs

from mooring.api.kinds import STORAGE_CAPACITY
from partial_plane import Plane, run_plane
from partial_plane.older_server import OlderServer
from provisioner.paper_driver import PaperDriver
from provisioner.world import CAPACITY, GI, ask, bound, furnish, plane_of


def test_volumes_are_made_without_capacity_objects() -> None:
    driver = PaperDriver({"node-1": 10 * GI, "node-2": 20 * GI})

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
        "the API server does not serve this kind",
        "no capacity is published: the API server does not serve CSIStorageCapacity",
    ]
    assert driver.asked == []
