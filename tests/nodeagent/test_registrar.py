"""Nodes on the books: what is registered, how often it is renewed, and what a machine without power does."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from mooring.api import times
from mooring.api.errors import ServiceUnavailable
from mooring.api.kinds import CSI_NODE, LEASE, NAMESPACE, NODE, Kind
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import V
from mooring.control.component import Component, Context
from mooring.nodeagent import node_objects
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import POWER, NodeTemplate, is_ready, lease_seconds
from support.builders import csi_node_body
from support.partial_control_plane import Plane, flaky, run_plane
from support.partial_control_plane.counting import CountingClient


def agent(context: Context) -> Component:
    return NodeAgent(context, [NodeTemplate("node-1"), NodeTemplate("node-2")])


async def _settled(plane: Plane) -> None:
    await plane.client.create(NAMESPACE, {"metadata": {"name": node_objects.NAMESPACE}})
    await plane.pass_time(30.0)


async def _renewed(plane: Plane, node: str) -> float:
    """Seconds since the node's Lease was renewed."""
    lease = await plane.get(LEASE, node, namespace=node_objects.NAMESPACE)
    assert lease.spec.renew_time is not None
    return plane.clock.now() - times.from_time(lease.spec.renew_time)


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
def test_every_node_has_its_lease_and_its_csi_node(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await _settled(plane)
        for name in ("node-1", "node-2"):
            node = await plane.get(NODE, name)
            lease = await plane.get(LEASE, name, namespace=node_objects.NAMESPACE)
            assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == (name, 40)
            assert [owner.uid for owner in lease.metadata.owner_references] == [node.uid]
            csi_node = await plane.get(CSI_NODE, name)
            assert [owner.uid for owner in csi_node.metadata.owner_references] == [node.uid]
        for _ in range(20):
            await plane.pass_time(7.0)
            assert await _renewed(plane, "node-1") < 20.0

    run_plane([agent], scenario, client=flaky(share))


def test_csi_node_entries_of_other_drivers_are_kept() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.client.delete(NODE, "node-1")
        await plane.client.delete(CSI_NODE, "node-1")
        await plane.create(CSI_NODE, csi_node_body(name="node-1", limits={"csi.example.com": 3}))
        await plane.create(NODE, {"metadata": {"name": "node-1"}, "spec": {"providerID": "mooring://node-1"}})
        await plane.pass_time()
        drivers = (await plane.get(CSI_NODE, "node-1")).spec.drivers
        assert drivers is not None
        assert [driver.name for driver in drivers] == ["csi.example.com"]

    run_plane([agent], scenario)


def test_status_is_reported_rarely() -> None:
    async def scenario(plane: Plane) -> None:
        await _settled(plane)
        seen: set[str] = set()
        for _ in range(90):
            await plane.pass_time(10.0)
            seen.add((await plane.get(NODE, "node-1")).metadata.resource_version)
        assert len(seen) == 4

    run_plane([agent], scenario)


def test_a_node_without_power_renews_nothing_until_it_is_back() -> None:
    async def scenario(plane: Plane) -> None:
        await _settled(plane)
        await plane.client.patch(NODE, "node-1", MergePatch({"metadata": {"annotations": {POWER: "off"}}}))
        await plane.pass_time(120.0)
        assert await _renewed(plane, "node-1") > 100.0
        assert await _renewed(plane, "node-2") < 12.0
        await plane.client.patch(NODE, "node-1", MergePatch({"metadata": {"annotations": {POWER: None}}}))
        await plane.pass_time(1.0)
        assert await _renewed(plane, "node-1") < 2.0

    run_plane([agent], scenario)


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param(3, 40, id="few"),
        pytest.param(250, 40, id="as many as there are renewals"),
        pytest.param(5000, 800, id="many renew less often"),
    ],
)
def test_very_many_nodes_renew_less_often(nodes: int, want: int) -> None:
    lasts = lease_seconds(nodes, pace=node_objects.RENEWALS_PER_SECOND)
    assert lasts == want
    assert nodes * node_objects.RENEWALS / lasts <= node_objects.RENEWALS_PER_SECOND


class LateCsiNodes(CountingClient):
    """CSINodes are refused for a while."""

    refused = 3

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        if kind is CSI_NODE and self.refused:
            self.refused -= 1
            assert not is_ready(await self.get(NODE, body["metadata"]["name"]))
            raise ServiceUnavailable("not now")
        return await super().create(kind, body, namespace=namespace)


def test_a_node_is_not_ready_before_its_csi_node_exists() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.pass_time(10.0)
        assert is_ready(await plane.get(NODE, "node-1"))
        assert await plane.names(CSI_NODE) == ["node-1", "node-2"]

    run_plane([agent], scenario, client=partial(LateCsiNodes, counted=Counter()))
