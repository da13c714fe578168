"""Nodes that fall silent and come back, with nodes that can be switched off, against the real API server."""

import pytest

from builders import Body, pod_body
from mooring.api import keys
from mooring.api.errors import Conflict
from mooring.api.kinds import NAMESPACE, NODE, POD, Kind
from mooring.api.patches.contract import MergePatch, Patch
from mooring.api.views.node import Node
from mooring.client.contract import V
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.heartbeat import POWER
from mooring.nodeagent.rows import NodeRow, is_ready
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.workloads.node_lifecycle import NodeLifecycleController
from mooring.workloads.taint_eviction import TaintEvictionController
from partial_plane import Plane, flaky, run_plane


def nodes(*names: str) -> list[NodeRow]:
    return [NodeRow(name, zone="a") for name in names]


def agent(context: Context) -> Component:
    return NodeAgent(context, nodes("node-1", "node-2", "node-3"))


PARTS = [agent, NodeLifecycleController, TaintEvictionController]


async def _begin(plane: Plane) -> None:
    await plane.client.create(NAMESPACE, {"metadata": {"name": "kube-node-lease"}})
    await plane.pass_time(30.0)


async def _power(plane: Plane, node: str, value: str | None) -> None:
    await plane.client.patch(NODE, node, MergePatch({"metadata": {"annotations": {POWER: value}}}))


def _taints(node: Node) -> list[str]:
    return [f"{taint.key}:{taint.effect}" for taint in node.spec.taints]


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.2, id="with lost answers")])
def test_pods_of_a_silent_node_are_sent_away_in_time_and_the_node_comes_back(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        patient: Body = {"key": keys.UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
        await plane.create(POD, pod_body(name="usual", node="node-1"))
        await plane.create(POD, pod_body(name="patient", node="node-1", tolerations=[patient]))
        await plane.create(POD, pod_body(name="elsewhere", node="node-2"))
        await plane.pass_time(5.0)
        await _power(plane, "node-1", "off")
        await plane.pass_time(40.0)
        assert is_ready(await plane.get(NODE, "node-1"))
        await plane.pass_time(60.0)
        lost = await plane.get(NODE, "node-1")
        assert {c.type: c.status for c in lost.status.conditions}["Ready"] == "Unknown"
        assert _taints(lost) == [f"{keys.UNREACHABLE}:NoSchedule", f"{keys.UNREACHABLE}:NoExecute"]
        usual = await plane.get(POD, "usual")
        assert (usual.ready, usual.deleting) == (False, False)
        await plane.pass_time(300.0)
        usual = await plane.get(POD, "usual")
        assert usual.deleting
        assert "DisruptionTarget" in {c.type for c in usual.status.conditions}
        assert "TaintManagerEviction: Marking for deletion Pod default/usual" in await plane.said("usual")
        assert not (await plane.get(POD, "patient")).deleting
        assert (await plane.get(POD, "elsewhere")).ready

        await _power(plane, "node-1", None)
        await plane.pass_time(30.0)
        back = await plane.get(NODE, "node-1")
        assert is_ready(back)
        assert _taints(back) == []
        assert sorted(await plane.names(POD)) == ["elsewhere", "patient"]
        assert (await plane.get(POD, "patient")).ready

    run_plane(PARTS, scenario, client=flaky(share))


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        await plane.create(POD, pod_body(node="node-1"))
        await _power(plane, "node-1", "off")
        await plane.pass_time(200.0)
        await _power(plane, "node-1", None)
        await plane.pass_time(600.0)
        kept = await plane.get(POD, "pod-1")
        assert (kept.ready, kept.deleting) == (True, False)
        assert "TaintManagerEviction: Cancelling deletion of Pod default/pod-1" in await plane.said("pod-1")

    run_plane(PARTS, scenario)


def test_nothing_is_moved_when_no_node_is_heard_of() -> None:
    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        await plane.create(POD, pod_body(node="node-1"))
        for name in ("node-1", "node-2", "node-3"):
            await _power(plane, name, "off")
        await plane.pass_time(3600.0)
        assert not (await plane.get(POD, "pod-1")).deleting
        for name in ("node-1", "node-2", "node-3"):
            assert _taints(await plane.get(NODE, name)) == [f"{keys.UNREACHABLE}:NoSchedule"]

    run_plane(PARTS, scenario)


def test_a_taint_that_somebody_sets_sends_pods_away_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        tolerant = [{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
        await plane.create(POD, pod_body(name="intolerant", node="node-1"))
        await plane.create(POD, pod_body(name="tolerant", node="node-1", tolerations=tolerant))
        await plane.pass_time(5.0)
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await plane.client.patch(NODE, "node-1", MergePatch({"spec": {"taints": [taint]}}))
        await plane.pass_time(5.0)
        assert await plane.names(POD) == ["tolerant"]
        await plane.pass_time(60.0)
        assert await plane.names(POD) == []

    run_plane(PARTS, scenario)


def test_a_cordoned_node_is_tainted() -> None:
    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        await plane.client.patch(NODE, "node-1", MergePatch({"spec": {"unschedulable": True}}))
        await plane.pass_time(1.0)
        assert _taints(await plane.get(NODE, "node-1")) == [f"{keys.UNSCHEDULABLE}:NoSchedule"]
        await plane.client.patch(NODE, "node-1", MergePatch({"spec": {"unschedulable": None}}))
        await plane.pass_time(1.0)
        assert _taints(await plane.get(NODE, "node-1")) == []

    run_plane(PARTS, scenario)


class RefusesPodsOnce(LocalClient):
    """The first report about a pod is refused, as if the controller had died between the node and its pods."""

    refused = False

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        if kind is POD and "Ready" in str(patch.body) and "False" in str(patch.body) and not self.refused:
            self.refused = True
            raise Conflict("not now")
        return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)


def test_pods_are_declared_not_ready_also_after_a_failure_between_node_and_pods() -> None:
    clients: list[RefusesPodsOnce] = []

    def connect(server: ApiServer, user: User) -> RefusesPodsOnce:
        clients.append(RefusesPodsOnce(server, user))
        return clients[-1]

    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        await plane.create(POD, pod_body(name="usual", node="node-1"))
        await plane.pass_time(5.0)
        await _power(plane, "node-1", "off")
        await plane.pass_time(100.0)
        assert any(client.refused for client in clients), "nothing was refused"
        assert not (await plane.get(POD, "usual")).ready

    run_plane(PARTS, scenario, client=connect)
