"""Claims whose node is gone: which are freed, which are not, and when.

Nodes that are gone for good, and with them what was made there: only an administrator's word ends the waiting.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mooring.api import well_known
from mooring.api.kinds import CONFIG_MAP, CSI_NODE, NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Claim
from mooring.control.component import Component, Context
from mooring.coordinator.component import Coordinator
from mooring.csi.contract import Code, DriverError
from mooring.provisioner.rollback.lost_nodes import (
    GRACE_SECONDS,
    POLL_INTERVAL_SECONDS,
    LostNodeController,
    UnusableNode,
    unusable_node,
)
from mooring.provisioner.settings import NodeDeployment
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState
from mooring.volumes.holds import objects
from mooring.volumes.holds.objects import intent_name
from provisioner.rollback.test_held_provisioning import SETTINGS, both_bound, choose, records, states
from provisioner.test_holding_guards import OTHERS, begin
from support.builders import a_claim, a_node, claim_ref, volume_body
from support.csi_drivers.recording import DRIVER, FakeCsiDriver
from support.partial_control_plane import Plane, run_plane
from support.provisioner.cluster import GI, accounted, all_gone, ask, furnish, provisioner, select, selected, volumes
from support.provisioner.crashing_process import alive

OURS = {well_known.STORAGE_PROVISIONER: DRIVER}
HAVE = {"node-1": [DRIVER], "node-2": [DRIVER]}


def waiting(**given: object) -> Claim:
    return a_claim(**({"selected_node": "node-1", "annotations": OURS} | given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claim", "there", "drivers", "want"),
    [
        pytest.param(waiting(), True, HAVE, None, id="its node is there"),
        pytest.param(waiting(), False, HAVE, False, id="its node is gone"),
        pytest.param(waiting(selected_node=None), False, HAVE, None, id="no node was selected"),
        pytest.param(waiting(volume="v"), False, HAVE, None, id="it has a volume"),
        pytest.param(waiting(deleting=True), False, HAVE, None, id="it is on its way out"),
        pytest.param(waiting(), True, {"node-1": [], "node-2": [DRIVER]}, True, id="the driver has left the node"),
        pytest.param(waiting(), True, {"node-2": [DRIVER]}, True, id="its CSINode is gone"),
        pytest.param(waiting(), True, {"node-1": [], "node-2": ["other"]}, None, id="no node lists the provisioner"),
        pytest.param(waiting(annotations={}), True, HAVE, None, id="no provisioner annotated"),
    ],
)
@pytest.mark.req("T17.vanished-node")
def test_stranded(claim: Claim, there: bool, drivers: Mapping[str, list[str]], want: bool | None) -> None:
    """`want` is whether the trouble may pass; None for no trouble."""
    found = unusable_node(claim, a_node() if there else None, drivers)
    assert (None if found is None else found.transient) == want


async def _freed(plane: Plane) -> bool:
    return await selected(plane) is None


JANITOR = [LostNodeController]


@pytest.mark.req("T17.vanished-node")
def test_a_node_that_goes_frees_its_claims_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, annotations=OURS)
        await ask(plane, "other", node="node-2", annotations=OURS)
        await plane.pass_time(2 * POLL_INTERVAL_SECONDS)
        assert not await _freed(plane)
        await plane.client.delete(NODE, "node-1")
        await plane.until(lambda: _freed(plane), within=2.0)
        assert await selected(plane, "other") == "node-2"
        await plane.pass_time(1.0)
        text = "ProvisioningFailed: Selected node node-1 cleared for rescheduling: the Node was deleted"
        assert await plane.events_about("claim-1") == [text]

    run_plane(JANITOR, scenario)


def test_exception_for_one_claim_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is at all claims: without a guard for each, those behind it would be kept for good."""
    free = LostNodeController._clear_node

    async def poisoned(janitor: LostNodeController, claim: Claim, found: UnusableNode) -> None:
        if claim.name == "claim-1":
            raise LookupError("a bug")
        await free(janitor, claim, found)

    monkeypatch.setattr(LostNodeController, "_clear_node", poisoned)

    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, annotations=OURS)
        await ask(plane, "claim-2", annotations=OURS)
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(2.0)
        assert await selected(plane, "claim-2") is None
        assert await selected(plane) == "node-1"
        text = f"InternalError: internal error in {LostNodeController.name}: LookupError: a bug"
        assert await plane.events_about("claim-1") == [text]

    run_plane(JANITOR, scenario)


@pytest.mark.req("T17.vanished-node")
def test_a_driver_may_be_away_for_a_moment() -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, annotations=OURS)
        gone = MergePatch({"spec": {"drivers": []}})
        await plane.client.patch(CSI_NODE, "node-1", gone)
        await plane.pass_time(GRACE_SECONDS / 2)
        assert not await _freed(plane)
        await plane.until(lambda: _freed(plane), within=GRACE_SECONDS / 2 + 2 * POLL_INTERVAL_SECONDS)

    run_plane(JANITOR, scenario)


