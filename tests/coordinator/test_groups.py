"""Groups of pods: what the coordinator commits together, gives up together, and why.

Records are written by the test as the scheduler does, held volumes and intents as a provisioner does.
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from mooring.api.kinds import CLAIM, NODE, POD, POD_GROUP, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import V, WatchEvent
from mooring.cluster.local_client import LocalClient
from mooring.control.feature_gates import DEFAULTS
from mooring.pvcontroller.component import PersistentVolumeController
from mooring.volumes.binding import HOLD_NAMESPACE, HoldState, hold_state
from mooring.volumes.holds import group_record, objects
from mooring.volumes.holds.group_record import GroupMark, GroupPhase
from mooring.volumes.holds.transitions import Intent, IntentPhase
from support.builders.held_groups import GATES, HeldGroup, coordinator, run_group
from support.partial_control_plane import Plane, run_plane
from support.partial_control_plane.counting import CountingClient


@pytest.mark.parametrize("static", [pytest.param(False, id="provisioned"), pytest.param(True, id="existing")])
def test_group_is_committed_when_all_members_have_their_volumes(static: bool) -> None:
    """Case G13: no claim is bound before all are held."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        mark = GroupMark(stored.uid, 1)
        for number in (0, 1):
            await group.hold(number, mark=mark, static=static)
        await group.plane.pass_time(4)
        assert await group.phase() is GroupPhase.HOLDING
        assert await group.bound() == ["Pending"] * 3
        await group.hold(2, mark=mark, static=static)
        await group.reaches(GroupPhase.COMMITTED)
        await group.plane.pass_time(1)
        assert await group.bound() == ["Bound"] * 3
        volume = await group.plane.get(VOLUME, "pv-0")
        assert not volume.metadata.labels
        assert group_record.GROUP_EPOCH not in volume.metadata.annotations
        assert any(each.startswith("GroupCommitted: 3 members") for each in await group.plane.events_about("g"))

    run_group(scenario)


def test_coordinator_announces_that_it_decides_about_groups() -> None:
    async def scenario(group: HeldGroup) -> None:
        await group.plane.pass_time(10)
        assert await group.announced() == "mooring-coordinator"

    run_group(scenario)


def test_without_the_gate_nothing_is_announced_and_incomplete_groups_are_given_up() -> None:
    async def scenario(group: HeldGroup) -> None:
        await group.plane.pass_time(10)
        assert not await group.announced()
        stored = await group.write_record()
        await group.hold(0, mark=GroupMark(stored.uid, 1), static=True)
        await group.reaches(GroupPhase.IDLE, within=30)
        record = await group.record()
        assert record is not None
        assert record.record.reason == "Drained"

    run_group(scenario, gates=DEFAULTS)


