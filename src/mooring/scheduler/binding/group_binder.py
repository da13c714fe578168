"""Holds the volumes of a group of pods until all of them are there: the record, existing volumes, selected nodes.

    record HOLDING ──► holds on existing volumes ──► selected nodes ──► wait for the record ──► Committed, or GivenUp

The coordinator commits; this component writes what the plan says and repairs it. Whatever a crash leaves behind stands
in the record: the next leader finds it there (`resume`), and the coordinator commits or gives up without a scheduler.
Pods are bound after `Committed` only.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import structlog
from msgspec import structs
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import ApiError
from mooring.api.kinds import CLAIM, POD, POD_GROUP, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.cache import BY_UID
from mooring.client.contract import Unreachable
from mooring.client.group_records import GroupRecords
from mooring.client.live_reads import get_or_none
from mooring.client.recorder import NORMAL, WARNING
from mooring.control.component import Context
from mooring.control.feature_gates import GANG_VOLUMES, PROVISIONING_ROLLBACK
from mooring.control.leader_election import LeaseMonitor
from mooring.scheduler.binding.binder import BIND_TIMEOUT, StaticHolds, has_selected_node, selection
from mooring.scheduler.binding.writes import TRANSIENT_ERRORS, BindFailed, RetriedWrites
from mooring.volumes.binding import HOLD_NAMESPACE, BindingPlan, Provisioning, StaticBinding
from mooring.volumes.group import GroupPlan, MemberPlan
from mooring.volumes.holds import group_objects, group_policy, group_record, objects
from mooring.volumes.holds.group_record import LISTS, GiveUpReason, GroupPhase, GroupRecord, StoredGroup

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Writes of one group at the same time.
WRITES_IN_FLIGHT: Final = 32
#: Between two reads of the record while the group waits.
LOOK_SECONDS: Final = 0.5
#: How long a member may be without a plan before the group is given up.
REPAIR_SECONDS: Final = 5.0
#: How long a rollback is waited for before the group is requeued.
ROLLBACK_SECONDS: Final = 20.0
#: Reason and text of a group whose record another client has changed, and how long it waits for a correction.
MALFORMED: Final = "RecordMalformed"
MALFORMED_TEXT: Final = "ConfigMap {name} is not the record of a group; the group waits until it is corrected"
MALFORMED_SECONDS: Final = 30.0
#: Reason and text of a group that was begun and has no coordinator, and for how long it has none before that is
#: reported: longer than the next one needs for the Lease.
WAITING_FOR_COORDINATOR: Final = "WaitingForCoordinator"
WAITING_FOR_COORDINATOR_TEXT: Final = (
    "no coordinator is active: the group's held volumes are neither committed nor rolled back before one runs again"
)
COORDINATOR_SECONDS: Final = 30.0


class Given(NamedTuple):
    """Nothing is held and nothing was written: each member is bound as a pod by itself."""


class Committed(NamedTuple):
    """The volumes are, or are being, committed: the pods may be bound."""

    #: By uid of the pod, with the nodes of repaired members.
    members: Mapping[str, MemberPlan]


class GivenUp(NamedTuple):
    """The coordinator rolls back what was held."""

    #: Name of a GiveUpReason.
    reason: str
    message: str
    #: Seconds before the group is decided again.
    pause: float
    #: Pods whose volumes could not be provisioned, with the node.
    failed: Mapping[str, str]


GroupOutcome: TypeAlias = Given | Committed | GivenUp
#: Another plan for a member whose volume could not be provisioned or held on the node, or None.
Replan: TypeAlias = Callable[[Pod, str], MemberPlan | None]


def no_repair(pod: Pod, node: str) -> MemberPlan | None:
    return None


@dataclass
class _Attempt:
    """One group while it is held."""

    group: PodGroup
    plan: GroupPlan
    placed: int
    replan: Replan
    stored: StoredGroup
    deadline: float
    members: dict[str, MemberPlan]
    written: dict[str, int] = field(default_factory=dict)
    #: Members without a plan, since when.
    failing: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    #: Failing members for which there is no other node.
    without_plan: set[str] = field(default_factory=set)
    #: Writes wait for a coordinator, or selected nodes for the repair of a member that lacks an existing volume.
    unwritten: bool = False
    #: Since when there is no coordinator.
    uncoordinated: float | None = None


class GroupBinder:
    """Holds any number of groups concurrently."""

    def __init__(
        self, context: Context, *, hold_namespace: str = HOLD_NAMESPACE, timeout: float = BIND_TIMEOUT
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._namespace = hold_namespace
        self._records = GroupRecords(context.client, namespace=hold_namespace)
        self._timeout = timeout
        self._enabled = context.gates.enabled(GANG_VOLUMES)
        self._coordinator = LeaseMonitor(
            context.client, context.clock, name=well_known.COORDINATOR_LEASE, namespace=hold_namespace
        )
        self._is_active = partial(context.is_active, PROVISIONING_ROLLBACK)
        self._holds = StaticHolds(context.client, context.clock, namespace=hold_namespace, is_active=self._is_active)
        self._writes = RetriedWrites(context.client, context.clock, context.rng)
        self._pods = context.informers.of(POD)
        self._volumes = context.informers.of(VOLUME)
        self._claims = context.informers.of(CLAIM)
        self._claims.add_index(*BY_UID)
        #: Uids of groups that were reported to wait for a coordinator.
        self._waiting: set[str] = set()

    @property
    def waiting_for_coordinator(self) -> int:
        """How many groups hold volumes and have had no coordinator for a while."""
        return len(self._waiting)

    async def hold(
        self, pod_group: PodGroup, plan: GroupPlan, *, placed: int, replan: Replan = no_repair
    ) -> GroupOutcome:
        """Hold the plan's volumes until the coordinator has committed them or given them up.

        `replan` returns another plan for a member that got no volume on a node, with all others as they are. Can be
        cancelled at any time: the record stands.
        """
        deadline = self._clock.monotonic() + self._timeout
        try:
            needs = await self._writes.retry(lambda: self._needs_hold(pod_group, plan, placed), deadline)
            if not needs:
                return Given()
            begun = await self._writes.retry(lambda: self._begin(pod_group, plan, placed, deadline), deadline)
        except (BindFailed, ApiError) as failure:
            return GivenUp(GiveUpReason.MemberFailed.name, str(failure), LOOK_SECONDS, {})
        if not isinstance(begun, StoredGroup):
            return begun
        attempt = _Attempt(pod_group, plan, placed, replan, begun, deadline, dict(plan.members))
        return await self._run(attempt)

    async def resume(self, pod_group: PodGroup) -> Mapping[str, str] | None:
        """Nodes by uid of the pod, where a record of an earlier leader says where members go; else None."""
        stored = await self._records.read(pod_group.uid)
        if stored is None or stored.record.phase not in (GroupPhase.HOLDING, *LISTS):
            return None
        return {member.pod: member.node for member in stored.record.staying}

    async def paused_until(self, pod_group: PodGroup) -> float:
        """Before when the group is not to be decided again, in seconds since 1970; 0.0 without a pause."""
        stored = await self._records.read(pod_group.uid)
        return stored.record.not_before if stored is not None else 0.0

    async def supersede(self, group_uid: str) -> bool:
        """Give up a group that is holding what a group of higher priority needs; whether it was possible."""
        stored = await self._records.read(group_uid)
        if stored is None:
            return False
        return (
            await self._records.swap(stored, group_record.give_up(stored.record, GiveUpReason.Superseded)) is not None
        )

    async def _needs_hold(self, group: PodGroup, plan: GroupPlan, placed: int) -> bool:
        if not self._enabled or not self._is_active() or not group.is_gang or not plan.late_claims:
            return False
        if _has_quorum_to_hold(group, plan, placed) and await self._has_coordinator():
            return True
        # What an earlier leader has begun comes first: its volumes are for the same claims. Without a coordinator the
        # next one ends it, also if its Lease only seems to have expired.
        stored = await self._records.read(group.uid)
        return stored is not None and stored.record.phase not in (GroupPhase.IDLE, GroupPhase.COMMITTED)

    async def _has_coordinator(self) -> bool:
        return await self._coordinator.announces(group_objects.ANNOUNCEMENT)

    async def _begin(
        self, group: PodGroup, plan: GroupPlan, placed: int, deadline: float
    ) -> StoredGroup | GroupOutcome:
        """The record in HOLDING, of this plan or of an earlier leader's that agrees with it."""
        while self._clock.monotonic() < deadline:
            stored = await self._records.read(group.uid)
            record = stored.record if stored is not None else GroupRecord(group.namespace, group.name, group.uid)
            match record.phase:
                case GroupPhase.HOLDING if stored is not None:
                    return await self._rejoin(stored, plan)
                case GroupPhase.COMMITTING | GroupPhase.COMMITTED if stored is not None and (
                    committed := self._members_of(stored, plan.members)
                ):
                    # An earlier leader has not bound all of its pods.
                    return Committed(committed)
                case GroupPhase.COMMITTING:
                    # Members that are not part of the commit begin after it.
                    await self._clock.sleep(LOOK_SECONDS)
                    continue
                case GroupPhase.GIVING_UP if not await self._has_coordinator():
                    return GivenUp(WAITING_FOR_COORDINATOR, WAITING_FOR_COORDINATOR_TEXT, COORDINATOR_SECONDS, {})
                case GroupPhase.GIVING_UP:
                    return _given_up(record, self._clock.now(), {})
            if not _has_quorum_to_hold(group, plan, placed):
                # What an earlier leader had begun is over.
                return Given()
            if record.not_before > self._clock.now():
                return _given_up(record, self._clock.now(), {})
            begun = group_record.begin(
                record, entries(plan), min_count=group.min_count, domain=plan.domain, now=self._clock.now()
            )
            assert begun is not None, "idle and committed records begin"
            if group_objects.is_too_large(begun):
                log.warning("group not held: too many members for one record", group=group.key)
                self._recorder.record(group, POD_GROUP, WARNING, group_objects.TOO_LARGE, group_objects.TOO_LARGE_TEXT)
                return Given()
            written = await self._records.write(stored, begun)
            if written is not None:
                text = group_objects.HOLDING_TEXT.format(needed=group.min_count)
                self._recorder.record(group, POD_GROUP, NORMAL, group_objects.HOLDING, text)
                return written
            if stored is None and await self._records.is_malformed(group.uid):
                name = f"{self._namespace}/{group_record.record_name(group.uid)}"
                return GivenUp(MALFORMED, MALFORMED_TEXT.format(name=name), MALFORMED_SECONDS, {})
            await self._clock.sleep(LOOK_SECONDS)
        return _given_up(GroupRecord(group.namespace, group.name, group.uid), self._clock.now(), {})

    def _members_of(self, stored: StoredGroup, members: Mapping[str, MemberPlan]) -> dict[str, MemberPlan]:
        """The members of the plan that are part of the commit; others are scheduled again by themselves."""
        record = stored.record
        listed = {
            member.pod: member.node
            for member in record.staying
            if all(claim.uid in record.listed or self._is_bound(claim.uid) for claim in member.claims)
        }
        return {uid: member for uid, member in members.items() if listed.get(uid) == member.node}

    def _is_bound(self, claim_uid: str) -> bool:
        return any(claim.spec.volume_name for claim in self._claims.by_index(BY_UID.name, claim_uid))

    async def _rejoin(self, stored: StoredGroup, plan: GroupPlan) -> StoredGroup | GroupOutcome:
        """Go on with the record of an earlier leader, or have it given up where the plan says otherwise."""
        record = stored.record
        for member in entries(plan):
            known = record.by_pod.get(member.pod)
            if known is None:
                record = group_record.enter(record, member) or record
            elif not _agrees(known, member):
                log.info("group given up: its record does not agree with the plan", group=record.name)
                await self._records.swap(stored, group_record.give_up(stored.record, GiveUpReason.MemberFailed))
                return _given_up(stored.record, self._clock.now(), {})
        if record == stored.record:
            return stored
        return await self._records.swap(stored, record) or _given_up(stored.record, self._clock.now(), {})

    async def _run(self, attempt: _Attempt) -> GroupOutcome:
        try:
            # Provisioners hold only while there is a coordinator: without one, each volume would be bound by itself.
            attempt.unwritten = not await self._writes.retry(self._has_coordinator, attempt.deadline)
            if not attempt.unwritten:
                await self._write_all(attempt)
            while (outcome := await self._retried_look(attempt)) is None:
                await self._clock.sleep(LOOK_SECONDS)
        except (ApiError, Unreachable, BindFailed) as failure:
            outcome = GivenUp(GiveUpReason.MemberFailed.name, str(failure), LOOK_SECONDS, attempt.failed)
        finally:
            self._waiting.discard(attempt.group.uid)
        if isinstance(outcome, GivenUp):
            await self._unselect(attempt)
            return await self._rolled_back(attempt, outcome)
        return outcome

    async def _rolled_back(self, attempt: _Attempt, outcome: GivenUp) -> GivenUp:
        """Wait a while until nothing is held or selected any more: a decision before that would count it twice. The
        pause of the group goes on meanwhile."""
        deadline = self._clock.monotonic() + ROLLBACK_SECONDS
        while self._clock.monotonic() < deadline:
            try:
                stored = await self._records.read(attempt.group.uid)
            except (ApiError, Unreachable):
                return outcome
            is_idle = stored is None or stored.record.phase is not GroupPhase.GIVING_UP
            if is_idle and all(self._is_clear(member) for member in attempt.members.values()):
                left = stored.record.not_before - self._clock.now() if stored is not None else 0.0
                return GivenUp(outcome.reason, outcome.message, max(left, 0.0), outcome.failed)
            await self._clock.sleep(LOOK_SECONDS)
        return outcome

    async def _write_all(self, attempt: _Attempt) -> None:
        failures = await self._write(attempt, attempt.members.values(), shared=True)
        attempt.unwritten = bool(failures)
        for uid in failures:
            attempt.failing[uid] = self._clock.monotonic()
            attempt.failed[uid] = attempt.members[uid].node

    async def _retried_look(self, attempt: _Attempt) -> GroupOutcome | None:
        try:
            return await self._look(attempt)
        except TRANSIENT_ERRORS as error:
            if self._clock.monotonic() >= attempt.deadline:
                raise
            log.info("record of group not read or written", group=attempt.group.key, error=str(error))
            return None

    async def _look(self, attempt: _Attempt) -> GroupOutcome | None:
        """What the record says; None while the group waits. Repairs failed members on the way."""
        stored = await self._records.read(attempt.group.uid)
        if stored is None or stored.uid != attempt.stored.uid:
            return GivenUp(GiveUpReason.MemberFailed.name, "the record was deleted", LOOK_SECONDS, attempt.failed)
        record = attempt.stored.record if stored.record.epoch < attempt.stored.record.epoch else stored.record
        if record.phase in LISTS:
            return Committed(self._members_of(stored, attempt.members))
        if record.phase is not GroupPhase.HOLDING or record.since != attempt.stored.record.since:
            return _given_up(record, self._clock.now(), attempt.failed)
        attempt.stored = stored
        if reason := await self._repair(attempt):
            written = await self._records.swap(attempt.stored, group_record.give_up(attempt.stored.record, reason))
            if written is not None:
                return _given_up(written.record, self._clock.now(), attempt.failed)
        if attempt.unwritten and not attempt.failing and await self._has_coordinator():
            await self._write_all(attempt)
        await self._report_wait(attempt)
        return None

    async def _report_wait(self, attempt: _Attempt) -> None:
        """Report a group that holds volumes and has no coordinator.

        It waits on: only a coordinator rolls back, so giving up would free nothing, and the next one goes on with the
        record. How long is too long, that one decides.
        """
        group, now = attempt.group, self._clock.monotonic()
        try:
            if await self._has_coordinator():
                attempt.uncoordinated = None
                self._waiting.discard(group.uid)
                return
        except (ApiError, Unreachable):
            return
        attempt.uncoordinated = now if attempt.uncoordinated is None else attempt.uncoordinated
        if now - attempt.uncoordinated >= COORDINATOR_SECONDS and group.uid not in self._waiting:
            self._waiting.add(group.uid)
            log.warning("pod group waits for a coordinator", pod_group=group.key)
            self._recorder.record(group, POD_GROUP, WARNING, WAITING_FOR_COORDINATOR, WAITING_FOR_COORDINATOR_TEXT)

    async def _repair(self, attempt: _Attempt) -> GiveUpReason | None:
        """Let failed members leave, and enter again with another plan; why the group is to be given up, if it is."""
        now = self._clock.monotonic()
        there = [uid for uid, member in attempt.members.items() if self._waits(member.pod)]
        if attempt.placed + len(there) < attempt.group.min_count:
            return GiveUpReason.NotEnoughMembers
        for uid in there:
            if uid not in attempt.failing and self._has_failed(attempt, attempt.members[uid]):
                attempt.failing[uid] = now
                attempt.failed[uid] = attempt.members[uid].node
        leaving = [uid for uid in attempt.failing if uid not in attempt.stored.record.leaving]
        if leaving:
            left = await self._records.swap(attempt.stored, group_record.leave(attempt.stored.record, leaving))
            if left is None:
                return None
            attempt.stored = left
        for uid, since in list(attempt.failing.items()):
            member = attempt.members[uid]
            if self._has_its_volumes(member):
                await self._enter(attempt, member)
                continue
            if not self._is_clear(member):
                # What it had is rolled back first; that takes as long as the driver does.
                attempt.failing[uid] = now
                continue
            again = None
            if uid not in attempt.without_plan:
                again = attempt.replan(member.pod, attempt.failed.get(uid, member.node))
            if again is not None:
                await self._enter(attempt, again)
                continue
            attempt.without_plan.add(uid)
            if now - since >= REPAIR_SECONDS and attempt.placed + len(there) - len(attempt.failing) < (
                attempt.group.min_count
            ):
                return GiveUpReason.MemberFailed
        return None

    async def _enter(self, attempt: _Attempt, member: MemberPlan) -> None:
        uid = member.pod.uid
        entered = group_record.enter(attempt.stored.record, entry(member.pod, member.plan))
        written = await self._records.swap(attempt.stored, entered)
        if written is None:
            return
        attempt.stored = written
        attempt.members[uid] = member
        del attempt.failing[uid]
        log.info("member of group entered again", pod=member.pod.key, node=member.node)
        if await self._write(attempt, [member], shared=False):
            attempt.failing[uid] = self._clock.monotonic()
            attempt.failed[uid] = member.node

    def _waits(self, pod: Pod) -> bool:
        known = self._pods.get(pod.key)
        return known is not None and known.uid == pod.uid and not known.deleting

    def _has_failed(self, attempt: _Attempt, member: MemberPlan) -> bool:
        """Whether a volume that was held for it is not any more, or its provisioner has unselected the node."""
        for binding in member.plan.static:
            volume = self._volumes.get(binding.volume.key)
            if binding.volume.key not in attempt.written:
                continue
            if volume is None or not self._is_reserved(binding, volume, attempt.written):
                return True
        for each in member.plan.provision:
            claim = self._claims.get(each.claim.key)
            if each.claim.key not in attempt.written:
                continue
            if claim is None or claim.uid != each.claim.uid:
                return True
            is_old = int(claim.metadata.resource_version) < attempt.written.get(claim.key, 0)
            if not is_old and not claim.spec.volume_name and claim.selected_node != member.node:
                return True
        return False

    def _is_reserved(self, binding: StaticBinding, volume: Volume, written: Mapping[str, int]) -> bool:
        if int(volume.metadata.resource_version) < written.get(volume.key, 0):
            return True
        reference, uid = volume.spec.claim_ref, binding.claim.uid
        return self._holds.holds(volume, uid) or (reference is not None and reference.uid == uid)

    def _has_its_volumes(self, member: MemberPlan) -> bool:
        """Whether its claims were bound on the node although a write seemed to fail: there is nothing to roll back."""
        plan = member.plan
        bound = (self._is_bound_on(each, plan.node) for each in plan.provision)
        return bool(plan.provision) and not plan.static and all(bound)

    def _is_bound_on(self, each: Provisioning, node: str) -> bool:
        """A claim that was created again with the name is another one."""
        claim = self._claims.get(each.claim.key)
        return claim is not None and bool(claim.spec.volume_name) and has_selected_node(each, node, claim)

    def _is_clear(self, member: MemberPlan) -> bool:
        """Whether nothing of an earlier plan is left that is rolled back, so that another can be written."""
        for each in member.plan.provision:
            claim = self._claims.get(each.claim.key)
            if claim is not None and claim.selected_node and not claim.spec.volume_name:
                return False
        held = (self._volumes.get(each.volume.key) for each in member.plan.static)
        mine = {each.claim.uid for each in member.plan.static}
        return not any(
            volume is not None and objects.held_for(volume, hold_namespace=self._namespace) in mine for volume in held
        )

    async def _write(self, attempt: _Attempt, members: Iterable[MemberPlan], *, shared: bool) -> set[str]:
        """Existing volumes first, since provisioning cannot be taken back at once; the pods whose volumes were taken.
        Writing again what is written changes nothing."""
        record = attempt.stored
        slots = asyncio.Semaphore(WRITES_IN_FLIGHT)
        failures: set[str] = set()

        async def one(uids: Iterable[str], write: Callable[[], Awaitable[tuple[str, int]]]) -> None:
            async with slots:
                try:
                    key, version = await write()
                    attempt.written[key] = version
                except BindFailed as failure:
                    log.info("volume of group not held", group=attempt.group.key, error=str(failure))
                    failures.update(uids)

        plans: list[tuple[tuple[str, ...], BindingPlan]] = [((each.pod.uid,), each.plan) for each in members]
        if shared:
            plans += [(each.users, each.plan) for each in attempt.plan.shared]
        # Functions and not coroutines: a crash or an error among the first leaves the others without one.
        static: list[Callable[[], Awaitable[None]]] = []
        dynamic: list[Callable[[], Awaitable[None]]] = []
        for uids, plan in plans:
            mark = group_record.GroupMark(record.uid, _epoch(record.record, uids, plan.node))
            static += [
                partial(one, uids, partial(self._hold, each, plan.node, attempt.group.uid, mark, attempt.deadline))
                for each in plan.static
            ]
            dynamic += [
                partial(one, uids, partial(self._select, each, plan.node, attempt.deadline)) for each in plan.provision
            ]
        await asyncio.gather(*(write() for write in static))
        if not failures:
            # Otherwise they are written once the plan is repaired; provisioning for a group that lacks a volume is in
            # vain.
            await asyncio.gather(*(write() for write in dynamic))
        return failures

    async def _hold(
        self, binding: StaticBinding, node: str, group_uid: str, mark: group_record.GroupMark, deadline: float
    ) -> tuple[str, int]:
        patch = self._holds.hold(binding, node, group_uid=group_uid, mark=mark)

        def is_held(current: Volume) -> bool:
            return self._holds.holds(current, binding.claim.uid) and group_objects.mark_of(current) == mark

        volume = await self._writes.write(VOLUME, binding.volume, patch, is_held, deadline)
        return volume.key, int(volume.metadata.resource_version)

    async def _select(self, each: Provisioning, node: str, deadline: float) -> tuple[str, int]:
        is_selected = partial(has_selected_node, each, node)
        claim = await self._writes.write(CLAIM, each.claim, selection(each, node), is_selected, deadline)
        return claim.key, int(claim.metadata.resource_version)

    async def _unselect(self, attempt: _Attempt) -> None:
        """Clear the selected nodes of claims that no provisioner has begun with; others are cleared by a rollback."""
        plans = [*(each.plan for each in attempt.members.values()), *(each.plan for each in attempt.plan.shared)]
        for plan in plans:
            for each in plan.provision:
                claim = self._claims.get(each.claim.key)
                if claim is None or claim.uid != each.claim.uid or claim.selected_node != plan.node:
                    continue
                name = objects.intent_name(claim.uid)
                with contextlib.suppress(ApiError, Unreachable):
                    intent = await get_or_none(self._client, objects.INTENT_RECORD, name, namespace=self._namespace)
                    if intent is not None or claim.spec.volume_name:
                        continue
                    await self._client.patch(CLAIM, claim.name, _unselection(claim), namespace=claim.namespace)


