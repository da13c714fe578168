"""The node agent against the real API server in memory, in virtual time."""

from functools import partial

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.control.component import Component, Context
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import NodeTemplate, is_ready, registration
from mooring.nodeagent.pod_worker import EVENT_INTERVAL_SECONDS
from support.builders import claim_body, claim_ref, class_body, pod_body, volume_body
from support.partial_control_plane import Build, Connect, Plane, flaky, run_plane

ROWS = (
    NodeTemplate("node-1", zone="a", capacity={"cpu": "2", "memory": "1Gi", "pods": "10"}),
    NodeTemplate("node-2", zone="b"),
)

pod = partial(pod_body, node="node-1")


def agent(*rows: NodeTemplate) -> list[Build]:
    def build(context: Context) -> Component:
        return NodeAgent(context, rows or ROWS)

    return [build]


async def _ready(plane: Plane) -> bool:
    nodes = (await plane.client.list(NODE)).items
    return len(nodes) == len(ROWS) and all(is_ready(node) for node in nodes)


async def _pod(plane: Plane, name: str = "pod-1") -> Pod:
    return await plane.get(POD, name)


async def _bind(plane: Plane, *, node: str) -> None:
    """The claim and a volume of that node as the PV controller leaves them."""
    claim = await plane.get(CLAIM, "claim-1")
    await plane.create(VOLUME, volume_body(node=node, claim_ref=claim_ref(uid=claim.uid)))
    bound = {
        "metadata": {"annotations": {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}},
        "spec": {"volumeName": "volume-1"},
    }
    await plane.client.patch(CLAIM, "claim-1", MergePatch(bound), namespace="default")
    phase = MergePatch({"status": {"phase": "Bound"}})
    await plane.client.patch(CLAIM, "claim-1", phase, namespace="default", subresource="status")


@pytest.mark.parametrize(
    "client", [pytest.param(None, id="on a good day"), pytest.param(flaky(0.4), id="with lost answers")]
)
def test_nodes_register_and_pods_run(client: Connect | None) -> None:
    async def scenario(plane: Plane) -> None:
        await plane.until(lambda: _ready(plane))
        assert (await plane.get(NODE, "node-1")).status.allocatable["cpu"] == "2"
        for number in range(8):
            await plane.create(POD, pod(name=f"pod-{number}"))
        await plane.pass_time()
        pods = (await plane.client.list(POD)).items
        assert [(one.status.phase, one.ready) for one in pods] == [("Running", True)] * 8

    if client is None:
        run_plane(agent(), scenario)
    else:
        run_plane(agent(), scenario, client=client)


def test_conditions_written_by_others_survive() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod(node="late"))
        theirs = {"status": {"conditions": [{"type": "example.com/checked", "status": "True"}]}}
        await plane.client.patch(POD, "pod-1", MergePatch(theirs), namespace="default", subresource="status")
        await plane.create(NODE, registration(NodeTemplate("late")))
        await plane.pass_time(1.0)
        conditions = {one.type for one in (await _pod(plane)).status.conditions}
        assert {"example.com/checked", "Ready", "PodScheduled"} <= conditions

    run_plane(agent(), scenario)


def test_deleted_pod_is_let_go_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod())
        await plane.pass_time(1.0)
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time(1.0)
        assert await plane.names(POD) == []

    run_plane(agent(), scenario)


def test_pod_held_by_a_finalizer_is_let_go_once() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod(finalizers=["example.com/hold"]))
        await plane.pass_time(1.0)
        await plane.client.delete(POD, "pod-1", namespace="default")
        await plane.pass_time(1.0)
        let_go = await _pod(plane)
        assert let_go.metadata.deletion_grace_period_seconds == 0
        await plane.pass_time(3600.0)
        assert await _pod(plane) == let_go

    run_plane(agent(), scenario)


