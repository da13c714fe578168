"""Crashes after every single write of the coordinator and of the scheduler's binder, and two coordinators at once.

The end is the same as without: every volume of the group committed, or every one free, and the record says which.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from mooring.api.kinds import CLAIM, POD, POD_GROUP, VOLUME
from mooring.control.component import Component, Context
from mooring.coordinator.claim_states import CoordinatorSettings
from mooring.coordinator.component import Coordinator
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.scheduler.binding.group_binder import Committed, GroupBinder
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.volumes.binding import BindingPlan, HoldState, StaticBinding
from mooring.volumes.group import GroupPlan, MemberPlan
from mooring.volumes.holds.group_record import GroupMark, GroupPhase
from support.builders import claim_body, pod_body, volume_body
from support.builders.held_groups import GATES, HeldGroup, coordinator, run_group
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.counting import CountingClient
from support.provisioner.crashing_process import CrashingClient, alive
from support.simulation.scenarios import SOAK

Prepare = Callable[[HeldGroup], Awaitable[None]]
DONE, FREE = [HoldState.COMMITTED] * 3, [HoldState.FREE] * 3


def another_coordinator(context: Context) -> Component:
    return Coordinator(context, CoordinatorSettings())


async def crash_after(group: HeldGroup, writes: int, *, seconds: float = 40.0) -> bool:
    """Run a coordinator until it has crashed after so many writes; whether it made that many."""
    client = CrashingClient(group.plane.client, writes)
    async with alive(group.plane, another_coordinator, client, gates=GATES):
        for _ in range(int(seconds * 10)):
            if client.dead.is_set():
                return True
            await group.plane.pass_time(0.1)
    return False


def enumerate_crashes(prepare: Prepare, phase: GroupPhase, end: list[HoldState]) -> int:
    """Crash after the n-th write, for all n, and let the next coordinator finish; how many writes there are."""
    crashed: list[bool] = []

    async def scenario(group: HeldGroup) -> None:
        await prepare(group)
        crashed.append(await crash_after(group, len(crashed) + 1))
        async with alive(group.plane, another_coordinator, gates=GATES):
            await group.reaches(phase, within=60)
        assert await group.states() == end

    for _ in count():
        run_group(scenario, components=[PersistentVolumeController])
        if not crashed[-1]:
            return len(crashed) - 1
    raise AssertionError


async def prepare_existing(group: HeldGroup) -> None:
    await group.hold_all(await group.write_record(), static=True)


async def prepare_provisioned(group: HeldGroup) -> None:
    await group.hold_all(await group.write_record(), static=False)


async def prepare_short(group: HeldGroup) -> None:
    """A member is missing."""
    stored = await group.write_record()
    await group.client.delete(POD, "g-1", namespace="default")
    await group.hold_all(stored, static=True)


async def prepare_without_record(group: HeldGroup) -> None:
    """As beside kube-scheduler, which writes none."""
    for number in range(3):
        await group.hold(number)


#: What a coordinator finds, the end of it, and the least number of its writes.
FOUND = [
    pytest.param(prepare_existing, GroupPhase.COMMITTED, DONE, 5, id="existing volumes"),
    pytest.param(prepare_provisioned, GroupPhase.COMMITTED, DONE, 5, id="provisioned volumes"),
    pytest.param(prepare_short, GroupPhase.IDLE, FREE, 5, id="given up"),
    pytest.param(prepare_without_record, GroupPhase.COMMITTED, DONE, 8, id="beside kube-scheduler"),
]


@pytest.mark.parametrize(("prepare", "phase", "end", "least"), FOUND)
def test_coordinator_that_crashes_after_any_write_is_followed_by_the_next(
    prepare: Prepare, phase: GroupPhase, end: list[HoldState], least: int
) -> None:
    """Crash points C7 to C10, the list, three volumes, the end; and C12 to C14, where the group is given up."""
    assert enumerate_crashes(prepare, phase, end) >= least


@pytest.mark.parametrize(("prepare", "phase", "end", "least"), FOUND)
def test_two_coordinators_in_a_row_crash(prepare: Prepare, phase: GroupPhase, end: list[HoldState], least: int) -> None:
    """Pairs of the same: one of them, or all in a long run."""

    def crashes(first: int, second: int) -> list[bool]:
        """Whether there were so many writes."""
        happened: list[bool] = []

        async def scenario(group: HeldGroup) -> None:
            await prepare(group)
            happened.extend([await crash_after(group, writes) for writes in (first, second)])
            async with alive(group.plane, another_coordinator, gates=GATES):
                await group.reaches(phase, within=60)
            assert await group.states() == end

        run_group(scenario, components=[PersistentVolumeController])
        return happened

    if not SOAK:
        first = random.Random(prepare.__name__).randint(1, least - 1)
        assert crashes(first, 1) == [True, True]
        return
    for first in count(1):
        for second in count(1):
            happened = crashes(first, second)
            if not happened[0]:
                return
            if not happened[1]:
                break


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.11, 0.12, 0.15, 0.2, 0.5])
def test_two_coordinators_commit_all_or_none(delay: float) -> None:
    """Case G58, with different progress of their watches: a member is deleted as the group becomes complete."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        async with (
            alive(group.plane, another_coordinator, gates=GATES),
            alive(group.plane, another_coordinator, gates=GATES),
        ):
            await group.hold_all(stored, static=True)
            await group.plane.pass_time(delay)
            await group.client.delete(POD, "g-2", namespace="default")
            await group.plane.pass_time(30)
        phase, states = await group.phase(), await group.states()
        assert (phase, states) in [(GroupPhase.COMMITTED, DONE), (GroupPhase.IDLE, FREE)]

    run_group(scenario, components=[PersistentVolumeController])


