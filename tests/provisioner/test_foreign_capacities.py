"""Objects under our labels with a selector that no publisher writes: they are removed, whatever the server answers."""

from typing import Unpack

import pytest

from mooring.api.errors import ServiceUnavailable
from mooring.api.kinds import STORAGE_CAPACITY, Kind
from mooring.client.contract import Deletion
from support.csi_drivers.recording import DRIVER, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import CAPACITY, GI, furnish, provisioner
from support.provisioner.crashing_process import CrashingClient, V, alive

OURS = {"csi.storage.k8s.io/drivername": DRIVER, "csi.storage.k8s.io/managed-by": "external-provisioner"}


class _Busy(CrashingClient):
    """The first deletion is refused."""

    refused = 0

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        if not self.refused:
            self.refused += 1
            raise ServiceUnavailable("not now")
        await super().delete(kind, name, namespace=namespace, **options)


@pytest.mark.req("C8.obsolete")
def test_obsolete_object_is_deleted_by_a_later_poll() -> None:
    driver = FakeCsiDriver({"node-1": GI, "node-2": GI})
    selector = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        meta = {"name": "csisc-odd", "namespace": "default", "labels": OURS}
        await plane.create(
            STORAGE_CAPACITY,
            {"metadata": meta, "storageClassName": "made", "nodeTopology": selector, "capacity": "1Gi"},
        )
        busy = _Busy(plane.client)
        async with alive(plane, provisioner(driver, capacity=CAPACITY), busy):
            await plane.pass_time(5.0)
            assert busy.refused == 1
            assert "csisc-odd" in await plane.names(STORAGE_CAPACITY)
            await plane.pass_time(CAPACITY.poll_interval)
            names = await plane.names(STORAGE_CAPACITY)
            assert "csisc-odd" not in names
            assert len(names) == 2

    run_plane([], scenario)
