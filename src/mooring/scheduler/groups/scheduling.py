"""Scheduling of groups: a PodGroup's members are decided together, held together and then bound.

    pods, PodGroups ──► members ──► queue ──► decision in slices ──► plan ──► hold ──► committed ──► bind each member
                                      ▲           │ refusal                    │ given up            │ failed
                                      └───────────┘◄───────────────────────────┘◄────────────────────┘

Between two slices single pods are scheduled. A decision counts only if the group is as it was when it began.

An API server serves `scheduling.k8s.io/v1beta1`, `v1alpha3` or neither, and may deny the scheduler to list PodGroups.
So no start waits for them: the first request decides, and it is repeated every five minutes. Where PodGroups cannot be
read, their pods are single pods, which the plugin `Unsupported` rejects.
"""

import asyncio
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Forbidden, NotFound
from mooring.api.kinds import POD_GROUP, POD_GROUP_ALPHA, Kind
from mooring.api.views.pod_groups import SCHEDULER_ERROR, UNSCHEDULABLE, PodGroup
from mooring.api.views.pods import Pod
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.group_cycle import decision_of
from mooring.scheduler.groups.attempt import (
    Decide,
    GroupDecision,
    GroupHolder,
    GroupRequest,
    SchedulerServices,
    rejected_members,
)
from mooring.scheduler.groups.binding import GroupBindings, GroupPostFilter, GroupPreemptor
from mooring.scheduler.groups.members import Group, GroupMembers, GroupState, MemberState, invalid_group
from mooring.scheduler.groups.reports import GroupReports
from mooring.scheduler.metrics import FailureStage, SchedulerMetrics
from mooring.scheduler.preemption.executor import Preemptor
from mooring.scheduler.preemption.group_evaluator import PREFIX
from mooring.scheduler.preemption.superseding import HeldGroupPlan
from mooring.scheduler.queue import AFTER_GROUP, PodState, QueuedGroup, QueuedPod, SchedulingQueue
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.group import GroupPlan, GroupRefusal, RefusalCode
from mooring.volumes.group.outcome import certificate_lines

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: kube-scheduler's prefix of the message of a member for which a node was found.
GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable"
#: How often groups that wait for members are looked at.
WAITING_REPORT_SECONDS: Final = 5.0


#: Between two looks at what the API server serves.
DISCOVERY_SECONDS: Final = 300.0
#: Between two looks while the API server does not answer.
RETRY_SECONDS: Final = 1.0
#: The first one that is served is used.
VERSIONS: Final = (POD_GROUP, POD_GROUP_ALPHA)
#: A label that no PodGroup has: the request shows whether the kind is served, and returns no object.
NO_OBJECTS: Final = "mooring.dev/none"


class Serving(enum.Enum):
    """Whether PodGroups can be read."""

    #: The API server has not answered yet.
    UNKNOWN = "unknown"
    SERVED = "served"
    NOT_SERVED = "not served"
    FORBIDDEN = "forbidden"


class PodGroupSource:
    """Reports PodGroups to `on_group`, and changes of `serving` to `on_serving`, after the first objects."""

    def __init__(
        self,
        context: Context,
        on_group: Callable[[PodGroup | None, PodGroup | None], None],
        on_serving: Callable[[Serving], None],
    ) -> None:
        self._client = context.client
        self._informers = context.informers
        self._clock = context.clock
        self._on_group = on_group
        self._on_serving = on_serving
        self.serving = Serving.UNKNOWN
        #: The version that is read.
        self.kind: Kind[PodGroup] = POD_GROUP
        self._followed: set[Kind[PodGroup]] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self._look()
            except (ApiError, Unreachable) as error:
                log.info("served versions of PodGroup not known", error=str(error))
                await self._clock.sleep(RETRY_SECONDS)
            else:
                await self._clock.sleep(DISCOVERY_SECONDS)

    async def _look(self) -> None:
        for kind in VERSIONS:
            try:
                await self._client.list(kind, labels=NO_OBJECTS)
            except NotFound:
                continue
            except Forbidden as error:
                self._set(Serving.FORBIDDEN, str(error))
                return
            await self._follow(kind)
            self._set(Serving.SERVED, kind.api_version)
            return
        self._set(Serving.NOT_SERVED, "")

    async def _follow(self, kind: Kind[PodGroup]) -> None:
        self.kind = kind
        if kind in self._followed:
            return
        self._followed.add(kind)

        def handle(before: PodGroup | None, after: PodGroup | None) -> None:
            # The informer of another version has the same objects.
            if self.kind is kind:
                self._on_group(before, after)

        await self._informers.of(kind).subscribe(handle)

    def _set(self, serving: Serving, detail: str) -> None:
        if self.serving is not serving:
            log.info("PodGroups are read" if serving is Serving.SERVED else "PodGroups are not read", detail=detail)
            self.serving = serving
            self._on_serving(serving)


