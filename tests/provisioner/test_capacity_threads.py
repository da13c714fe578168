"""How many questions about room are asked at once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

import pytest

from builders import node_body
from mooring.api.kinds import CSI_NODE, NODE, STORAGE_CAPACITY, STORAGE_CLASS
from mooring.csi.contract import Capacity, Topology, VolumeCapability
from partial_plane import Plane, run_plane
from provisioner.paper_driver import KEY, PaperDriver
from provisioner.world import CAPACITY, GI, csi_node, plane_of, waiting_class


class CapacityQuestion(TypedDict):
    capabilities: Sequence[VolumeCapability]
    parameters: Mapping[str, str]
    accessible_from: Topology | None


@pytest.mark.parametrize("threads", [1, 4])
def test_so_many_questions_are_asked_at_once_and_no_more(threads: int) -> None:
    """A driver that takes a second for each: how long all of them take is what the threads are for."""
    places = [f"node-{number}" for number in range(1, 9)]

    class Slow(PaperDriver):
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
