"""What follows the decision for a group: bind its members after its volumes, or preempt pods for it.

Members count on their nodes from the decision on. If the volumes of the quorum cannot be had, everything is released
and the group returns to the queue as one. After the commit each member is bound by itself; one that fails returns to
the queue with its group, after a backoff, and the others stay. For a refused group pods are evicted where that lets it
run, and its members are nominated to their nodes.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.views.pod_groups import SCHEDULER_ERROR, PodGroup
from mooring.api.views.pods import Pod
from mooring.client.recorder import NORMAL
from mooring.clock import Clock
from mooring.scheduler import cluster_events
from mooring.scheduler.binding.binder import Binder
from mooring.scheduler.binding.group_binder import Committed, GivenUp, GroupOutcome
from mooring.scheduler.binding.writes import BindFailed
from mooring.scheduler.groups.attempt import GroupDecision, GroupHolder, GroupRequest, SchedulerServices
from mooring.scheduler.groups.members import Group, GroupMembers, MemberState
from mooring.scheduler.groups.reports import GroupReports
from mooring.scheduler.kubelet_rejections import KubeletRejectionWatch
from mooring.scheduler.metrics import FailureStage, Result, SchedulerMetrics
from mooring.scheduler.preemption.evaluator import Preemption
from mooring.scheduler.preemption.executor import Preemptor
from mooring.scheduler.preemption.group_evaluator import (
    GroupPreemption,
    NoGroupPreemption,
    VictimGroup,
    ineligible_group,
    preempt_for_group,
    victim_units,
)
from mooring.scheduler.preemption.superseding import HeldGroupPlan, groups_to_supersede
from mooring.scheduler.queue import QueuedGroup, SchedulingQueue
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan
from mooring.volumes.group import GroupPlan, GroupRefusal, MemberPlan

log: FilteringBoundLogger = structlog.get_logger(__name__)

SCHEDULED: Final = "Scheduled"
#: Reason of giving up after an exception that is a bug.
INTERNAL_ERROR: Final = "InternalError"


class Sync(Protocol):
    """Brings the queue to the state of the group."""

    def __call__(self, group: Group, *, edited: bool = False) -> None: ...


@dataclass(eq=False)
class _Attempt:
    """A plan on its way to the API server."""

    queued: QueuedGroup
    group: Group
    pod_group: PodGroup
    plan: GroupPlan
    decision: GroupDecision
    began: float
    #: As planned, or as replanned since.
    members: dict[str, MemberPlan] = field(default_factory=dict)


class GroupBindings:
    """Binds any number of groups concurrently."""

    def __init__(
        self,
        clock: Clock,
        services: SchedulerServices,
        *,
        queue: SchedulingQueue,
        binder: Binder,
        preemptor: Preemptor,
        metrics: SchedulerMetrics,
        rejections: KubeletRejectionWatch,
    ) -> None:
        self._clock = clock
        self._services = services
        self._queue = queue
        self._binder = binder
        self._preemptor = preemptor
        self._metrics = metrics
        self._rejections = rejections
        #: By key of the group, while its volumes are being held.
        self._held: dict[str, _Attempt] = {}

    def attach(self, holder: GroupHolder, reports: GroupReports, sync: Sync) -> None:
        """Called once, by the GroupScheduler."""
        self._holder = holder
        self._reports = reports
        self._sync = sync

    def submit(
        self,
        queued: QueuedGroup,
        group: Group,
        pod_group: PodGroup,
        plan: GroupPlan,
        decision: GroupDecision,
        tasks: asyncio.TaskGroup,
    ) -> None:
        """Bind the group in a task. The plan is reserved, its members count on their nodes."""
        attempt = _Attempt(queued, group, pod_group, plan, decision, self._clock.monotonic(), dict(plan.members))
        for uid, member in plan.members.items():
            group.assigned[uid] = member.node
            self._rejections.scheduled(member.pod)
            self._preemptor.on_binding_started(member.pod, member.node)
        self._queue.binding(queued)
        self._services.requeue_for_event(None)
        tasks.create_task(self._bind(attempt, tasks), name=f"bind group {group.key}")

    async def _bind(self, attempt: _Attempt, tasks: asyncio.TaskGroup) -> None:
        outcome = await self._hold(attempt)
        if isinstance(outcome, GivenUp):
            self._give_up(attempt, outcome)
            return
        group = attempt.group
        if isinstance(outcome, Committed):
            self._reports.scheduled(attempt.pod_group)
            # Members that are not part of the commit are scheduled by themselves.
            for uid in attempt.members.keys() - outcome.members.keys():
                self._release(attempt, attempt.members[uid])
            attempt.members = dict(outcome.members)
        now = self._clock.monotonic()
        if group.unassigned() and attempt.members:
            self._queue.reactivate_group(attempt.queued, now)
            self._services.wake()
        elif group.unassigned():
            # Nothing has come of the attempt: the next one would end the same way at once.
            self._queue.requeue_group_with_backoff(attempt.queued, now)
        else:
            self._queue.remove_group(group.key)
        self._sync(group)
        bound = {pod.uid for pod in group.pods(MemberState.PLACED)}
        carriers = {} if isinstance(outcome, Committed) else _carriers(attempt.plan, attempt.members)
        for uid, member in attempt.members.items():
            if isinstance(outcome, Committed):
                plan, awaited = BindingPlan(member.node), frozenset(member.pod.claim_keys)
            else:
                plan, awaited = carriers[uid]
            work = self._bind_member(attempt, member, plan, awaited, bound)
            tasks.create_task(work, name=f"bind {member.pod.key}")

    async def _hold(self, attempt: _Attempt) -> GroupOutcome:
        def replan(pod: Pod, failed_on: str) -> MemberPlan | None:
            return self._replan(attempt, pod, failed_on)

        placed = sum(1 for pod, _ in attempt.group.nodes() if pod.uid not in attempt.members)
        self._held[attempt.group.key] = attempt
        try:
            return await self._holder.hold(attempt.pod_group, attempt.plan, placed=placed, replan=replan)
        except Exception as error:
            pod = next(iter(attempt.members.values())).pod
            return GivenUp(INTERNAL_ERROR, self._services.internal_error(pod, FailureStage.BINDING, error), 0.0, {})
        finally:
            self._held.pop(attempt.group.key, None)

    def held_below(self, priority: int) -> list[HeldGroupPlan]:
        """The groups of lower priority whose volumes are being held."""
        return [
            HeldGroupPlan(
                attempt.pod_group.uid,
                attempt.group.key,
                attempt.pod_group.spec.priority,
                attempt.pod_group.metadata.creation_timestamp or "",
                tuple(member.pod for member in attempt.members.values()),
                (*(each.plan for each in attempt.members.values()), *(each.plan for each in attempt.plan.shared)),
            )
            for attempt in self._held.values()
            if attempt.pod_group.spec.priority < priority
        ]

    def _replan(self, attempt: _Attempt, pod: Pod, failed_on: str) -> MemberPlan | None:
        """Another node for one member, with all its siblings where they are."""
        group = attempt.group
        failures = group.provisioning_failures.setdefault(pod.uid, Counter())
        if failed_on not in failures:
            failures[failed_on] += 1
        found = attempt.decision.replan(pod.uid, avoid=tuple(failures))
        if found is None:
            attempt.members.pop(pod.uid, None)
            group.assigned.pop(pod.uid, None)
        else:
            attempt.members[pod.uid] = found
            group.assigned[pod.uid] = found.node
            self._preemptor.on_binding_started(found.pod, found.node)
        self._services.requeue_for_event(None)
        return found

    def _give_up(self, attempt: _Attempt, outcome: GivenUp) -> None:
        group, failed = attempt.group, outcome.failed
        for uid, node in failed.items():
            failures = group.provisioning_failures.setdefault(uid, Counter())
            failures[node] = max(failures[node], 1)
        for uid, member in tuple(attempt.members.items()):
            self._preemptor.on_binding_failed(member.pod, useful=uid not in failed)
            self._release(attempt, member)
            self._metrics.ended(member.pod.spec.scheduler_name, Result.ERROR, self._clock.monotonic() - attempt.began)
        for shared in attempt.plan.shared:
            user = next((each for uid in shared.users if (each := attempt.plan.members.get(uid)) is not None), None)
            if user is not None:
                self._services.unreserve(user.pod, shared.plan)
        attempt.decision.undo()
        log.info("pod group given up", pod_group=group.key, reason=outcome.reason, message=outcome.message)
        message = f"{outcome.reason}: {outcome.message}" if outcome.message else outcome.reason
        self._reports.given_up(attempt.pod_group, message)
        for member in attempt.members.values():
            group.reported[member.pod.uid] = message
            self._services.report_failure(member.pod, SCHEDULER_ERROR, message, nominated="")
        self._queue.requeue_group_with_backoff(attempt.queued, self._clock.monotonic(), pause=outcome.pause)
        self._sync(group)
        self._services.wake()

    def _release(self, attempt: _Attempt, member: MemberPlan) -> None:
        """The member has no node any more."""
        attempt.group.assigned.pop(member.pod.uid, None)
        self._services.unreserve(member.pod, member.plan)

    async def _bind_member(
        self, attempt: _Attempt, member: MemberPlan, plan: BindingPlan, awaited: Collection[str], bound: set[str]
    ) -> None:
        pod, group, pod_group = member.pod, attempt.group, attempt.pod_group
        try:
            await self._binder.bind(pod, plan, awaited=awaited)
        except Exception as error:
            if isinstance(error, BindFailed):
                message, failed = str(error), error.provisioning_failed
            else:
                message, failed = self._services.internal_error(pod, FailureStage.BINDING, error), False
            self._member_failed(attempt, member, plan, message, provisioning_failed=failed)
            return
        self._metrics.ended(pod.spec.scheduler_name, Result.SCHEDULED, self._clock.monotonic() - attempt.began)
        self._metrics.scheduled(member.plan, group.attempts[pod.uid] or 1)
        log.info("pod scheduled", pod=pod.key, node=member.node, pod_group=group.key)
        self._services.record(pod, NORMAL, SCHEDULED, f"Successfully assigned {pod.key} to {member.node}")
        # What was committed is an earlier leader's plan, if it has begun with the group.
        shared = (binding for each in attempt.plan.shared for binding in each.plan.static)
        self._services.release_unused((*member.plan.static, *shared))
        bound.add(pod.uid)
        if len(bound) >= pod_group.min_count:
            self._reports.scheduled(pod_group)

    def _member_failed(
        self, attempt: _Attempt, member: MemberPlan, plan: BindingPlan, message: str, *, provisioning_failed: bool
    ) -> None:
        pod, group = member.pod, attempt.group
        stays_nominated = self._preemptor.on_binding_failed(pod, useful=not provisioning_failed)
        if provisioning_failed:
            group.provisioning_failures.setdefault(pod.uid, Counter())[member.node] += 1
        group.assigned.pop(pod.uid, None)
        static, provision = (*member.plan.static, *plan.static), (*member.plan.provision, *plan.provision)
        self._services.unreserve(pod, BindingPlan(member.node, static, provision))
        self._metrics.ended(pod.spec.scheduler_name, Result.ERROR, self._clock.monotonic() - attempt.began)
        group.reported[pod.uid] = message
        self._services.report_failure(pod, SCHEDULER_ERROR, message, nominated=None if stays_nominated else "")
        if pod.key in group.by_state[MemberState.PENDING]:
            priority, attempts = attempt.pod_group.spec.priority, group.attempts[pod.uid]
            self._queue.put_group_with_backoff(group.key, priority, attempts, self._clock.monotonic())
        self._sync(group)
        self._services.wake()


def _carriers(plan: GroupPlan, members: dict[str, MemberPlan]) -> dict[str, tuple[BindingPlan, frozenset[str]]]:
    """By pod uid, what its binding writes, and the shared claims that another member's binding writes."""
    found = {uid: (member.plan, frozenset[str]()) for uid, member in members.items()}
    for shared in plan.shared:
        users = [uid for uid in shared.users if uid in members]
        writer = next((uid for uid in users if members[uid].node == shared.plan.node), "")
        for uid in users:
            own, awaited = found[uid]
            if uid == writer:
                both = BindingPlan(
                    own.node, (*own.static, *shared.plan.static), (*own.provision, *shared.plan.provision)
                )
                found[uid] = both, awaited
            else:
                found[uid] = own, awaited | {shared.claim}
    return found


