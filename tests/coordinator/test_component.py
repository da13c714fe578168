"""The coordinator against the real API server in memory, on virtual time: what it commits, what it gives up, and why.

Provisioned volumes and intents are written by the test, as a provisioner that takes part would.

What a coordinator counts.
"""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from mooring.api import well_known
from mooring.api.kinds import CLAIM, LEASE, NAMESPACE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.control.feature_gates import PROVISIONING_ROLLBACK, FeatureRollout, parse_feature_gates
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.coordinator.metrics import HoldMetrics
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from mooring.volumes.holds import objects
from mooring.volumes.holds.policy import RollbackReason
from mooring.volumes.holds.transitions import Intent, IntentPhase
from support.builders import claim_body, pod_body, volume_body
from support.builders.held_pods import MAX_BACKOFF_SECONDS, Group, run_scenario
from support.partial_control_plane import Plane, run_plane


@pytest.mark.req("T38.commit", "T38.none", "R3.marks")
def test_a_complete_group_is_committed_and_bound() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.stays_held("a", 5)
        held = await group.plane.get(VOLUME, "pv-a")
        assert held.metadata.labels == {objects.UNUSED_LABEL: "true", objects.FOR_NODE_LABEL: "n1"}
        await group.hold("b", "n1")
        for claim in "ab":
            await group.becomes(claim, HoldState.COMMITTED)
        await group.plane.pass_time(1)
        assert [(await group.plane.get(CLAIM, claim)).status.phase for claim in "ab"] == ["Bound", "Bound"]
        committed = await group.plane.get(VOLUME, "pv-a")
        assert committed.metadata.labels == {}
        assert objects.ATTEMPT not in committed.metadata.annotations
        assert any("VolumeCommitted" in said for said in await group.plane.events_about("a"))

    run_scenario(scenario)


@pytest.mark.req("R1.rolled-back", "R6.events")
def test_a_sibling_that_gets_no_volume_frees_the_node() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", IntentPhase.FAILED))
        await group.select("b", None)
        await group.stays_held("a", 4)
        await group.becomes("a", HoldState.ROLLING_BACK, within=4)
        why = 'claim "b" of the same pod gets no volume on node n1'
        assert (await group.plane.get(VOLUME, "pv-a")).metadata.annotations[objects.REASON] == why
        assert any(why in said for said in await group.plane.events_about("a"))
        assert any(why in said for said in await group.plane.events_about("p"))

    run_scenario(scenario)


@pytest.mark.req("R1.backoff")
@pytest.mark.parametrize(
    "intent",
    [
        pytest.param(None, id="not tried yet"),
        pytest.param(Intent(1, "n2", IntentPhase.FAILED), id="it failed elsewhere"),
        pytest.param(Intent(1, "n1", IntentPhase.ROLLED_BACK), id="it was given up there, for another's sake"),
    ],
)
def test_a_sibling_is_waited_for_longer_than_a_scheduler_waits_before_it_tries_again(intent: Intent | None) -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        if intent is not None:
            await group.intend("b", intent)
        await group.stays_held("a", MAX_BACKOFF_SECONDS + 1)
        await group.select("b", "n1")
        await group.hold("b", "n1", attempt=2)
        for claim in "ab":
            await group.becomes(claim, HoldState.COMMITTED, within=2)

    run_scenario(scenario)


def test_wait_for_an_unrequested_sibling_is_bounded() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.becomes("a", HoldState.ROLLING_BACK, within=20)

    run_scenario(scenario)


@pytest.mark.req("R1.asked-again")
def test_a_scheduler_that_asks_for_the_same_node_again_and_again_does_not_keep_it_held() -> None:
    """A pod is pinned to the held volume's node, so schedulers try that node with pauses shorter than the grace."""

    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        for attempt in range(1, 4):
            await group.intend("b", Intent(attempt, "n1", IntentPhase.CREATING))
            await group.select("b", "n1")
            await group.plane.pass_time(1)
            await group.intend("b", Intent(attempt, "n1", IntentPhase.FAILED))
            await group.select("b", None)
            await group.plane.pass_time(4)
        assert await group.state("a") is HoldState.ROLLING_BACK

    run_scenario(scenario)


