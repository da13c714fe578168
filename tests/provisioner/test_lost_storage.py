"""Nodes that are gone for good, and with them what was made there: only an administrator's word ends the waiting."""

from dataclasses import replace

import pytest

from mooring.api.kinds import NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import Code, DriverError
from mooring.provisioner.janitor import LOOK_SECONDS, SelectedNodeJanitor
from mooring.provisioner.settings import NodeDeployment
from mooring.volumes.holds import objects
from mooring.volumes.plan import HOLD_NAMESPACE, HoldState
from partial_plane import Plane, run_plane
from provisioner.lives import alive
from provisioner.paper_driver import PaperDriver
from provisioner.test_holding import GI, SETTINGS, both_bound, choose, records, states
from provisioner.test_holding_guards import OTHERS, begin
from provisioner.world import accounted, all_gone, provisioner, select, selected, volumes

WORD: dict[str, object] = {"metadata": {"annotations": {objects.STORAGE_LOST: "yes"}}}
UNREADY: dict[str, object] = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def janitor(context: Context) -> Component:
    return SelectedNodeJanitor(context, namespace=HOLD_NAMESPACE)


def of(node: str) -> PaperDriver:
    return PaperDriver({node: 10 * GI}, node=node)


async def say_lost(plane: Plane) -> None:
    """As `kubectl annotate pv,configmap -l mooring.dev/provisioned-for=node-1 …`."""
    labels = f"{objects.FOR_NODE_LABEL}=node-1"
    for volume in (await plane.client.list(VOLUME, labels=labels)).items:
        await plane.client.patch(VOLUME, volume.name, MergePatch(WORD))
    for record in (await plane.client.list(objects.INTENT_RECORD, namespace=HOLD_NAMESPACE, labels=labels)).items:
        await plane.client.patch(objects.INTENT_RECORD, record.name, MergePatch(WORD), namespace=HOLD_NAMESPACE)


async def freed(plane: Plane) -> bool:
    return await selected(plane, "claim-1") is None


@pytest.mark.req("R1.lost-node")
@pytest.mark.parametrize(
    "made", [pytest.param(True, id="a volume was held there"), pytest.param(False, id="one was being made there")]
)
def test_the_word_of_an_administrator_frees_the_claims_of_a_node_that_is_gone(made: bool) -> None:
    lost, other = of("node-1"), of("node-2")
    if not made:
        lost.lost["create"] = [DriverError(Code.DEADLINE_EXCEEDED, "nobody hears of it")] * 100
    own = {node: replace(SETTINGS, node_deployment=NodeDeployment(node)) for node in ("node-1", "node-2")}

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        async with alive(plane, provisioner(lost, own["node-1"])):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
        async with alive(plane, provisioner(other, own["node-2"])), alive(plane, Coordinator):
            await plane.client.patch(NODE, "node-1", MergePatch(UNREADY), subresource="status")
            await say_lost(plane)
            await plane.pass_time(3 * LOOK_SECONDS)
            assert not await freed(plane), "a node that does not answer may come back"

            await plane.client.delete(NODE, "node-1")
            await plane.until(lambda: freed(plane), within=5 * LOOK_SECONDS)
            await choose(plane, "node-2")
            await plane.until(lambda: both_bound(plane), within=30)
            await plane.pass_time(5)
            assert accounted(other, await volumes(plane))
            assert await records(plane) == []
        assert len(lost.volumes) == 1, "it lies wherever the node is"

    run_plane([*OTHERS, janitor], scenario)


@pytest.mark.req("R2.lost-node")
def test_without_a_word_everything_waits() -> None:
    lost = of("node-1")

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        async with alive(plane, provisioner(lost, replace(SETTINGS, node_deployment=NodeDeployment("node-1")))):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
        async with alive(plane, Coordinator):
            await plane.client.delete(NODE, "node-1")
            await plane.pass_time(10 * LOOK_SECONDS)
            assert await states(plane) == [HoldState.ROLLING_BACK]
            assert not await all_gone(plane)

    run_plane([*OTHERS, janitor], scenario)


def test_a_claim_whose_last_attempt_came_to_nothing_is_freed_from_a_lost_node() -> None:
    """Its record is kept for the number of the attempt; that is no volume."""
    driver = PaperDriver({"node-1": 0, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        async with alive(plane, provisioner(driver, SETTINGS)):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
            assert await freed(plane)
        assert len(await records(plane)) == 1
        await select(plane, "node-1", "claim-1")
        await plane.client.delete(NODE, "node-1")
        await plane.until(lambda: freed(plane), within=2 * LOOK_SECONDS)

    run_plane([*OTHERS, janitor], scenario)