class HoldingScheduler:
    """Holds a hand-made plan, as often as it is given up."""

    name = "scheduler"

    def __init__(self, context: Context, outcome: list[object], group: HeldGroup) -> None:
        self._binder = GroupBinder(context)
        self._informers = context.informers
        self._outcome = outcome
        self._group = group
        self.ready = True

    async def run(self) -> None:
        await self._informers.wait_synced()
        while not self._outcome:
            plan = await plan_of(self._group)
            group = await self._group.plane.get(POD_GROUP, "g")
            outcome = await self._binder.hold(group, plan, placed=0)
            if isinstance(outcome, Committed):
                self._outcome.append(outcome)
            await self._group.plane.pass_time(1)
        await asyncio.Event().wait()


async def plan_of(group: HeldGroup) -> GroupPlan:
    members = {}
    for number in range(group.size):
        pod, claim = await group.plane.get(POD, f"g-{number}"), await group.plane.get(CLAIM, f"c-{number}")
        volume = await group.plane.get(VOLUME, f"pv-{number}")
        node = f"n{number + 1}"
        members[pod.uid] = MemberPlan(pod, BindingPlan(node, (StaticBinding(claim, volume),)))
    return GroupPlan(members)


def test_scheduler_that_crashes_after_any_write_is_continued_by_the_next() -> None:
    """Crash points C2 and C3, case G59 for the objects of G13."""
    crashed: list[bool] = []

    async def scenario(group: HeldGroup) -> None:
        for number in range(group.size):
            await group.client.create(
                VOLUME, volume_body(name=f"pv-{number}", node=f"n{number + 1}", storage_class="fast")
            )
        await group.plane.pass_time(10)
        outcome: list[object] = []
        client = CrashingClient(group.plane.client, len(crashed) + 1)
        async with alive(group.plane, lambda context: HoldingScheduler(context, outcome, group), client, gates=GATES):
            while not client.dead.is_set() and not outcome:
                await group.plane.pass_time(0.05)
        crashed.append(client.dead.is_set() and not outcome)
        async with alive(group.plane, lambda context: HoldingScheduler(context, outcome, group), gates=GATES):
            await group.reaches(GroupPhase.COMMITTED, within=120)
        assert await group.states() == DONE

    while not crashed or crashed[-1]:
        run_group(scenario, components=[coordinator, PersistentVolumeController])
    assert len(crashed) - 1 >= 3, "fewer writes than a record and three holds"


def reads_of_a_commit(size: int, *, other_objects: int = 0) -> Counter[str]:
    """Requests of the coordinator that write nothing, from the holds to the commit."""
    requests: Counter[str] = Counter()

    async def scenario(plane: Plane) -> None:
        group = HeldGroup(plane, size, size, "")
        await group.begin()
        for number in range(other_objects):
            await plane.create(CLAIM, claim_body(name=f"other-{number}", storage_class="fast"))
            await plane.create(POD, pod_body(name=f"other-{number}"))
        stored = await group.write_record()
        requests.clear()
        await group.hold_all(stored, static=True)
        await group.reaches(GroupPhase.COMMITTED, within=5)

    run_plane([coordinator], scenario, client=lambda api, user: CountingClient(api, user, requests), gates=GATES)
    return Counter({key: n for key, n in requests.items() if not key.startswith(("patch", "create", "watch"))})


def test_reads_before_the_commit_do_not_grow_with_the_group() -> None:
    assert reads_of_a_commit(3) == reads_of_a_commit(12)


def test_small_group_in_a_large_namespace_is_read_without_listing_it() -> None:
    reads = reads_of_a_commit(3, other_objects=200)

    assert not [key for key in reads if key in ("list persistentvolumeclaims", "list pods")]
    assert reads["get pods"] == 3


class RecordingClient(CountingClient):
    """Notes requests in their order."""

    def __init__(self, api: ApiServer, user: User, requests: list[str]) -> None:
        class Order(Counter[str]):
            def __setitem__(self, key: str, value: int) -> None:
                requests.append(key)

        super().__init__(api, user, Order())


def requests_of(scenario: Callable[[HeldGroup], Awaitable[None]]) -> list[str]:
    requests: list[str] = []

    async def run(plane: Plane) -> None:
        group = HeldGroup(plane, 3, 3, "")
        await group.begin()
        await scenario(group)

    run_plane([coordinator], run, client=lambda api, user: RecordingClient(api, user, requests), gates=GATES)
    return requests


def test_five_reads_precede_the_list_and_the_record_is_the_first() -> None:
    """Gate 4: the model finds a half group where the volumes are read first."""

    async def scenario(group: HeldGroup) -> None:
        await group.hold_all(await group.write_record(), static=True)
        await group.reaches(GroupPhase.COMMITTED)

    requests = requests_of(scenario)
    before = requests.index("patch configmaps")
    assert requests[before - 5 : before] == [
        "list configmaps",
        "get podgroups",
        "list persistentvolumes",
        "list pods",
        "list persistentvolumeclaims",
    ]


def test_record_is_read_after_the_volumes_that_are_rolled_back() -> None:
    """Gate 3: the model finds a half group where the record is read first."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        await group.hold(0, mark=GroupMark(stored.uid, 7), static=True)
        await group.plane.pass_time(3)
        assert (await group.plane.get(VOLUME, "pv-0")).spec.claim_ref is None

    requests = requests_of(scenario)
    before = requests.index("patch persistentvolumes")
    assert requests[before - 3 : before] == [
        "list persistentvolumes",
        "list persistentvolumeclaims",
        "list configmaps",
    ]
