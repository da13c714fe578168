"""Groups of pods held by the scheduler and committed by the coordinator, against the API server in memory."""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from mooring.api import well_known
from mooring.api.kinds import CLAIM, POD, POD_GROUP, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.control.component import Context
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.binding.group_binder import (
    REPAIR_SECONDS,
    Committed,
    Given,
    GivenUp,
    GroupBinder,
    GroupOutcome,
    no_repair,
)
from mooring.volumes.binding import HOLD_NAMESPACE, BindingPlan, Provisioning, StaticBinding
from mooring.volumes.group import GroupPlan, MemberPlan
from mooring.volumes.holds import group_objects, group_record, objects
from mooring.volumes.holds.group_record import GroupMark, GroupPhase
from mooring.volumes.holds.transitions import Intent, IntentPhase
from support.builders import claim_body, volume_body
from support.builders.groups import member_body
from support.builders.held_groups import GATES, HeldGroup, coordinator
from support.partial_control_plane import Build, Plane, run_plane
from support.partial_control_plane.counting import CountingClient
from support.provisioner.crashing_process import alive


class BoundGroup(HeldGroup):
    """With an existing volume `pv-i` on the node of every member, and one more on the last node."""

    binder: GroupBinder

    async def commit_first(self) -> None:
        """The record is COMMITTING and lists the claim of the first member, whose provisioner has not finished."""
        stored = await self.write_record()
        await self.hold(0, mark=GroupMark(stored.uid, stored.record.epoch), name="made")
        await self.intend(0, Intent(1, "n1", IntentPhase.CREATING))
        claim = await self.plane.get(CLAIM, "c-0")
        listed = group_record.list_claims(stored.record, [claim.uid])
        assert listed is not None
        patch = MergePatch(group_objects.record_patch(stored, listed))
        name = group_record.record_name(self.uid)
        await self.client.patch(objects.INTENT_RECORD, name, patch, namespace=HOLD_NAMESPACE)

    async def volumes(self) -> None:
        for number in range(self.size + 1):
            body = volume_body(name=f"pv-{number}", node=f"n{number + 1}", storage_class="fast")
            await self.client.create(VOLUME, body)

    async def plan(self, *, dynamic: bool = False) -> GroupPlan:
        members = {}
        for number in range(self.size):
            pod = await self.plane.get(POD, f"g-{number}")
            members[pod.uid] = await self.member_plan(pod, number, f"n{number + 1}", dynamic=dynamic)
        return GroupPlan(members)

    async def member_plan(self, pod: Pod, number: int, node: str, *, dynamic: bool = False) -> MemberPlan:
        claim = await self.plane.get(CLAIM, f"c-{number}")
        if dynamic:
            return MemberPlan(pod, BindingPlan(node, provision=(Provisioning(claim),)))
        volume = await self.plane.get(VOLUME, f"pv-{int(node[1:]) - 1}")
        return MemberPlan(pod, BindingPlan(node, (StaticBinding(claim, volume),)))

    async def replace_claim(self, number: int) -> None:
        name = f"c-{number}"
        unprotected = MergePatch({"metadata": {"finalizers": None}})
        await self.client.patch(CLAIM, name, unprotected, namespace="default")
        await self.client.delete(CLAIM, name, namespace="default")
        await self.plane.create(CLAIM, claim_body(name=name, storage_class="fast"))

    async def bind_claim(self, number: int) -> None:
        claim = await self.plane.get(CLAIM, f"c-{number}")
        reference = {"namespace": "default", "name": claim.name, "uid": claim.uid}
        await self.client.patch(VOLUME, f"pv-{number}", MergePatch({"spec": {"claimRef": reference}}))

    async def hold_plan(
        self, plan: GroupPlan, *, placed: int = 0, replan: Callable[[Pod, str], MemberPlan | None] = no_repair
    ) -> GroupOutcome:
        group = await self.plane.get(POD_GROUP, "g")
        return await self.binder.hold(group, plan, placed=placed, replan=replan)