def _has_quorum_to_hold(group: PodGroup, plan: GroupPlan, placed: int) -> bool:
    """Whether part of a quorum could get its volumes; members beyond it are pods by themselves."""
    return placed < group.min_count and plan.late_claims > 1


def entries(plan: GroupPlan) -> list[group_record.RecordedMember]:
    """The members as the record has them; those that share a claim all have it."""
    found = {uid: entry(member.pod, member.plan) for uid, member in plan.members.items()}
    for shared in plan.shared:
        claims = _claims_of(shared.plan)
        for uid in shared.users:
            if uid in found:
                found[uid] = structs.replace(found[uid], claims=(*found[uid].claims, *claims))
    return list(found.values())


def entry(pod: Pod, plan: BindingPlan) -> group_record.RecordedMember:
    return group_record.RecordedMember(pod.uid, plan.node, 0, _claims_of(plan))


def _claims_of(plan: BindingPlan) -> tuple[group_record.MemberClaim, ...]:
    static = (group_record.MemberClaim(each.claim.uid, each.volume.name) for each in plan.static)
    return (*static, *(group_record.MemberClaim(each.claim.uid) for each in plan.provision))


def _agrees(known: group_record.RecordedMember, planned: group_record.RecordedMember) -> bool:
    """Whether the record of an earlier leader says the same; claims that have their volume by now are not planned."""
    chosen = {claim.uid: claim.volume for claim in known.claims}
    return known.node == planned.node and all(chosen.get(claim.uid) == claim.volume for claim in planned.claims)


def _epoch(record: GroupRecord, pods: Iterable[str], node: str) -> int:
    """Of the member on the plan's node: a shared claim's volume is marked for one of its users."""
    found = (record.by_pod[pod] for pod in pods if pod in record.by_pod)
    return next((member.epoch for member in found if member.node == node), record.epoch)


def _given_up(record: GroupRecord, now: float, failed: Mapping[str, str]) -> GivenUp:
    reason = record.reason or GiveUpReason.MemberFailed.name
    text = GiveUpReason[reason].value if reason in GiveUpReason.__members__ else reason
    idle = record.phase is GroupPhase.IDLE
    pause = record.not_before - now if idle else group_policy.group_backoff(record.count + 1)
    return GivenUp(reason, text, max(pause, 0.0), dict(failed))


def _unselection(claim: Claim) -> MergePatch:
    metadata = {
        "resourceVersion": claim.metadata.resource_version,
        "annotations": {well_known.SELECTED_NODE: None},
    }
    return MergePatch({"metadata": metadata})
