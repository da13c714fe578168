"""PostFilter and eviction of preemption victims.

`Preemptor` keeps what outlives a scheduling attempt: disruption budgets, nominations, evictions in progress. `Evictor`
first lists the PodDisruptionBudgets, because the informer's may be old: pods that a newer budget protects are not
evicted for a decision without it. Then it writes `nominatedNodeName`, so that the next leader knows for which pod the
victims were evicted and a deleted pod costs no victim; then it sets each victim's DisruptionTarget condition and
deletes the victim by uid, with its usual grace period. It retries while the API server does not answer: stopping
half-way would evict pods in vain.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, NotFound, TooManyRequests
from mooring.api.kinds import DISRUPTION_BUDGET, POD
from mooring.api.patches.contract import StrategicPatch
from mooring.api.times import to_time
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DisruptionBudget
from mooring.backoff import JitteredBackoff
from mooring.client.contract import Unreachable
from mooring.client.recorder import NORMAL, EventRecorder
from mooring.control.component import Context
from mooring.scheduler.binding.writes import INITIAL_RETRY_SECONDS, MAX_RETRY_SECONDS
from mooring.scheduler.framework import cycle
from mooring.scheduler.framework.cycle import Profile
from mooring.scheduler.framework.interface import CycleState, Decision
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.preemption.evaluator import (
    BY_SCHEDULER,
    DISRUPTION_TARGET,
    Ineligible,
    Preemption,
    PreemptionInput,
)
from mooring.scheduler.preemption.nominator import DisruptionBudgets, Nominator, nomination

log: FilteringBoundLogger = structlog.get_logger(__name__)

PREEMPTED: Final = "Preempted"

#: From this code on, the same request may succeed later.
_SERVER_ERROR: Final = 500


class Evictor:
    """Evicts the victims of any number of pods concurrently."""

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._rng = context.rng
        #: Uids of victims that are being deleted and not yet observed as terminating.
        self._evicting: set[str] = set()

    def observe(self, before: Pod | None, after: Pod | None) -> None:
        if after is None or after.deleting:
            seen = after or before
            if seen is not None:
                self._evicting.discard(seen.uid)

    async def evict(
        self,
        preemptor: Pod,
        preemption: Preemption,
        budgets: DisruptionBudgets,
        recorder: EventRecorder,
        still_needed: Callable[[], bool],
    ) -> bool:
        """Evict the victims; False if the API server refused a request, or its budgets protect more of them than
        `budgets`, by which they were selected. Once `still_needed` returns False (the preemptor is no longer
        nominated), no further victim is evicted."""
        victims = [one for one in preemption.victims if not one.deleting]
        if not victims:
            return True
        expected = sum(budgets.overdrawn(victims))
        try:
            current = await self._current_budgets(victims, still_needed)
        except ApiError as error:
            log.warning("disruption budgets not listed", pod=preemptor.key, error=str(error))
            return False
        if not still_needed():
            return True
        if (violations := sum(current.overdrawn(victims))) > expected:
            log.info(
                "pods not preempted: disruption budgets that were not observed yet protect them",
                pod=preemptor.key,
                node=preemption.node,
                violations=violations,
                expected=expected,
            )
            return False
        try:
            patch = nomination(preemptor, preemption.node)
            nominated = await self._retry(lambda: self._patch_status(preemptor, patch), still_needed)
        except NotFound:
            return True
        except ApiError as error:
            log.warning("nominated node not written", pod=preemptor.key, node=preemption.node, error=str(error))
            return False
        for victim in victims if nominated else ():
            if not await self._evict_victim(victim, preemptor, preemption.node, recorder, still_needed):
                return False
        return True

    async def _current_budgets(self, victims: Sequence[Pod], needed: Callable[[], bool]) -> DisruptionBudgets:
        """The budgets of the victims' namespaces, with one request. Without any once `needed` returns False."""
        namespaces = {victim.namespace for victim in victims}
        budgets = DisruptionBudgets()

        async def read() -> None:
            namespace = next(iter(namespaces)) if len(namespaces) == 1 else ""
            for budget in (await self._client.list(DISRUPTION_BUDGET, namespace=namespace)).items:
                budgets.observe(None, budget)

        await self._retry(read, needed)
        return budgets

    async def _evict_victim(
        self, victim: Pod, preemptor: Pod, node: str, recorder: EventRecorder, still_needed: Callable[[], bool]
    ) -> bool:
        if victim.uid in self._evicting or not still_needed():
            return True
        self._evicting.add(victim.uid)

        def not_observed() -> bool:
            return still_needed() and victim.uid in self._evicting

        try:
            evicted = await self._retry(lambda: self._evict(victim, preemptor.spec.scheduler_name), not_observed)
            # Observed as terminating: only the response was lost.
            evicted = evicted or victim.uid not in self._evicting
        except NotFound:
            evicted = False
        except ApiError as error:
            self._evicting.discard(victim.uid)
            log.warning("pod not preempted", pod=victim.key, preemptor=preemptor.key, error=str(error))
            return False
        if evicted:
            log.info("pod preempted", pod=victim.key, preemptor=preemptor.key, node=node)
            recorder.record(victim, POD, NORMAL, PREEMPTED, f"Preempted by pod {preemptor.uid} on node {node}")
        else:
            self._evicting.discard(victim.uid)
        return True

    async def _retry(self, request: Callable[[], Awaitable[object]], needed: Callable[[], bool]) -> bool:
        """Retry until the API server answers; False once `needed` returns False. Safe: every request carries a uid."""
        backoff = JitteredBackoff(self._rng, initial=INITIAL_RETRY_SECONDS, maximum=MAX_RETRY_SECONDS)
        while True:
            try:
                await request()
            except (ApiError, Unreachable) as error:
                is_retriable = isinstance(error, Unreachable | TooManyRequests) or error.code >= _SERVER_ERROR
                if not is_retriable:
                    raise
                if not needed():
                    return False
                await self._clock.sleep(backoff.next_delay())
            else:
                return True

    async def _patch_status(self, pod: Pod, patch: StrategicPatch) -> None:
        await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")

    async def _evict(self, victim: Pod, scheduler: str) -> None:
        await self._patch_status(victim, StrategicPatch(_condition(victim, scheduler, self._clock.now())))
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


