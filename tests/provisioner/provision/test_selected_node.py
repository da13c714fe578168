"""Immediate claims where each node has its own provisioner: exactly one node takes each claim, one that has room."""

from collections.abc import Callable

import pytest

from mooring.api.kinds import CLAIM
from mooring.control.component import Component, Context
from mooring.csi.contract import Code, DriverError
from mooring.provisioner.component import Provisioner
from mooring.provisioner.settings import NodeDeployment, ProvisionerSettings
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.protection import VolumeProtection
from support.csi_drivers.recording import KEY, FakeCsiDriver
from support.partial_control_plane import Build, Plane, run_plane
from support.provisioner.cluster import GI, ask, bound, furnish, immediate_class, selected, volumes

NAMES = ("node-1", "node-2", "node-3")


def fleet(drivers: dict[str, FakeCsiDriver], *, immediate_binding: bool = True) -> list[Build]:
    def instance(name: str) -> Callable[[Context], Component]:
        deployment = NodeDeployment(name, immediate_binding=immediate_binding)
        settings = ProvisionerSettings(node_deployment=deployment, worker_threads=2, strict_topology=True)
        return lambda context: Provisioner(context, drivers[name], settings)

    return [PersistentVolumeController, VolumeProtection, *(instance(name) for name in drivers)]


def drivers_with(*sizes: int) -> dict[str, FakeCsiDriver]:
    return {name: FakeCsiDriver({name: size}, node=name) for name, size in zip(NAMES, sizes, strict=False)}


def test_one_node_takes_the_claim() -> None:
    drivers = drivers_with(10 * GI, 10 * GI, 10 * GI)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        for number in range(4):
            await ask(plane, f"claim-{number}", node=None)
        for number in range(4):
            await plane.until(lambda n=number: bound(plane, f"claim-{n}"), within=200.0)  # type: ignore[misc]
        assert sum(driver.made for driver in drivers.values()) == 4
        assert len(await volumes(plane)) == 4

    run_plane(fleet(drivers), scenario)


def test_node_without_capacity_claims_nothing() -> None:
    drivers = drivers_with(0, GI // 2, 10 * GI)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        await ask(plane, node=None)
        await plane.until(lambda: bound(plane), within=200.0)
        assert [driver.made for driver in drivers.values()] == [0, 0, 1]
        assert await selected(plane) == "node-3"

    run_plane(fleet(drivers), scenario)


def test_no_node_claims_without_capacity() -> None:
    drivers = drivers_with(0, 0)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        await ask(plane, node=None)
        await plane.pass_time(300.0)
        assert await selected(plane) is None
        assert not any("ProvisioningFailed" in text for text in await plane.events_about("claim-1"))

    run_plane(fleet(drivers), scenario)


def test_only_allowed_nodes_offer() -> None:
    drivers = drivers_with(10 * GI, 10 * GI)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class(allowed_topologies=[{KEY: ["node-2"]}]))
        await ask(plane, node=None)
        await plane.until(lambda: bound(plane), within=200.0)
        assert await selected(plane) == "node-2"
        assert drivers["node-1"].asked == []

    run_plane(fleet(drivers), scenario)


def test_with_offers_off_immediate_claims_wait() -> None:
    drivers = drivers_with(10 * GI)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        await ask(plane, node=None)
        await plane.pass_time(300.0)
        assert await selected(plane) is None

    run_plane(fleet(drivers, immediate_binding=False), scenario)


@pytest.mark.req("T17.no-room")
def test_failed_node_claim_is_cleared_and_repeated() -> None:
    drivers = drivers_with(10 * GI)
    driver = drivers["node-1"]
    driver.errors["create"] = [DriverError(Code.RESOURCE_EXHAUSTED, "fragmented")]

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        await ask(plane, node=None)
        await plane.until(lambda: bound(plane), within=300.0)
        assert len(driver.requests) == 2

    run_plane(fleet(drivers), scenario)


def test_node_with_unknown_capacity_is_claimed() -> None:
    drivers = drivers_with(10 * GI)
    drivers["node-1"].errors["capacity"] = [DriverError(Code.UNIMPLEMENTED, "no")] * 10

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        await ask(plane, node=None)
        await plane.until(lambda: bound(plane), within=100.0)

    run_plane(fleet(drivers), scenario)


def test_claim_deleted_before_node_claim_is_dropped() -> None:
    drivers = drivers_with(10 * GI, 10 * GI)

    async def scenario(plane: Plane) -> None:
        await furnish(plane, immediate_class())
        await ask(plane, node=None)
        await plane.client.delete(CLAIM, "claim-1", namespace="default")
        await plane.pass_time(120.0)
        assert all(driver.asked == [] and driver.requests == [] for driver in drivers.values())

    run_plane(fleet(drivers), scenario)
