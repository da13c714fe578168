"""The ReplicaSet controller: watches sets and pods, and executes the plan of `replicaset`."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from mooring.api.errors import ApiError
from mooring.api.kinds import POD, REPLICA_SET
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import ReplicaSet
from mooring.control.component import Context, Reconciler
from mooring.controllers.workloads import pod_rules, replicaset
from mooring.controllers.workloads.pod_control import OwnedObjects, PodControl, write_status
from mooring.controllers.workloads.pod_rules import is_namespace_terminating

#: Per set, after the first request succeeded.
MAX_CONCURRENT_CREATES: Final = 16

log = structlog.get_logger(__name__)


class ReplicaSetController(Reconciler[str]):
    name = "replicaset-controller"
    #: As upstream.
    WORKERS = 5

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("replicaset", REPLICA_SET))
        self._sets = context.informers.of(REPLICA_SET)
        self._pods = OwnedObjects(context, REPLICA_SET, POD, self._queue)
        self._pod_control = PodControl(context, REPLICA_SET, self._queue)

    async def _subscribe(self) -> None:
        await self._pod_control.watch()
        await self._pods.watch()

    async def _sync(self, key: str) -> None:
        replica_set = self._sets.get(key)
        if replica_set is None or replica_set.deleting or await self._pod_control.expectations_pending(replica_set):
            return
        pods = [pod for pod in await self._pods.of(replica_set) if not self._pod_control.is_terminating(pod)]
        now = self._clock.now()
        change = replicaset.plan_replica_set(replica_set, pods, now=now)
        problem = await self._create(replica_set, change.create)
        problem = await self._delete(replica_set, change.delete) or problem
        message = problem.message if problem is not None else ""
        status = replicaset.status(replica_set, pods, problem=message, now=now)
        await write_status(self._client, REPLICA_SET, replica_set, status)
        least = replica_set.spec.min_ready_seconds
        again = pod_rules.seconds_until_next_available(pods, least, now=now)
        if again is not None:
            self._queue.add_after(key, again)
        if problem is not None and not is_namespace_terminating(problem):
            raise problem

    async def _create(self, replica_set: ReplicaSet, count: int) -> ApiError | None:
        """One first, then concurrently: if the first is rejected, the others would be too."""
        if count == 0:
            return None
        problem = await self._create_one(replica_set)
        left = iter(range(count - 1))
        problems: list[ApiError] = []

        async def create() -> None:
            for _ in left:
                if problems:
                    return
                if (refused := await self._create_one(replica_set)) is not None:
                    problems.append(refused)

        if problem is None and count > 1:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(MAX_CONCURRENT_CREATES, count - 1)):
                    group.create_task(create())
        return problem or next(iter(problems), None)

    async def _create_one(self, replica_set: ReplicaSet) -> ApiError | None:
        return await self._pod_control.create_pod(replica_set, lambda name: replicaset.pod_body(replica_set, name))

    async def _delete(self, replica_set: ReplicaSet, pods: Sequence[Pod]) -> ApiError | None:
        for pod in pods:
            if (refused := await self._pod_control.delete_pod(replica_set, pod)) is not None:
                return refused
        return None
