"""Claims whose node is gone: which are freed, which are not, and when."""

from collections.abc import Mapping

import pytest

from builders import a_claim, a_node, claim_ref, volume_body
from mooring.api import keys
from mooring.api.kinds import CONFIG_MAP, CSI_NODE, NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.provisioner.janitor import GRACE_SECONDS, LOOK_SECONDS, SelectedNodeJanitor, stranded
from mooring.volumes.holds.objects import intent_name
from partial_plane import Plane, run_plane
from provisioner.paper_driver import DRIVER
from provisioner.world import ask, furnish, selected

OURS = {keys.STORAGE_PROVISIONER: DRIVER}
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
        pytest.param(waiting(annotations={}), True, HAVE, None, id="nobody was asked to provision yet"),
    ],
)
@pytest.mark.req("T17.vanished-node")
def test_stranded(claim: Claim, there: bool, drivers: Mapping[str, list[str]], want: bool | None) -> None:
    """`want` is whether the trouble may pass; None for no trouble."""
    found = stranded(claim, a_node() if there else None, drivers)
    assert (None if found is None else found.passing) == want


async def _freed(plane: Plane) -> bool:
    return await selected(plane) is None


JANITOR = [SelectedNodeJanitor]


@pytest.mark.req("T17.vanished-node")
def test_a_node_that_goes_frees_its_claims_at_once() -> None:
    async def scenario(plane: Plane) -> None:
        await furnish(plane)
        await ask(plane, annotations=OURS)
        await ask(plane, "other", node="node-2", annotations=OURS)
        await plane.pass_time(2 * LOOK_SECONDS)
        assert not await _freed(plane)
        await plane.client.delete(NODE, "node-1")
        await plane.until(lambda: _freed(plane), within=2.0)
        assert await selected(plane, "other") == "node-2"
        await plane.pass_time(1.0)
        text = 'ProvisioningFailed: selected node "node-1" does not exist any more: another one can be chosen now'
        assert await plane.said("claim-1") == [text]

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
        await plane.until(lambda: _freed(plane), within=GRACE_SECONDS / 2 + 2 * LOOK_SECONDS)

    run_plane(JANITOR, scenario)


@pytest.mark.req("T17.vanished-node")
def test_nothing_is_taken_from_a_claim_that_has_a_volume_or_may_have_one() -> None:
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
        await plane.pass_time(4 * LOOK_SECONDS)
        assert await selected(plane) == "node-1"
        assert await selected(plane, "other") == "node-1"
        await plane.client.delete(CONFIG_MAP, intent_name(other.uid), namespace="default")
        await plane.pass_time(2 * LOOK_SECONDS)
        assert await selected(plane, "other") is None

    run_plane(JANITOR, scenario)