def test_while_the_siblings_volume_is_made_nothing_is_given_up() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", IntentPhase.CREATING))
        await group.select("b", None)
        await group.stays_held("a", 300)

    run_scenario(scenario)


def test_an_attempt_that_fails_after_its_node_was_unselected_is_noticed() -> None:
    """The record's change is the last of the refusal's writes, and its watch event is lost."""

    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", IntentPhase.CREATING))
        await group.select("b", None)
        await group.plane.pass_time(30)
        await group.intend("b", Intent(1, "n1", IntentPhase.FAILED))
        await group.becomes("a", HoldState.ROLLING_BACK, within=20)

    run_scenario(scenario)


def test_volumes_on_two_nodes_cannot_both_stay() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.select("b", "n2")
        await group.hold("a", "n1")
        await group.hold("b", "n2")
        await group.becomes("a", HoldState.ROLLING_BACK)

    run_scenario(scenario)


def test_a_claim_that_moves_gives_its_volume_up() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.select("a", "n2")
        await group.becomes("a", HoldState.ROLLING_BACK)

    run_scenario(scenario)


def test_the_late_volume_of_a_closed_attempt_is_never_committed() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("b", "n1")
        await group.hold("a", "n1", phase=IntentPhase.ROLLED_BACK)
        await group.becomes("a", HoldState.ROLLING_BACK)

    run_scenario(scenario)


def test_an_attempt_that_is_still_open_is_not_committed_yet() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("b", "n1")
        await group.hold("a", "n1", phase=IntentPhase.CREATING)
        await group.stays_held("a", 5)

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("deleted", "within"),
    [pytest.param("pod", 70.0, id="no pod wants it any more"), pytest.param("claim", 2.0, id="the claim is gone")],
)
def test_hold_without_a_pod_is_rolled_back(deleted: str, within: float) -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.plane.pass_time(1)
        if deleted == "pod":
            await group.client.delete(POD, "p", namespace="default", grace_seconds=0)
        else:
            finalizers: dict[str, Any] = {"metadata": {"finalizers": None}}
            await group.client.patch(CLAIM, "a", MergePatch(finalizers), namespace="default")
            await group.client.delete(CLAIM, "a", namespace="default")
        await group.becomes("a", HoldState.ROLLING_BACK, within=within)

    run_scenario(scenario)


def test_one_complete_pod_is_enough_for_a_claim_that_two_share() -> None:
    async def scenario(group: Group) -> None:
        await group.plane.create(POD, pod_body(name="q", claims=("a",)))
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.becomes("a", HoldState.COMMITTED)

    run_scenario(scenario)


@pytest.mark.req("R7.beside")
def test_a_sibling_of_a_driver_that_takes_no_part_counts_once_it_is_bound() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.stays_held("a", 5)
        other = await group.plane.get(CLAIM, "b")
        body = volume_body(name="foreign", node="n1", storage_class="fast")
        body["spec"]["claimRef"] = other.reference.body() | {"uid": other.uid}
        await group.client.create(VOLUME, body)
        await group.becomes("a", HoldState.COMMITTED, within=2)

    run_scenario(scenario)


@pytest.mark.req("R2.volume-name-set")
def test_volume_named_by_its_claim_is_committed_never_rolled_back() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        named: dict[str, Any] = {"spec": {"volumeName": "pv-a"}}
        await group.client.patch(CLAIM, "a", MergePatch(named), namespace="default")
        await group.select("a", "n2")
        await group.becomes("a", HoldState.COMMITTED, within=2)

    run_scenario(scenario)


def test_an_attempt_that_ends_late_is_committed_all_the_same() -> None:
    """The watch event of the record's change is lost: the record is read again."""

    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("b", "n1")
        await group.hold("a", "n1", phase=IntentPhase.CREATING)
        await group.stays_held("a", 30)
        await group.intend("a", Intent(1, "n1", IntentPhase.CREATED))
        await group.becomes("a", HoldState.COMMITTED, within=3)

    run_scenario(scenario)