def run_bound_group(
    scenario: Callable[[BoundGroup], Awaitable[None]],
    *,
    gates: FeatureGates = GATES,
    with_coordinator: bool = True,
    min_count: int = 3,
    requests: Counter[str] | None = None,
) -> None:
    contexts: list[Context] = []

    class Scheduler:
        name = "scheduler"

        def __init__(self, context: Context) -> None:
            contexts.append(context)
            self._binder = GroupBinder(context)
            self.ready = True

        @property
        def binder(self) -> GroupBinder:
            return self._binder

        async def run(self) -> None:
            await asyncio.Event().wait()

    async def run(plane: Plane) -> None:
        group = BoundGroup(plane, 3, min_count, "")
        group.binder = GroupBinder(contexts[0])
        await group.begin()
        await group.volumes()
        await plane.pass_time(10)
        await scenario(group)

    builds: list[Build] = [Scheduler, PersistentVolumeController]
    counted = Counter[str]() if requests is None else requests
    run_plane(
        [*builds, coordinator] if with_coordinator else builds,
        run,
        client=lambda api, user: CountingClient(api, user, counted),
        gates=gates,
    )


def test_existing_volumes_of_a_group_are_committed_together() -> None:
    """Case G13."""

    async def scenario(group: BoundGroup) -> None:
        outcome = await group.hold_plan(await group.plan())
        assert isinstance(outcome, Committed)
        assert len(outcome.members) == 3
        await group.plane.pass_time(2)
        assert await group.bound() == ["Bound"] * 3
        await group.reaches(GroupPhase.COMMITTED)

    run_bound_group(scenario)


@pytest.mark.parametrize(
    ("gates", "with_coordinator"),
    [pytest.param(DEFAULTS, True, id="gate off"), pytest.param(GATES, False, id="no coordinator")],
)
def test_nothing_is_held_without_gate_or_coordinator(gates: FeatureGates, with_coordinator: bool) -> None:
    """Case G56."""

    async def scenario(group: BoundGroup) -> None:
        assert isinstance(await group.hold_plan(await group.plan()), Given)
        assert await group.record() is None

    run_bound_group(scenario, gates=gates, with_coordinator=with_coordinator)


def test_group_too_large_for_one_record_is_reported_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_objects, "MAX_RECORD_BYTES", 100)

    async def scenario(group: BoundGroup) -> None:
        assert isinstance(await group.hold_plan(await group.plan()), Given)
        await group.plane.pass_time(2)
        [reported] = [each for each in await group.plane.events_about("g") if "GroupTooLarge" in each]
        assert "too many members" in reported
        assert await group.phase() is None

    run_bound_group(scenario)


def test_members_beyond_a_placed_quorum_are_not_held() -> None:
    async def scenario(group: BoundGroup) -> None:
        assert isinstance(await group.hold_plan(await group.plan(), placed=3), Given)

    run_bound_group(scenario)


def test_member_with_a_lost_volume_gets_another_one() -> None:
    """Case G62: the others stay held, and all are committed in one epoch of holding."""

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan()
        taken = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "other", "uid": "other"}
        await group.client.patch(VOLUME, "pv-1", MergePatch({"spec": {"claimRef": taken}}))
        pod = await group.plane.get(POD, "g-1")
        again = await group.member_plan(pod, 1, "n4")
        asked: list[tuple[str, str]] = []

        def replan(pod: Pod, node: str) -> MemberPlan | None:
            asked.append((pod.name, node))
            return again

        outcome = await group.hold_plan(plan, replan=replan)
        assert isinstance(outcome, Committed), outcome
        assert outcome.members[pod.uid].node == "n4"
        assert asked == [("g-1", "n2")]
        await group.plane.pass_time(2)
        assert await group.bound() == ["Bound"] * 3
        assert (await group.plane.get(CLAIM, "c-1")).spec.volume_name == "pv-3"
        assert (await group.plane.get(VOLUME, "pv-1")).spec.claim_ref is not None

    run_bound_group(scenario)


