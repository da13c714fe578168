"""The evictor: asks the pods to go that a more important one needs the place of, and says why.

The shell around `preemption`. First the place is written into the status of the pod it is for: whoever leads next knows
then for whom the others went, and a pod that is gone by now costs nobody its place. Then each victim gets a condition
that tells it was not its fault and is deleted with its usual grace, under its uid. What is on its way out is left
alone, also while the API server has not told us yet. An API server that does not answer is asked again: to give up
half-way would have let some go in vain.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, NotFound, TooManyRequests
from mooring.api.kinds import POD
from mooring.api.patches.contract import StrategicPatch
from mooring.api.timestamps import to_time
from mooring.api.views.pod import Pod
from mooring.client.backoff import Backoff
from mooring.client.contract import Unreachable
from mooring.client.recorder import NORMAL, EventRecorder
from mooring.control.component import Context
from mooring.scheduler.binder import FIRST_PAUSE, LONGEST_PAUSE
from mooring.scheduler.nominations import nomination
from mooring.scheduler.preemption import BY_SCHEDULER, DISRUPTION_TARGET, Preemption

log: FilteringBoundLogger = structlog.get_logger(__name__)

PREEMPTED: Final = "Preempted"

#: Codes from here on say nothing about the request.
_SERVERS_FAULT: Final = 500


class Evictor:
    """Evicts the victims of any number of pods at once."""

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._rng = context.rng
        #: Asked to go, and not seen going yet.
        self._asked: set[str] = set()

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """Once the informer shows it, there is nothing to remember."""
        if after is None or after.deleting:
            seen = after or before
            if seen is not None:
                self._asked.discard(seen.uid)

    async def evict(
        self, preemptor: Pod, preemption: Preemption, recorder: EventRecorder, wanted: Callable[[], bool]
    ) -> bool:
        """Have the victims go; False when one could not be asked to.

        `wanted` says whether the place is still meant for the pod. Once it is not, nobody else has to go.
        """
        victims = [one for one in preemption.victims if not one.deleting]
        if not victims:
            return True
        try:
            kept = await self._patiently(lambda: self._keep_place(preemptor, preemption.node), wanted)
        except NotFound:
            return True
        except ApiError as error:
            log.warning("place not kept", pod=preemptor.key, node=preemption.node, why=str(error))
            return False
        for victim in victims if kept else ():
            if not await self._have_go(victim, preemptor, preemption.node, recorder, wanted):
                return False
        return True

    async def _have_go(
        self, victim: Pod, preemptor: Pod, node: str, recorder: EventRecorder, wanted: Callable[[], bool]
    ) -> bool:
        if victim.uid in self._asked or not wanted():
            return True
        self._asked.add(victim.uid)

        def still() -> bool:
            return wanted() and victim.uid in self._asked

        try:
            goes = await self._patiently(lambda: self._evict(victim, preemptor.spec.scheduler_name), still)
            # Seen leaving: the answer got lost, not the request.
            goes = goes or victim.uid not in self._asked
        except NotFound:
            goes = False
        except ApiError as error:
            self._asked.discard(victim.uid)
            log.warning("pod not preempted", victim=victim.key, preemptor=preemptor.key, why=str(error))
            return False
        if goes:
            log.info("pod preempted", victim=victim.key, preemptor=preemptor.key, node=node)
            message = f"Preempted by pod {preemptor.uid} on node {node}"
            recorder.record(victim, POD, NORMAL, PREEMPTED, message)
        else:
            self._asked.discard(victim.uid)
        return True

    async def _patiently(self, request: Callable[[], Awaitable[object]], wanted: Callable[[], bool]) -> bool:
        """Until there is an answer; False once nobody wants one any more. Repeating is safe, everything has its uid."""
        pause: Backoff | None = None
        while True:
            try:
                await request()
            except (ApiError, Unreachable) as error:
                if (
                    isinstance(error, ApiError)
                    and error.code < _SERVERS_FAULT
                    and not isinstance(error, TooManyRequests)
                ):
                    raise
                if not wanted():
                    return False
                pause = pause or Backoff(self._rng, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
                await self._clock.sleep(pause.delay())
            else:
                return True

    async def _keep_place(self, pod: Pod, node: str) -> None:
        patch = nomination(pod, node)
        await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")

    async def _evict(self, victim: Pod, scheduler: str) -> None:
        patch = StrategicPatch(_condition(victim, scheduler, self._clock.now()))
        await self._client.patch(POD, victim.name, patch, namespace=victim.namespace, subresource="status")
        await self._client.delete(POD, victim.name, namespace=victim.namespace, uid=victim.uid)


def _condition(victim: Pod, scheduler: str, now: float) -> dict[str, Any]:
    condition: dict[str, Any] = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": BY_SCHEDULER,
        "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": to_time(now),
    }
    if victim.metadata.generation:
        condition["observedGeneration"] = victim.metadata.generation
    return {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
