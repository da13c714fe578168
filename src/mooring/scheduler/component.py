"""The scheduler as a component: feeds changes to the pure parts, one decision at a time, many bindings at once.

    informers ──► snapshot, queue ──► cycle.run ──► reserve, assume ──► binder (a task per pod)
                        ▲                 │ no node                        │ failed
                        └── park ─────────┘◄──── give back, retry ─────────┘

A decision never awaits, so the snapshot stands still while it is made. A pod stays in the queue as binding until the
informer shows it on its node: whatever happens to answers, it is either seen there or tried again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.kinds import (
    CLAIM,
    CSI_DRIVER,
    CSI_NODE,
    DISRUPTION_BUDGET,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_ATTACHMENT,
)
from mooring.api.views.claim import Claim
from mooring.api.views.namespace import Namespace
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, CsiNode, StorageCapacity, StorageClass, VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.client.recorder import NORMAL, WARNING, EventRecorder
from mooring.clock import set_within
from mooring.control.component import Component, Context
from mooring.control.feature_gates import CLAIM_ROLLBACK, CSI_STORAGE_CAPACITY, VOLUME_SCHEDULING
from mooring.scheduler import changes, cycle
from mooring.scheduler.attempt_log import Attempt, AttemptLog
from mooring.scheduler.binder import BIND_TIMEOUT, Binder, BindFailed
from mooring.scheduler.conditions import SCHEDULER_ERROR, UNSCHEDULABLE, PodConditions
from mooring.scheduler.contract import Change, Cycle, Decision, RejectionCode
from mooring.scheduler.cycle import Reservation
from mooring.scheduler.metrics import Result, SchedulerMetrics, Stage
from mooring.scheduler.plugins.claims_in_rollback import ClaimsInRollback
from mooring.scheduler.plugins.delayed_binding_off import DelayedBindingOff
from mooring.scheduler.preemption import Preemption
from mooring.scheduler.preemptor import Preemptor
from mooring.scheduler.profile import Profile
from mooring.scheduler.queue import Entry, Patience, SchedulingQueue
from mooring.scheduler.registry import DEFAULT
from mooring.scheduler.rejection_watch import RejectionWatch
from mooring.scheduler.snapshot import Snapshot
from mooring.scheduler.static_holds import StaticHolds
from mooring.scheduler.unbinding import Unbinding
from mooring.volumes.assume import OutOfSync
from mooring.volumes.plan import HOLD_NAMESPACE

log: FilteringBoundLogger = structlog.get_logger(__name__)

SCHEDULED: Final = "Scheduled"
FAILED: Final = "FailedScheduling"
#: Ours, beside FailedScheduling, with figures.
NO_ROOM: Final = "NotEnoughStorage"

#: Logged when the handling of a pod raises what it should not; the pod is set aside and the others go on.
INTERNAL_ERROR: Final = "handling of pod failed with a bug"

#: What decisions are made on, asked for when the scheduler is built: an instance that stands by has it all at hand.
FOLLOWED: Final = (
    *(POD, NODE, NAMESPACE, SERVICE, REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET, DISRUPTION_BUDGET),
    *(CLAIM, VOLUME, STORAGE_CLASS, CSI_NODE, VOLUME_ATTACHMENT),
)
#: The same where free storage counts.
CAPACITY_FOLLOWED: Final = (CSI_DRIVER, STORAGE_CAPACITY)

#: The name that most pods have their scheduler by, with all plugins.
DEFAULT_PROFILES: Final[Mapping[str, Profile]] = {keys.DEFAULT_SCHEDULER: DEFAULT}


class Scheduler:
    """Places the pods that name one of its profiles as their scheduler.

    All profiles share one queue and one snapshot. `recorders` are for the profiles whose events carry a name of their
    own; those of the others come from the context's. `alone` says that there is no other scheduler, so that whoever
    asks for one waits in vain. `hold_namespace` is the coordinator's. `registry` is where its metrics shall appear, and
    `attempts` where what it does for each pod is kept for people.
    """

    def __init__(
        self,
        context: Context,
        *,
        profiles: Mapping[str, Profile] = DEFAULT_PROFILES,
        recorders: Mapping[str, EventRecorder] | None = None,
        bind_timeout: float = BIND_TIMEOUT,
        patience: Patience | None = None,
        alone: bool = False,
        hold_namespace: str = HOLD_NAMESPACE,
        registry: CollectorRegistry | None = None,
        attempts: AttemptLog | None = None,
    ) -> None:
        self._name = next(iter(profiles)) if len(profiles) == 1 else "scheduler"
        self._context = context
        self._alone = alone
        self._clock = context.clock
        if not context.gates.enabled(VOLUME_SCHEDULING):
            profiles = {name: each.preceded_by(DelayedBindingOff()) for name, each in profiles.items()}
        self._unbinding: Unbinding | None = None
        if context.gates.enabled(CLAIM_ROLLBACK):
            profiles = {name: each.preceded_by(ClaimsInRollback()) for name, each in profiles.items()}
            self._unbinding = Unbinding(context)
        self._profiles = dict(profiles)
        self._recorders = {name: (recorders or {}).get(name, context.recorder) for name in profiles}
        self._snapshot = Snapshot()
        # Profiles take their plugins from one registry: equal names are equal plugins.
        plugins = {plugin.name: plugin for profile in profiles.values() for plugin in profile.plugins}
        self._queue = SchedulingQueue(plugins.values(), patience=patience)
        self._metrics = SchedulerMetrics(registry or CollectorRegistry(), profiles)
        self._metrics.watch_queue(self._queue.counts)
        holds = StaticHolds(context.client, context.clock, namespace=hold_namespace)
        exceeded_by = self._snapshot.volumes.usage.exceeded_by
        self._binder = Binder(context, exceeded_by=exceeded_by, timeout=bind_timeout, holds=holds)
        self._conditions = PodConditions(context)
        self._preemptor = Preemptor(context, self._metrics)
        self._attempts = attempts or AttemptLog()
        self._rejections = RejectionWatch(self._snapshot, self._metrics, self._recorders)
        self._news = asyncio.Event()
        self._ready = False
        for kind in (*FOLLOWED, *(CAPACITY_FOLLOWED if context.gates.enabled(CSI_STORAGE_CAPACITY) else ())):
            context.informers.of(kind)

    @property
    def name(self) -> str:
        return self._name

    @property
    def ready(self) -> bool:
        return self._ready

    def free_storage(self) -> Mapping[str, int]:
        """By the key of a capacity object, the bytes that decisions count as free; for auditors."""
        return self._snapshot.volumes.free_storage()

    def promised_nodes(self) -> Mapping[str, str]:
        """By the key of a claim, the node it was promised to and that is not written yet; for auditors."""
        return self._snapshot.volumes.promised_nodes()

    async def run(self) -> None:
        await self._context.informers.wait_synced()
        await self._follow()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._conditions.run(), name=f"{self._name} pod conditions")
            self._ready = True
            try:
                await self._schedule_forever(tasks)
            finally:
                self._ready = False

    async def _schedule_forever(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            entry = self._queue.pop(self._clock.monotonic())
            if entry is None:
                await self._something_happens()
            else:
                self._try(entry, tasks)
                # Others have to hear about changes and to bind between two decisions.
                await self._clock.sleep(0)

    async def _something_happens(self) -> None:
        """Until a change arrives or a pod's backoff is over."""
        self._news.clear()
        now = self._clock.monotonic()
        due = self._queue.next_due(now)
        if due is None:
            await self._news.wait()
        else:
            await set_within(self._news, due - now, self._clock)

    def _try(self, entry: Entry, tasks: asyncio.TaskGroup) -> None:
        """Decide about one pod. Whatever that raises concerns this pod only: it is set aside for a while."""
        try:
            self._attempt(entry, tasks)
        except Exception as error:
            pod, text = entry.pod, self._internal_error(entry.pod, Stage.DECISION, error)
            self._queue.retry(entry, self._clock.monotonic())
            self._metrics.ended(pod.spec.scheduler_name, Result.ERROR, 0.0)
            self._tell(pod, SCHEDULER_ERROR, text)

    def _internal_error(self, pod: Pod, stage: Stage, error: Exception) -> str:
        """Log and count what is a bug of the scheduler; the text for the pod's event."""
        log.error(INTERNAL_ERROR, pod=pod.key, stage=stage.value, exc_info=error)
        self._metrics.internal_error(stage)
        return f"internal error in {stage.value}: {type(error).__name__}: {error}"

    def _attempt(self, entry: Entry, tasks: asyncio.TaskGroup) -> None:
        pod = entry.pod
        began = self._clock.monotonic()
        profile = self._profiles[pod.spec.scheduler_name]
        attempt = Cycle(pod, self._snapshot)
        decision = cycle.run(
            attempt,
            profile,
            self._context.rng,
            nominations=self._preemptor.nominations,
            given_back=entry.given_back,
        )
        self._metrics.decided(self._clock.monotonic() - began)
        kept = self._attempts.decided(self._clock.now(), entry, decision, self._snapshot)
        if not decision.node:
            self._queue.park(entry, decision.rejectors, attempt.interests, self._clock.monotonic())
            self._ended(kept, pod, Result.UNSCHEDULABLE, began)
            outlook = self._preemptor.outlook(attempt, profile, decision)
            if outlook.preemption is not None:
                tasks.create_task(self._preempt(pod, outlook.preemption), name=f"preempt for {pod.key}")
            elif self._unbinding is not None and not decision.refusals:
                claims = self._unbinding.in_the_way(attempt, profile, self._preemptor.nominations)
                if claims:
                    tasks.create_task(self._unbind(self._unbinding, pod, claims), name=f"unbind for {pod.key}")
            self._wake(None)
            kept.nominated = outlook.nominated or ""
            message = cycle.failure_message(decision) + (f" preemption: {outlook.why_not}" if outlook.why_not else "")
            self._tell(pod, UNSCHEDULABLE, message, nominated=outlook.nominated)
            self._tell_shortage(attempt, decision)
            return
        try:
            reservation = cycle.reserve(attempt, profile, decision.node)
        except OutOfSync as error:
            self._queue.retry(entry, self._clock.monotonic())
            why = f"running Reserve plugin: {error}"
            self._ended(kept, pod, Result.ERROR, began, why)
            self._tell(pod, SCHEDULER_ERROR, why)
            return
        try:
            self._snapshot.assume(pod, decision.node)
            self._rejections.given(pod)
            self._preemptor.taken(pod, decision.node)
            self._queue.binding(entry)
            self._wake(None)
        except Exception:
            self._preemptor.given_back(pod, useful=True)
            self._give_back(pod, reservation)
            raise
        tasks.create_task(self._bind(entry, pod, reservation, began, kept), name=f"bind {pod.key}")

    async def _preempt(self, pod: Pod, preemption: Preemption) -> None:
        try:
            done = await self._preemptor.carry_out(pod, preemption, self._recorders[pod.spec.scheduler_name])
        except Exception as error:
            self._tell(pod, SCHEDULER_ERROR, self._internal_error(pod, Stage.PREEMPTION, error))
            self._preemptor.nominations.remove(pod)
            done = False
        if not done:
            # Nobody left whose going would wake the pod: it has to try again by itself.
            self._wake(changes.of_room_left_by(preemption.victims[0]))

    async def _unbind(self, unbinding: Unbinding, pod: Pod, claims: Sequence[Claim]) -> None:
        try:
            if await unbinding.mark(pod, claims, self._recorders[pod.spec.scheduler_name]):
                self._metrics.unbound(len(claims))
                return
        except Exception as error:
            self._tell(pod, SCHEDULER_ERROR, self._internal_error(pod, Stage.UNBINDING, error))
        # The mark would have woken the pod: without it, nothing does.
        for claim in claims:
            self._wake(changes.of_retry(claim))

    async def _bind(self, entry: Entry, pod: Pod, reservation: Reservation, began: float, kept: Attempt) -> None:
        plan = reservation.plan
        if not plan.empty:
            self._attempts.reserved(pod.key, kept, plan)
        try:
            await self._binder.bind(pod, plan)
        except Exception as error:
            why = str(error) if isinstance(error, BindFailed) else self._internal_error(pod, Stage.BINDING, error)
            has_no_volume = isinstance(error, BindFailed) and error.given_back
            keeps_place = self._preemptor.given_back(pod, useful=not has_no_volume)
            self._give_back(pod, reservation)
            given_back = reservation.node if has_no_volume else ""
            self._queue.retry(entry, self._clock.monotonic(), given_back=given_back)
            self._news.set()
            self._ended(kept, pod, Result.ERROR, began, why)
            self._tell(pod, SCHEDULER_ERROR, why, nominated=None if keeps_place else "")
            return
        self._ended(kept, pod, Result.SCHEDULED, began)
        self._metrics.placed(plan, entry.attempts)
        log.info("pod placed", pod=pod.key, node=reservation.node, attempts=entry.attempts)
        message = f"Successfully assigned {pod.key} to {reservation.node}"
        self._recorders[pod.spec.scheduler_name].record(pod, POD, NORMAL, SCHEDULED, message)

    def _ended(self, kept: Attempt, pod: Pod, result: Result, began: float, why: str = "") -> None:
        seconds = self._clock.monotonic() - began
        self._metrics.ended(pod.spec.scheduler_name, result, seconds)
        self._attempts.ended(pod.key, kept, result, seconds, why)

    def _give_back(self, pod: Pod, reservation: Reservation) -> None:
        """What was promised is free again, which may be what other pods wait for."""
        cycle.unreserve(self._snapshot, reservation)
        self._snapshot.forget(pod)
        self._wake(changes.of_room_left_by(pod))
        for change in changes.of_restored(reservation.plan, self._snapshot.volumes):
            self._wake(change)

    def _tell(self, pod: Pod, reason: str, message: str, *, nominated: str | None = None) -> None:
        if self._context.informers.of(POD).get(pod.key) is None:
            return
        log.info("pod not placed", pod=pod.key, reason=reason, message=message)
        self._recorders[pod.spec.scheduler_name].record(pod, POD, WARNING, FAILED, message)
        self._conditions.tell(pod, reason, message, nominated=nominated)

    def _tell_shortage(self, attempt: Cycle, decision: Decision) -> None:
        """Where room is what is missing, in figures: the usual message only counts nodes."""
        codes = {rejection.code for said in decision.said for rejection in said.rejections}
        if RejectionCode.STORAGE_CAPACITY in codes and not isinstance(attempt.claims, str):
            figures = self._snapshot.volumes.shortage(attempt.claims)
            self._recorders[attempt.pod.spec.scheduler_name].record(attempt.pod, POD, WARNING, NO_ROOM, figures)

    def _wake(self, change: Change | None) -> None:
        """Try whom a change may help, and whom it may help that room was given up."""
        if not self._ready:
            # All pods are still to be tried.
            return
        for pod in self._preemptor.nominations.ended():
            self._queue.wake(changes.of_room_left_by(pod), self._clock.monotonic())
            self._news.set()
        if change is not None:
            self._queue.wake(change, self._clock.monotonic())
            self._news.set()
        if grown := self._snapshot.volumes.room_grew():
            self._queue.wake(changes.of_grown_room(grown), self._clock.monotonic())
            self._news.set()

    async def _follow(self) -> None:
        """Take in what there is, so that each piece finds what it depends on: nodes, what drivers report, the volumes
        and claims that are charged to it, and last the pods that use them. No decision is made before."""
        of = self._context.informers.of
        siblings = self._snapshot.siblings
        await of(NODE).subscribe(self._on_node)
        await of(NAMESPACE).subscribe(self._on_namespace)
        await of(STORAGE_CLASS).subscribe(self._on_class)
        await of(CSI_NODE).subscribe(self._on_csi_node)
        if self._context.gates.enabled(CSI_STORAGE_CAPACITY):
            await self._follow_capacity()
        await of(VOLUME).subscribe(self._on_volume)
        await of(CLAIM).subscribe(self._on_claim)
        await of(VOLUME_ATTACHMENT).subscribe(self._on_attachment)
        await of(SERVICE).subscribe(siblings.observe_service)
        await of(STATEFUL_SET).subscribe(siblings.observe_controller)
        await of(REPLICA_SET).subscribe(siblings.observe_controller)
        await of(REPLICATION_CONTROLLER).subscribe(siblings.observe_controller)
        await of(DISRUPTION_BUDGET).subscribe(self._preemptor.observe_budget)
        await of(POD).subscribe(self._on_pod)
        await self._binder.follow()

    async def _follow_capacity(self) -> None:
        """Without its driver and its capacity objects, a class counts as having room everywhere."""
        of = self._context.informers.of
        await of(STORAGE_CAPACITY).subscribe(self._on_capacity)
        if of(STORAGE_CAPACITY).absent:
            log.warning("every node is taken to have room for new volumes: the API server knows no CSIStorageCapacity")
        else:
            await of(CSI_DRIVER).subscribe(self._on_driver)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        problem = self._snapshot.observe_pod(before, after)
        self._preemptor.observe_pod(before, after)
        self._rejections.observe(before, after)
        if problem and after is not None:
            log.warning("pod counted without what cannot be understood", pod=after.key, problem=problem)
        if after is not None and self._is_ours(after):
            self._queue.put(after, self._clock.monotonic())
            self._news.set()
        elif gone := after or before:
            self._queue.remove(gone.key)
            self._attempts.over(gone.key)
        if self._alone and before is None and after is not None:
            self._tell_if_nobodys(after)
        self._wake(changes.of_pod(before, after))

    def _tell_if_nobodys(self, pod: Pod) -> None:
        if pod.waits and pod.spec.scheduler_name not in self._profiles:
            names = ", ".join(self._profiles)
            message = f'no scheduler has the name "{pod.spec.scheduler_name}"; there is: {names}'
            self._context.recorder.record(pod, POD, WARNING, FAILED, message)

    def _is_ours(self, pod: Pod) -> bool:
        """Waiting for us: no node yet, not finished, not on its way out."""
        return pod.waits and pod.spec.scheduler_name in self._profiles

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        problem = self._snapshot.observe_node(before, after)
        if problem and after is not None:
            log.warning("node counted as offering nothing", node=after.name, problem=problem)
        self._wake(changes.of_node(before, after))

    def _on_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        self._snapshot.observe_namespace(before, after)
        self._wake(changes.of_namespace(before, after))

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        taken_for = before and self._snapshot.volumes.volume(before.name)
        self._snapshot.volumes.observe_volume(before, after)
        self._wake(changes.of_volume(taken_for, after))

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        taken_for = before and self._snapshot.volumes.claim(before.key)
        self._snapshot.volumes.observe_claim(before, after)
        self._wake(changes.of_claim(taken_for, after))

    def _on_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        self._snapshot.volumes.observe_class(before, after)
        self._wake(changes.of_class(before, after))

    def _on_csi_node(self, before: CsiNode | None, after: CsiNode | None) -> None:
        self._snapshot.volumes.observe_csi_node(before, after)
        self._wake(changes.of_csi_node(before, after))

    def _on_driver(self, before: CsiDriver | None, after: CsiDriver | None) -> None:
        self._snapshot.volumes.observe_driver(before, after)
        self._wake(changes.of_driver(before, after))

    def _on_capacity(self, before: StorageCapacity | None, after: StorageCapacity | None) -> None:
        problem = self._snapshot.volumes.observe_capacity(before, after)
        if problem and after is not None:
            log.warning("capacity counted as offering nothing", capacity=after.key, problem=problem)
        self._wake(changes.of_capacity(before, after))

    def _on_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        self._snapshot.volumes.observe_attachment(before, after)
        self._wake(changes.of_attachment(before, after))


def _contract(scheduler: Scheduler) -> Component:
    return scheduler
