"""How many GetCapacity calls the publisher makes, and how many at once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

import pytest
from structlog.testing import capture_logs

from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.control.workqueue import BUG
from mooring.csi.contract import Capacity, Topology, VolumeCapability
from support.builders import node_body
from support.csi_drivers.recording import KEY, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import CAPACITY, GI, csi_node, furnish, plane_of, waiting_class


class CapacityQuestion(TypedDict):
    capabilities: Sequence[VolumeCapability]
    parameters: Mapping[str, str]
    accessible_from: Topology | None


@pytest.mark.parametrize("threads", [1, 4])
def test_so_many_questions_are_asked_at_once_and_no_more(threads: int) -> None:
    """A driver that takes a second for each: how long all of them take is what the threads are for."""
    places = [f"node-{number}" for number in range(1, 9)]

    class Slow(FakeCsiDriver):
        now = most = 0

        async def get_capacity(self, **asked: Unpack[CapacityQuestion]) -> Capacity:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(1.0)
            self.now -= 1
            return await super().get_capacity(**asked)

    driver = Slow(dict.fromkeys(places, GI))

    async def scenario(plane: Plane) -> None:
        for name in places:
            await plane.client.create(NODE, node_body(name=name, labels={KEY: name}))
            await plane.client.create(CSI_NODE, csi_node(name))
        await plane.client.create(STORAGE_CLASS, waiting_class())
        began = plane.clock.monotonic()

        async def all_there() -> bool:
            return len((await plane.client.list(STORAGE_CAPACITY)).items) == len(places)

        await plane.until(all_there, within=20.0)
        assert plane.clock.monotonic() - began == pytest.approx(len(places) / threads, abs=1.0)
        assert driver.most == threads

    run_plane(plane_of(driver, capacity=replace(CAPACITY, threads=threads)), scenario)


@pytest.mark.req("C23.one-call")
@pytest.mark.parametrize("threads", [1, 4])
def test_classes_with_equal_parameters_share_a_call(threads: int) -> None:
    driver = FakeCsiDriver({"node-1": GI, "node-2": 2 * GI})
    classes = [
        waiting_class(name="fast", parameters={"type": "ssd"}),
        waiting_class(name="also-fast", parameters={"type": "ssd"}),
        waiting_class(name="slow", parameters={"type": "hdd"}),
    ]

    async def scenario(plane: Plane) -> None:
        await furnish(plane, *classes)

        async def published() -> bool:
            return len((await plane.client.list(STORAGE_CAPACITY)).items) == 6

        await plane.until(published, within=20.0)
        driver.asked.clear()
        await plane.pass_time(CAPACITY.poll_interval)
        asked = sorted((parameters["type"], segment[KEY]) for parameters, segment in driver.asked)
        assert asked == [("hdd", "node-1"), ("hdd", "node-2"), ("ssd", "node-1"), ("ssd", "node-2")]

    run_plane(plane_of(driver, capacity=replace(CAPACITY, threads=threads)), scenario)


def test_workers_survive_an_unexpected_error_of_a_shared_call() -> None:
    class Broken(FakeCsiDriver):
        calls = 0

        async def get_capacity(self, **asked: Unpack[CapacityQuestion]) -> Capacity:
            self.calls += 1
            await asyncio.sleep(1.0)
            if self.calls == 1:
                raise RuntimeError("a bug")
            return await super().get_capacity(**asked)

    driver = Broken({"node-1": GI, "node-2": GI})
    classes = [waiting_class(name=name, parameters={"type": "ssd"}) for name in ("fast", "also-fast")]

    async def scenario(plane: Plane) -> None:
        await furnish(plane, *classes)

        async def published() -> bool:
            return len((await plane.client.list(STORAGE_CAPACITY)).items) == 4

        await plane.until(published, within=20.0)

    with capture_logs() as logs:
        run_plane(plane_of(driver, capacity=replace(CAPACITY, threads=2)), scenario)
    assert sum(line["event"] == BUG for line in logs) == 2
