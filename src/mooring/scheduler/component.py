"""The scheduler component: one scheduling decision at a time, any number of bindings concurrently.

    informers ──► snapshot, queue ──► run_cycle ──► reserve, assume ──► binder (a task per pod)
                        ▲                 │ unschedulable                  │ failed
                        └─────────────────┘◄──── unreserve, requeue ───────┘

A decision never awaits, so the snapshot does not change meanwhile. A pod stays in the queue as binding until the
informer shows it on its node: whatever happens to responses, it is observed there or retried.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api import kinds, well_known
from mooring.api.errors import Invalid, NotFound
from mooring.api.patches.contract import StrategicPatch
from mooring.api.times import to_time
from mooring.api.views.core import Namespace
from mooring.api.views.meta import Condition
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim
from mooring.client.recorder import NORMAL, WARNING, EventRecorder
from mooring.clock import set_within
from mooring.control.component import Context
from mooring.control.feature_gates import CLAIM_ROLLBACK, CSI_STORAGE_CAPACITY
from mooring.control.workqueue import work
from mooring.scheduler import cluster_events
from mooring.scheduler.attempt_log import Attempt, AttemptLog
from mooring.scheduler.binding.binder import BIND_TIMEOUT, Binder, BindFailed
from mooring.scheduler.binding.claim_rollback import ClaimRollbackRequester
from mooring.scheduler.binding.group_binder import GroupBinder
from mooring.scheduler.cluster_events import ClusterEvent
from mooring.scheduler.event_handlers import follow_nodes_and_storage, log_invalid
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.group_cycle import GroupCycle
from mooring.scheduler.framework.interface import CycleState, Decision, RejectionCode
from mooring.scheduler.groups.attempt import GroupRequest
from mooring.scheduler.groups.binding import GroupBindings
from mooring.scheduler.groups.scheduling import GroupScheduler
from mooring.scheduler.kubelet_rejections import KubeletRejectionWatch
from mooring.scheduler.metrics import FailureStage, Result, SchedulerMetrics
from mooring.scheduler.plugins.gates import GangScheduling, gate_plugins
from mooring.scheduler.preemption.evaluator import Preemption, plugins_that_prevent_preemption
from mooring.scheduler.preemption.executor import Preemptor
from mooring.scheduler.queue import PodBackoff, PodState, QueuedGroup, QueuedPod, SchedulingQueue
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.scheduler.zone_coverage import NO_COMMON_ZONE, zone_coverage
from mooring.volumes.binding import HOLD_NAMESPACE, BindingPlan, OutOfSync, StaticBinding

log: FilteringBoundLogger = structlog.get_logger(__name__)

SCHEDULED: Final = "Scheduled"
FAILED: Final = "FailedScheduling"
#: Mooring's own event beside FailedScheduling: the capacity that is missing.
NOT_ENOUGH_STORAGE: Final = "NotEnoughStorage"

POD_SCHEDULED: Final = "PodScheduled"
#: No node fits.
UNSCHEDULABLE: Final = "Unschedulable"
#: A node fits, but reserving or binding failed.
SCHEDULER_ERROR: Final = "SchedulerError"

#: Enough for many pending pods without delaying the binder's requests.
CONDITION_WORKERS: Final = 4

#: How long, and how many, single pods are scheduled between two slices of a group's decision: as long as a slice.
PODS_BETWEEN_SLICES_SECONDS: Final = 0.05
MAX_PODS_BETWEEN_SLICES: Final = 200

#: Logged for an exception that is a bug; the pod is retried and other pods are not affected.
INTERNAL_ERROR: Final = "pod handling failed: internal error"

#: The informers are requested when the scheduler is built, so that a standby instance has synced caches.
WATCHED_KINDS: Final = (
    *(kinds.POD, kinds.NODE, kinds.NAMESPACE, kinds.SERVICE, kinds.DISRUPTION_BUDGET),
    *(kinds.REPLICATION_CONTROLLER, kinds.REPLICA_SET, kinds.STATEFUL_SET),
    *(kinds.CLAIM, kinds.VOLUME, kinds.STORAGE_CLASS, kinds.CSI_NODE, kinds.CSI_DRIVER, kinds.VOLUME_ATTACHMENT),
)

DEFAULT_PROFILES: Final[Mapping[str, Profile]] = {well_known.DEFAULT_SCHEDULER: DEFAULT}


class _ConditionUpdate(NamedTuple):
    uid: str
    reason: str
    message: str
    #: nominatedNodeName; "" clears it, None leaves it unchanged.
    nominated: str | None


class PodConditions:
    """Writes the PodScheduled condition of unschedulable pods, if it changed, without blocking the scheduling loop.

    Of several updates for one pod only the last is written; an update for a pod that was bound or replaced is dropped.
    """

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._pods = context.informers.of(kinds.POD)
        self._updates: dict[str, _ConditionUpdate] = {}
        self._queue = context.work_queue("pod_conditions", kinds.POD)

    def set(self, pod: Pod, reason: str, message: str, *, nominated: str | None = None) -> None:
        """`nominated` is written to nominatedNodeName; "" clears it, None leaves it unchanged."""
        self._updates[pod.key] = _ConditionUpdate(pod.uid, reason, message, nominated)
        self._queue.add(pod.key)

    async def run(self) -> None:
        await work(self._queue, self._write, workers=CONDITION_WORKERS, name="pod conditions")

    async def _write(self, key: str) -> None:
        update = self._updates.get(key)
        pod = self._pods.get(key)
        if update is None:
            return
        if pod is not None and pod.uid == update.uid and not pod.spec.node_name and _is_outdated(pod, update):
            patch = StrategicPatch(_body(pod, update, self._clock.now()))
            try:
                await self._client.patch(kinds.POD, pod.name, patch, namespace=pod.namespace, subresource="status")
            except (NotFound, Invalid) as error:
                # Deleted. A recreated pod of this name gives a Conflict, until the informer shows it.
                log.info("pod condition dropped", pod=key, error=error.message)
        if self._updates.get(key) is update:
            del self._updates[key]


def _current(pod: Pod) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == POD_SCHEDULED), None)


def _is_outdated(pod: Pod, update: _ConditionUpdate) -> bool:
    if update.nominated is not None and update.nominated != pod.status.nominated_node_name:
        return True
    current, wanted = _current(pod), ("False", update.reason, update.message)
    return current is None or (current.status, current.reason, current.message) != wanted


def _body(pod: Pod, update: _ConditionUpdate, now: float) -> dict[str, Any]:
    reason, message = update.reason, update.message
    condition: dict[str, Any] = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}
    before = _current(pod)
    if before is None or before.status != "False":
        condition["lastTransitionTime"] = to_time(now)
    if pod.metadata.generation:
        condition["observedGeneration"] = pod.metadata.generation
    # The uid is a precondition: a recreated pod of this name has not been attempted yet.
    status: dict[str, Any] = {"conditions": [condition]}
    if update.nominated is not None:
        status["nominatedNodeName"] = update.nominated or None
    return {"metadata": {"uid": update.uid}, "status": status}


class Scheduler:
    """Schedules the pods whose schedulerName is one of its profiles. All profiles share one queue and one snapshot."""

    def __init__(
        self,
        context: Context,
        *,
        profiles: Mapping[str, Profile] = DEFAULT_PROFILES,
        recorders: Mapping[str, EventRecorder] | None = None,
        bind_timeout: float = BIND_TIMEOUT,
        backoff: PodBackoff | None = None,
        only_scheduler: bool = False,
        hold_namespace: str = HOLD_NAMESPACE,
        registry: CollectorRegistry | None = None,
        attempts: AttemptLog | None = None,
    ) -> None:
        """`recorders` replace the context's event recorder by profile name. `only_scheduler` says that the cluster has
        no other scheduler: pods with an unknown schedulerName get a warning."""
        self.name = next(iter(profiles)) if len(profiles) == 1 else "scheduler"
        self._context = context
        self._only_scheduler = only_scheduler
        self._clock = context.clock
        first = gate_plugins(context.gates, context.is_active)
        self._profiles = {name: profile.with_first_plugins(*first) for name, profile in profiles.items()}
        self._claim_rollback = ClaimRollbackRequester(context) if context.gates.enabled(CLAIM_ROLLBACK) else None
        self._recorders = {name: (recorders or {}).get(name, context.recorder) for name in profiles}
        self._snapshot = Snapshot()
        # Profiles share the plugins of one registry: equal names are equal plugins.
        plugins = {plugin.name: plugin for profile in self._profiles.values() for plugin in profile.plugins}
        self._queue = SchedulingQueue((*plugins.values(), GangScheduling()), backoff=backoff)
        self._metrics = SchedulerMetrics(
            registry or CollectorRegistry(),
            profiles,
            self._queue,
            groups=self._queue.group_counts,
            members=self._member_counts,
            uncoordinated=lambda: self._holder.waiting_for_coordinator,
        )
        driver_over_limit = self._snapshot.volumes.driver_over_limit
        self._binder = Binder(
            context, driver_over_limit=driver_over_limit, timeout=bind_timeout, hold_namespace=hold_namespace
        )
        self._conditions = PodConditions(context)
        self._preemptor = Preemptor(context, self._metrics)
        self._attempts = attempts or AttemptLog()
        self._rejections = KubeletRejectionWatch(self._snapshot, self._metrics, self._recorders)
        self._wakeup = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        bindings = GroupBindings(
            context.clock,
            self,
            queue=self._queue,
            binder=self._binder,
            preemptor=self._preemptor,
            metrics=self._metrics,
            rejections=self._rejections,
        )
        self._holder = GroupBinder(context, hold_namespace=hold_namespace)
        self._groups = GroupScheduler(
            context,
            self,
            queue=self._queue,
            snapshot=self._snapshot,
            profiles=self._profiles,
            metrics=self._metrics,
            decide=self._decide_group,
            preemptor=self._preemptor,
            holder=self._holder,
            bindings=bindings,
        )
        self.ready = False
        for kind in WATCHED_KINDS:
            context.informers.of(kind)
        if context.gates.enabled(CSI_STORAGE_CAPACITY):
            context.informers.of(kinds.STORAGE_CAPACITY)

    def free_storage(self) -> Mapping[str, int]:
        """Bytes that decisions count as free, by key of the CSIStorageCapacity; for audits."""
        return self._snapshot.volumes.free_storage()

    def assumed_nodes(self) -> Mapping[str, str]:
        """Reserved nodes that are not written yet, by claim key; for audits."""
        return self._snapshot.volumes.assumed_nodes()

    def _member_counts(self) -> Mapping[PodState, int]:
        return self._groups.member_counts()

    def _decide_group(self, request: GroupRequest) -> GroupCycle:
        nominator = self._preemptor.nominator
        return GroupCycle(self._snapshot, request.profile, self._context.rng, request.given, nominator=nominator)

    async def run(self) -> None:
        await self._context.informers.wait_synced()
        await self._add_event_handlers()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._conditions.run(), name=f"{self.name} pod conditions")
            tasks.create_task(self._groups.run(), name=f"{self.name} groups")
            self.ready = True
            try:
                await self._schedule_forever(tasks)
            finally:
                self.ready = False

    async def _add_event_handlers(self) -> None:
        """Load all objects before the first decision, pods last."""
        of = self._context.informers.of
        selectors = self._snapshot.spread_selectors
        await follow_nodes_and_storage(self._context, self._snapshot, self.requeue_for_event)
        await of(kinds.NAMESPACE).subscribe(self._on_namespace)
        await of(kinds.SERVICE).subscribe(selectors.observe_service)
        await of(kinds.STATEFUL_SET).subscribe(selectors.observe_controller)
        await of(kinds.REPLICA_SET).subscribe(selectors.observe_controller)
        await of(kinds.REPLICATION_CONTROLLER).subscribe(selectors.observe_controller)
        await of(kinds.DISRUPTION_BUDGET).subscribe(self._preemptor.observe_budget)
        await of(kinds.POD).subscribe(self._on_pod)
        await self._binder.wakeups.follow()

    def _on_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        self._snapshot.observe_namespace(before, after)
        self.requeue_for_event(cluster_events.namespace_event(before, after))

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        log_invalid(kinds.POD, after, self._snapshot.observe_pod(before, after))
        self._preemptor.observe_pod(before, after)
        self._rejections.observe(before, after)
        if self._groups.on_pod(before, after):
            pass
        elif after is not None and after.waits and after.spec.scheduler_name in self._profiles:
            self._queue.add_or_update(after, self._clock.monotonic())
            self._wakeup.set()
        elif last := after or before:
            self._queue.remove(last.key)
            self._attempts.over(last.key)
        if self._only_scheduler and before is None and after is not None:
            self._warn_unknown_scheduler_name(after)
        self.requeue_for_event(cluster_events.pod_event(before, after))

    def _warn_unknown_scheduler_name(self, pod: Pod) -> None:
        if pod.waits and pod.spec.scheduler_name not in self._profiles:
            names = ", ".join(self._profiles)
            message = f'schedulerName "{pod.spec.scheduler_name}" is not served by any profile; available: {names}'
            self._context.recorder.record(pod, kinds.POD, WARNING, FAILED, message)

    def requeue_for_event(self, event: ClusterEvent | None) -> None:
        """Requeue the pods that the event may help, and those that ended nominations and freed capacity may help."""
        if not self.ready:
            # Every pod is still to be scheduled for the first time.
            return
        events = [cluster_events.node_released_event(pod) for pod in self._preemptor.nominator.take_released()]
        if event is not None:
            events.append(event)
        if classes := self._snapshot.volumes.classes_with_more_capacity():
            events.append(cluster_events.capacity_freed_event(classes))
        for each in events:
            self._queue.requeue_for_event(each, self._clock.monotonic())
            self._wakeup.set()

    async def _schedule_forever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            queued = self._queue.pop(self._clock.monotonic())
            if queued is None:
                await self._wait_for_work()
                continue
            if isinstance(queued, QueuedGroup):
                await self._groups.schedule(queued, tasks)
            else:
                self._schedule_one(queued, tasks)
            # Informers and bindings run between two decisions.
            await self._clock.sleep(0)

    async def schedule_pods(self) -> list[QueuedPod]:
        """Single pods, between two slices of a group's decision; returns those that no node fits."""
        unschedulable: list[QueuedPod] = []
        end = self._clock.monotonic() + PODS_BETWEEN_SLICES_SECONDS
        await self._clock.sleep(0)
        for _ in range(MAX_PODS_BETWEEN_SLICES):
            queued = self._queue.pop_pod(self._clock.monotonic())
            if queued is None or self._tasks is None:
                break
            self._schedule_one(queued, self._tasks)
            if queued.state is PodState.UNSCHEDULABLE:
                unschedulable.append(queued)
            await self._clock.sleep(0)
            if self._clock.monotonic() >= end:
                break
        return unschedulable

    def wake(self) -> None:
        """Look at the queue: an entity was added or requeued."""
        self._wakeup.set()

    async def _wait_for_work(self) -> None:
        """Wait for an event, or until a pod's backoff ends."""
        self._wakeup.clear()
        now = self._clock.monotonic()
        due = self._queue.next_due(now)
        if due is None:
            await self._wakeup.wait()
        else:
            await set_within(self._wakeup, due - now, self._clock)

    def _schedule_one(self, queued: QueuedPod, tasks: asyncio.TaskGroup) -> None:
        """Any exception concerns this pod only: it is retried with backoff."""
        try:
            self._attempt(queued, tasks)
        except Exception as error:
            pod, text = queued.pod, self.internal_error(queued.pod, FailureStage.DECISION, error)
            self._queue.requeue_with_backoff(queued, self._clock.monotonic())
            self._metrics.ended(pod.spec.scheduler_name, Result.ERROR, 0.0)
            self.report_failure(pod, SCHEDULER_ERROR, text)

    def internal_error(self, pod: Pod, stage: FailureStage, error: Exception) -> str:
        """Log and count a bug of the scheduler; returns the message of the pod's event."""
        log.error(INTERNAL_ERROR, pod=pod.key, stage=stage.value, exc_info=error)
        self._metrics.internal_errors.labels(stage.value).inc()
        self._context.count_internal_error(f"{self.name} {stage.value}")
        return f"internal error in {stage.value}: {type(error).__name__}: {error}"

    def _attempt(self, queued: QueuedPod, tasks: asyncio.TaskGroup) -> None:
        pod = queued.pod
        began = self._clock.monotonic()
        profile = self._profiles[pod.spec.scheduler_name]
        state = CycleState(pod, self._snapshot)
        rng, nominator, failures = self._context.rng, self._preemptor.nominator, queued.provisioning_failures
        decision = cycle.run_cycle(state, profile, rng, nominator=nominator, provisioning_failures=failures)
        self._metrics.algorithm.observe(self._clock.monotonic() - began)
        attempt = self._attempts.decided(self._clock.now(), queued, decision, self._snapshot)
        lacks_capacity = bool(decision.rejected and decision.without_capacity)
        if lacks_capacity:
            self._metrics.avoided.inc()
        if not decision.node:
            plugins, now = decision.unschedulable_plugins, self._clock.monotonic()
            if profile.preemptor is not None:
                plugins |= plugins_that_prevent_preemption(state, decision)
            self._queue.add_unschedulable(queued, plugins, state.interests, now, lacks_capacity=lacks_capacity)
            self._ended(attempt, pod, Result.UNSCHEDULABLE, began)
            self._post_filter(state, profile, decision, attempt, tasks)
            return
        try:
            plan = cycle.reserve(state, profile, decision.node)
        except OutOfSync as error:
            self._queue.requeue_with_backoff(queued, self._clock.monotonic())
            message = f"running Reserve plugin: {error}"
            self._ended(attempt, pod, Result.ERROR, began, message)
            self.report_failure(pod, SCHEDULER_ERROR, message)
            return
        try:
            self._snapshot.assume(pod, decision.node)
            self._rejections.scheduled(pod)
            self._preemptor.on_binding_started(pod, decision.node)
            self._queue.binding(queued)
            self.requeue_for_event(None)
        except Exception:
            self._preemptor.on_binding_failed(pod, useful=True)
            self.unreserve(pod, plan)
            raise
        tasks.create_task(self._bind(queued, pod, plan, began, attempt), name=f"bind {pod.key}")

    def _post_filter(
        self, state: CycleState, profile: Profile, decision: Decision, attempt: Attempt, tasks: asyncio.TaskGroup
    ) -> None:
        """Preempt pods or unbind unused claims for an unschedulable pod, and report it."""
        pod, nominator = state.pod, self._preemptor.nominator
        rollback = self._claim_rollback if self._context.is_active(CLAIM_ROLLBACK) else None
        result = self._preemptor.run_post_filter(state, profile, decision)
        if result.preemption is not None:
            tasks.create_task(self._preempt(pod, result.preemption), name=f"preempt for {pod.key}")
        elif rollback is not None and not decision.refusals:
            claims = rollback.blocking_claims(state, profile, nominator)
            if claims:
                tasks.create_task(self._roll_back_claims(rollback, pod, claims), name=f"unbind for {pod.key}")
        self.requeue_for_event(None)
        attempt.nominated = result.nominated or ""
        message = cycle.fit_error(decision) + (f" preemption: {result.reason}" if result.reason else "")
        self.report_failure(pod, UNSCHEDULABLE, message, nominated=result.nominated)
        self._report_insufficient_storage(state, decision)
        self._report_zones(state)

    async def _preempt(self, pod: Pod, preemption: Preemption) -> None:
        try:
            done = await self._preemptor.evict_victims(pod, preemption, self._recorders[pod.spec.scheduler_name])
        except Exception as error:
            message = self.internal_error(pod, FailureStage.PREEMPTION, error)
            self.report_failure(pod, SCHEDULER_ERROR, message)
            self._preemptor.nominator.remove(pod)
            done = False
        if not done:
            # No deletion of a victim will requeue the pod.
            self.requeue_for_event(cluster_events.node_released_event(preemption.victims[0]))

    async def _roll_back_claims(self, rollback: ClaimRollbackRequester, pod: Pod, claims: Sequence[Claim]) -> None:
        try:
            if await rollback.mark(pod, claims, self._recorders[pod.spec.scheduler_name]):
                self._metrics.unbound.inc(len(claims))
                return
        except Exception as error:
            message = self.internal_error(pod, FailureStage.UNBINDING, error)
            self.report_failure(pod, SCHEDULER_ERROR, message)
        # No update of a marked claim will requeue the pod.
        for claim in claims:
            self.requeue_for_event(cluster_events.claim_retry_event(claim))

    async def _bind(self, queued: QueuedPod, pod: Pod, plan: BindingPlan, began: float, attempt: Attempt) -> None:
        if not plan.empty:
            self._attempts.reserved(pod.key, attempt, plan)
        try:
            await self._binder.bind(pod, plan)
        except Exception as error:
            if isinstance(error, BindFailed):
                message, provisioning_failed = str(error), error.provisioning_failed
            else:
                message, provisioning_failed = self.internal_error(pod, FailureStage.BINDING, error), False
            stays_nominated = self._preemptor.on_binding_failed(pod, useful=not provisioning_failed)
            self.unreserve(pod, plan)
            failed_on = plan.node if provisioning_failed else ""
            self._queue.requeue_with_backoff(queued, self._clock.monotonic(), provisioning_failed_on=failed_on)
            self._wakeup.set()
            self._ended(attempt, pod, Result.ERROR, began, message)
            self.report_failure(pod, SCHEDULER_ERROR, message, nominated=None if stays_nominated else "")
            return
        self._ended(attempt, pod, Result.SCHEDULED, began)
        self._metrics.scheduled(plan, queued.attempts)
        log.info("pod scheduled", pod=pod.key, node=plan.node, attempts=queued.attempts)
        self.record(pod, NORMAL, SCHEDULED, f"Successfully assigned {pod.key} to {plan.node}")

    def _ended(self, attempt: Attempt, pod: Pod, result: Result, began: float, message: str = "") -> None:
        seconds = self._clock.monotonic() - began
        self._metrics.ended(pod.spec.scheduler_name, result, seconds)
        self._attempts.ended(pod.key, attempt, result, seconds, message)

    def unreserve(self, pod: Pod, plan: BindingPlan) -> None:
        """Release what was reserved and assumed, and requeue the pods that may use it."""
        self._snapshot.volumes.restore(plan)
        self._snapshot.forget(pod)
        self.requeue_for_event(cluster_events.node_released_event(pod))
        self._requeue_for_restored(plan)

    def release_unused(self, bindings: Iterable[StaticBinding]) -> None:
        """After a pod was bound: release the volumes of its plan whose claims have others, from an earlier leader's
        plan. No update of such a volume ends its promise."""
        unused = BindingPlan("", tuple(each for each in bindings if self._snapshot.volumes.is_unused(each)))
        self._snapshot.volumes.restore(unused)
        self._requeue_for_restored(unused)

    def _requeue_for_restored(self, plan: BindingPlan) -> None:
        for event in cluster_events.restored_events(plan, self._snapshot.volumes):
            self.requeue_for_event(event)

    def report_failure(self, pod: Pod, reason: str, message: str, *, nominated: str | None = None) -> None:
        if self._context.informers.of(kinds.POD).get(pod.key) is None:
            return
        log.info("pod unschedulable", pod=pod.key, reason=reason, message=message)
        self.record(pod, WARNING, FAILED, message)
        self._conditions.set(pod, reason, message, nominated=nominated)

    def recorder(self, pod: Pod) -> EventRecorder:
        """The recorder of the pod's profile."""
        return self._recorders[pod.spec.scheduler_name]

    def record(self, pod: Pod, event_type: str, reason: str, message: str) -> None:
        self._recorders[pod.spec.scheduler_name].record(pod, kinds.POD, event_type, reason, message)

    def _report_insufficient_storage(self, state: CycleState, decision: Decision) -> None:
        """Report the missing capacity in bytes: kube-scheduler's message only counts nodes."""
        codes = {rejection.code for result in decision.filter_results for rejection in result.rejections}
        if RejectionCode.STORAGE_CAPACITY in codes and not isinstance(state.claims, str):
            shortage = self._snapshot.volumes.capacity_shortage(state.claims)
            if shortage:
                self.record(state.pod, WARNING, NOT_ENOUGH_STORAGE, shortage)

    def _report_zones(self, state: CycleState) -> None:
        """Report restrictions to zones that exclude each other: kube-scheduler's message counts nodes of each alone."""
        claims = state.known_claims
        for coverage in () if claims is None else zone_coverage(state.pod, claims, self._snapshot):
            if not coverage.common:
                self.record(state.pod, WARNING, NO_COMMON_ZONE, str(coverage))
