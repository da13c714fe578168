"""The preemptor: finds out who could leave for a pod that found no node, keeps the place for it, and has them go.

Between `component`, which asks after every failed attempt, and the pure `preemption`. It keeps what outlives an
attempt: budgets, nominations and evictions under way.
"""

from typing import Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.views.disruption import DisruptionBudget
from mooring.api.views.pod import Pod
from mooring.client.recorder import EventRecorder
from mooring.control.component import Context
from mooring.scheduler import cycle
from mooring.scheduler.contract import Cycle, Decision
from mooring.scheduler.disruption import Budgets
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.nominations import Nominations
from mooring.scheduler.preemption import Attempt, Ineligible, Preemption
from mooring.scheduler.profile import Profile

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Outlook(NamedTuple):
    """What preemption can do for a pod."""

    #: Who leaves, from where; None if nobody does.
    preemption: Preemption | None = None
    #: What to add to the message of a pod for which it can do nothing.
    why_not: str = ""
    #: The node kept for the pod: "" takes an earlier one back, None leaves it as it is.
    nominated: str | None = None


NO_OUTLOOK: Final = Outlook()


class Preemptor:
    def __init__(self, context: Context, metrics: SchedulerMetrics) -> None:
        self._rng = context.rng
        self._metrics = metrics
        self._budgets = Budgets()
        self._evictor = Evictor(context)
        self.nominations = Nominations()
        #: Pods that are being bound, by uid, and the places that were cleared for them; "" where none had to be.
        self._taken: dict[str, str] = {}

    def observe_pod(self, before: Pod | None, after: Pod | None) -> None:
        self._evictor.observe(before, after)
        if after is None or after.spec.node_name or after.deleting:
            seen = after or before
            if seen is not None:
                self._taken.pop(seen.uid, None)
        elif after.uid in self._taken:
            # It counts as placed; where it is expected is written down for others.
            return
        self.nominations.observe(before, after)

    def taken(self, pod: Pod, node: str) -> None:
        """The pod is being bound to a node; what was cleared for it elsewhere is free."""
        self._taken[pod.uid] = node if self.nominations.taken(pod, node) else ""

    def given_back(self, pod: Pod, *, useful: bool) -> bool:
        """The pod could not be bound. Whether a place that was cleared for it stays kept, which it does while the pod
        is there and the place is `useful`."""
        node = self._taken.pop(pod.uid, "")
        if node and useful:
            self.nominations.put(pod, node)
        return bool(node) and useful

    def observe_budget(self, before: DisruptionBudget | None, after: DisruptionBudget | None) -> None:
        problem = self._budgets.observe(before, after)
        if problem and after is not None:
            log.warning("disruption budget protects nobody", budget=after.key, problem=problem)

    def outlook(self, attempt: Cycle, profile: Profile, decision: Decision) -> Outlook:
        """What could be done for a pod that found no node. The place is kept for it from now on."""
        if profile.preemptor is None or not decision.considered:
            return NO_OUTLOOK
        self._metrics.preemption_tried()
        pod = attempt.pod
        outcome = profile.preemptor.preempt(
            Attempt(
                attempt,
                decision,
                self._budgets,
                self.nominations,
                profile.concerning(pod).filters,
                lambda filters: cycle.ask_twice(attempt, filters, self.nominations),
                self._rng,
            )
        )
        if isinstance(outcome, str):
            if isinstance(outcome, Ineligible):
                return Outlook(why_not=outcome)
            self.nominations.remove(pod)
            return Outlook(why_not=outcome, nominated="")
        for other in self.nominations.less_important(pod, outcome.node):
            self.nominations.remove(other)
        self.nominations.put(pod, outcome.node)
        return Outlook(outcome, nominated=outcome.node)

    async def carry_out(self, pod: Pod, preemption: Preemption, recorder: EventRecorder) -> bool:
        """Have the victims go; False when one could not be asked to, and the place is not kept any more."""
        self._metrics.preempted(len(preemption.victims))

        def wanted() -> bool:
            """Whether the pod still waits for this place: it may be gone, placed, or promised another by now."""
            return self.nominations.node_of(pod) == preemption.node

        done = await self._evictor.evict(pod, preemption, recorder, wanted)
        if not done and wanted():
            self.nominations.remove(pod)
        return done
