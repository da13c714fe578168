"""An API server that knows no CSIStorageCapacity: the scheduler goes on without, and says so."""

import pytest
from structlog.testing import capture_logs

from builders import claim_body, class_body, node_body, pod_body
from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, POD, STORAGE_CLASS
from mooring.cluster.local_client import LocalClient
from mooring.scheduler.component import Scheduler
from partial_plane import Plane, run_plane
from partial_plane.older_server import OlderServer


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
    assert any("knows no CSIStorageCapacity" in line["event"] for line in logs) is bool(node)