def test_members_deleted_below_the_quorum_free_the_volumes() -> None:
    """Case G49."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        for number in (0, 1):
            await group.hold(number, mark=GroupMark(stored.uid, 1), static=True)
        await group.plane.pass_time(2)
        await group.client.delete(POD, "g-1", namespace="default")
        await group.reaches(GroupPhase.IDLE, within=10)
        record = await group.record()
        assert record is not None
        assert (record.record.reason, record.record.count) == ("NotEnoughMembers", 1)
        assert record.record.not_before > group.plane.clock.now() - 10
        volumes = [await group.plane.get(VOLUME, f"pv-{number}") for number in (0, 1)]
        assert [volume.spec.claim_ref for volume in volumes] == [None, None]
        assert any("GroupGivenUp" in each for each in await group.plane.events_about("g"))

    run_group(scenario)


def test_quorum_raised_while_holding_is_not_committed() -> None:
    """Case G51."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        mark = GroupMark(stored.uid, 1)
        for number in (0, 1):
            await group.hold(number, mark=mark, static=True)
        patch = MergePatch({"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})
        await group.client.patch(POD_GROUP, "g", patch, namespace="default")
        await group.hold(2, mark=mark, static=True)
        await group.reaches(GroupPhase.IDLE, within=30)
        record = await group.record()
        assert record is not None
        assert record.record.reason == "MinCountRaised"

    run_group(scenario)


def test_record_of_a_deleted_group_is_collected_after_its_volumes() -> None:
    """Case G52."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        await group.hold(0, mark=GroupMark(stored.uid, 1), static=True)
        patch = MergePatch({"metadata": {"finalizers": None}})
        await group.client.patch(POD_GROUP, "g", patch, namespace="default")
        await group.client.delete(POD_GROUP, "g", namespace="default")
        await group.plane.pass_time(10)
        assert await group.phase() is GroupPhase.HOLDING
        await group.reaches(None, within=60)
        assert (await group.plane.get(VOLUME, "pv-0")).spec.claim_ref is None

    run_group(scenario)


@pytest.mark.parametrize("epoch", [1, 3])
def test_volumes_of_another_epoch_are_given_up(epoch: int) -> None:
    """Cases G53 and G61."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        mark = GroupMark(stored.uid, 1)
        await group.hold(0, mark=mark, static=True)
        await group.hold(1, mark=GroupMark("another record" if epoch == 1 else stored.uid, epoch), static=True)
        await group.hold(2, mark=mark, static=True)
        await group.plane.pass_time(3)
        assert await group.states() == [HoldState.HELD, HoldState.FREE, HoldState.HELD]

    run_group(scenario)


def test_domain_that_is_lost_gives_the_group_up() -> None:
    """Case G47."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record(domain="r1")
        await group.hold(0, mark=GroupMark(stored.uid, 1), static=True)
        await group.plane.pass_time(2)
        await group.client.patch(NODE, "n1", MergePatch({"metadata": {"labels": {"rack": "r2"}}}))
        await group.reaches(GroupPhase.IDLE, within=30)
        record = await group.record()
        assert record is not None
        assert record.record.reason == "DomainLost"

    run_group(scenario, topology="rack")


@pytest.mark.parametrize("static", [pytest.param(False, id="provisioned"), pytest.param(True, id="existing")])
def test_member_of_a_deleted_node_leaves_and_a_group_without_quorum_is_given_up(static: bool) -> None:
    """Its volume is held where no node reaches it."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        mark = GroupMark(stored.uid, 1)
        for number in (0, 1):
            await group.hold(number, mark=mark, static=static)
        await group.select(2, "n3")
        await group.client.delete(NODE, "n1")
        await group.plane.pass_time(4)
        assert await group.states(count=2) == [HoldState.HELD, HoldState.HELD]
        await group.plane.pass_time(6)
        released = HoldState.FREE if static else HoldState.ROLLING_BACK
        assert await group.states(count=2) == [released, HoldState.HELD]
        if not static:
            # The provisioner's part.
            await group.client.delete(VOLUME, "pv-0")
            await group.select(0, None)
        await group.plane.pass_time(20)
        assert hold_state(await group.plane.get(VOLUME, "pv-1"), hold_namespace=HOLD_NAMESPACE) is released
        record = await group.record()
        assert record is not None
        assert record.record.reason == "MemberFailed"

    run_group(scenario)


def test_listed_volumes_are_committed_by_the_next_coordinator() -> None:
    """Crash points C8 and C9: the record lists, part is committed."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        claims = [(await group.plane.get(CLAIM, f"c-{number}")).uid for number in range(3)]
        listed = group_record.list_claims(stored.record, claims)
        assert listed is not None
        patch = MergePatch({"data": group_record.group_data(listed)})
        name = group_record.record_name(group.uid)
        await group.client.patch(objects.INTENT_RECORD, name, patch, namespace=HOLD_NAMESPACE)
        await group.client.delete(POD, "g-2", namespace="default")
        await group.hold_all(stored)
        await group.reaches(GroupPhase.COMMITTED, within=30)
        assert await group.states() == [HoldState.COMMITTED] * 3

    run_group(scenario)


def test_record_deleted_by_hand_rolls_back_what_is_held_and_nothing_else() -> None:
    """Case G60, crash point C16."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        await group.hold_all(stored, static=True)
        await group.reaches(GroupPhase.COMMITTED)
        name = group_record.record_name(group.uid)
        await group.client.delete(objects.INTENT_RECORD, name, namespace=HOLD_NAMESPACE)
        await group.plane.pass_time(60)
        assert await group.states() == [HoldState.COMMITTED] * 3

    run_group(scenario)


def test_too_long_counts_from_the_begin_of_holding() -> None:
    """Case G57."""

    async def scenario(group: HeldGroup) -> None:
        stored = await group.write_record()
        await group.hold(0, mark=GroupMark(stored.uid, 1), static=True)
        for number in (1, 2):
            await group.select(number, f"n{number + 1}")
            await group.intend(number, Intent(1, f"n{number + 1}", IntentPhase.CREATING))
        await group.plane.pass_time(530)
        assert await group.phase() is GroupPhase.HOLDING
        await group.reaches(GroupPhase.IDLE, within=30)
        record = await group.record()
        assert record is not None
        assert record.record.reason == "TooLong"

    run_group(scenario)


def test_beside_a_stock_scheduler_the_coordinator_writes_the_record() -> None:
    """Case G64: no claim is bound until a quorum of volumes is held."""

    async def scenario(group: HeldGroup) -> None:
        await group.hold(0)
        await group.select(1, "n2")
        await group.select(2, "n3")
        await group.reaches(GroupPhase.HOLDING)
        await group.hold(1)
        await group.plane.pass_time(3)
        assert await group.bound() == ["Pending"] * 3
        await group.hold(2)
        await group.reaches(GroupPhase.COMMITTED, within=10)
        await group.plane.pass_time(1)
        assert await group.bound() == ["Bound"] * 3

    run_group(scenario)


def test_beside_a_stock_scheduler_a_member_that_fails_gives_the_group_up() -> None:
    """Case G65."""

    async def scenario(group: HeldGroup) -> None:
        await group.hold(0)
        for number in (1, 2):
            await group.select(number, "n1")
        await group.reaches(GroupPhase.HOLDING)
        for number in (1, 2):
            await group.intend(number, Intent(1, "n1", IntentPhase.FAILED))
            await group.select(number, None)

        async def rolled_back() -> bool:
            volume = await group.plane.get(VOLUME, "pv-0")
            return volume.spec.claim_ref is not None and volume.spec.claim_ref.name.startswith("rollback-")

        await group.plane.pass_time(10)
        assert not await rolled_back()
        await group.plane.until(rolled_back, within=15)
        record = await group.record()
        assert record is not None
        assert record.record.reason == "MemberFailed"

    run_group(scenario)


@pytest.mark.parametrize("basic", [False, True], ids=["gang", "basic group"])
def test_volume_that_was_held_without_label_belongs_to_the_gang_of_its_pod(basic: bool) -> None:
    """A provisioner that has not observed the pod yet cannot know its group."""

    async def scenario(group: HeldGroup) -> None:
        for number in range(3):
            await group.hold(number, label=False)
            await group.plane.pass_time(10)
            expected = "Bound" if basic or number == 2 else "Pending"
            assert (await group.bound())[: number + 1] == [expected] * (number + 1)
        assert (await group.record() is None) is basic

    run_group(scenario, basic=basic)


@pytest.mark.parametrize("min_count", [pytest.param(2, id="quorum placed"), pytest.param(3, id="one claim missing")])
def test_volume_that_is_held_for_a_gang_without_need_is_committed(min_count: int) -> None:
    """Its provisioner has not observed yet that the others have theirs, and the scheduler writes no record for it."""

    async def scenario(group: HeldGroup) -> None:
        for number in (0, 1):
            await group.give(number)
            await group.client.bind(f"g-{number}", namespace="default", uid="", node=f"n{number + 1}")
        await group.hold(2)
        await group.plane.pass_time(10)
        assert await group.bound() == ["Bound"] * 3
        assert await group.record() is None

    run_group(scenario, min_count=min_count)


class SkippedPods(LocalClient):
    """Watch events of pods are skipped on demand."""

    skipped = False

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        watch = super().watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        async with aclosing(watch) as events:
            async for event in events:
                if not (kind is POD and SkippedPods.skipped):
                    yield event


def test_volume_stays_held_for_a_gang_when_informers_are_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The placed members that the coordinator knows are deleted: the quorum is to be placed again."""

    async def scenario(plane: Plane) -> None:
        group = HeldGroup(plane, 3, 2, "")
        await group.begin()
        for number in (0, 1):
            await group.give(number)
            await group.client.bind(f"g-{number}", namespace="default", uid="", node=f"n{number + 1}")
        await plane.pass_time(2)
        monkeypatch.setattr(SkippedPods, "skipped", True)
        for number in (0, 1):
            await group.client.delete(POD, f"g-{number}", namespace="default", grace_seconds=0)
        await group.hold(2)
        await plane.pass_time(5)
        assert await group.bound() == ["Bound", "Bound", "Pending"]

    run_plane([coordinator, PersistentVolumeController], scenario, client=SkippedPods, gates=GATES)


def test_malformed_record_is_written_over_less_and_less_often() -> None:
    """It counts as none, and cannot be created: the volume stays held, and its coordinator has other work."""
    requests: Counter[str] = Counter()

    async def scenario(plane: Plane) -> None:
        group = HeldGroup(plane, 3, 3, "")
        await group.begin()
        name = group_record.record_name(group.uid)
        await group.client.create(objects.INTENT_RECORD, {"metadata": {"name": name}}, namespace=HOLD_NAMESPACE)
        await group.hold(0)
        await plane.pass_time(120)
        assert requests["create configmaps"] < 20
        assert await group.states(count=1) == [HoldState.HELD]
        await group.client.delete(objects.INTENT_RECORD, name, namespace=HOLD_NAMESPACE)
        await group.reaches(GroupPhase.HOLDING, within=20)

    run_plane(
        [coordinator, PersistentVolumeController],
        scenario,
        client=lambda api, user: CountingClient(api, user, requests),
        gates=GATES,
    )
