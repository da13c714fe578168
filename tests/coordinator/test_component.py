"""The coordinator against the real API server in memory, on virtual time: what it commits, what it gives up, and why.

Provisioned volumes and intents are written by the test, as a provisioner that takes part would.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from builders import claim_body, class_body, node_body, pod_body, volume_body
from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, NAMESPACE, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.coordinator.component import Coordinator
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.volumes.holds import objects
from mooring.volumes.holds.intent import Intent, Phase, to_data
from mooring.volumes.plan import HOLD_NAMESPACE, HOLD_PREFIX, HoldState, hold_state
from partial_plane import Plane, run_plane

#: kube-scheduler's podMaxBackoffSeconds, and ours.
LONGEST_BACKOFF = 10.0

Scenario = Callable[["Group"], Awaitable[None]]


class Group:
    """A pod with claims `a` and `b`, and what a provisioner writes for them."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.client = plane.client

    async def begin(self) -> None:
        await self.plane.create(NAMESPACE, {"metadata": {"name": HOLD_NAMESPACE}})
        await self.plane.create(STORAGE_CLASS, class_body(name="fast", provisioner="csi.example.com"))
        for node in ("n1", "n2"):
            await self.plane.create(NODE, node_body(name=node))
        for name in "ab":
            await self.plane.create(CLAIM, claim_body(name=name, storage_class="fast"))
        await self.plane.create(POD, pod_body(name="p", claims=("a", "b")))

    async def select(self, claim: str, node: str | None) -> None:
        notes = {keys.SELECTED_NODE: node}
        await self.client.patch(CLAIM, claim, MergePatch({"metadata": {"annotations": notes}}), namespace="default")

    async def hold(self, claim: str, node: str, *, attempt: int = 1, phase: Phase = Phase.CREATED) -> None:
        """What P1 to P4 leave behind."""
        found = await self.plane.get(CLAIM, claim)
        await self.intend(claim, Intent(attempt, node, phase))
        body = volume_body(name=f"pv-{claim}", node=node, storage_class="fast", reclaim="Delete")
        marks = objects.held_marks(found, node, since="2026-01-02T03:04:05Z", attempt=attempt)
        marks["annotations"] |= {keys.PROVISIONED_BY: "csi.example.com"}
        marks["annotations"].pop(objects.SINCE)
        body["metadata"] |= marks
        body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{found.uid}"}
        await self.client.create(VOLUME, body)

    async def intend(self, claim: str, intent: Intent) -> None:
        found = await self.plane.get(CLAIM, claim)
        body = {"metadata": {"name": objects.intent_name(found.uid)}, "data": to_data(intent)}
        try:
            patch = MergePatch({"data": to_data(intent)})
            await self.client.patch(objects.INTENT_RECORD, body["metadata"]["name"], patch, namespace=HOLD_NAMESPACE)
        except NotFound:
            await self.client.create(objects.INTENT_RECORD, body, namespace=HOLD_NAMESPACE)

    async def state(self, claim: str) -> HoldState:
        return hold_state(await self.plane.get(VOLUME, f"pv-{claim}"), hold_namespace=HOLD_NAMESPACE)

    async def becomes(self, claim: str, state: HoldState, *, within: float = 1.0) -> None:
        async def there() -> bool:
            return await self.state(claim) is state

        await self.plane.until(there, within=within)

    async def stays_held(self, claim: str, seconds: float) -> None:
        await self.plane.pass_time(seconds)
        assert await self.state(claim) is HoldState.HELD


def play(scenario: Scenario) -> None:
    async def run(plane: Plane) -> None:
        group = Group(plane)
        await group.begin()
        await scenario(group)

    run_plane([Coordinator, PersistentVolumeController], run)


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


@pytest.mark.req("R2")
@pytest.mark.parametrize(
    "notes",
    [
        pytest.param({}, id="made by hand"),
        pytest.param(
            {keys.PROVISIONED_BY: "csi.example.com", objects.ATTEMPT: "1"},
            id="made by a provisioner, used, kept, and made available again",
        ),
    ],
)
def test_static_volumes_are_freed_and_never_deleted(notes: dict[str, str]) -> None:
    async def scenario(group: Group) -> None:
        claim = await group.plane.get(CLAIM, "a")
        body = volume_body(name="pv-a", node="n1", storage_class="fast")
        body["metadata"] |= objects.held_marks(claim, "n1", since="2026-01-02T03:04:05Z")
        body["metadata"]["annotations"] |= notes
        body["metadata"]["annotations"].pop(objects.SINCE)
        body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
        await group.client.create(VOLUME, body)
        await group.stays_held("a", LONGEST_BACKOFF + 1)
        await group.becomes("a", HoldState.FREE, within=10)
        freed = await group.plane.get(VOLUME, "pv-a")
        assert freed.metadata.labels == {}
        assert not freed.deleting

    play(scenario)


@pytest.mark.req("R1.chosen-twice")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("03:04:05", "03:04:06", id="the second is later"),
        pytest.param("03:04:05", "03:04:05", id="in the same second: by name"),
    ],
)
def test_of_two_existing_volumes_held_for_a_claim_one_stays(first: str, second: str) -> None:
    """A scheduler that lost its memory chooses anew before the last hold was lifted."""

    async def scenario(group: Group) -> None:
        claim = await group.plane.get(CLAIM, "a")
        for name, node, since in (("v1", "n1", first), ("v2", "n2", second)):
            body = volume_body(name=name, node=node, storage_class="fast")
            body["metadata"] |= objects.held_marks(claim, node, since=f"2026-01-02T{since}Z")
            body["spec"]["claimRef"] = {"namespace": HOLD_NAMESPACE, "name": f"{HOLD_PREFIX}{claim.uid}"}
            await group.client.create(VOLUME, body)
        await group.select("b", "n2")
        await group.intend("b", Intent(1, "n2", Phase.CREATING))
        await group.plane.pass_time(5)
        states = [
            hold_state(await group.plane.get(VOLUME, name), hold_namespace=HOLD_NAMESPACE) for name in ("v1", "v2")
        ]
        assert states == [HoldState.FREE, HoldState.HELD]

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
