"""The disruption controller: keeps the status of PodDisruptionBudgets true, by which evictions are granted."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import structlog

from mooring.api import label_selector
from mooring.api.kinds import DEPLOYMENT, DISRUPTION_BUDGET, POD, REPLICA_SET, STATEFUL_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.disruption import DisruptionBudget
from mooring.api.views.meta import OwnerReference
from mooring.api.views.pod import Pod
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import disruption
from mooring.workloads.disruption import Expected

WORKERS: Final = 1

log = structlog.get_logger(__name__)


class _Wish(NamedTuple):
    """How many pods an owner wants."""

    uid: str
    replicas: int


class DisruptionController:
    name = "disruption-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._budgets = context.informers.of(DISRUPTION_BUDGET)
        self._pods = context.informers.of(POD)
        self._replica_sets = context.informers.of(REPLICA_SET)
        self._deployments = context.informers.of(DEPLOYMENT)
        self._stateful_sets = context.informers.of(STATEFUL_SET)
        self._queue = context.work_queue("disruption")
        self.ready = False

    async def run(self) -> None:
        await self._budgets.subscribe(self._on_budget)
        await self._pods.subscribe(self._on_pod)
        for informer in (self._replica_sets, self._deployments, self._stateful_sets):
            await informer.synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_budget(self, _: DisruptionBudget | None, after: DisruptionBudget | None) -> None:
        if after is not None:
            self._queue.add(after.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for budget in self._budgets.items():
            if any(pod is not None and _covers(budget, pod) for pod in (before, after)):
                self._queue.add(budget.key)

    async def _sync(self, key: str) -> None:
        budget = self._budgets.get(key)
        if budget is None or budget.deleting:
            return
        pods = [pod for pod in self._pods.items() if _covers(budget, pod)]
        expected = self._expected(pods) if disruption.needs_owners(budget) else Expected(len(pods))
        if expected.problem:
            self._recorder.record(
                budget, DISRUPTION_BUDGET, "Warning", "CalculateExpectedPodCountFailed", expected.problem
            )
        now = self._clock.now()
        wanted = disruption.status(budget, pods, expected, now=now)
        if wanted != disruption.reported(budget):
            await self._write(budget, wanted)
        again = disruption.next_expiry(budget, now=now)
        if again is not None:
            self._queue.add_after(key, again)

    def _expected(self, pods: Iterable[Pod]) -> Expected:
        """How many pods the owners of these want, each owner once."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = pod.controller
            if owner is None:
                return Expected(0, f"found no controllers for pod {pod.name!r}")
            said = self._wanted(pod.namespace, owner)
            if said is None:
                return Expected(0, f"{owner.kind} {owner.name!r} does not say how many pods it wants")
            wanted[said.uid] = said.replicas
        return Expected(sum(wanted.values()))

    def _wanted(self, namespace: str, owner: OwnerReference) -> _Wish | None:
        """The wish of whoever has the last word: a Deployment in the middle of a rollout has several sets."""
        stateful_set = self._stateful_sets.get(f"{namespace}/{owner.name}")
        if stateful_set is not None and stateful_set.uid == owner.uid:
            return _Wish(owner.uid, stateful_set.spec.replicas)
        replica_set = self._replica_sets.get(f"{namespace}/{owner.name}")
        if replica_set is None or replica_set.uid != owner.uid:
            return None
        above = replica_set.controller
        deployment = self._deployments.get(f"{namespace}/{above.name}") if above is not None else None
        if deployment is not None and above is not None and deployment.uid == above.uid:
            return _Wish(deployment.uid, deployment.spec.replicas)
        return _Wish(owner.uid, replica_set.spec.replicas)

    async def _write(self, budget: DisruptionBudget, wanted: dict[str, Any]) -> None:
        # The server takes evictions off this count as it grants them: the version makes sure none is forgotten.
        meta = {"resourceVersion": budget.metadata.resource_version}
        patch = MergePatch({"metadata": meta, "status": disruption.change(budget, wanted)})
        name, namespace = budget.name, budget.namespace
        await self._client.patch(DISRUPTION_BUDGET, name, patch, namespace=namespace, subresource="status")


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    if budget.namespace != pod.namespace or selector is None:
        return False
    return label_selector.from_view(selector.match_labels, selector.match_expressions).matches(pod.metadata.labels)
