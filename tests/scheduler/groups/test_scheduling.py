"""Scheduling attempts of groups, with a decision and a binder that tests control."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.api import well_known
from mooring.api.errors import Conflict
from mooring.api.kinds import NODE, POD, POD_GROUP
from mooring.api.views.pod_groups import PodGroup
from mooring.scheduler.binding.group_binder import Committed, Given, GivenUp, GroupOutcome, Replan
from mooring.scheduler.component import Scheduler
from mooring.scheduler.groups.attempt import GroupDecision, GroupRequest
from mooring.volumes.group import GroupPlan, GroupRefusal, MemberPlan
from support.builders import node_body, pod_body
from support.builders.groups import member_body, pod_group_body
from support.scheduler.cluster import SmallWorld, in_world


class SlowDecision:
    """The real decision, after this many slices in which nothing is decided; `between` runs before each."""

    def __init__(self, real: GroupDecision, slices: int, between: Callable[[int], None]) -> None:
        self._real = real
        self._left = slices
        self._between = between
        self._decided = False

    @property
    def looks(self) -> int:
        return self._real.looks

    @property
    def result(self) -> GroupPlan | GroupRefusal | None:
        return self._real.result

    def step(self) -> bool:
        if not self._decided:
            # What is found first stays reserved.
            self._decided = self._real.step()
        if self._left:
            self._between(self._left)
            self._left -= 1
            return False
        return self._decided

    def undo(self) -> None:
        self._real.undo()

    def stale(self) -> Sequence[str]:
        return self._real.stale()

    def replan(self, uid: str, *, avoid: Collection[str] = ()) -> MemberPlan | None:
        return self._real.replan(uid, avoid=avoid)


class Holder:
    """Returns these outcomes, the last one again and again, after `hold` was told to go on."""

    def __init__(self, *outcomes: Callable[[GroupPlan, Replan], GroupOutcome]) -> None:
        self._outcomes = list(outcomes)
        self.calls: list[float] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.now: Callable[[], float] = lambda: 0.0

    async def hold(self, pod_group: PodGroup, plan: GroupPlan, *, placed: int, replan: Replan) -> GroupOutcome:
        self.calls.append(self.now())
        await self.may_go_on.wait()
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        return outcome(plan, replan)

    async def resume(self, pod_group: PodGroup) -> None:
        return None

    async def supersede(self, group_uid: str) -> bool:
        return False


def given(plan: GroupPlan, replan: Replan) -> GroupOutcome:
    return Given()


def committed(plan: GroupPlan, replan: Replan) -> GroupOutcome:
    return Committed(plan.members)


@asynccontextmanager
async def scheduling(
    world: SmallWorld,
    *,
    nodes: int = 3,
    slices: int = 0,
    between: Callable[[int], None] = lambda _: None,
    holder: Holder | None = None,
) -> AsyncIterator[Scheduler]:
    for number in range(nodes):
        world.put(NODE, node_body(name=f"n{number + 1}"))
    scheduler = Scheduler(world.context)
    real = scheduler._decide_group

    def decide(request: GroupRequest) -> GroupDecision:
        return SlowDecision(real(request), slices, between)

    scheduler._groups._decide = decide
    if holder is not None:
        holder.now = world.clock.monotonic
        scheduler._groups._bindings._holder = holder
    task = asyncio.create_task(scheduler.run())
    try:
        await world.settle()
        yield scheduler
        assert not task.done(), "the scheduler must not stop"
    finally:
        task.cancel()


def put_gang(world: SmallWorld, count: int = 3, *, min_count: int = 3, cpu: str = "1", topology: str = "") -> None:
    world.put(POD_GROUP, pod_group_body(min_count=min_count, topology=topology))
    for number in range(count):
        world.put(POD, member_body(name=f"g-{number}", requests={"cpu": cpu}))


def placed(world: SmallWorld, *names: str) -> list[str]:
    return [name for name in names if world.node_of(name)]


MEMBERS = ("g-0", "g-1", "g-2")


def condition(world: SmallWorld) -> tuple[Any, ...]:
    [found] = world.body(POD_GROUP, "g")["status"]["conditions"]
    return found["status"], found["reason"]


def test_single_pods_are_scheduled_between_slices() -> None:
    """G11: a long decision delays no single pod for longer than a slice."""
    seen: list[list[str]] = []

    async def scenario(world: SmallWorld) -> None:
        def between(left: int) -> None:
            seen.append([*placed(world, *(f"single-{n}" for n in range(5)) if left < 5 else ())])
            if left == 5:
                for number in range(5):
                    world.put(POD, pod_body(name=f"single-{number}"))

        async with scheduling(world, slices=5, between=between):
            put_gang(world)
            await world.settle(2)
            assert placed(world, *MEMBERS) == [*MEMBERS]

    in_world(scenario)
    assert len(seen[-1]) == 5, "all single pods were bound before the group was decided"


def test_pod_that_did_not_fit_beside_a_refused_group_is_retried() -> None:
    """The group reserves two nodes while it is decided; once it is refused, they are free."""

    async def scenario(world: SmallWorld) -> None:
        def between(left: int) -> None:
            if left == 3:
                world.put(POD, pod_body(name="single", requests={"cpu": "3"}))

        async with scheduling(world, nodes=2, slices=3, between=between):
            put_gang(world, cpu="3", min_count=3)
            await world.settle(5)
            assert placed(world, *MEMBERS) == []
            assert placed(world, "single") == ["single"]

    in_world(scenario)


def test_decision_is_dropped_if_a_member_was_deleted_meanwhile() -> None:
    async def scenario(world: SmallWorld) -> None:
        def between(left: int) -> None:
            if left == 2:
                world.delete(POD, "g-1")

        async with scheduling(world, slices=2, between=between) as scheduler:
            put_gang(world)
            await world.settle(30)
            assert placed(world, "g-0", "g-2") == []
            assert not list(scheduler._snapshot.pod_keys), "nothing stays assumed"

    in_world(scenario)


def test_decision_is_dropped_if_min_count_was_raised_meanwhile() -> None:
    async def scenario(world: SmallWorld) -> None:
        def between(left: int) -> None:
            if left == 2 and world.body(POD_GROUP, "g")["spec"]["schedulingPolicy"]["gang"]["minCount"] == 3:
                world.change(POD_GROUP, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})

        async with scheduling(world, slices=2, between=between):
            put_gang(world)
            await world.settle(30)
            assert placed(world, *MEMBERS) == []

    in_world(scenario)


CANNOT_BE_SATISFIED = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


@pytest.mark.parametrize(
    ("topology", "want"),
    [
        pytest.param("", f"{CANNOT_BE_SATISFIED}, {NO_VICTIMS}", id="no constraint"),
        pytest.param(
            well_known.ZONE,
            "pod group is unschedulable, 0/2 placements are available, first placement status: "
            f"{CANNOT_BE_SATISFIED}, {NO_VICTIMS}",
            id="no domain has capacity",
        ),
        pytest.param("example.com/rack", f"no feasible placements found, {NO_VICTIMS}", id="no domain"),
    ],
)
def test_condition_of_a_refused_group_has_the_text_of_kube_scheduler(topology: str, want: str) -> None:
    async def scenario(world: SmallWorld) -> None:
        cpu = "2" if topology else "1"
        for name in ("a", "b"):
            world.put(NODE, node_body(name=name, zone=name, allocatable={"cpu": cpu, "memory": "1Gi", "pods": "9"}))
        async with scheduling(world, nodes=0):
            put_gang(world, topology=topology)
            await world.settle(5)
            assert placed(world, *MEMBERS) == []
            assert condition(world) == ("False", "Unschedulable")
            [found] = world.body(POD_GROUP, "g")["status"]["conditions"]
            assert found["message"] == want

    in_world(scenario)


def test_bug_in_a_decision_concerns_this_group_only() -> None:
    async def scenario(world: SmallWorld) -> None:
        def between(left: int) -> None:
            raise ZeroDivisionError("a bug")

        async with scheduling(world, slices=1, between=between):
            put_gang(world)
            world.put(POD, pod_body(name="single"))
            await world.settle(5)
            assert placed(world, *MEMBERS, "single") == ["single"]
            assert condition(world) == ("False", "SchedulerError")

    in_world(scenario)


def test_no_member_is_bound_and_no_condition_written_before_the_commit() -> None:
    async def scenario(world: SmallWorld) -> None:
        holder = Holder(committed)
        holder.may_go_on.clear()
        async with scheduling(world, holder=holder):
            put_gang(world)
            await world.settle(60)
            assert placed(world, *MEMBERS) == []
            assert not world.body(POD_GROUP, "g").get("status", {}).get("conditions")
            holder.may_go_on.set()
            await world.settle(1)
            assert placed(world, *MEMBERS) == [*MEMBERS]
            assert condition(world) == ("True", "Scheduled")

    in_world(scenario)


def test_group_that_is_given_up_is_released_and_tried_again_after_its_pause() -> None:
    async def scenario(world: SmallWorld) -> None:
        def give_up(plan: GroupPlan, replan: Replan) -> GroupOutcome:
            return GivenUp("MemberFailed", "no volume", 40.0, {})

        holder = Holder(give_up, committed)
        async with scheduling(world, holder=holder) as scheduler:
            put_gang(world)
            await world.settle(20)
            assert not list(scheduler._snapshot.pod_keys)
            assert condition(world) == ("False", "SchedulerError")
            await world.settle(40)
            assert placed(world, *MEMBERS) == [*MEMBERS]
            assert condition(world) == ("True", "Scheduled")
        [first, second] = holder.calls
        assert second - first >= 40

    in_world(scenario)


def test_member_that_is_not_part_of_the_commit_is_scheduled_by_itself() -> None:
    async def scenario(world: SmallWorld) -> None:
        def without_one(plan: GroupPlan, replan: Replan) -> GroupOutcome:
            return Committed({uid: member for uid, member in plan.members.items() if member.pod.name != "g-2"})

        holder = Holder(without_one, given)
        async with scheduling(world, holder=holder):
            put_gang(world, min_count=2)
            await world.settle(5)
            assert placed(world, *MEMBERS) == [*MEMBERS]
        assert len(holder.calls) == 2

    in_world(scenario)


def test_commit_without_any_member_of_the_plan_is_followed_by_a_backoff() -> None:
    """A record that is being committed without these members: an attempt at once would end the same way."""

    async def scenario(world: SmallWorld) -> None:
        def nothing(plan: GroupPlan, replan: Replan) -> GroupOutcome:
            assert len(holder.calls) < 50, "this ends the attempts"
            return Committed({})

        holder = Holder(nothing)
        async with scheduling(world, holder=holder):
            put_gang(world)
            await world.settle(60)
            assert placed(world, *MEMBERS) == []
        assert 3 < len(holder.calls) < 12

    in_world(scenario)


def test_failed_member_is_moved_with_its_siblings_where_they_are() -> None:
    moved: list[tuple[str, str]] = []

    async def scenario(world: SmallWorld) -> None:
        def move(plan: GroupPlan, replan: Replan) -> GroupOutcome:
            uid, member = next(iter(plan.members.items()))
            found = replan(member.pod, member.node)
            assert found is not None
            moved.append((member.node, found.node))
            return Committed({**plan.members, uid: found})

        async with scheduling(world, holder=Holder(move)):
            put_gang(world)
            await world.settle(5)
            assert placed(world, *MEMBERS) == [*MEMBERS]
            assert moved[0][1] in {world.node_of(name) for name in MEMBERS}

    in_world(scenario)
    [(before, after)] = moved
    assert before != after


def test_member_with_a_failed_binding_returns_after_a_backoff() -> None:
    async def scenario(world: SmallWorld) -> None:
        world.client.faults["bind"] = [Conflict("taken")]
        async with scheduling(world):
            put_gang(world)
            await world.settle(0.3)
            first = placed(world, *MEMBERS)
            assert len(first) == 2
            await world.settle(2)
            assert placed(world, *MEMBERS) == [*MEMBERS]
        binds = [write for write in world.client.writes if write.startswith("bind ")]
        assert len(binds) == 4

    in_world(scenario)