class GroupScheduler:
    """Groups of the scheduler component; `run` follows PodGroups and writes conditions."""

    def __init__(
        self,
        context: Context,
        services: SchedulerServices,
        *,
        queue: SchedulingQueue,
        snapshot: Snapshot,
        profiles: Mapping[str, Profile],
        metrics: SchedulerMetrics,
        decide: Decide,
        preemptor: Preemptor,
        holder: GroupHolder,
        bindings: GroupBindings,
    ) -> None:
        self._clock = context.clock
        self._services = services
        self._queue = queue
        self._snapshot = snapshot
        self._profiles = profiles
        self._metrics = metrics
        self._decide = decide
        self._holder = holder
        self._members = GroupMembers(profiles)
        self._preempting = GroupPreemptor(
            services, context.rng, snapshot=snapshot, preemptor=preemptor, members=self._members
        )
        self._source = PodGroupSource(context, self._on_group, self._on_serving)
        self._reports = GroupReports(context, self._pod_group, lambda: self._source.kind)
        self._bindings = bindings
        bindings.attach(holder, self._reports, self._sync)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._source.run(), name="pod group source")
            tasks.create_task(self._reports.run(), name="pod group conditions")
            while True:
                await self._clock.sleep(WAITING_REPORT_SECONDS)
                self._reports.report_waiting(self._members.get)

    def member_counts(self) -> dict[PodState, int]:
        """Pending members by the state of their group in the queue."""
        states = self._queue.group_states()
        found: dict[PodState, int] = {}
        for group in self._members.all():
            if (state := states.get(group.key)) is not None:
                found[state] = found.get(state, 0) + len(group.pods(MemberState.PENDING))
        return found

    def on_pod(self, before: Pod | None, after: Pod | None) -> bool:
        """Whether the pod is a member of a group, and so not for the scheduling queue."""
        pod = after or before
        if pod is None or not pod.group_key:
            return False
        changed = self._members.observe_pod(before, after)
        if self._source.serving not in (Serving.UNKNOWN, Serving.SERVED):
            return False
        if changed is not None:
            # A member that got its node changes nothing for the others.
            placed = after is not None and self._members.state_of(after) is MemberState.PLACED
            self._sync(changed, edited=not placed)
        return True

    def _on_group(self, before: PodGroup | None, after: PodGroup | None) -> None:
        changed = self._members.observe_group(before, after)
        if changed is not None and self._source.serving is Serving.SERVED:
            self._sync(changed, edited=True)

    def _on_serving(self, serving: Serving) -> None:
        now = self._clock.monotonic()
        self._snapshot.schedules_groups = serving is Serving.SERVED
        for group in tuple(self._members.all()):
            waiting = [pod for state in (MemberState.PENDING, MemberState.GATED) for pod in group.pods(state)]
            for pod in waiting:
                if serving is Serving.SERVED:
                    self._queue.remove(pod.key)
                else:
                    self._queue.add_or_update(pod, now)
            if serving is Serving.SERVED:
                self._sync(group, edited=True)
            else:
                self._queue.remove_group(group.key)
        self._services.wake()

    def _pod_group(self, key: str) -> PodGroup | None:
        group = self._members.get(key)
        return None if group is None else group.pod_group

    def _sync(self, group: Group, *, edited: bool = False) -> None:
        """Bring the queue to the state of the group."""
        now = self._clock.monotonic()
        state = GroupState.MISSING if self._source.serving is Serving.UNKNOWN else group.status.state
        if state in (GroupState.MISSING, GroupState.WAITING_FOR_MEMBERS):
            self._queue.gate_group(group.key, now)
            if self._source.serving is Serving.SERVED:
                self._reports.waits(group)
            return
        self._reports.no_longer_waits(group.key)
        if state is GroupState.READY and group.pod_group is not None:
            self._queue.put_group(group.key, group.pod_group.spec.priority, now, edited=edited)
            self._services.wake()
        else:
            self._queue.remove_idle_group(group.key)

    async def schedule(self, queued: QueuedGroup, tasks: asyncio.TaskGroup) -> None:
        """One attempt. Any exception concerns this group only: it is retried with backoff."""
        group = self._members.get(queued.key)
        try:
            await self._attempt(queued, group, tasks)
        except Exception as error:
            pods = [] if group is None else group.unassigned()
            text = self._services.internal_error(pods[0] if pods else Pod(), FailureStage.DECISION, error)
            self._queue.requeue_group_with_backoff(queued, self._clock.monotonic())
            if group is not None and group.pod_group is not None:
                self._reports.failed(group.pod_group, SCHEDULER_ERROR, text)

    async def _attempt(self, queued: QueuedGroup, group: Group | None, tasks: asyncio.TaskGroup) -> None:
        if group is None or group.pod_group is None or group.status.state is not GroupState.READY:
            self._queue.remove_group(queued.key)
            if group is not None:
                self._sync(group)
            return
        pod_group, pods, placed = group.pod_group, group.unassigned(), list(group.nodes())
        if problem := invalid_group(pod_group, [*pods, *(pod for pod, _ in placed)]):
            # Only a change of the group helps.
            self._queue.add_unschedulable_group(queued, (), self._clock.monotonic())
            self._report_error(group, pod_group, pods, problem)
            return
        profile = self._profiles[pods[0].spec.scheduler_name]
        key, failures = pod_group.topology_key, group.provisioning_failures
        pinned = await self._resume(pod_group, pods, group)
        request = GroupRequest(profile, pods, pod_group.min_count, placed, key, failures, pinned)
        group.attempts.update(pod.uid for pod in pods)
        nominated = self._preempting.withdraw(pods)
        decision = self._decide(request)
        try:
            unschedulable = await self._run(decision)
            if pinned and isinstance(decision.result, GroupRefusal):
                request = request._replace(pinned={})
                decision = self._decide(request)
                unschedulable += await self._run(decision)
        except BaseException:
            decision.undo()
            self._preempting.restore(pods, nominated)
            raise
        result, now = decision.result, self._clock.monotonic()
        if _is_outdated(group, pod_group, pods) or (isinstance(result, GroupPlan) and decision.stale()):
            decision.undo()
            self._preempting.restore(pods, nominated)
            self._released(unschedulable)
            self._queue.requeue_group_with_backoff(queued, now)
        elif isinstance(result, GroupPlan):
            self._report_leftover(group, result)
            self._bindings.submit(queued, group, pod_group, result, decision, tasks)
        elif result is not None:
            self._released(unschedulable)
            self._refuse(queued, group, pod_group, request, result, nominated, tasks)

    async def _resume(self, pod_group: PodGroup, pods: Sequence[Pod], group: Group) -> Mapping[str, str]:
        """At the first attempt of this process, the nodes that the record of an earlier leader has for the members."""
        if group.attempts or not any(pod.claim_keys for pod in pods):
            return {}
        try:
            return await self._holder.resume(pod_group) or {}
        except (ApiError, Unreachable) as error:
            # A plan that does not agree with the record has it given up.
            log.info("record of group not read", group=group.key, error=str(error))
            return {}

    async def _run(self, decision: GroupDecision) -> list[QueuedPod]:
        """Decide in slices; returns the pods that did not fit meanwhile."""
        began = self._clock.monotonic()
        unschedulable: list[QueuedPod] = []
        while not decision.step():
            unschedulable += await self._services.schedule_pods()
        self._metrics.group_decision.observe(self._clock.monotonic() - began)
        self._metrics.group_looks.observe(decision.looks)
        return unschedulable

    def _released(self, unschedulable: Sequence[QueuedPod]) -> None:
        """Pods that did not fit beside what the group had reserved are tried again."""
        self._queue.retry(unschedulable, AFTER_GROUP, self._clock.monotonic())
        self._services.requeue_for_event(None)

    def _refuse(
        self,
        queued: QueuedGroup,
        group: Group,
        pod_group: PodGroup,
        request: GroupRequest,
        refusal: GroupRefusal,
        before: Mapping[str, str],
        tasks: asyncio.TaskGroup,
    ) -> None:
        """`before`: the nodes that members were nominated to, by pod uid."""
        if refusal.code is RefusalCode.DOMAINS_DIFFER:
            rejected = rejected_members(request, (refusal,), self._snapshot)
            self._queue.add_unschedulable_group(queued, rejected, self._clock.monotonic())
            self._report_error(group, pod_group, request.members, refusal.message)
            return
        message = _group_message(request, refusal)
        superseded = self._preempting.to_supersede(
            pod_group, request, self._bindings.held_below(pod_group.spec.priority)
        )
        if superseded:
            # What they hold comes back without an eviction.
            tasks.create_task(self._supersede(pod_group, superseded), name=f"supersede for {group.key}")
            reason, nominated, without_pods = GroupPostFilter(nominated=dict.fromkeys(before, ""))
        else:
            reason, nominated, without_pods = self._preempting.run_post_filter(pod_group, request, before, tasks)
        refusals = (refusal,) if without_pods is None else (refusal, without_pods)
        rejected = rejected_members(request, refusals, self._snapshot)
        self._queue.add_unschedulable_group(queued, rejected, self._clock.monotonic())
        self._services.requeue_for_event(None)
        whole = f"{message}, {PREFIX}{reason}" if reason else message
        log.info("pod group unschedulable", pod_group=group.key, code=refusal.code.value, message=whole)
        self._reports.failed(pod_group, UNSCHEDULABLE, whole, certificate_lines(refusal) if refusal.certificate else ())
        for pod in request.members:
            decision, node = decision_of(refusal.rejected.get(pod.uid)), nominated.get(pod.uid)
            if decision is not None:
                text = cycle.fit_error(decision)
            else:
                text = f"{GROUP_UNSCHEDULABLE}, {whole}" if pod.uid in refusal.fitted else message
            self._report_member(group, pod, UNSCHEDULABLE, text, nominated=node)

    async def _supersede(self, pod_group: PodGroup, groups: Sequence[HeldGroupPlan]) -> None:
        """The coordinator rolls back what they hold, which requeues the group."""
        for group in groups:
            try:
                done = await self._holder.supersede(group.uid)
            except (ApiError, Unreachable) as error:
                log.info("pod group not superseded", pod_group=group.key, error=str(error))
                continue
            log.info("pod group superseded", pod_group=group.key, by=pod_group.key, given_up=done)

    def _report_leftover(self, group: Group, plan: GroupPlan) -> None:
        """Members beyond the quorum that found no node."""
        for pod in group.unassigned():
            decision = decision_of(plan.leftover.get(pod.uid))
            if decision is not None:
                self._report_member(group, pod, UNSCHEDULABLE, cycle.fit_error(decision))

    def _report_error(self, group: Group, pod_group: PodGroup, pods: Sequence[Pod], message: str) -> None:
        self._reports.failed(pod_group, SCHEDULER_ERROR, message)
        for pod in pods:
            self._report_member(group, pod, SCHEDULER_ERROR, message)

    def _report_member(
        self, group: Group, pod: Pod, reason: str, message: str, *, nominated: str | None = None
    ) -> None:
        """Of a thousand members, only those with news get an event."""
        if group.reported.get(pod.uid) != message or nominated:
            group.reported[pod.uid] = message
            self._services.report_failure(pod, reason, message, nominated=nominated)


def _group_message(request: GroupRequest, refusal: GroupRefusal) -> str:
    """kube-scheduler's, in which a group with a topology constraint is refused in each of its domains."""
    if refusal.code is RefusalCode.NOT_ENOUGH_MEMBERS:
        return f"{GROUP_UNSCHEDULABLE}, {refusal.message}"
    if request.topology_key and refusal.code is not RefusalCode.NO_DOMAIN and refusal.certificate:
        domains = len(refusal.certificate)
        available = f"0/{domains} placements are available, first placement status: {refusal.message}"
        return f"{GROUP_UNSCHEDULABLE}, {available}"
    return refusal.message


def _is_outdated(group: Group, pod_group: PodGroup, pods: Sequence[Pod]) -> bool:
    """Whether the PodGroup or one of these members changed since."""
    current = group.pod_group
    if current is None or current.uid != pod_group.uid or current.spec != pod_group.spec:
        return True
    pending = group.by_state[MemberState.PENDING]
    return any(
        (now := pending.get(pod.key)) is None or now.uid != pod.uid or (now is not pod and now.spec != pod.spec)
        for pod in pods
    )
