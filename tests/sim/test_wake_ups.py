"""A pod that waits is tried again as soon as something changes that may help it; others that wait are left alone."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import pytest
import structlog.testing

from builders import (
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
from builders.drivers import DRIVER
from mooring.api import keys
from mooring.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, NODE, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.cluster.bootstrap import Layout
from mooring.sim.faults import FaultPlan
from mooring.sim.world import World, simulate
from scenarios import in_world

Change = Callable[[World], Awaitable[None]]

#: Longer than the backoff after a few attempts, shorter than the five minutes after which everybody is tried again.
SOON = 12.0
#: Waits for a node that never comes, whatever happens to volumes.
BYSTANDER = pod_body(name="bystander", node_selector={"disk": "none"})
LATE = class_body(name="late", provisioner=DRIVER)
MADE = class_body(name="made", provisioner="local.standins.mooring.dev")


def create(*bodies: Body) -> Change:
    async def change(world: World) -> None:
        await in_world.create(world, *bodies)

    return change


def patch(kind: Kind[ApiObject], name: str, body: Body, *, namespace: str = "") -> Change:
    async def change(world: World) -> None:
        await world.client.patch(kind, name, MergePatch(body), namespace=namespace)

    return change


class Case(NamedTuple):
    """What is there first, and what changes then."""

    first: Sequence[Body]
    change: Change
    before: Sequence[Change] = ()
    nodes: int = 1
    #: The node could be the one that the bystander waits for.
    about_nodes: bool = False
    #: Volumes are made by nobody in this world: that a node was chosen is all there is to see.
    chosen_only: bool = False


MINE = claim_body(storage_class="late")
DRIVEN = volume_body(storage_class="late", source={"csi": {"driver": DRIVER, "volumeHandle": "1"}})
FULL = {"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 0}}]}}
ROOMY = {"spec": {"drivers": [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": 5}}]}}

CASES = {
    "a claim comes": Case([LATE, DRIVEN], create(MINE)),
    "a claim is freed from a node that is closed": Case(
        [LATE, DRIVEN, claim_body(storage_class="late", selected_node="node-2")],
        patch(CLAIM, "claim-1", {"metadata": {"annotations": {keys.SELECTED_NODE: None}}}, namespace="default"),
        before=[patch(NODE, "node-2", {"spec": {"unschedulable": True}})],
        nodes=2,
    ),
    "a volume comes": Case([class_body(name="late"), MINE], create(DRIVEN)),
    "a volume is given up": Case(
        [
            class_body(name="late"),
            volume_body(storage_class="late", node="node-1", claim_ref=claim_ref(name="other")),
            MINE,
        ],
        patch(VOLUME, "volume-1", {"spec": {"claimRef": None}}),
    ),
    "a class comes": Case([claim_body(storage_class="made")], create(MADE)),
    "a node comes": Case(
        [LATE, DRIVEN, MINE],
        create(node_body(name="new-node")),
        before=[patch(NODE, "node-1", {"spec": {"unschedulable": True}})],
        about_nodes=True,
    ),
    "a node is open again": Case(
        [LATE, DRIVEN, MINE],
        patch(NODE, "node-1", {"spec": {"unschedulable": False}}),
        before=[patch(NODE, "node-1", {"spec": {"unschedulable": True}})],
        about_nodes=True,
    ),
    "a node takes more volumes": Case(
        [LATE, DRIVEN, MINE], patch(CSI_NODE, "node-1", ROOMY), before=[patch(CSI_NODE, "node-1", FULL)]
    ),
    "a driver does not track its capacity any more": Case(
        [driver_body(tracks_capacity=True), LATE, MINE],
        patch(CSI_DRIVER, DRIVER, {"spec": {"storageCapacity": False}}),
        chosen_only=True,
    ),
    "a driver reports room": Case(
        [driver_body(tracks_capacity=True), LATE, MINE],
        create(capacity_body(storage_class="late", topology={}, capacity="100Gi")),
        chosen_only=True,
    ),
}


@pytest.mark.req("T26")
@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
@pytest.mark.parametrize("latency", [0.0, 0.05])
def test_what_may_help_a_pod_wakes_it_and_nobody_else(case: Case, latency: float) -> None:
    async def scenario(world: World) -> int:
        for change in case.before:
            await change(world)
        await in_world.create(world, *case.first)
        await world.clock.sleep(1.0)
        await in_world.create(world, BYSTANDER, pod_body(claims=["claim-1"]))
        await world.clock.sleep(60.0)
        assert not await has_node(world, case), "it had nothing to wait for"
        tries = len(attempts(logs))
        await case.change(world)
        assert await world.until(lambda: has_node(world, case), within=SOON)
        return len(attempts(logs)) - tries

    with structlog.testing.capture_logs() as logs:
        more = simulate(scenario, layout=Layout(nodes=case.nodes, local_volumes=0), plan=FaultPlan(latency=latency))
    assert more == 0 or case.about_nodes, "the bystander was woken for nothing"


async def has_node(world: World, case: Case) -> bool:
    if case.chosen_only:
        return (await world.client.get(CLAIM, "claim-1", namespace="default")).selected_node is not None
    return (await world.client.get(POD, "pod-1", namespace="default")).spec.node_name != ""


def attempts(logs: Sequence[object]) -> list[object]:
    """The bystander's, as far as the scheduler has told."""
    told = [entry for entry in logs if isinstance(entry, dict)]
    return [entry for entry in told if entry.get("pod") == "default/bystander" and entry["event"] == "pod not placed"]