@pytest.mark.req("T17.vanished-node")
def test_claim_that_may_have_a_volume_keeps_its_node() -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        claim = await ask(plane, annotations=OURS)
        other = await ask(plane, "other", annotations=OURS)
        reference = claim_ref(uid=claim.uid)
        await plane.create(
            VOLUME, volume_body(name=f"pvc-{claim.uid}", claim_ref=reference, storage_class="made", node="node-1")
        )
        await plane.create(CONFIG_MAP, {"metadata": {"name": intent_name(other.uid), "namespace": "default"}})
        await plane.client.delete(NODE, "node-1")
        await plane.pass_time(4 * POLL_INTERVAL_SECONDS)
        assert await selected(plane) == "node-1"
        assert await selected(plane, "other") == "node-1"
        await plane.client.delete(CONFIG_MAP, intent_name(other.uid), namespace="default")
        await plane.pass_time(2 * POLL_INTERVAL_SECONDS)
        assert await selected(plane, "other") is None

    run_plane(JANITOR, scenario)


WORD: dict[str, object] = {"metadata": {"annotations": {objects.STORAGE_LOST: "yes"}}}
UNREADY: dict[str, object] = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def janitor(context: Context) -> Component:
    return LostNodeController(context, namespace=HOLD_NAMESPACE)


def of(node: str) -> FakeCsiDriver:
    return FakeCsiDriver({node: 10 * GI}, node=node)


async def say_lost(plane: Plane) -> None:
    """As `kubectl annotate pv,configmap -l mooring.dev/provisioned-for=node-1 …`."""
    labels = f"{objects.FOR_NODE_LABEL}=node-1"
    for volume in (await plane.client.list(VOLUME, labels=labels)).items:
        await plane.client.patch(VOLUME, volume.name, MergePatch(WORD))
    for record in (await plane.client.list(objects.INTENT_RECORD, namespace=HOLD_NAMESPACE, labels=labels)).items:
        await plane.client.patch(objects.INTENT_RECORD, record.name, MergePatch(WORD), namespace=HOLD_NAMESPACE)


async def freed(plane: Plane) -> bool:
    return await selected(plane, "claim-1") is None


@pytest.mark.req("R1.lost-node", "R9.given-up")
@pytest.mark.parametrize(
    "made", [pytest.param(True, id="a volume was held there"), pytest.param(False, id="one was being made there")]
)
def test_storage_lost_annotation_clears_claims_of_deleted_node(made: bool) -> None:
    lost, other = of("node-1"), of("node-2")
    if not made:
        lost.lost["create"] = [DriverError(Code.DEADLINE_EXCEEDED, "response lost")] * 100
    own = {node: replace(SETTINGS, node_deployment=NodeDeployment(node)) for node in ("node-1", "node-2")}

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        async with alive(plane, provisioner(lost, own["node-1"])):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
        async with alive(plane, provisioner(other, own["node-2"])), alive(plane, Coordinator):
            await plane.client.patch(NODE, "node-1", MergePatch(UNREADY), subresource="status")
            await say_lost(plane)
            await plane.pass_time(3 * POLL_INTERVAL_SECONDS)
            assert not await freed(plane), "a node that does not answer may come back"

            await plane.client.delete(NODE, "node-1")
            await plane.until(lambda: freed(plane), within=5 * POLL_INTERVAL_SECONDS)
            await choose(plane, "node-2")
            await plane.until(lambda: both_bound(plane), within=30)
            await plane.pass_time(5)
            assert accounted(other, await volumes(plane))
            assert await records(plane) == []
        assert len(lost.volumes) == 1, "it lies wherever the node is"

    run_plane([*OTHERS, janitor], scenario)


@pytest.mark.req("R2.lost-node", "R9.given-up")
def test_without_a_word_everything_waits() -> None:
    lost = of("node-1")

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        async with alive(plane, provisioner(lost, replace(SETTINGS, node_deployment=NodeDeployment("node-1")))):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
        async with alive(plane, Coordinator):
            await plane.client.delete(NODE, "node-1")
            await plane.pass_time(10 * POLL_INTERVAL_SECONDS)
            assert await states(plane) == [HoldState.ROLLING_BACK]
            assert not await all_gone(plane)

    run_plane([*OTHERS, janitor], scenario)


def test_claim_with_failed_attempt_is_cleared_from_lost_node() -> None:
    """Its record is kept for the number of the attempt; that is no volume."""
    driver = FakeCsiDriver({"node-1": 0, "node-2": 10 * GI})

    async def scenario(plane: Plane) -> None:
        await begin(plane)
        async with alive(plane, provisioner(driver, SETTINGS)):
            await select(plane, "node-1", "claim-1")
            await plane.pass_time(5)
            assert await freed(plane)
        assert len(await records(plane)) == 1
        await select(plane, "node-1", "claim-1")
        await plane.client.delete(NODE, "node-1")
        await plane.until(lambda: freed(plane), within=2 * POLL_INTERVAL_SECONDS)

    run_plane([*OTHERS, janitor], scenario)
