"""The ReplicaSet controller's shell: watches sets and pods, and keeps as many pods as `replicaset` asks for."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import ApiError
from mooring.api.kinds import REPLICA_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.deployment import ReplicaSet
from mooring.api.views.pod import Pod
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import availability, replicaset
from mooring.workloads.owned_pods import OwnedPods
from mooring.workloads.ownership import compiled
from mooring.workloads.pod_maker import PodMaker
from mooring.workloads.refusals import namespace_goes

#: Upstream's number of sets handled at once.
WORKERS: Final = 5
#: Requests under way at once for one set, once the first has shown that they work.
AT_ONCE: Final = 16

log = structlog.get_logger(__name__)


class ReplicaSetController:
    name = "replicaset-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue = context.work_queue("replicaset")
        self._sets = context.informers.of(REPLICA_SET)
        self._pods = OwnedPods(context, REPLICA_SET, self._queue, selector=lambda owner: compiled(owner.spec.selector))
        self._maker = PodMaker(context, REPLICA_SET, self._queue)
        self.ready = False

    async def run(self) -> None:
        await self._sets.subscribe(self._on_set)
        await self._pods.informer.subscribe(self._maker.on_pod)
        await self._pods.watch()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_set(self, before: ReplicaSet | None, after: ReplicaSet | None) -> None:
        if after is not None:
            self._queue.add(after.key)
        elif before is not None:
            self._maker.forget(before)

    async def _sync(self, key: str) -> None:
        replica_set = self._sets.get(key)
        if replica_set is None or replica_set.deleting or await self._maker.waits_for_news(replica_set):
            return
        pods = [pod for pod in await self._pods.of(replica_set) if not self._maker.goes(pod)]
        now = self._clock.now()
        change = replicaset.change(replica_set, pods, now=now)
        problem = await self._create(replica_set, change.create)
        problem = await self._delete(replica_set, change.delete) or problem
        await self._write_status(replica_set, pods, problem, now)
        waits = [availability.wait(pod, replica_set.spec.min_ready_seconds, now=now) for pod in pods]
        if soon := [wait for wait in waits if 0 < wait < float("inf")]:
            self._queue.add_after(key, min(soon))
        if problem is not None and not namespace_goes(problem):
            raise problem

    async def _create(self, replica_set: ReplicaSet, count: int) -> ApiError | None:
        """One first, then many at once: where the first is refused the others would be too."""
        if count == 0:
            return None
        problem = await self._create_one(replica_set)
        left = iter(range(count - 1))
        problems: list[ApiError] = []

        async def make() -> None:
            for _ in left:
                if problems:
                    return
                if (refused := await self._create_one(replica_set)) is not None:
                    problems.append(refused)

        if problem is None and count > 1:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(AT_ONCE, count - 1)):
                    group.create_task(make())
        return problem or next(iter(problems), None)

    async def _create_one(self, replica_set: ReplicaSet) -> ApiError | None:
        return await self._maker.make(replica_set, lambda name: replicaset.pod_body(replica_set, name))

    async def _delete(self, replica_set: ReplicaSet, pods: Sequence[Pod]) -> ApiError | None:
        for pod in pods:
            if (refused := await self._maker.remove(replica_set, pod)) is not None:
                return refused
        return None

    async def _write_status(
        self, replica_set: ReplicaSet, pods: list[Pod], problem: ApiError | None, now: float
    ) -> None:
        why = problem.message if problem is not None else ""
        wanted = replicaset.status(replica_set, pods, problem=why, now=now, date=timestamps.to_time(now))
        if wanted == replicaset.reported(replica_set):
            return
        meta = {"resourceVersion": replica_set.metadata.resource_version}
        patch = MergePatch({"metadata": meta, "status": wanted})
        name, namespace = replica_set.name, replica_set.namespace
        await self._client.patch(REPLICA_SET, name, patch, namespace=namespace, subresource="status")
