"""Records of requests in flight: written before the call, and what happens if they cannot be."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from mooring.api.errors import Forbidden
from mooring.api.kinds import CLAIM, CONFIG_MAP, CSI_NODE, LEASE, NAMESPACE, NODE, POD, Kind
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Unreachable, V
from mooring.cluster.local_client import LocalClient
from mooring.csi.contract import CreateVolume, DriverVolume
from mooring.provisioner.settings import ProvisionerSettings
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.holds.objects import INTENT_RECORD, intent_name
from support.builders import node_body, pod_body
from support.csi_drivers.recording import KEY, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import (
    GI,
    accounted,
    ask,
    bound,
    coordinator_lease,
    csi_node,
    furnish,
    plane_of,
    provisioner,
    select,
    volumes,
)
from support.provisioner.crashing_process import CrashingClient, alive

CAPACITIES = {"node-1": 10 * GI, "node-2": 10 * GI}


class WithoutRecords(LocalClient):
    """Creates of ConfigMaps fail while there are `errors`, `lost` ones after they took effect."""

    errors: tuple[Exception, ...] = ()
    lost = False

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        if kind.plural == CONFIG_MAP.plural and WithoutRecords.errors:
            if WithoutRecords.lost:
                await super().create(kind, body, namespace=namespace)
            error, *left = WithoutRecords.errors
            WithoutRecords.errors = tuple(left)
            raise error
        return await super().create(kind, body, namespace=namespace)


class RecordedDriver(FakeCsiDriver):
    """Knows which records existed at each CreateVolume."""

    def __init__(self) -> None:
        super().__init__(CAPACITIES)
        self.plane: Plane | None = None
        self.records: list[list[str]] = []

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        assert self.plane is not None
        self.records.append(await self.plane.names(CONFIG_MAP))
        return await super().create_volume(request, secrets=secrets)


class MeasuredDriver(FakeCsiDriver):
    """Knows the bytes of each record, and how many segments each CreateVolume request named."""

    plane: Plane

    def __init__(self) -> None:
        super().__init__(CAPACITIES)
        self.records: list[int] = []
        self.segments: list[int] = []

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        records = (await self.plane.client.list(INTENT_RECORD)).items
        self.records += [len(msgspec.json.encode(record.data)) for record in records]
        assert request.accessibility is not None
        self.segments.append(len(request.accessibility.requisite))
        return await super().create_volume(request, secrets=secrets)


def test_size_of_a_record_does_not_depend_on_the_number_of_nodes() -> None:
    """The request names a segment per node; an object of the API server has no space for thousands."""

    def measured(nodes: int) -> MeasuredDriver:
        driver = MeasuredDriver()

        async def scenario(plane: Plane) -> None:
            driver.plane = plane
            await furnish(plane)
            for number in range(3, nodes + 1):
                name = f"node-{number}"
                await plane.create(NODE, node_body(name=name, labels={KEY: name}))
                await plane.create(CSI_NODE, csi_node(name))
            await ask(plane)
            await plane.until(lambda: bound(plane), within=5.0)

        run_plane(plane_of(driver), scenario)
        return driver

    few, many = measured(2), measured(200)
    assert (few.segments, many.segments) == ([2], [200])
    [short], [long] = few.records, many.records
    assert long - short < len(KEY), "more than the digits of resourceVersions"


@pytest.mark.req("R4.crash-calling")
def test_request_is_recorded_before_it_is_sent() -> None:
    driver = RecordedDriver()

    async def scenario(plane: Plane) -> None:
        driver.plane = plane
        await furnish(plane)
        claim = await ask(plane)
        await plane.until(lambda: bound(plane), within=10.0)
        assert driver.records == [[intent_name(claim.uid)]]
        assert await plane.names(CONFIG_MAP) == []

    run_plane(plane_of(driver), scenario)


def test_driver_is_not_called_without_record() -> None:
    driver = RecordedDriver()
    WithoutRecords.errors, WithoutRecords.lost = (Unreachable("away"),) * 3, False

    async def scenario(plane: Plane) -> None:
        driver.plane = plane
        await furnish(plane)
        await ask(plane)
        await plane.pass_time(2.0)
        assert driver.records == []
        await plane.until(lambda: bound(plane), within=60.0)
        assert len(driver.records) == 1

    run_plane(plane_of(driver), scenario, client=WithoutRecords)


def test_denied_records_do_not_prevent_provisioning() -> None:
    driver = RecordedDriver()
    WithoutRecords.errors, WithoutRecords.lost = (Forbidden("configmaps is forbidden"),) * 9, False

    async def scenario(plane: Plane) -> None:
        driver.plane = plane
        await furnish(plane)
        await ask(plane)
        await plane.until(lambda: bound(plane), within=10.0)
        assert driver.records == [[]]

    run_plane(plane_of(driver), scenario, client=WithoutRecords)


@pytest.mark.parametrize("ends", ["bound", "deleted", "another node"])
def test_record_is_completed_after_a_write_without_response(ends: str) -> None:
    """The record exists although its write failed: the request is sent, or the record goes with the claim."""
    driver = RecordedDriver()
    WithoutRecords.errors, WithoutRecords.lost = (Unreachable("response lost"),), True

    async def scenario(plane: Plane) -> None:
        driver.plane = plane
        await furnish(plane)
        await ask(plane)
        await plane.pass_time(0.2)
        assert len(await plane.names(CONFIG_MAP)) == 1
        assert driver.records == []
        if ends == "deleted":
            await plane.client.patch(
                CLAIM, "claim-1", MergePatch({"metadata": {"finalizers": None}}), namespace="default"
            )
            await plane.client.delete(CLAIM, "claim-1", namespace="default")
        if ends == "another node":
            await select(plane, "node-2")
        await plane.pass_time(30.0)
        assert await plane.names(CONFIG_MAP) == []
        assert accounted(driver, await volumes(plane))
        assert len(driver.volumes) == (0 if ends == "deleted" else 1)

    run_plane(plane_of(driver), scenario, client=WithoutRecords)


HOLDING = ProvisionerSettings(namespace=HOLD_NAMESPACE, rollback=True, strict_topology=True)


async def furnish_preset(plane: Plane) -> None:
    """With a coordinator, and a pod with a preset node, whose volume is not held."""
    await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
    await plane.client.create(LEASE, coordinator_lease(plane), namespace=HOLD_NAMESPACE)
    await furnish(plane)
    await plane.create(POD, pod_body(name="preset", claims=("claim-1",), node="node-1"))


async def is_bound_after_hold(plane: Plane) -> None:
    """From now on a volume would be held. A claim has one record: the attempt cannot begin beside a request that may
    have been sent."""
    await plane.client.delete(POD, "preset", namespace="default", grace_seconds=0)
    await plane.create(POD, pod_body(name="p", claims=("claim-1", "claim-2")))
    await select(plane, "node-1")
    await plane.until(lambda: bound(plane), within=60.0)


def test_own_request_is_completed_although_the_volume_would_be_held_now() -> None:
    driver = FakeCsiDriver(CAPACITIES)
    WithoutRecords.errors, WithoutRecords.lost = (Unreachable("response lost"),), True

    async def scenario(plane: Plane) -> None:
        await furnish_preset(plane)
        claim = await ask(plane)
        await plane.pass_time(0.2)
        await plane.client.get(INTENT_RECORD, intent_name(claim.uid), namespace=HOLD_NAMESPACE)
        await is_bound_after_hold(plane)
        assert accounted(driver, await volumes(plane))
        assert driver.made == 1

    run_plane(plane_of(driver, HOLDING), scenario, client=WithoutRecords)


def test_request_of_another_instance_is_completed_although_the_volume_would_be_held_now() -> None:
    """The instance that runs learns of the record when it cannot write its own."""
    driver = FakeCsiDriver(CAPACITIES)

    async def scenario(plane: Plane) -> None:
        await furnish_preset(plane)
        # One write: the record.
        async with alive(plane, provisioner(driver, HOLDING), CrashingClient(plane.client, 1)):
            claim = await ask(plane)
            await plane.pass_time(0.2)
        record = await plane.client.get(INTENT_RECORD, intent_name(claim.uid), namespace=HOLD_NAMESPACE)
        await plane.client.delete(INTENT_RECORD, record.name, namespace=HOLD_NAMESPACE)
        await select(plane, None)
        async with alive(plane, provisioner(driver, HOLDING)):
            await plane.pass_time(1.0)
            body = {"metadata": {"name": record.name, "labels": record.metadata.labels}, "data": record.data}
            await plane.client.create(INTENT_RECORD, body, namespace=HOLD_NAMESPACE)
            await is_bound_after_hold(plane)
            await plane.pass_time(1.0)
        assert accounted(driver, await volumes(plane))
        assert driver.made == 1
        assert await plane.names(CONFIG_MAP) == []

    run_plane(plane_of(driver)[:2], scenario)


def test_record_of_another_instance_is_repeated() -> None:
    """The instance that wrote it is killed during the call, and the one that runs already finds it."""
    driver = FakeCsiDriver(CAPACITIES)
    WithoutRecords.errors = ()

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        async with alive(plane, provisioner(driver)):
            # One write: the record.
            async with alive(plane, provisioner(driver), CrashingClient(plane.client, 1)):
                await ask(plane)
                await plane.until(lambda: bound(plane), within=30.0)
            await plane.pass_time(10.0)
        assert driver.made == 1
        assert await plane.names(CONFIG_MAP) == []

    run_plane(plane_of(driver)[:2], scenario)
