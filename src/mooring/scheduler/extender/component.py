"""The extender component: follows the cluster, and answers calls, request bodies in and response bodies out.

    informers ──► snapshot ──► evaluator ──► filter, prioritize, preempt
                      ▲ reservations
                      └────── bind verb ───► bind

Evaluation never awaits, so the snapshot does not change meanwhile. Errors are reported in the protocol's error field
with code 200 where it has one, because kube-scheduler reports nothing else. Every replica answers: there is no leader.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import CLAIM, POD
from mooring.api.views.pods import Pod
from mooring.clock import set_within
from mooring.control.component import Context
from mooring.scheduler.binding.binder import Binder, BindFailed
from mooring.scheduler.event_handlers import follow_nodes_and_storage, log_invalid
from mooring.scheduler.extender import protocol
from mooring.scheduler.extender.evaluator import (
    RECHECK_DELAY_SECONDS,
    ExtenderEvaluator,
    FailedProvisioning,
    Filtered,
    PodNotCached,
    RecheckLimiter,
)
from mooring.scheduler.extender.group_plans import GroupPlans
from mooring.scheduler.extender.metrics import CallMonitor, CallOutcome, ExtenderMetrics
from mooring.scheduler.extender.protocol import ExtenderSettings, MalformedCall, Mode
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.interface import CycleState
from mooring.scheduler.groups.scheduling import PodGroupSource, Serving
from mooring.scheduler.plugins.gates import gate_plugins
from mooring.scheduler.snapshot.snapshot import Snapshot
from mooring.volumes.binding import BindingPlan, OutOfSync

log: FilteringBoundLogger = structlog.get_logger(__name__)

NOT_READY: Final = "this extender has not synced its caches yet"
DOES_NOT_BIND: Final = "this extender runs with --mode=filter and does not bind: remove bindVerb from the configuration"

OK: Final = 200
BAD_REQUEST: Final = 400
UNAVAILABLE: Final = 503

#: Seconds to wait for a pod that is not cached yet.
POD_WAIT_SECONDS: Final = 5.0

SUPERSEDED: Final = "cancelled: kube-scheduler has called again for this pod, or this extender is stopping"


class Reply(NamedTuple):
    code: int
    body: bytes
    outcome: CallOutcome


class BindVerb:
    """Reserves a pod's volumes, binds them, then binds the pod. Any number of calls concurrently, one per pod.

    kube-scheduler calls it for every pod after choosing a node. The `filter` call before may have gone to another
    replica, so the node is evaluated again and its volumes are reserved before anything is awaited. A reservation lasts
    as long as the call; what was written stays, and the next call continues from there. Every write is a
    compare-and-swap, so that of two calls, replicas or schedulers at most one wins. Call `follow` once, before `bind`.
    """

    def __init__(
        self, context: Context, snapshot: Snapshot, evaluator: ExtenderEvaluator, settings: ExtenderSettings
    ) -> None:
        self._count_internal_error = context.count_internal_error
        self._snapshot = snapshot
        self._evaluator = evaluator
        self._clock = context.clock
        self._pods = context.informers.of(POD)
        self._binder = Binder(
            context,
            driver_over_limit=snapshot.volumes.driver_over_limit,
            timeout=settings.bind_timeout,
            hold_namespace=settings.hold_namespace,
        )
        self._tasks: dict[str, asyncio.Task[str]] = {}

    async def follow(self) -> None:
        await self._binder.wakeups.follow()

    @property
    def in_progress(self) -> int:
        return len(self._tasks)

    async def bind(self, args: protocol.ExtenderBindingArgs) -> str:
        """Why the pod was not bound; "" if it is, also by an earlier call."""
        key = f"{args.pod_namespace}/{args.pod_name}"
        pod = await self._observed(key, args.pod_uid)
        if pod is None:
            return f'pod "{args.pod_name}" with uid {args.pod_uid} not found'
        while earlier := self._tasks.get(pod.uid):
            # kube-scheduler has one call per pod: the earlier caller no longer waits.
            earlier.cancel()
            await asyncio.wait((earlier,))
        if node := pod.spec.node_name or self._snapshot.node_of(pod):
            return "" if node == args.node else f'pod "{pod.name}" is already assigned to node "{node}"'
        plan = self._reserve(pod, args.node)
        if isinstance(plan, str):
            return plan
        work = asyncio.create_task(self._bind(pod, plan), name=f"bind {key}")
        self._tasks[pod.uid] = work
        work.add_done_callback(partial(self._settle, pod, plan))
        try:
            await asyncio.wait((work,))
        finally:
            # Also after cancellation, when the caller has disconnected.
            work.cancel()
        return SUPERSEDED if work.cancelled() else work.result()

    async def _observed(self, key: str, uid: str) -> Pod | None:
        """The cached pod, which kube-scheduler may observe earlier; None if it is not there within POD_WAIT_SECONDS."""
        deadline = self._clock.monotonic() + POD_WAIT_SECONDS
        wakeup = asyncio.Event()
        self._binder.wakeups.subscribe([("Pod", key)], wakeup)
        try:
            while (pod := self._pods.get(key)) is None or pod.uid != uid:
                wakeup.clear()
                if not await set_within(wakeup, deadline - self._clock.monotonic(), self._clock):
                    return None
        finally:
            self._binder.wakeups.unsubscribe([("Pod", key)], wakeup)
        return pod

    async def stop(self) -> None:
        """Cancel the calls in progress."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _reserve(self, pod: Pod, node: str) -> BindingPlan | str:
        state = CycleState(pod, self._snapshot)
        if reason := self._evaluator.rejection(state, node):
            return f'node "{node}" no longer fits: {reason}'
        try:
            plan = cycle.reserve(state, self._evaluator.profile, node)
        except OutOfSync as error:
            return f"running Reserve plugin: {error}"
        self._snapshot.assume(pod, node)
        return plan

    async def _bind(self, pod: Pod, plan: BindingPlan) -> str:
        try:
            await self._binder.bind(pod, plan)
        except BindFailed as failure:
            return str(failure)
        except Exception as error:
            # A bug, which concerns this pod only: kube-scheduler retries it.
            log.exception("pod handling failed: internal error", pod=pod.key)
            self._count_internal_error("extender binding")
            return f"internal error: {type(error).__name__}: {error}"
        return ""

    def _settle(self, pod: Pod, plan: BindingPlan, work: asyncio.Task[str]) -> None:
        """A done callback: a task that is cancelled before it starts runs none of its own code."""
        del self._tasks[pod.uid]
        if work.cancelled() or work.exception() is not None or work.result():
            self._snapshot.volumes.restore(plan)
            self._snapshot.forget(pod)