def test_pods_that_arrive_together_are_not_all_taken() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.until(lambda: _ready(plane))
        for number in range(4):
            await plane.create(POD, pod(name=f"pod-{number}", requests={"cpu": "1"}))
        await plane.pass_time(1.0)
        pods = (await plane.client.list(POD)).items
        assert sorted(one.status.phase for one in pods) == ["Failed", "Failed", "Running", "Running"]
        refused = next(one for one in pods if one.status.phase == "Failed")
        assert refused.status.reason == "OutOfcpu"
        assert refused.status.message.startswith("Pod was rejected: Node didn't have enough resource: cpu")

    run_plane(agent(), scenario)


def test_pod_that_waits_for_its_volume_keeps_its_place() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.until(lambda: _ready(plane))
        await plane.create(CLAIM, claim_body())
        await plane.create(POD, pod(claims=["claim-1"], requests={"cpu": "2"}))
        await plane.pass_time(1.0)
        await plane.create(POD, pod(name="late", requests={"cpu": "1"}))
        await plane.pass_time(1.0)
        assert (await _pod(plane, "late")).status.reason == "OutOfcpu"
        await _bind(plane, node="node-1")
        await plane.pass_time(1.0)
        assert (await _pod(plane)).status.phase == "Running"

    run_plane(agent(), scenario)


@pytest.mark.req("T34.preset")
def test_preset_node_event_explains_unbound_delayed_claim() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, class_body())
        await plane.create(CLAIM, claim_body())
        await plane.create(POD, pod(claims=["claim-1"]))
        await plane.pass_time(10 * EVENT_INTERVAL_SECONDS)
        assert (await _pod(plane)).status.phase == "Pending"
        [said] = await plane.events_about("pod-1")
        assert said.startswith("FailedMount: ")
        assert said.endswith(
            "PVC is not bound: its class local binds it when a pod that uses it is scheduled, and this pod's nodeName "
            "was set without the scheduler"
        )

    run_plane(agent(), scenario)


@pytest.mark.req("T8.refused")
def test_pod_with_unreachable_volume_does_not_run() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await _bind(plane, node="node-2")
        await plane.create(POD, pod(claims=["claim-1"]))
        await plane.pass_time()
        assert (await _pod(plane)).status.phase == "Pending"
        [said] = await plane.events_about("pod-1")
        assert said == (
            'FailedMount: MountVolume.NodeAffinity check failed for volume "volume-1" : no matching NodeSelectorTerms'
        )
        labels = {"metadata": {"labels": {well_known.HOSTNAME: "node-2"}}}
        await plane.client.patch(NODE, "node-1", MergePatch(labels))
        await plane.pass_time(1.0)
        assert (await _pod(plane)).status.phase == "Running"

    run_plane(agent(), scenario)


def test_pod_starts_as_soon_as_its_volume_is_there() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(CLAIM, claim_body())
        await _bind(plane, node="node-1")
        forgotten = MergePatch({"spec": {"claimRef": None}})
        await plane.client.patch(VOLUME, "volume-1", forgotten)
        await plane.create(POD, pod(claims=["claim-1"]))
        await plane.pass_time(1.0)
        assert (await _pod(plane)).status.phase == "Pending"
        claim = await plane.get(CLAIM, "claim-1")
        remembered = MergePatch({"spec": {"claimRef": claim_ref(uid=claim.uid)}})
        await plane.client.patch(VOLUME, "volume-1", remembered)
        await plane.pass_time(1.0)
        assert (await _pod(plane)).status.phase == "Running"

    run_plane(agent(), scenario)


def test_deleted_node_does_not_come_back_by_itself() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.until(lambda: _ready(plane))
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time()
        assert await plane.names(NODE) == ["node-2"]

    run_plane(agent(), scenario)


def test_pods_on_nodes_of_others_are_left_alone() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(NODE, {"metadata": {"name": "theirs"}})
        await plane.create(POD, pod(node="theirs"))
        await plane.pass_time()
        assert (await _pod(plane)).status.phase == "Pending"
        assert not is_ready(await plane.get(NODE, "theirs"))

    run_plane(agent(), scenario)
