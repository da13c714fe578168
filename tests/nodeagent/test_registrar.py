"""Nodes on the books: what is registered, how often it is renewed, and what a machine without power does."""

import pytest

from builders import csi_node_body
from mooring.api import timestamps
from mooring.api.kinds import CSI_NODE, LEASE, NAMESPACE, NODE
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.nodeagent import heartbeat
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.heartbeat import POWER, lease_seconds
from mooring.nodeagent.rows import NodeRow
from partial_plane import Plane, flaky, run_plane


def agent(context: Context) -> Component:
    return NodeAgent(context, [NodeRow("node-1"), NodeRow("node-2")])


async def _settled(plane: Plane) -> None:
    await plane.client.create(NAMESPACE, {"metadata": {"name": heartbeat.NAMESPACE}})
    await plane.pass_time(30.0)


async def _renewed(plane: Plane, node: str) -> float:
    """Seconds since the node's Lease was renewed."""
    lease = await plane.get(LEASE, node, namespace=heartbeat.NAMESPACE)
    assert lease.spec.renew_time is not None
    return plane.clock.now() - timestamps.from_time(lease.spec.renew_time)


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
def test_every_node_has_its_lease_and_its_csi_node(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await _settled(plane)
        for name in ("node-1", "node-2"):
            node = await plane.get(NODE, name)
            lease = await plane.get(LEASE, name, namespace=heartbeat.NAMESPACE)
            assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == (name, 40)
            assert [owner.uid for owner in lease.metadata.owner_references] == [node.uid]
            csi_node = await plane.get(CSI_NODE, name)
            assert [owner.uid for owner in csi_node.metadata.owner_references] == [node.uid]
        for _ in range(20):
            await plane.pass_time(7.0)
            assert await _renewed(plane, "node-1") < 20.0

    run_plane([agent], scenario, client=flaky(share))


def test_drivers_that_somebody_listed_stay_listed() -> None:
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
    ("nodes", "wanted"),
    [
        pytest.param(3, 40, id="few"),
        pytest.param(250, 40, id="as many as there are renewals"),
        pytest.param(5000, 800, id="many renew less often"),
    ],
)
def test_very_many_nodes_renew_less_often(nodes: int, wanted: int) -> None:
    lasts = lease_seconds(nodes, pace=heartbeat.RENEWALS_PER_SECOND)
    assert lasts == wanted
    assert nodes * heartbeat.RENEWALS / lasts <= heartbeat.RENEWALS_PER_SECOND
