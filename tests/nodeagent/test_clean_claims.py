"""Claims are clean until a node admits a pod that uses them, and claims that are being unbound are not used."""

import random

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.component import Component, Context
from mooring.control.feature_gates import parse_feature_gates
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import NodeTemplate
from mooring.volumes.claim_rollback import CLEAN, ROLLBACK, clean_condition, is_clean, is_rolling_back
from support.builders import a_claim, claim_body, claim_ref, pod_body, volume_body
from support.partial_control_plane import Build, Plane, flaky, run_plane

DATE = "2026-01-01T00:00:00Z"


def agent(gates: str) -> list[Build]:
    def build(context: Context) -> Component:
        own = Context(
            context.client,
            context.informers,
            context.recorder,
            context.clock,
            random.Random(0),
            parse_feature_gates(gates),
        )
        return NodeAgent(own, [NodeTemplate("node-1")])

    return [build]


async def _bound(plane: Plane) -> None:
    """A claim that the PV controller has just bound, and found clean."""
    claim = await plane.create(CLAIM, claim_body())
    await plane.create(VOLUME, volume_body(node="node-1", claim_ref=claim_ref(uid=claim.uid)))
    status = {"status": {"phase": "Bound", "conditions": [clean_condition(now=DATE)]}}
    await plane.client.patch(CLAIM, "claim-1", MergePatch(status), namespace="default", subresource="status")
    bound = {
        "metadata": {"annotations": {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}},
        "spec": {"volumeName": "volume-1"},
    }
    await plane.client.patch(CLAIM, "claim-1", MergePatch(bound), namespace="default")


@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.3, id="with lost answers")])
@pytest.mark.req("T39.dirty-before-use")
def test_a_claim_is_dirty_before_its_pod_runs(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        await _bound(plane)
        assert is_clean(await plane.get(CLAIM, "claim-1"))
        await plane.create(POD, pod_body(node="node-1", claims=["claim-1"]))
        seen: set[tuple[bool, bool]] = set()
        for _ in range(200):
            runs = (await plane.get(POD, "pod-1")).status.phase == "Running"
            seen.add((is_clean(await plane.get(CLAIM, "claim-1")), runs))
            await plane.pass_time(0.02)
        assert (False, True) in seen
        assert (True, True) not in seen
        [condition] = [c for c in (await plane.get(CLAIM, "claim-1")).status.conditions if c.type == CLEAN]
        assert condition.message == "Pod default/pod-1 was admitted on node node-1"

    run_plane(agent("ClaimRollback=true"), scenario, client=flaky(share))


@pytest.mark.req("T39.gate-off")
def test_gate_off_ignores_rollback_but_marks_claims_dirty() -> None:
    """The gate may be on again tomorrow, and the claim must not be unbound then."""

    async def scenario(plane: Plane) -> None:
        await _bound(plane)
        marked = MergePatch({"metadata": {"annotations": {ROLLBACK: "yes"}}})
        await plane.client.patch(CLAIM, "claim-1", marked, namespace="default")
        await plane.create(POD, pod_body(node="node-1", claims=["claim-1"]))
        await plane.pass_time()
        assert (await plane.get(POD, "pod-1")).status.phase == "Running"
        assert not is_clean(await plane.get(CLAIM, "claim-1"))

    run_plane(agent(""), scenario)


def test_a_claim_that_does_not_say_is_not_written_to() -> None:
    async def scenario(plane: Plane) -> None:
        claim = await plane.create(CLAIM, claim_body())
        await plane.create(VOLUME, volume_body(node="node-1", claim_ref=claim_ref(uid=claim.uid)))
        bound = {
            "metadata": {"annotations": {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}},
            "spec": {"volumeName": "volume-1"},
        }
        await plane.client.patch(CLAIM, "claim-1", MergePatch(bound), namespace="default")
        status = MergePatch({"status": {"phase": "Bound"}})
        before = await plane.client.patch(CLAIM, "claim-1", status, namespace="default", subresource="status")
        await plane.create(POD, pod_body(node="node-1", claims=["claim-1"]))
        await plane.pass_time()
        assert (await plane.get(POD, "pod-1")).status.phase == "Running"
        after = await plane.get(CLAIM, "claim-1")
        assert after.metadata.resource_version == before.metadata.resource_version

    run_plane(agent(""), scenario)


@pytest.mark.req("T40.node-agent-rejects")
def test_pod_with_claim_in_rollback_is_rejected_claim_stays_clean() -> None:
    async def scenario(plane: Plane) -> None:
        await _bound(plane)
        marked = MergePatch({"metadata": {"annotations": {ROLLBACK: "yes"}}})
        await plane.client.patch(CLAIM, "claim-1", marked, namespace="default")
        await plane.create(POD, pod_body(node="node-1", claims=["claim-1"]))
        await plane.pass_time()
        refused = (await plane.get(POD, "pod-1")).status
        assert (refused.phase, refused.reason) == ("Failed", "ClaimRollback")
        assert refused.message == "Pod was rejected: PVC default/claim-1 is being rolled back"
        assert is_clean(await plane.get(CLAIM, "claim-1"))

    run_plane(agent("ClaimRollback=true"), scenario)


@pytest.mark.req("T39.absent-is-dirty")
def test_a_claim_that_does_not_say_is_dirty() -> None:
    assert not is_clean(a_claim())
    assert not is_rolling_back(a_claim())
    assert is_rolling_back(a_claim(annotations={ROLLBACK: ""}))