@pytest.mark.parametrize("since", ["2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z"], ids=["long ago", "in the future"])
def test_dates_of_clocks_that_are_wrong_neither_end_a_hold_nor_prolong_it(since: str) -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", IntentPhase.CREATING))
        patch = MergePatch({"metadata": {"annotations": {objects.SINCE: since}}})
        await group.client.patch(VOLUME, "pv-a", patch)
        await group.stays_held("a", 500)
        await group.becomes("a", HoldState.ROLLING_BACK, within=200)

    run_scenario(scenario)


def test_sibling_of_an_unknown_class_is_waited_for() -> None:
    """News of the class have not come yet: the claim was left out, and the other volume was committed alone."""

    async def scenario(group: Group) -> None:
        await group.plane.create(CLAIM, claim_body(name="c", storage_class="later"))
        await group.plane.client.delete(POD, "p", namespace="default", grace_seconds=0)
        await group.plane.create(POD, pod_body(name="q", claims=("a", "c")))
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.stays_held("a", 5.0)

    run_scenario(scenario)


def test_volume_is_not_committed_while_a_claim_of_its_pod_is_missing() -> None:
    """It may be gone, or not have been seen yet; after a while the volume is given up."""

    async def scenario(group: Group) -> None:
        await group.plane.client.delete(POD, "p", namespace="default", grace_seconds=0)
        await group.plane.create(POD, pod_body(name="q", claims=("a", "missing")))
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.stays_held("a", 5.0)
        await group.becomes("a", HoldState.ROLLING_BACK, within=30.0)

    run_scenario(scenario)


def test_holds_are_counted_by_what_became_of_them() -> None:
    registry = CollectorRegistry()
    metrics = HoldMetrics(registry, lambda: 3)
    metrics.committed(2.0)
    metrics.rolled_back(RollbackReason.SIBLING_FAILED, 11.0)
    metrics.rolled_back(RollbackReason.SIBLING_FAILED, 12.0)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("mooring_held_volumes") == 3
    assert value("mooring_held_volumes_committed_total") == 1
    assert value("mooring_held_volumes_rolled_back_total", reason="SiblingFailed") == 2
    assert value("mooring_volume_hold_duration_seconds_sum", outcome="rolled-back") == 23
    assert value("mooring_volume_hold_duration_seconds_bucket", outcome="committed", le="2.5") == 1


@pytest.mark.parametrize(
    ("gates", "state"),
    [
        pytest.param("ProvisioningRollback=false", HoldState.ROLLING_BACK, id="gate off"),
        pytest.param("", HoldState.HELD, id="gate on"),
    ],
)
def test_incomplete_group_is_rolled_back_at_once_without_the_gate(gates: str, state: HoldState) -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.becomes("a", state, within=1)
        await group.plane.pass_time(1)
        found = await group.plane.get(VOLUME, "pv-a")
        assert hold_state(found, hold_namespace=HOLD_NAMESPACE) is state

    run_scenario(scenario, gates=parse_feature_gates(gates))


@pytest.mark.req("T35.upgrade", "T35.downgrade")
def test_lease_is_renewed_only_while_no_instance_lacks_the_feature() -> None:
    """Provisioners and schedulers of older versions hold volumes while the Lease of a coordinator is renewed."""
    rollout = FeatureRollout()

    async def renewed(plane: Plane) -> str | None:
        leases = (await plane.client.list(LEASE, namespace=HOLD_NAMESPACE)).items
        return next((lease.spec.renew_time for lease in leases if lease.name == well_known.COORDINATOR_LEASE), None)

    async def scenario(plane: Plane) -> None:
        await plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await plane.pass_time(30)
        assert await renewed(plane) is None
        rollout.update({})
        await plane.pass_time(30)
        last = await renewed(plane)
        assert last is not None
        rollout.update({PROVISIONING_ROLLBACK: "an instance"})
        await plane.pass_time(6)
        last = await renewed(plane)
        await plane.pass_time(30)
        assert await renewed(plane) == last

    settings = CoordinatorSettings(hold_namespace=HOLD_NAMESPACE, renews_lease=True)
    run_plane([lambda context: Coordinator(context, settings)], scenario, rollout=rollout)