def test_member_without_another_plan_gives_the_group_up() -> None:
    """Case G32."""

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan()
        await group.client.delete(VOLUME, "pv-1")
        outcome = await group.hold_plan(plan)
        assert isinstance(outcome, GivenUp)
        assert outcome.reason == "MemberFailed"
        assert 0.0 < outcome.pause <= 1.0
        assert list(outcome.failed.values()) == ["n2"]
        await group.reaches(GroupPhase.IDLE, within=10)
        for number in (0, 2):
            assert (await group.plane.get(VOLUME, f"pv-{number}")).spec.claim_ref is None

    run_bound_group(scenario)


def test_group_with_a_deleted_member_is_given_up_and_held_again_in_the_next_epoch() -> None:
    """Case G49."""

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan(dynamic=True)
        holding = asyncio.create_task(group.hold_plan(plan))
        await group.reaches(GroupPhase.HOLDING)
        await group.plane.pass_time(1)
        assert (await group.plane.get(CLAIM, "c-0")).selected_node == "n1"
        await group.client.delete(POD, "g-1", namespace="default")
        outcome = await holding
        assert isinstance(outcome, GivenUp)
        assert outcome.reason == "NotEnoughMembers"
        await group.reaches(GroupPhase.IDLE, within=10)
        assert (await group.plane.get(CLAIM, "c-0")).selected_node is None
        await group.plane.pass_time(2)
        await group.plane.create(POD, member_body(name="g-1", claims=("c-1",)))
        again = await group.hold_plan(await group.plan())
        assert isinstance(again, Committed)
        stored = await group.record()
        assert stored is not None
        assert stored.record.epoch == 2

    run_bound_group(scenario)


def test_new_leader_goes_on_with_the_record() -> None:
    """Crash points C2 to C4: the plan of the next leader agrees with the record."""

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan(dynamic=True)
        before = asyncio.create_task(group.hold_plan(plan))
        await group.reaches(GroupPhase.HOLDING)
        before.cancel()
        pod_group = await group.plane.get(POD_GROUP, "g")
        nodes = await group.binder.resume(pod_group)
        assert nodes == {uid: member.node for uid, member in plan.members.items()}
        after = asyncio.create_task(group.hold_plan(await group.plan(dynamic=True)))
        await group.plane.pass_time(2)
        stored = await group.record()
        assert stored is not None
        assert stored.record.epoch == 1
        assert [(await group.plane.get(CLAIM, f"c-{n}")).selected_node for n in range(3)] == ["n1", "n2", "n3"]
        after.cancel()

    run_bound_group(scenario)


def test_new_leader_with_another_plan_gives_the_record_up() -> None:
    async def scenario(group: BoundGroup) -> None:
        before = asyncio.create_task(group.hold_plan(await group.plan(dynamic=True)))
        await group.reaches(GroupPhase.HOLDING)
        before.cancel()
        outcome = await group.hold_plan(await group.plan())
        assert isinstance(outcome, GivenUp)
        await group.reaches(GroupPhase.IDLE, within=10)

    run_bound_group(scenario)


def test_superseded_group_gives_up_what_it_holds() -> None:
    """Case G55."""

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan()
        dynamic = await group.plan(dynamic=True)
        uids = list(plan.members)
        mixed = GroupPlan({uid: (plan if uid == uids[0] else dynamic).members[uid] for uid in uids})
        holding = asyncio.create_task(group.hold_plan(mixed))
        await group.reaches(GroupPhase.HOLDING)
        await group.plane.pass_time(2)
        assert await group.binder.supersede(group.uid)
        outcome = await holding
        assert isinstance(outcome, GivenUp)
        assert outcome.reason == "Superseded"
        await group.reaches(GroupPhase.IDLE, within=10)
        assert (await group.plane.get(VOLUME, "pv-0")).spec.claim_ref is None
        notes = (await group.plane.get(CLAIM, "c-1")).metadata.annotations
        assert well_known.SELECTED_NODE not in notes

    run_bound_group(scenario)


