"""The bind verb: a pod's volumes are promised, written and waited for, and then the pod gets its node.

kube-scheduler calls it for every pod it has chosen a node for. It says who and where, and nothing of what `filter` said
before, which may have been another replica and some other pods ago: so everything is judged again, on this one node,
and what that finds is promised at once, before anything is awaited. The promise lasts as long as the call and is taken
back with it, however it ends; what was written stays written, and the next call goes on from there. Every write is a
compare-and-swap, so that two calls, two replicas or two schedulers cannot both win.
"""

import asyncio
from functools import partial
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import POD
from mooring.api.views.pod import Pod
from mooring.control.component import Context
from mooring.scheduler import cycle
from mooring.scheduler.binder import Binder, BindFailed
from mooring.scheduler.contract import Cycle
from mooring.scheduler.cycle import Reservation
from mooring.scheduler.extender.arrivals import Arrivals
from mooring.scheduler.extender.judgement import Judgement
from mooring.scheduler.extender.settings import Settings
from mooring.scheduler.extender.wire import ExtenderBindingArgs
from mooring.scheduler.snapshot import Snapshot
from mooring.scheduler.static_holds import StaticHolds
from mooring.volumes.assume import OutOfSync

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Seconds a pod may take to be known here after kube-scheduler has chosen a node for it.
ARRIVAL_SECONDS: Final = 5.0

SUPERSEDED: Final = "given up: kube-scheduler has called again for this pod, or this extender is stopping"


class Bindings:
    """Any number at once, one per pod. Call `follow` once, before the first `bind`."""

    def __init__(self, context: Context, snapshot: Snapshot, judgement: Judgement, settings: Settings) -> None:
        self._snapshot = snapshot
        self._judgement = judgement
        self._arrivals = Arrivals(context.informers.of(POD), context.clock)
        holds = StaticHolds(context.client, context.clock, namespace=settings.hold_namespace)
        exceeded_by = snapshot.volumes.usage.exceeded_by
        self._binder = Binder(context, exceeded_by=exceeded_by, timeout=settings.bind_timeout, holds=holds)
        self._under_way: dict[str, asyncio.Task[str]] = {}

    async def follow(self) -> None:
        await self._arrivals.follow()
        await self._binder.follow()

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    async def bind(self, args: ExtenderBindingArgs) -> str:
        """Why the pod did not get the node; "" when it did, also by an earlier call."""
        key = f"{args.pod_namespace}/{args.pod_name}"
        pod = await self._arrivals.of(key, args.pod_uid, seconds=ARRIVAL_SECONDS)
        if pod is None:
            return f'pod "{args.pod_name}" with uid {args.pod_uid} not found'
        while earlier := self._under_way.get(pod.uid):
            # Whoever called before has stopped listening: kube-scheduler has one call per pod.
            earlier.cancel()
            await asyncio.wait((earlier,))
        # Of what did not succeed nothing is assumed any more.
        if node := pod.spec.node_name or self._snapshot.node_of(pod):
            return "" if node == args.node else f'pod "{pod.name}" is already assigned to node "{node}"'
        reservation = self._reserve(pod, args.node)
        if isinstance(reservation, str):
            return reservation
        work = asyncio.create_task(self._carry_out(pod, reservation), name=f"bind {key}")
        self._under_way[pod.uid] = work
        work.add_done_callback(partial(self._settle, pod, reservation))
        try:
            await asyncio.wait((work,))
        finally:
            # Here by cancellation too, when the caller has gone: nobody waits for what is still under way.
            work.cancel()
        return SUPERSEDED if work.cancelled() else work.result()

    async def stop(self) -> None:
        """Give up what is under way."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _reserve(self, pod: Pod, node: str) -> Reservation | str:
        attempt = Cycle(pod, self._snapshot)
        if why := self._judgement.why_not(attempt, node):
            return f'node "{node}" does not do any more: {why}'
        try:
            reservation = cycle.reserve(attempt, self._judgement.profile, node)
        except OutOfSync as error:
            return f"running Reserve plugin: {error}"
        self._snapshot.assume(pod, node)
        return reservation

    async def _carry_out(self, pod: Pod, reservation: Reservation) -> str:
        try:
            await self._binder.bind(pod, reservation.plan)
        except BindFailed as failure:
            return str(failure)
        except Exception as error:
            # A bug, which concerns this pod only: kube-scheduler is told, and tries it again.
            log.exception("handling of pod failed with a bug", pod=pod.key)
            return f"internal error: {type(error).__name__}: {error}"
        return ""

    def _settle(self, pod: Pod, reservation: Reservation, work: asyncio.Task[str]) -> None:
        """A callback, since a task that is cancelled before it begins runs none of its own code."""
        del self._under_way[pod.uid]
        if work.cancelled() or work.exception() is not None or work.result():
            cycle.unreserve(self._snapshot, reservation)
            self._snapshot.forget(pod)
