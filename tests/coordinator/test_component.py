"""The coordinator against the real API server in memory, on virtual time: what it commits, what it gives up, and why.

Provisioned volumes and intents are written by the test, as a provisioner that takes part would.
"""

from typing import Any

import pytest

from builders import claim_body, pod_body, volume_body
from coordinator.groups import LONGEST_BACKOFF, Group, play
from mooring.api.kinds import CLAIM, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.volumes.holds import objects
from mooring.volumes.holds.intent import Intent, Phase
from mooring.volumes.plan import HoldState


@pytest.mark.req("T38", "R3")
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
        assert any("VolumeCommitted" in said for said in await group.plane.said("a"))

    play(scenario)


@pytest.mark.req("R1", "R6")
def test_a_sibling_that_gets_no_volume_frees_the_node() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", Phase.FAILED))
        await group.select("b", None)
        await group.stays_held("a", 4)
        await group.becomes("a", HoldState.ROLLING_BACK, within=4)
        why = 'claim "b" of the same pod gets no volume on node n1'
        assert (await group.plane.get(VOLUME, "pv-a")).metadata.annotations[objects.REASON] == why
        assert any(why in said for said in await group.plane.said("a"))
        assert any(why in said for said in await group.plane.said("p"))

    play(scenario)


@pytest.mark.req("R1.backoff")
@pytest.mark.parametrize(
    "intent",
    [
        pytest.param(None, id="nobody has tried it yet"),
        pytest.param(Intent(1, "n2", Phase.FAILED), id="it failed elsewhere"),
        pytest.param(Intent(1, "n1", Phase.ROLLED_BACK), id="it was given up there, for another's sake"),
    ],
)
def test_a_sibling_is_waited_for_longer_than_a_scheduler_waits_before_it_tries_again(intent: Intent | None) -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        if intent is not None:
            await group.intend("b", intent)
        await group.stays_held("a", LONGEST_BACKOFF + 1)
        await group.select("b", "n1")
        await group.hold("b", "n1", attempt=2)
        for claim in "ab":
            await group.becomes(claim, HoldState.COMMITTED, within=2)

    play(scenario)


def test_a_sibling_that_nobody_asks_for_is_not_waited_for_for_ever() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.becomes("a", HoldState.ROLLING_BACK, within=20)

    play(scenario)


@pytest.mark.req("R1.asked-again")
def test_a_scheduler_that_asks_for_the_same_node_again_and_again_does_not_keep_it_held() -> None:
    """A pod is pinned to the held volume's node, so schedulers try that node with pauses shorter than the grace."""

    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        for attempt in range(1, 4):
            await group.intend("b", Intent(attempt, "n1", Phase.CREATING))
            await group.select("b", "n1")
            await group.plane.pass_time(1)
            await group.intend("b", Intent(attempt, "n1", Phase.FAILED))
            await group.select("b", None)
            await group.plane.pass_time(4)
        await group.becomes("a", HoldState.ROLLING_BACK)

    play(scenario)


def test_while_the_siblings_volume_is_made_nothing_is_given_up() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", Phase.CREATING))
        await group.select("b", None)
        await group.stays_held("a", 300)

    play(scenario)


def test_an_attempt_that_fails_after_its_node_was_unselected_is_noticed() -> None:
    """The record's change is the last of the refusal's writes, and nobody hears of it."""

    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", Phase.CREATING))
        await group.select("b", None)
        await group.plane.pass_time(30)
        await group.intend("b", Intent(1, "n1", Phase.FAILED))
        await group.becomes("a", HoldState.ROLLING_BACK, within=20)

    play(scenario)


def test_volumes_on_two_nodes_cannot_both_stay() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.select("b", "n2")
        await group.hold("a", "n1")
        await group.hold("b", "n2")
        await group.becomes("a", HoldState.ROLLING_BACK)

    play(scenario)


def test_a_claim_that_moves_gives_its_volume_up() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.select("a", "n2")
        await group.becomes("a", HoldState.ROLLING_BACK)

    play(scenario)


