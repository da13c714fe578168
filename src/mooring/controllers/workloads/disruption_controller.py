"""The disruption controller: maintains the status of PodDisruptionBudgets, by which evictions are granted."""

from collections.abc import Iterable

import structlog

from mooring.api.kinds import DEPLOYMENT, DISRUPTION_BUDGET, POD, REPLICA_SET, STATEFUL_SET
from mooring.api.views.meta import OwnerReference
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import Deployment, DisruptionBudget, ReplicaSet, StatefulSet
from mooring.control.component import Context, Reconciler
from mooring.controllers.workloads import disruption
from mooring.controllers.workloads.disruption import Expected
from mooring.controllers.workloads.pod_control import patch_status
from mooring.controllers.workloads.pod_rules import has_status

log = structlog.get_logger(__name__)


class DisruptionController(Reconciler[str]):
    name = "disruption-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("disruption", DISRUPTION_BUDGET))
        self._budgets = context.informers.of(DISRUPTION_BUDGET)
        self._pods = context.informers.of(POD)
        self._replica_sets = context.informers.of(REPLICA_SET)
        self._deployments = context.informers.of(DEPLOYMENT)
        self._stateful_sets = context.informers.of(STATEFUL_SET)

    async def _subscribe(self) -> None:
        await self._budgets.subscribe(self._on_budget)
        await self._pods.subscribe(self._on_pod)
        for informer in (self._replica_sets, self._deployments, self._stateful_sets):
            await informer.synced.wait()

    def _on_budget(self, _: DisruptionBudget | None, after: DisruptionBudget | None) -> None:
        if after is not None:
            self._queue.add(after.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for budget in self._budgets.items():
            if any(pod is not None and disruption.covers(budget, pod) for pod in (before, after)):
                self._queue.add(budget.key)

    async def _sync(self, key: str) -> None:
        budget = self._budgets.get(key)
        if budget is None or budget.deleting:
            return
        pods = [pod for pod in self._pods.items() if disruption.covers(budget, pod)]
        expected = self._expected(pods) if disruption.needs_owners(budget) else Expected(len(pods))
        if expected.problem:
            reason = "CalculateExpectedPodCountFailed"
            self._recorder.record(budget, DISRUPTION_BUDGET, "Warning", reason, expected.problem)
        now = self._clock.now()
        desired = disruption.status(budget, pods, expected, now=now)
        if not has_status(budget.status, desired):
            # With resourceVersion: the server decrements the count when it grants an eviction.
            await patch_status(self._client, DISRUPTION_BUDGET, budget, disruption.status_patch(budget, desired))
        again = disruption.next_expiry(budget, now=now)
        if again is not None:
            self._queue.add_after(key, again)

    def _expected(self, pods: Iterable[Pod]) -> Expected:
        """Sum of the replicas of these pods' controllers."""
        desired: dict[str, int] = {}
        for pod in pods:
            owner = pod.controller
            if owner is None:
                return Expected(0, f"found no controllers for pod {pod.name!r}")
            found = self._topmost(pod.namespace, owner)
            if found is None:
                return Expected(0, f"{owner.kind} {owner.name!r} has no known number of replicas")
            desired[found.uid] = found.spec.replicas
        return Expected(sum(desired.values()))

    def _topmost(self, namespace: str, owner: OwnerReference) -> StatefulSet | ReplicaSet | Deployment | None:
        """The topmost controller: a Deployment has several sets during a rollout."""
        stateful_set = self._stateful_sets.get(f"{namespace}/{owner.name}")
        if stateful_set is not None and stateful_set.uid == owner.uid:
            return stateful_set
        replica_set = self._replica_sets.get(f"{namespace}/{owner.name}")
        if replica_set is None or replica_set.uid != owner.uid:
            return None
        above = replica_set.controller
        deployment = self._deployments.get(f"{namespace}/{above.name}") if above is not None else None
        is_above = deployment is not None and above is not None and deployment.uid == above.uid
        return deployment if is_above else replica_set
