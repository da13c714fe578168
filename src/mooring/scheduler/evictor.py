"""The evictor: asks the pods to go that a more important one needs the place of, and says why.

The shell around `preemption`. Each victim gets a condition that tells it was not its fault, then is deleted with its
usual grace, under its uid. What is on its way out is left alone, also while the API server has not told us yet.
"""

from typing import Any, Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Conflict, NotFound
from mooring.api.kinds import POD
from mooring.api.patches.contract import StrategicPatch
from mooring.api.timestamps import to_time
from mooring.api.views.pod import Pod
from mooring.client.contract import Unreachable
from mooring.client.recorder import NORMAL, EventRecorder
from mooring.control.component import Context
from mooring.scheduler.preemption import BY_SCHEDULER, DISRUPTION_TARGET, Preemption

log: FilteringBoundLogger = structlog.get_logger(__name__)

PREEMPTED: Final = "Preempted"


class Evictor:
    """Evicts the victims of any number of pods at once."""

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        #: Asked to go, and not seen going yet.
        self._asked: set[str] = set()

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        """Once the informer shows it, there is nothing to remember."""
        if after is None or after.deleting:
            seen = after or before
            if seen is not None:
                self._asked.discard(seen.uid)

    async def evict(self, preemptor: Pod, preemption: Preemption, recorder: EventRecorder) -> bool:
        """Have the victims go; False when one could not be asked to."""
        victims = [one for one in preemption.victims if not one.deleting and one.uid not in self._asked]
        for victim in victims:
            self._asked.add(victim.uid)
            try:
                await self._evict(victim, preemptor.spec.scheduler_name)
            except (NotFound, Conflict):
                # SEEN: it is gone, or another pod has its name: nobody is in the way any more.
                self._asked.discard(victim.uid)
            except (ApiError, Unreachable) as error:
                self._asked.discard(victim.uid)
                log.warning("pod not preempted", victim=victim.key, preemptor=preemptor.key, why=str(error))
                return False
            else:
                log.info("pod preempted", victim=victim.key, preemptor=preemptor.key, node=preemption.node)
                message = f"Preempted by pod {preemptor.uid} on node {preemption.node}"
                recorder.record(victim, POD, NORMAL, PREEMPTED, message)
        return True

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