class GroupPostFilter(NamedTuple):
    #: kube-scheduler's text; "" where preemption is off.
    reason: str = ""
    #: By pod uid, the node that members are nominated to now, "" for those that no longer are.
    nominated: Mapping[str, str] = MappingProxyType({})
    #: Why the group does not fit without any pod of lower priority either.
    refusal: GroupRefusal | None = None


class GroupPreemptor:
    def __init__(
        self,
        services: SchedulerServices,
        rng: random.Random,
        *,
        snapshot: Snapshot,
        preemptor: Preemptor,
        members: GroupMembers,
    ) -> None:
        self._services = services
        self._snapshot = snapshot
        self._preemptor = preemptor
        self._members = members
        self._rng = rng

    def withdraw(self, pods: Sequence[Pod]) -> dict[str, str]:
        """End the nominations of members while they are decided together; by pod uid. Beside its siblings' nominations
        a member would not fit on nodes that only they may use."""
        nominator = self._preemptor.nominator
        nominated = {pod.uid: node for pod in pods if (node := nominator.node_of(pod))}
        for pod in pods:
            nominator.remove(pod, bound_to=nominated.get(pod.uid, ""))
        return nominated

    def restore(self, pods: Sequence[Pod], nominated: Mapping[str, str]) -> None:
        """Nominate the members as before."""
        for pod in pods:
            if node := nominated.get(pod.uid):
                self._preemptor.nominator.put(pod, node)

    def to_supersede(
        self, pod_group: PodGroup, request: GroupRequest, held: Sequence[HeldGroupPlan]
    ) -> tuple[HeldGroupPlan, ...]:
        """Of groups of lower priority that are being held, those to be given up for a refused group."""
        if not held or any(pod.spec.preemption_policy == "Never" for pod in request.members):
            return ()
        nominator = self._preemptor.nominator
        return groups_to_supersede(self._snapshot, request.profile, self._rng, request.given, held, nominator=nominator)

    def run_post_filter(
        self, pod_group: PodGroup, request: GroupRequest, before: Mapping[str, str], tasks: asyncio.TaskGroup
    ) -> GroupPostFilter:
        """Try preemption for a refused group; evictions run in a task. `before`: what `withdraw` returned."""
        if request.profile.preemptor is None or not self._snapshot.nodes:
            return GroupPostFilter()
        self._preemptor.count_attempt()
        nominator, priority = self._preemptor.nominator, pod_group.spec.priority
        outcome: GroupPreemption | GroupRefusal | NoGroupPreemption | None
        outcome = ineligible_group(self._snapshot, request.members, priority, before)
        if outcome is None:
            outcome = preempt_for_group(
                self._snapshot,
                request.profile,
                self._rng,
                request.given,
                victim_units(self._snapshot, priority, self._group_of),
                nominator=nominator,
                budgets=self._preemptor.budgets,
            )
        ended = dict.fromkeys(before, "")
        if isinstance(outcome, NoGroupPreemption):
            if outcome is not NoGroupPreemption.ONGOING:
                return GroupPostFilter(outcome, ended)
            self.restore(request.members, before)
            return GroupPostFilter(outcome)
        if isinstance(outcome, GroupRefusal):
            return GroupPostFilter(outcome.message, ended, outcome)
        for pod in request.members:
            if node := outcome.nodes.get(pod.uid):
                nominator.put(pod, node)
        for preemptor, preemption in _by_node(request.members, outcome):
            task = self._evict(preemptor, preemption)
            tasks.create_task(task, name=f"preempt for {preemptor.key}")
        return GroupPostFilter(outcome.message, ended | dict(outcome.nodes))

    async def _evict(self, pod: Pod, preemption: Preemption) -> None:
        try:
            done = await self._preemptor.evict_victims(pod, preemption, self._services.recorder(pod))
        except Exception as error:
            self._services.internal_error(pod, FailureStage.PREEMPTION, error)
            self._preemptor.nominator.remove(pod)
            done = False
        if not done:
            # No deletion of a victim will requeue the group.
            self._services.requeue_for_event(cluster_events.node_released_event(preemption.victims[0]))

    def _group_of(self, pod: Pod) -> VictimGroup | None:
        group = self._members.get(pod.group_key) if pod.group_key else None
        if group is None or group.pod_group is None:
            return None
        return VictimGroup(group.key, group.pod_group.spec.priority, group.pod_group.disrupted_together)


def _by_node(members: Sequence[Pod], outcome: GroupPreemption) -> list[tuple[Pod, Preemption]]:
    """The victims of each node, for one of the members that are nominated there; victims elsewhere for the first."""
    nominated = {node: pod for pod in reversed(members) if (node := outcome.nodes.get(pod.uid))}
    first = next(pod for pod in members if pod.uid in outcome.nodes)
    found: dict[str, tuple[Pod, list[Pod]]] = {}
    for victim in outcome.victims:
        pod = nominated.get(victim.spec.node_name, first)
        found.setdefault(pod.uid, (pod, []))[1].append(victim)
    return [(pod, Preemption(outcome.nodes[pod.uid], tuple(victims), 0)) for pod, victims in found.values()]