class PostFilterResult(NamedTuple):
    #: None if no pod is preempted.
    preemption: Preemption | None = None
    #: Where pods are preempted, or why none are; added to the pod's FitError message.
    reason: str = ""
    #: The nominated node: "" clears an earlier one, None leaves it unchanged.
    nominated: str | None = None


NO_POST_FILTER: Final = PostFilterResult()


class Preemptor:
    def __init__(self, context: Context, metrics: SchedulerMetrics) -> None:
        self._rng = context.rng
        self._metrics = metrics
        self.budgets = DisruptionBudgets()
        self._evictor = Evictor(context)
        self.nominator = Nominator()
        #: By uid of pods being bound, the node if they were nominated to it, else "".
        self._binding: dict[str, str] = {}

    def observe_pod(self, before: Pod | None, after: Pod | None) -> None:
        self._evictor.observe(before, after)
        if after is None or after.spec.node_name or after.deleting:
            seen = after or before
            if seen is not None:
                self._binding.pop(seen.uid, None)
        elif after.uid in self._binding:
            # Assumed on its node: its nominatedNodeName is for other readers.
            return
        self.nominator.observe(before, after)

    def on_binding_started(self, pod: Pod, node: str) -> None:
        """The pod is being bound to the node; a nomination to another node ends."""
        self._binding[pod.uid] = node if self.nominator.binding_started(pod, node) else ""

    def on_binding_failed(self, pod: Pod, *, useful: bool) -> bool:
        """Whether the pod stays nominated to the node: if it was before and the node is still `useful` to it."""
        node = self._binding.pop(pod.uid, "")
        if node and useful:
            self.nominator.put(pod, node)
        return bool(node) and useful

    def observe_budget(self, before: DisruptionBudget | None, after: DisruptionBudget | None) -> None:
        problem = self.budgets.observe(before, after)
        if problem and after is not None:
            log.warning("PodDisruptionBudget ignored: invalid selector", budget=after.key, error=problem)

    def count_attempt(self) -> None:
        """Preemption is tried for a group."""
        self._metrics.preemptions.inc()

    def run_post_filter(self, state: CycleState, profile: Profile, decision: Decision) -> PostFilterResult:
        """Try preemption for an unschedulable pod, and nominate it to the node."""
        if profile.preemptor is None or not decision.evaluated_nodes:
            return NO_POST_FILTER
        self._metrics.preemptions.inc()
        pod = state.pod
        filters, nominator = profile.for_pod(pod).filters, self.nominator
        run_filters = partial(cycle.run_filters_with_nominated_pods, state, nominator=nominator)
        given = PreemptionInput(state, decision, self.budgets, nominator, filters, run_filters, self._rng)
        outcome = profile.preemptor.preempt(given)
        if isinstance(outcome, str):
            if isinstance(outcome, Ineligible):
                return PostFilterResult(reason=outcome)
            self.nominator.remove(pod)
            return PostFilterResult(reason=outcome, nominated="")
        for other in self.nominator.less_important(pod, outcome.node):
            self.nominator.remove(other)
        self.nominator.put(pod, outcome.node)
        found = f"found a potential placement for pod on node {outcome.node}, preempting {len(outcome.victims)} victims"
        return PostFilterResult(outcome, found, nominated=outcome.node)

    async def evict_victims(self, pod: Pod, preemption: Preemption, recorder: EventRecorder) -> bool:
        """False if an eviction was refused; the nomination is then removed."""
        self._metrics.victims.observe(len(preemption.victims))

        def still_needed() -> bool:
            """The pod may be deleted, bound or nominated to another node by now."""
            return self.nominator.node_of(pod) == preemption.node

        done = await self._evictor.evict(pod, preemption, self.budgets, recorder, still_needed)
        if not done and still_needed():
            self.nominator.remove(pod)
        return done
