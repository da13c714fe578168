"""Queueing hints: an event requeues the pods that it may make schedulable, and no others."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import pytest
import structlog.testing

from mooring.api import well_known
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.cluster.bootstrap import Layout
from support.builders import (
    Body,
    capacity_body,
    claim_body,
    claim_ref,
    class_body,
    driver_body,
    node_body,
    pod_body,
    volume_body,
)
from support.builders.drivers import DRIVER
from support.scenarios import simulated
from support.simulation.cluster import SimulatedCluster, simulate
from support.simulation.faults import FaultPlan

Change = Callable[[SimulatedCluster], Awaitable[None]]

#: Longer than the backoff after a few attempts, shorter than the five minutes in the unschedulable queue.
SOON = 12.0
#: A pod that waits for a node that is never added.
BYSTANDER = pod_body(name="bystander", node_selector={"disk": "none"})
LATE = class_body(name="late", provisioner=DRIVER)
MADE = class_body(name="made", provisioner="local.standins.mooring.dev")


def create(*bodies: Body) -> Change:
    async def change(cluster: SimulatedCluster) -> None:
        await simulated.create(cluster, *bodies)

    return change


def patch(kind: Kind[ApiObject], name: str, body: Body, *, namespace: str = "") -> Change:
    async def change(cluster: SimulatedCluster) -> None:
        await cluster.client.patch(kind, name, MergePatch(body), namespace=namespace)

    return change


class Case(NamedTuple):
    """The initial objects, and the change."""

    first: Sequence[Body]
    change: Change
    before: Sequence[Change] = ()
    nodes: int = 1
    #: Whether the event could also make the unrelated pod schedulable.
    about_nodes: bool = False
    #: The cluster has no provisioner for the class: only the selected node is visible.
    chosen_only: bool = False


MINE = claim_body(storage_class="late")
DRIVEN = volume_body(storage_class="late", source={"csi": {"driver": DRIVER, "volumeHandle": "1"}})
FULL = {"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 0}}]}}
RAISED = {"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 5}}]}}

CASES = {
    "claim created": Case([LATE, DRIVEN], create(MINE)),
    "selected node cleared": Case(
        [LATE, DRIVEN, claim_body(storage_class="late", selected_node="node-2")],
        patch(CLAIM, "claim-1", {"metadata": {"annotations": {well_known.SELECTED_NODE: None}}}, namespace="default"),
        before=[patch(NODE, "node-2", {"spec": {"unschedulable": True}})],
        nodes=2,
    ),
    "volume created": Case([class_body(name="late"), MINE], create(DRIVEN)),
    "volume released": Case(
        [
            class_body(name="late"),
            volume_body(storage_class="late", node="node-1", claim_ref=claim_ref(name="other")),
            MINE,
        ],
        patch(VOLUME, "volume-1", {"spec": {"claimRef": None}}),
    ),
    "class created": Case([claim_body(storage_class="made")], create(MADE)),
    "node created": Case(
        [LATE, DRIVEN, MINE],
        create(node_body(name="new-node")),
        before=[patch(NODE, "node-1", {"spec": {"unschedulable": True}})],
        about_nodes=True,
    ),
    "node uncordoned": Case(
        [LATE, DRIVEN, MINE],
        patch(NODE, "node-1", {"spec": {"unschedulable": False}}),
        before=[patch(NODE, "node-1", {"spec": {"unschedulable": True}})],
        about_nodes=True,
    ),
    "attach limit raised": Case(
        [LATE, DRIVEN, MINE], patch(CSI_NODE, "node-1", RAISED), before=[patch(CSI_NODE, "node-1", FULL)]
    ),
    "driver stops tracking capacity": Case(
        [driver_body(tracks_capacity=True), LATE, MINE],
        patch(CSI_DRIVER, DRIVER, {"spec": {"storageCapacity": False}}),
        chosen_only=True,
    ),
    "capacity published": Case(
        [driver_body(tracks_capacity=True), LATE, MINE],
        create(capacity_body(storage_class="late", topology={}, capacity="100Gi")),
        chosen_only=True,
    ),
}


@pytest.mark.req("T26.exactly")
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
@pytest.mark.parametrize("latency", [0.0, 0.05])
def test_event_requeues_only_the_pods_it_may_help(case: Case, latency: float) -> None:
    async def scenario(cluster: SimulatedCluster) -> int:
        for change in case.before:
            await change(cluster)
        await simulated.create(cluster, *case.first)
        await cluster.clock.sleep(1.0)
        await simulated.create(cluster, BYSTANDER, pod_body(claims=["claim-1"]))
        await cluster.clock.sleep(60.0)
        assert not await has_node(cluster, case), "the pod is already scheduled"
        tries = len(attempts(logs))
        await case.change(cluster)
        assert await cluster.until(lambda: has_node(cluster, case), within=SOON)
        return len(attempts(logs)) - tries

    with structlog.testing.capture_logs() as logs:
        more = simulate(scenario, layout=Layout(nodes=case.nodes, local_volumes=0), plan=FaultPlan(latency=latency))
    assert more == 0 or case.about_nodes, "the bystander was requeued without need"


async def has_node(cluster: SimulatedCluster, case: Case) -> bool:
    if case.chosen_only:
        return (await cluster.client.get(CLAIM, "claim-1", namespace="default")).selected_node is not None
    return (await cluster.client.get(POD, "pod-1", namespace="default")).spec.node_name != ""


def attempts(logs: Sequence[object]) -> list[object]:
    """The logged scheduling attempts of the unrelated pod."""
    events = [entry for entry in logs if isinstance(entry, dict)]
    return [
        entry for entry in events if entry.get("pod") == "default/bystander" and entry["event"] == "pod unschedulable"
    ]
