"""The preset-node controller: claims of pods that were created with a node, beside the real PV controller."""

from itertools import permutations

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.control.feature_gates import parse_feature_gates
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.pvcontroller.preset_nodes import (
    PresetNode,
    PresetNodeController,
    Unbindable,
    is_preset,
    plan_on_preset_node,
    waits_for_node,
)
from mooring.volumes.binding import BindingPlan
from support.builders import (
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_volume,
    claim_body,
    class_body,
    node_body,
    pod_body,
    volume_body,
)
from support.partial_control_plane import Plane, flaky, run_plane

PROVISIONER = "disks.example.com"
BOTH = (PersistentVolumeController, PresetNodeController)


def facts(*volumes: Volume, provisioner: str = well_known.NO_PROVISIONER, selected: str | None = None) -> PresetNode:
    claim = a_claim(uid="u", selected_node=selected)
    return PresetNode(
        a_node(name="node-1"),
        None,
        {claim.key: claim},
        {"local": a_class(provisioner=provisioner)},
        volumes,
    )


POD_1 = a_pod(claims=["claim-1"], node="node-1")


@pytest.mark.req("T48.bound")
def test_plan_takes_the_smallest_volume_that_the_preset_node_reaches() -> None:
    there, elsewhere = a_volume(name="there", node="node-1"), a_volume(name="elsewhere", node="node-2", size="5Gi")
    planned = plan_on_preset_node(POD_1, facts(a_volume(name="large", node="node-1", size="20Gi"), there, elsewhere))
    assert isinstance(planned, BindingPlan)
    assert [(one.claim.name, one.volume.name) for one in planned.static] == [("claim-1", "there")]
    assert not planned.provision


@pytest.mark.req("T48.bound")
def test_plan_selects_the_preset_node_where_no_volume_matches() -> None:
    planned = plan_on_preset_node(POD_1, facts(a_volume(node="node-2"), provisioner=PROVISIONER))
    assert isinstance(planned, BindingPlan)
    assert (planned.node, [one.claim.name for one in planned.provision]) == ("node-1", ["claim-1"])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            facts(a_volume(node="node-2")),
            Unbindable("didn't find available persistent volumes to bind"),
            id="no volume there and no provisioner",
        ),
        pytest.param(
            facts(a_volume(source={"gcePersistentDisk": {"pdName": "d"}}, labels={well_known.ZONE: "b"}))._replace(
                node=a_node(name="node-1", zone="a")
            ),
            Unbindable("didn't find available persistent volumes to bind"),
            id="zone labels of another zone",
        ),
        pytest.param(facts(selected="node-2", provisioner=PROVISIONER), None, id="selected already"),
    ],
)
def test_plan_is_refused_or_postponed(found: PresetNode, expected: object) -> None:
    assert plan_on_preset_node(POD_1, found) == expected


@pytest.mark.parametrize(
    ("pod", "preset"),
    [
        pytest.param(POD_1, True, id="with node and claim"),
        pytest.param(a_pod(claims=["claim-1"]), False, id="without node"),
        pytest.param(a_pod(node="node-1"), False, id="without volumes"),
        pytest.param(a_pod(claims=["claim-1"], node="node-1", phase="Failed"), False, id="finished"),
        pytest.param(a_pod(claims=["claim-1"], node="node-1", deleting=True), False, id="terminating"),
    ],
)
def test_pods_that_need_a_preset_node(pod: Pod, preset: bool) -> None:
    assert is_preset(pod) is preset


@pytest.mark.parametrize(
    ("claim", "mode", "waits"),
    [
        pytest.param(a_claim(), "WaitForFirstConsumer", True, id="delayed"),
        pytest.param(a_claim(), "Immediate", False, id="immediate"),
        pytest.param(a_claim(selected_node="node-2"), "WaitForFirstConsumer", False, id="selected for another node"),
        pytest.param(a_claim(volume="v", bound=True), "WaitForFirstConsumer", False, id="bound"),
        pytest.param(a_claim(deleting=True), "WaitForFirstConsumer", False, id="terminating"),
    ],
)
def test_claims_that_wait_for_a_node(claim: Claim, mode: str, waits: bool) -> None:
    assert waits_for_node(claim, a_class(binding_mode=mode)) is waits


async def _start(plane: Plane, *, provisioner: str = well_known.NO_PROVISIONER, order: str = "class claim pod") -> None:
    await plane.create(NODE, node_body(name="node-1"))
    bodies = {
        "class": (STORAGE_CLASS, class_body(provisioner=provisioner)),
        "claim": (CLAIM, claim_body()),
        "pod": (POD, pod_body(claims=["claim-1"], node="node-1")),
    }
    for name in order.split():
        await plane.create(*bodies[name])


async def _bound(plane: Plane) -> bool:
    return (await plane.get(CLAIM, "claim-1")).fully_bound


@pytest.mark.req("T48.bound")
@pytest.mark.parametrize("order", list(map(" ".join, permutations(("class", "claim", "pod")))))
def test_claim_of_a_preset_pod_is_bound_to_a_volume_of_its_node(order: str) -> None:
    async def scenario(plane: Plane) -> None:
        for name in ("node-1", "node-2"):
            await plane.create(VOLUME, volume_body(name=f"on-{name}", node=name))
        await _start(plane, order=order)
        await plane.until(lambda: _bound(plane))
        assert (await plane.get(CLAIM, "claim-1")).spec.volume_name == "on-node-1"
        assert (await plane.get(VOLUME, "on-node-2")).spec.claim_ref is None

    run_plane(BOTH, scenario, client=flaky(0.3))


@pytest.mark.req("T48.bound")
def test_node_is_selected_again_with_backoff_after_provisioning_failed() -> None:
    async def scenario(plane: Plane) -> None:
        await _start(plane, provisioner=PROVISIONER)

        async def selected() -> bool:
            return (await plane.get(CLAIM, "claim-1")).selected_node == "node-1"

        took: list[float] = []
        for _ in range(4):
            took.append(await plane.until(selected, within=120.0))
            clear = MergePatch({"metadata": {"annotations": {well_known.SELECTED_NODE: None}}})
            await plane.client.patch(CLAIM, "claim-1", clear, namespace="default")
        first, *later = took
        assert first < 1.0
        assert [round(seconds) for seconds in later] == [5, 10, 20]

    run_plane(BOTH, scenario)


@pytest.mark.req("T48.bound")
def test_pod_gets_an_event_until_a_volume_appears_on_its_node() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume_body(name="elsewhere", node="node-2"))
        await _start(plane)

        async def reported() -> bool:
            begin = f"{well_known.PRESET_NODE_FAILED}: claims claim-1 "
            return any(text.startswith(begin) for text in await plane.events_about("pod-1"))

        await plane.until(reported)
        await plane.create(VOLUME, volume_body(name="late", node="node-1"))
        await plane.until(lambda: _bound(plane))
        assert (await plane.get(CLAIM, "claim-1")).spec.volume_name == "late"

    run_plane(BOTH, scenario)


@pytest.mark.req("T34.preset")
def test_claim_stays_unbound_while_the_gate_is_off() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume_body(node="node-1"))
        await _start(plane)
        await plane.pass_time()
        assert (await plane.get(CLAIM, "claim-1")).status.phase == "Pending"
        assert (await plane.get(VOLUME, "volume-1")).spec.claim_ref is None

    run_plane(BOTH, scenario, gates=parse_feature_gates("PresetNodeBinding=false"))