@pytest.mark.parametrize("placed", [1, 2], ids=["part of the quorum", "beyond the quorum"])
def test_members_that_are_not_part_of_a_commit_wait_until_it_is_complete(placed: int) -> None:
    """The record stays COMMITTING for as long as a listed volume is held. Asking again at once would never end."""
    requests: Counter[str] = Counter()

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan()
        await group.commit_first()
        others = GroupPlan({uid: member for uid, member in plan.members.items() if member.pod.name != "g-0"})
        await group.plane.pass_time(5)
        requests.clear()
        holding = asyncio.create_task(group.hold_plan(others, placed=placed))
        await group.plane.pass_time(10)
        assert await group.phase() is GroupPhase.COMMITTING
        assert not holding.done()
        assert requests["get configmaps"] < 60, "of the binder and of the coordinator"
        await group.intend(0, Intent(1, "n1", IntentPhase.CREATED))
        first = await group.plane.get(POD, "g-0")
        await group.client.bind("g-0", namespace="default", uid=first.uid, node="n1")
        outcome = await holding
        stored = await group.record()
        assert stored is not None
        if placed == 2:
            assert isinstance(outcome, Given)
            assert (stored.record.phase, stored.record.epoch) == (GroupPhase.COMMITTED, 1)
        else:
            assert isinstance(outcome, Committed)
            assert outcome.members.keys() == others.members.keys()
            assert stored.record.epoch == 2

    run_bound_group(scenario, min_count=2 if placed == 2 else 3, requests=requests)


def test_malformed_record_is_reported_with_its_name_and_a_pause() -> None:
    requests: Counter[str] = Counter()

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan()
        name = group_record.record_name(group.uid)
        await group.client.create(objects.INTENT_RECORD, {"metadata": {"name": name}}, namespace=HOLD_NAMESPACE)
        requests.clear()
        outcome = await group.hold_plan(plan)
        assert isinstance(outcome, GivenUp)
        assert (outcome.reason, outcome.pause) == ("RecordMalformed", 30.0)
        assert f"{HOLD_NAMESPACE}/{name}" in outcome.message
        assert requests["create configmaps"] == 1
        await group.client.delete(objects.INTENT_RECORD, name, namespace=HOLD_NAMESPACE)
        assert isinstance(await group.hold_plan(plan), Committed)

    run_bound_group(scenario, requests=requests)


def test_member_that_fails_on_its_second_node_too_is_not_sent_there_again() -> None:
    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan()
        pod = await group.plane.get(POD, "g-1")
        second = await group.member_plan(pod, 1, "n4")
        for name in ("pv-1", "pv-3"):
            await group.client.delete(VOLUME, name)
        asked: list[str] = []

        def replan(pod: Pod, node: str) -> MemberPlan | None:
            asked.append(node)
            return second if node == "n2" else None

        outcome = await group.hold_plan(plan, replan=replan)
        assert isinstance(outcome, GivenUp)
        assert asked == ["n2", "n4"]
        assert outcome.failed == {pod.uid: "n4"}

    run_bound_group(scenario)


def test_member_with_a_claim_bound_after_a_failed_write_stays_in_the_group() -> None:
    """Its write seemed to fail, and the provisioner did not hold the volumes: nothing can be rolled back."""

    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan(dynamic=True)
        await group.select(0, "n4")
        holding = asyncio.create_task(group.hold_plan(plan))
        await group.reaches(GroupPhase.HOLDING)
        await group.plane.pass_time(3)
        for number in range(3):
            await group.select(number, f"n{number + 1}")
            await group.bind_claim(number)
        await group.plane.pass_time(5)
        assert holding.done()
        outcome = holding.result()
        assert isinstance(outcome, Committed)
        assert len(outcome.members) == 3

    run_bound_group(scenario)


def test_claim_created_again_does_not_count_as_the_bound_claim_of_its_member() -> None:
    async def scenario(group: BoundGroup) -> None:
        plan = await group.plan(dynamic=True)
        await group.select(0, "n4")
        holding = asyncio.create_task(group.hold_plan(plan))
        await group.reaches(GroupPhase.HOLDING)
        await group.plane.pass_time(3)
        await group.replace_claim(0)
        for number in range(3):
            await group.select(number, f"n{number + 1}")
            await group.bind_claim(number)
        await group.plane.pass_time(REPAIR_SECONDS + 5)
        assert holding.done()
        assert isinstance(holding.result(), GivenUp)

    run_bound_group(scenario)


