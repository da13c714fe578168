"""Claims that are bound and unused, with scheduler, PV controller and API server together and the gate on.

Which fields of a claim's status change, given what it says now and what its volume offers.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Claim, Volume
from mooring.cluster.local_client import LocalClient
from mooring.control.feature_gates import CLAIM_ROLLBACK, FeatureRollout, parse_feature_gates
from mooring.pvcontroller.claim_sync import claim_status_changes
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.component import Scheduler
from mooring.volumes.claim_rollback import ROLLBACK, detached_from, dirty_condition, is_clean, is_rolling_back
from support.builders import Body, a_volume, claim_body, class_body, node_body, pod_body, volume_body
from support.partial_control_plane import Connect, Plane, flaky, run_plane

NOW = "2026-01-02T03:04:05Z"
Scenario = Callable[[Plane], Awaitable[None]]


def play(
    scenario: Scenario,
    *,
    gates: str = "ClaimRollback=true",
    client: Connect = LocalClient,
    rollout: FeatureRollout | None = None,
) -> None:
    """Two nodes with a local volume each, and a claim that was bound on n1 for a pod that is gone."""

    async def run(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, class_body(name="local"))
        for node in ("n1", "n2"):
            await plane.create(NODE, node_body(name=node))
        await plane.create(VOLUME, volume_body(name="v1", node="n1"))
        await plane.create(CLAIM, claim_body(name="a"))
        await plane.create(POD, pod_body(name="first", claims=("a",)))
        await plane.until(lambda: is_bound(plane, "a", "v1"))
        await plane.client.delete(POD, "first", namespace="default", grace_seconds=0)
        await plane.create(VOLUME, volume_body(name="v2", node="n2"))
        await cordon(plane, "n1")
        await scenario(plane)

    components = [Scheduler, PersistentVolumeController]
    run_plane(components, run, gates=parse_feature_gates(gates), client=client, rollout=rollout)


async def cordon(plane: Plane, node: str) -> None:
    await plane.client.patch(NODE, node, MergePatch({"spec": {"unschedulable": True}}))


async def is_bound(plane: Plane, claim: str, volume: str) -> bool:
    found = await plane.get(CLAIM, claim)
    return found.fully_bound and found.spec.volume_name == volume and found.status.phase == "Bound"


async def is_on(plane: Plane, pod: str, node: str) -> bool:
    return (await plane.get(POD, pod)).spec.node_name == node


async def mark(plane: Plane, claim: str = "a") -> None:
    patch = MergePatch({"metadata": {"annotations": {ROLLBACK: well_known.ANNOTATION_SET}}})
    await plane.client.patch(CLAIM, claim, patch, namespace="default")


async def unmarked(plane: Plane, claim: str = "a") -> bool:
    return not is_rolling_back(await plane.get(CLAIM, claim))


async def use(plane: Plane, claim: str = "a") -> None:
    """What a node says before it lets a pod near the volume."""
    patch = MergePatch({"status": {"conditions": [dirty_condition("default/first", "n1", now=NOW)]}})
    await plane.client.patch(CLAIM, claim, patch, namespace="default", subresource="status")


@pytest.mark.req("T39.dirty-before-use", "T40.unbound")
@pytest.mark.parametrize("share", [pytest.param(0.0, id="on a good day"), pytest.param(0.25, id="with lost answers")])
def test_a_pod_that_clean_volumes_keep_from_every_node_gets_others(share: float) -> None:
    async def scenario(plane: Plane) -> None:
        assert is_clean(await plane.get(CLAIM, "a"))
        await plane.create(POD, pod_body(name="second", claims=("a",)))
        await plane.until(lambda: is_on(plane, "second", "n2"), within=120)
        assert await is_bound(plane, "a", "v2")
        claim = await plane.get(CLAIM, "a")
        assert is_clean(claim)
        assert not is_rolling_back(claim)
        freed = await plane.get(VOLUME, "v1")
        assert (freed.spec.claim_ref, freed.status.phase) == (None, "Available")
        if not share:
            told = await plane.events_about("a")
            assert any(each.startswith('ClaimRolledBack: claim is unbound from volume "v1"') for each in told)
            assert any(
                each.startswith("RollingBackClaims: no node fits") for each in await plane.events_about("second")
            )

    play(scenario, client=flaky(share, seed=3))


@pytest.mark.req("T40.gate-off", "T31.claim-rollback-off")
def test_without_the_gate_the_pod_is_stuck() -> None:
    async def scenario(plane: Plane) -> None:
        assert not is_clean(await plane.get(CLAIM, "a"))
        await plane.create(POD, pod_body(name="second", claims=("a",)))
        await mark(plane)
        await plane.pass_time(120)
        assert await is_bound(plane, "a", "v1")
        assert await is_on(plane, "second", "")
        assert not await unmarked(plane), "the mark is ignored, and not even refused"

    play(scenario, gates="")


@pytest.mark.req("T35.upgrade", "T35.downgrade")
def test_while_the_feature_is_held_back_claims_behave_as_without_the_gate() -> None:
    """As in an upgrade: it begins when the last instance announces the feature, and ends when one does not."""
    rollout = FeatureRollout()

    async def scenario(plane: Plane) -> None:
        assert not is_clean(await plane.get(CLAIM, "a"))
        await plane.create(POD, pod_body(name="second", claims=("a",)))
        await plane.pass_time(120)
        assert await unmarked(plane)
        assert await is_bound(plane, "a", "v1")
        await plane.client.delete(POD, "second", namespace="default", grace_seconds=0)
        await plane.client.delete(CLAIM, "a", namespace="default")
        await plane.client.patch(NODE, "n1", MergePatch({"spec": {"unschedulable": None}}))
        await cordon(plane, "n2")

        rollout.update({})
        await plane.create(VOLUME, volume_body(name="v3", node="n1"))
        await plane.create(CLAIM, claim_body(name="b"))
        await plane.create(POD, pod_body(name="third", claims=("b",)))
        await plane.until(lambda: is_bound(plane, "b", "v3"))
        assert is_clean(await plane.get(CLAIM, "b"))
        await plane.client.delete(POD, "third", namespace="default", grace_seconds=0)

        rollout.update({CLAIM_ROLLBACK: "an instance"})
        await cordon(plane, "n1")
        await plane.client.patch(NODE, "n2", MergePatch({"spec": {"unschedulable": None}}))
        await mark(plane, "b")
        await plane.create(POD, pod_body(name="fourth", claims=("b",)))
        await plane.pass_time(120)
        assert await is_bound(plane, "b", "v3"), "marks are ignored"
        told = await plane.events_about("fourth")
        assert told
        assert not any("is being rolled back" in each for each in told)

        rollout.update({})
        await plane.until(lambda: is_on(plane, "fourth", "n2"), within=600)

    play(scenario, rollout=rollout)


@pytest.mark.req("T40.only-clean", "R2.used-claim")
def test_a_claim_that_was_used_is_never_unbound() -> None:
    async def scenario(plane: Plane) -> None:
        await use(plane)
        await plane.create(POD, pod_body(name="second", claims=("a",)))
        await plane.pass_time(120)
        assert await is_on(plane, "second", "")
        assert not any("Rollback" in said for said in await plane.events_about("a")), "a rollback is not even requested"
        await mark(plane)
        await plane.until(lambda: unmarked(plane))
        assert await is_bound(plane, "a", "v1")
        assert (
            "ClaimRollbackRefused: claim keeps its volume: a pod may have used its volume"
            in await plane.events_about("a")
        )

    play(scenario)


@pytest.mark.req("T40.only-if-it-helps")
def test_nothing_is_unbound_where_that_would_not_help() -> None:
    async def scenario(plane: Plane) -> None:
        await cordon(plane, "n2")
        await plane.create(POD, pod_body(name="second", claims=("a",)))
        await plane.pass_time(120)
        assert await is_bound(plane, "a", "v1")

    play(scenario)


@pytest.mark.req("T40.only-clean")
def test_a_pod_that_has_a_node_keeps_its_claims() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(POD, pod_body(name="waits", claims=("a",), node="n1"))
        await plane.create(POD, pod_body(name="second", claims=("a",)))
        await plane.pass_time(60)
        assert await is_bound(plane, "a", "v1")
        await mark(plane)
        await plane.until(lambda: unmarked(plane))
        assert await is_bound(plane, "a", "v1")
        assert (
            "ClaimRollbackRefused: claim keeps its volume: pod waits may be about to use it"
            in await plane.events_about("a")
        )

    play(scenario)


@pytest.mark.req("T40.only-clean")
def test_a_volume_that_a_user_chose_stays() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.create(VOLUME, volume_body(name="own", node="n1"))
        await plane.create(CLAIM, claim_body(name="b", volume="own"))
        await plane.until(lambda: is_bound(plane, "b", "own"))
        assert not is_clean(await plane.get(CLAIM, "b")), "it named its volume from the beginning"
        await mark(plane, "b")
        await plane.until(lambda: unmarked(plane, "b"))
        assert await is_bound(plane, "b", "own")

    play(scenario)


@pytest.mark.req("T40.pods-rejected")
def test_while_it_lasts_pods_are_refused() -> None:
    """A volume that was made for the claim takes as long to go as its provisioner takes."""

    async def scenario(plane: Plane) -> None:
        await plane.create(STORAGE_CLASS, class_body(name="made", provisioner="csi.example.com"))
        claim = await plane.create(CLAIM, claim_body(name="b", storage_class="made"))
        await provision(plane, claim, "n1")
        await plane.until(lambda: is_bound(plane, "b", f"pvc-{claim.uid}"))
        await plane.create(POD, pod_body(name="second", claims=("b",)))
        await plane.until(lambda: is_released(plane, claim))
        await plane.pass_time(60)
        now = await plane.get(CLAIM, "b")
        assert (now.spec.volume_name, now.selected_node, now.status.phase) == ("", None, "Pending")
        assert is_rolling_back(now)
        scheduled = (await plane.get(POD, "second")).status.conditions[0]
        assert 'persistentvolumeclaim "b" is being rolled back' in scheduled.message

        # Its provisioner has deleted it.
        await plane.client.patch(VOLUME, f"pvc-{claim.uid}", MergePatch({"metadata": {"finalizers": None}}))
        await plane.client.delete(VOLUME, f"pvc-{claim.uid}")
        await plane.until(lambda: is_selected(plane, "b", "n2"))
        await provision(plane, claim, "n2")
        await plane.until(lambda: is_on(plane, "second", "n2"))

    play(scenario)


async def provision(plane: Plane, claim: Claim, node: str) -> None:
    body = volume_body(
        name=f"pvc-{claim.uid}",
        node=node,
        storage_class="made",
        reclaim="Delete",
        annotations={well_known.PROVISIONED_BY: "csi.example.com"},
        claim_ref=claim.reference.body(),
        source={"csi": {"driver": "csi.example.com", "volumeHandle": f"{node}-{claim.uid}"}},
    )
    await plane.create(VOLUME, body)


async def is_released(plane: Plane, claim: Claim) -> bool:
    try:
        volume = await plane.get(VOLUME, f"pvc-{claim.uid}")
    except NotFound:
        return False
    return volume.status.phase == "Released" and detached_from(volume) == claim.uid


async def is_selected(plane: Plane, claim: str, node: str) -> bool:
    return (await plane.get(CLAIM, claim)).selected_node == node


OFFERED = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}}


def saying(**status: Any) -> Claim:  # noqa: ANN401  # a status is JSON
    body: Body = claim_body(uid="claim-1-uid", version="1") | {"status": status}
    return CLAIM.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("claim", "phase", "volume", "expected"),
    [
        pytest.param(saying(phase="Pending"), "Pending", None, {}, id="pending and says so"),
        pytest.param(saying(), "Pending", None, {"phase": "Pending"}, id="says nothing yet"),
        pytest.param(
            saying(phase="Bound", currentVolumeAttributesClassName="fast", **OFFERED),
            "Lost",
            None,
            {"phase": "Lost", "accessModes": None, "capacity": None, "currentVolumeAttributesClassName": None},
            id="without a volume nothing is offered",
        ),
        pytest.param(
            saying(phase="Pending", **OFFERED),
            "Pending",
            None,
            {"accessModes": None, "capacity": None},
            id="what is left over goes, even if the phase is right",
        ),
        pytest.param(saying(phase="Pending"), "Bound", a_volume(), {"phase": "Bound"} | OFFERED, id="becomes bound"),
        pytest.param(saying(phase="Bound", **OFFERED), "Bound", a_volume(), {}, id="bound and says so"),
        pytest.param(
            saying(phase="Bound", **OFFERED),
            "Bound",
            a_volume(access_modes=["ReadWriteOnce", "ReadOnlyMany"], size="20Gi"),
            {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
            id="bound: access modes follow the volume, the size does not",
        ),
        pytest.param(
            saying(phase="Pending", capacity={"storage": "10240Mi"}, accessModes=["ReadWriteOnce"]),
            "Bound",
            a_volume(),
            {"phase": "Bound"},
            id="the same size in other words is no change",
        ),
        pytest.param(
            saying(phase="Pending"),
            "Bound",
            a_volume(annotations={well_known.PRE_RESIZE_CAPACITY: "4Gi"}),
            {"phase": "Bound"} | OFFERED | {"capacity": {"storage": "4Gi"}},
            id="a volume that is being grown shows its old size",
        ),
        pytest.param(
            saying(phase="Pending"),
            "Bound",
            a_volume(annotations={well_known.PRE_RESIZE_CAPACITY: "much"}),
            {"phase": "Bound"} | OFFERED,
            id="an old size that cannot be read does not count",
        ),
        pytest.param(
            saying(phase="Pending"),
            "Bound",
            a_volume(attributes_class="fast"),
            {"phase": "Bound", "currentVolumeAttributesClassName": "fast"} | OFFERED,
            id="attributes are taken over on the way from Pending to Bound",
        ),
        pytest.param(
            saying(phase="Lost"),
            "Bound",
            a_volume(attributes_class="fast"),
            {"phase": "Bound"} | OFFERED,
            id="attributes are not taken over on another way",
        ),
    ],
)
@pytest.mark.req("T42.PC13")
def test_changes_of_a_claims_status(claim: Claim, phase: str, volume: Volume | None, expected: dict[str, Any]) -> None:
    assert claim_status_changes(claim, phase, volume) == expected