class Extender:
    name: ClassVar[str] = "extender"

    def __init__(
        self, context: Context, settings: ExtenderSettings, *, registry: CollectorRegistry | None = None
    ) -> None:
        self._context = context
        self._settings = settings
        self._clock = context.clock
        self._snapshot = Snapshot()
        self._evaluator = ExtenderEvaluator(
            self._snapshot, policy=settings.policy, gate_plugins=gate_plugins(context.gates, context.is_active)
        )
        self._bind_verb = BindVerb(context, self._snapshot, self._evaluator, settings)
        self._failures = FailedProvisioning()
        self._group_plans = GroupPlans(
            self._snapshot, self._failures, context.rng, scheduler_names=settings.scheduler_names
        )
        self._pod_groups = PodGroupSource(context, self._group_plans.observe_group, self._on_serving)
        self._rechecks = RecheckLimiter()
        now = self._clock.monotonic()
        self._call_monitor = CallMonitor(settings.scheduler_names, within=settings.called_within, now=now)
        self._metrics = ExtenderMetrics(
            registry or CollectorRegistry(),
            unasked=lambda: self._call_monitor.unasked,
            bindings=lambda: self._bind_verb.in_progress,
        )
        self._verbs: dict[str, Callable[[bytes], Awaitable[Reply]]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._bind,
        }
        self._synced = False

    @property
    def ready(self) -> bool:
        return self._synced and not (self._settings.ready_only_when_called and self._idle_warning())

    async def run(self) -> None:
        await follow_nodes_and_storage(self._context, self._snapshot)
        await self._context.informers.of(POD).subscribe(self._on_pod)
        await self._context.informers.of(CLAIM).subscribe(self._failures.observe)
        await self._bind_verb.follow()
        self._synced = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pod_groups.run(), name="pod group source")
                await self._watch_calls()
        finally:
            self._synced = False
            await self._bind_verb.stop()

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        log_invalid(POD, after, self._snapshot.observe_pod(before, after))
        self._group_plans.observe_pod(before, after)
        self._call_monitor.observe(before, after)

    def _on_serving(self, serving: Serving) -> None:
        self._snapshot.schedules_groups = serving is Serving.SERVED

    async def call(self, verb: str, body: bytes) -> Reply:
        """The response to one call. Raises KeyError for an unknown verb."""
        answer = self._verbs[verb]
        began = self._clock.monotonic()
        if not self._synced:
            reply = error_reply(verb, NOT_READY, code=UNAVAILABLE)
        else:
            try:
                reply = await answer(body)
            except MalformedCall as error:
                reply = error_reply(verb, str(error))
        self._metrics.called(verb, reply.outcome, self._clock.monotonic() - began, at=self._clock.now())
        return reply

    async def _filter(self, body: bytes) -> Reply:
        args = protocol.decode_call(body, protocol.ExtenderArgs)
        nodes = protocol.Nodes(args)
        self._record_call(args.pod.uid)
        verdict = self._evaluate(args.pod, nodes.names)
        is_rejection = isinstance(verdict, PodNotCached) or not verdict.passing
        if is_rejection and self._rechecks.take(self._clock.monotonic()):
            await self._clock.sleep(RECHECK_DELAY_SECONDS)
            verdict = self._evaluate(args.pod, nodes.names)
        if isinstance(verdict, PodNotCached):
            return error_reply("filter", verdict.reason)
        log.debug("nodes filtered", pod=args.pod.key, passing=len(verdict.passing), nodes=len(nodes.names))
        return _reply(nodes.result(*verdict), refused=not verdict.passing)

    def _evaluate(self, pod: Pod, names: Sequence[str]) -> Filtered | PodNotCached:
        verdict = self._evaluator.filter(pod, names, provisioning_failures=self._failures.of(pod))
        if isinstance(verdict, PodNotCached):
            return verdict
        return self._group_plans.restrict(pod, verdict, self._clock.monotonic())

    async def _prioritize(self, body: bytes) -> Reply:
        args = protocol.decode_call(body, protocol.ExtenderArgs)
        names = protocol.Nodes(args).names
        self._record_call(args.pod.uid)
        scores = self._evaluator.scores(args.pod, names)
        return _reply([protocol.HostPriority(*pair) for pair in zip(names, scores, strict=True)])

    async def _preempt(self, body: bytes) -> Reply:
        args = protocol.decode_call(body, protocol.ExtenderPreemptionArgs)
        self._record_call(args.pod.uid)
        victims = args.by_node()
        uids = {node: frozenset(pod.uid for pod in each.pods or ()) for node, each in victims.items()}
        kept = {node: victims[node] for node in self._evaluator.nodes_worth_preempting(args.pod, uids)}
        return _reply(protocol.ExtenderPreemptionResult(kept), refused=not kept)

    async def _bind(self, body: bytes) -> Reply:
        if self._settings.mode is not Mode.BIND:
            return error_reply("bind", DOES_NOT_BIND)
        args = protocol.decode_call(body, protocol.ExtenderBindingArgs)
        self._record_call(args.pod_uid)
        reason = await self._bind_verb.bind(args)
        pod = f"{args.pod_namespace}/{args.pod_name}"
        if reason:
            log.info("pod not bound", pod=pod, node=args.node, reason=reason)
        else:
            log.info("pod bound", pod=pod, node=args.node)
        return _reply(protocol.ExtenderBindingResult(reason), refused=bool(reason))

    def _record_call(self, uid: str) -> None:
        if self._call_monitor.record_call(uid, self._clock.monotonic()):
            log.info("kube-scheduler calls")

    def _idle_warning(self) -> str | None:
        return self._call_monitor.idle_warning(self._clock.monotonic())

    async def _watch_calls(self) -> None:
        """Warn once when kube-scheduler stops calling, or never calls, although pods are scheduled."""
        warned = False
        while True:
            await self._clock.sleep(self._settings.called_within / 4)
            reason = self._idle_warning()
            if reason and not warned:
                log.warning("kube-scheduler does not call", reason=reason)
            warned = reason is not None


def _reply(message: protocol.ExtenderMessage | Sequence[protocol.ExtenderMessage], *, refused: bool = False) -> Reply:
    return Reply(OK, protocol.encode_reply(message), CallOutcome.REFUSED if refused else CallOutcome.ANSWERED)


def error_reply(verb: str, error: str, *, code: int = BAD_REQUEST) -> Reply:
    """In the protocol's error field where the verb has one, by the status code otherwise."""
    match verb:
        case "filter":
            return Reply(OK, protocol.encode_reply(protocol.ExtenderFilterResult(error=error)), CallOutcome.ERROR)
        case "bind":
            return Reply(OK, protocol.encode_reply(protocol.ExtenderBindingResult(error)), CallOutcome.ERROR)
        case _:
            return Reply(code, protocol.encode_reply(protocol.Failure(error)), CallOutcome.ERROR)