async def hold_until_the_coordinator_is_gone(group: BoundGroup) -> "asyncio.Task[GroupOutcome]":
    """The group is held, its volumes are not provisioned yet, and the Lease of the coordinator has expired."""
    async with alive(group.plane, coordinator, gates=GATES):
        await group.plane.pass_time(5)
        holding = asyncio.create_task(group.hold_plan(await group.plan(dynamic=True)))
        await group.reaches(GroupPhase.HOLDING)
    await group.plane.pass_time(20)
    return holding


def test_group_that_waits_without_a_coordinator_is_reported_and_not_given_up() -> None:
    """Case G57: the next coordinator goes on."""

    async def scenario(group: BoundGroup) -> None:
        holding = await hold_until_the_coordinator_is_gone(group)
        assert group.binder.waiting_for_coordinator == 0
        await group.plane.pass_time(300)
        reported = [each for each in await group.plane.events_about("g") if "WaitingForCoordinator" in each]
        assert len(reported) == 1
        assert group.binder.waiting_for_coordinator == 1
        assert not holding.done()
        assert await group.phase() is GroupPhase.HOLDING
        async with alive(group.plane, coordinator, gates=GATES):
            await group.plane.pass_time(5)
            assert group.binder.waiting_for_coordinator == 0
            assert await group.phase() is GroupPhase.HOLDING
            await group.client.delete(POD, "g-1", namespace="default")
            assert isinstance(await holding, GivenUp)

    run_bound_group(scenario, with_coordinator=False)


def test_begun_group_is_not_bound_pod_by_pod_without_a_coordinator() -> None:
    """The next leader of the scheduler finds the record, and no coordinator."""

    async def scenario(group: BoundGroup) -> None:
        (await hold_until_the_coordinator_is_gone(group)).cancel()
        for number in range(3):
            await group.select(number, None)
        await group.plane.pass_time(1)
        again = asyncio.create_task(group.hold_plan(await group.plan(dynamic=True)))
        await group.plane.pass_time(60)
        assert not again.done()
        assert group.binder.waiting_for_coordinator == 1
        assert [(await group.plane.get(CLAIM, f"c-{n}")).selected_node for n in range(3)] == [None] * 3
        async with alive(group.plane, coordinator, gates=GATES):
            await group.plane.pass_time(5)
            assert [(await group.plane.get(CLAIM, f"c-{n}")).selected_node for n in range(3)] == ["n1", "n2", "n3"]
        again.cancel()
        await group.plane.pass_time(1)
        assert group.binder.waiting_for_coordinator == 0

    run_bound_group(scenario, with_coordinator=False)


def test_rollback_that_waits_for_a_coordinator_says_so() -> None:
    async def scenario(group: BoundGroup) -> None:
        (await hold_until_the_coordinator_is_gone(group)).cancel()
        assert await group.binder.supersede(group.uid)
        outcome = await group.hold_plan(await group.plan(dynamic=True))
        assert isinstance(outcome, GivenUp)
        assert (outcome.reason, outcome.pause) == ("WaitingForCoordinator", 30.0)

    run_bound_group(scenario, with_coordinator=False)


def test_cancelled_hold_leaves_no_write_unstarted() -> None:
    """Selected nodes are written after the holds; where those end with an error, they are not begun."""

    async def scenario(group: BoundGroup) -> None:
        static, dynamic = await group.plan(), await group.plan(dynamic=True)
        first = next(iter(static.members))
        mixed = GroupPlan({**dynamic.members, first: static.members[first]})
        holding = asyncio.create_task(group.hold_plan(mixed))
        while await group.phase() is not GroupPhase.HOLDING:  # noqa: ASYNC110  # the holds follow at once
            await asyncio.sleep(0)
        holding.cancel()
        await asyncio.wait((holding,))
        assert [(await group.plane.get(CLAIM, f"c-{n}")).selected_node for n in (1, 2)] == [None, None]
        gc.collect()  # a coroutine that was never awaited warns, and a warning fails the test

    run_bound_group(scenario)
