"""An API server without CSIStorageCapacity: the scheduler continues without it until the server is upgraded."""

import pytest
from structlog.testing import capture_logs

from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, POD, STORAGE_CLASS
from mooring.cluster.local_client import LocalClient
from mooring.scheduler.component import Scheduler
from support.builders import claim_body, class_body, node_body, pod_body
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.older_server import OlderServer, upgradable


async def _scenario(plane: Plane) -> str:
    await plane.create(NODE, node_body(name="n1"))
    await plane.create(CSI_DRIVER, {"metadata": {"name": "x.io"}, "spec": {"storageCapacity": True}})
    await plane.create(STORAGE_CLASS, class_body(name="made", provisioner="x.io"))
    await plane.create(CLAIM, claim_body(name="c", storage_class="made"))
    await plane.create(POD, pod_body(name="p", claims=["c"]))
    await plane.pass_time(60)
    return (await plane.get(CLAIM, "c")).selected_node or ""


@pytest.mark.parametrize(
    ("client", "node"),
    [
        pytest.param(OlderServer, "n1", id="every node counts as having room"),
        pytest.param(LocalClient, "", id="where the kind is served, nothing reported is no room"),
    ],
)
def test_a_server_without_capacity_objects(client: type[LocalClient], node: str) -> None:
    with capture_logs() as logs:
        assert run_plane([Scheduler], _scenario, client=client) == node
    assert any("until the API server serves CSIStorageCapacity" in line["event"] for line in logs) is bool(node)


@pytest.mark.level("s")
@pytest.mark.req("T31.kind-appears")
def test_capacity_is_checked_when_the_server_is_upgraded() -> None:
    client, upgrade = upgradable()

    async def scenario(plane: Plane) -> str:
        assert await _scenario(plane) == "n1"
        upgrade()
        await plane.pass_time(60)
        await plane.create(CLAIM, claim_body(name="later", storage_class="made"))
        await plane.create(POD, pod_body(name="later", claims=["later"]))
        await plane.pass_time(60)
        return (await plane.get(CLAIM, "later")).selected_node or ""

    with capture_logs():
        assert run_plane([Scheduler], scenario, client=client) == ""