def test_the_late_volume_of_a_closed_attempt_is_never_committed() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("b", "n1")
        await group.hold("a", "n1", phase=Phase.ROLLED_BACK)
        await group.becomes("a", HoldState.ROLLING_BACK)

    play(scenario)


def test_an_attempt_that_is_still_open_is_not_committed_yet() -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("b", "n1")
        await group.hold("a", "n1", phase=Phase.CREATING)
        await group.stays_held("a", 5)

    play(scenario)


@pytest.mark.parametrize(
    ("deleted", "within"),
    [pytest.param("pod", 70.0, id="no pod wants it any more"), pytest.param("claim", 2.0, id="the claim is gone")],
)
def test_what_nobody_wants_is_given_up(deleted: str, within: float) -> None:
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

    play(scenario)


def test_one_complete_pod_is_enough_for_a_claim_that_two_share() -> None:
    async def scenario(group: Group) -> None:
        await group.plane.create(POD, pod_body(name="q", claims=("a",)))
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.becomes("a", HoldState.COMMITTED)

    play(scenario)


@pytest.mark.req("R7")
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

    play(scenario)


@pytest.mark.req("R2.volume-name-set")
def test_a_volume_that_somebody_wrote_into_the_claim_is_given_and_never_rolled_back() -> None:
    async def scenario(group: Group) -> None:
        await group.select("a", "n1")
        await group.hold("a", "n1")
        named: dict[str, Any] = {"spec": {"volumeName": "pv-a"}}
        await group.client.patch(CLAIM, "a", MergePatch(named), namespace="default")
        await group.select("a", "n2")
        await group.becomes("a", HoldState.COMMITTED, within=2)

    play(scenario)


def test_an_attempt_that_ends_late_is_committed_all_the_same() -> None:
    """Nobody hears of the record's change: it is looked at again."""

    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("b", "n1")
        await group.hold("a", "n1", phase=Phase.CREATING)
        await group.stays_held("a", 30)
        await group.intend("a", Intent(1, "n1", Phase.CREATED))
        await group.becomes("a", HoldState.COMMITTED, within=3)

    play(scenario)


@pytest.mark.parametrize("since", ["2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z"], ids=["long ago", "in the future"])
def test_dates_of_clocks_that_are_wrong_neither_end_a_hold_nor_prolong_it(since: str) -> None:
    async def scenario(group: Group) -> None:
        for claim in "ab":
            await group.select(claim, "n1")
        await group.hold("a", "n1")
        await group.intend("b", Intent(1, "n1", Phase.CREATING))
        patch = MergePatch({"metadata": {"annotations": {objects.SINCE: since}}})
        await group.client.patch(VOLUME, "pv-a", patch)
        await group.stays_held("a", 500)
        await group.becomes("a", HoldState.ROLLING_BACK, within=200)

    play(scenario)


def test_sibling_of_an_unknown_class_is_waited_for() -> None:
    """News of the class have not come yet: the claim was left out, and the other volume was committed alone."""

    async def scenario(group: Group) -> None:
        await group.plane.create(CLAIM, claim_body(name="c", storage_class="later"))
        await group.plane.client.delete(POD, "p", namespace="default", grace_seconds=0)
        await group.plane.create(POD, pod_body(name="q", claims=("a", "c")))
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.stays_held("a", 5.0)

    play(scenario)


def test_volume_is_not_committed_while_a_claim_of_its_pod_is_missing() -> None:
    """It may be gone, or not have been seen yet; after a while the volume is given up."""

    async def scenario(group: Group) -> None:
        await group.plane.client.delete(POD, "p", namespace="default", grace_seconds=0)
        await group.plane.create(POD, pod_body(name="q", claims=("a", "missing")))
        await group.select("a", "n1")
        await group.hold("a", "n1")
        await group.stays_held("a", 5.0)
        await group.becomes("a", HoldState.ROLLING_BACK, within=30.0)

    play(scenario)
