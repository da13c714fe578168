"""Nodes that fall silent and come back, with nodes that can be switched off, against the real API server.

Pods whose node is gone.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from mooring.api import well_known
from mooring.api.errors import Conflict
from mooring.api.kinds import LEASE, NAMESPACE, NODE, POD, Kind
from mooring.api.patches.contract import MergePatch, Patch
from mooring.api.views.core import Node
from mooring.client.contract import V, WatchEvent
from mooring.cluster.local_client import LocalClient
from mooring.control.component import Component, Context
from mooring.controllers.node_controllers import (
    QUARANTINE_SECONDS,
    NodeLifecycleController,
    PodGarbageCollector,
    TaintEvictionController,
)
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import POWER, NodeTemplate, is_ready
from mooring.server.api import ApiServer
from mooring.server.contract import User
from support.builders import Body, node_body, pod_body
from support.partial_control_plane import Plane, flaky, run_plane


def nodes(*names: str) -> list[NodeTemplate]:
    return [NodeTemplate(name, zone="a") for name in names]


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
        patient: Body = {"key": well_known.UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
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
        assert _taints(lost) == [f"{well_known.UNREACHABLE}:NoSchedule", f"{well_known.UNREACHABLE}:NoExecute"]
        usual = await plane.get(POD, "usual")
        assert (usual.ready, usual.deleting) == (False, False)
        await plane.pass_time(300.0)
        usual = await plane.get(POD, "usual")
        assert usual.deleting
        assert "DisruptionTarget" in {c.type for c in usual.status.conditions}
        assert "TaintManagerEviction: Marking for deletion Pod default/usual" in await plane.events_about("usual")
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
        assert "TaintManagerEviction: Cancelling deletion of Pod default/pod-1" in await plane.events_about("pod-1")

    run_plane(PARTS, scenario)


def test_nothing_is_evicted_when_no_node_is_healthy() -> None:
    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        await plane.create(POD, pod_body(node="node-1"))
        for name in ("node-1", "node-2", "node-3"):
            await _power(plane, name, "off")
        await plane.pass_time(3600.0)
        assert not (await plane.get(POD, "pod-1")).deleting
        for name in ("node-1", "node-2", "node-3"):
            assert _taints(await plane.get(NODE, name)) == [f"{well_known.UNREACHABLE}:NoSchedule"]

    run_plane(PARTS, scenario)


def test_manual_no_execute_taint_evicts_pods_at_once() -> None:
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
        assert _taints(await plane.get(NODE, "node-1")) == [f"{well_known.UNSCHEDULABLE}:NoSchedule"]
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


class LosesLeases(LocalClient):
    """Its watches of Leases deliver nothing more while `deaf`."""

    deaf = False

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        changes = super().watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        async with aclosing(changes):
            async for change in changes:
                if kind is not LEASE or not LosesLeases.deaf:
                    yield change


def test_node_is_not_judged_by_an_informer_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(plane: Plane) -> None:
        await _begin(plane)
        monkeypatch.setattr(LosesLeases, "deaf", True)
        await plane.pass_time(120.0)
        assert is_ready(await plane.get(NODE, "node-1"))
        monkeypatch.setattr(LosesLeases, "deaf", False)
        await plane.pass_time(20.0)
        await _power(plane, "node-1", "off")
        await plane.pass_time(100.0)
        assert [is_ready(await plane.get(NODE, name)) for name in ("node-1", "node-2")] == [False, True]

    run_plane(PARTS, scenario, client=LosesLeases)


COLLECTOR = [PodGarbageCollector]
A_LITTLE = 5.0


def test_pods_go_some_time_after_their_node() -> None:
    async def scenario(plane: Plane) -> None:
        for name in ("node-1", "node-2"):
            await plane.create(NODE, node_body(name=name))
            await plane.create(POD, pod_body(name=f"on-{name}", node=name))
        await plane.create(POD, pod_body(name="unplaced"))
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(QUARANTINE_SECONDS - A_LITTLE)
        assert await plane.names(POD) == ["on-node-1", "on-node-2", "unplaced"]
        await plane.pass_time(2 * A_LITTLE)
        assert await plane.names(POD) == ["on-node-2", "unplaced"]

    run_plane(COLLECTOR, scenario)


def test_pod_that_was_being_deleted_goes_too() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NODE, node_body())
        await plane.create(POD, pod_body(node="node-1"))
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(2 * QUARANTINE_SECONDS)
        assert await plane.names(POD) == []

    run_plane(COLLECTOR, scenario)


def test_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NODE, node_body())
        await plane.create(POD, pod_body(node="node-1"))
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(A_LITTLE)
        await plane.create(NODE, node_body())
        await plane.pass_time(3600.0)
        assert await plane.names(POD) == ["pod-1"]

    run_plane(COLLECTOR, scenario)


def test_pod_that_names_a_node_that_never_was_goes() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod_body(node="nowhere"))
        await plane.pass_time(2 * QUARANTINE_SECONDS)
        assert await plane.names(POD) == []

    run_plane(COLLECTOR, scenario, client=flaky(0.4))
