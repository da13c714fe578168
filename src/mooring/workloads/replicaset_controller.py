"""The ReplicaSet controller's shell: watches sets and pods, and keeps as many pods as `replicaset` asks for."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import POD, REPLICA_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.deployment import ReplicaSet
from mooring.api.views.pod import Pod
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import availability, replicaset
from mooring.workloads.expectations import PATIENCE, Expectations
from mooring.workloads.owned_pods import OwnedPods
from mooring.workloads.ownership import compiled
from mooring.workloads.refusals import namespace_goes
from mooring.workloads.replicaset import ALPHABET, SUFFIX

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
        self._rng = context.rng
        self._recorder = context.recorder
        self._queue = context.work_queue("replicaset")
        self._sets = context.informers.of(REPLICA_SET)
        self._pods = OwnedPods(context, REPLICA_SET, self._queue, selector=lambda owner: compiled(owner.spec.selector))
        self._expectations = Expectations()
        #: Uids of pods whose deletion was asked for and not seen yet.
        self._doomed: set[str] = set()
        self.ready = False

    async def run(self) -> None:
        self._sets.on_change(self._on_set)
        self._pods.informer.on_change(self._on_pod)
        self._pods.watch()
        await self._sets.synced.wait()
        await self._pods.informer.synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_set(self, before: ReplicaSet | None, after: ReplicaSet | None) -> None:
        if after is not None:
            self._queue.add(after.key)
        elif before is not None:
            self._expectations.forget(before.uid)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after if after is not None else before
        if pod is not None and pod.controller is not None:
            self._expectations.met(pod.controller.uid, pod.name)
            if after is None or after.deleting:
                self._doomed.discard(pod.uid)

    async def _sync(self, key: str) -> None:
        replica_set = self._sets.get(key)
        if replica_set is None or replica_set.deleting:
            return
        if await self._waits_for_news(replica_set):
            return
        pods = [pod for pod in await self._pods.of(replica_set) if pod.uid not in self._doomed]
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

    async def _waits_for_news(self, replica_set: ReplicaSet) -> bool:
        """Whether pods that were asked for have not been seen yet; those that take long are asked about."""
        for pod in self._expectations.overdue(replica_set.uid, now=self._clock.monotonic()):
            try:
                await self._client.get(POD, pod, namespace=replica_set.namespace)
            except NotFound:
                self._expectations.met(replica_set.uid, pod)
        waits = bool(self._expectations.awaited(replica_set.uid))
        if waits:
            self._queue.add_after(replica_set.key, PATIENCE)
        return waits

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
        name = replicaset.name(replica_set.name, "".join(self._rng.choices(ALPHABET, k=SUFFIX)))
        self._expectations.expect(replica_set.uid, name, now=self._clock.monotonic())
        try:
            await self._client.create(POD, replicaset.pod_body(replica_set, name), namespace=replica_set.namespace)
        except Unreachable:
            # SEEN: it may be there or not; the expectation stays until somebody knows.
            return None
        except AlreadyExists:
            # SEEN: the name was taken; the next look chooses another.
            self._expectations.met(replica_set.uid, name)
            self._queue.add(replica_set.key)
            return None
        except ApiError as error:
            self._expectations.met(replica_set.uid, name)
            # Without the random part of the name: what is said again and again must be the same each time.
            error.message = error.message.replace(name, f"{replica_set.name}-")
            if not namespace_goes(error):
                message = f"Error creating: {error.message}"
                self._recorder.record(replica_set, REPLICA_SET, "Warning", "FailedCreate", message)
            return error
        self._recorder.record(replica_set, REPLICA_SET, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return None

    async def _delete(self, replica_set: ReplicaSet, pods: Sequence[Pod]) -> ApiError | None:
        for pod in pods:
            self._doomed.add(pod.uid)
            try:
                await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
            except (NotFound, Conflict):
                # SEEN: that very pod is gone already.
                self._doomed.discard(pod.uid)
            except (ApiError, Unreachable) as error:
                self._doomed.discard(pod.uid)
                if isinstance(error, Unreachable):
                    raise
                message = f"Error deleting: {error.message}"
                self._recorder.record(replica_set, REPLICA_SET, "Warning", "FailedDelete", message)
                return error
            else:
                message = f"Deleted pod: {pod.name}"
                self._recorder.record(replica_set, REPLICA_SET, "Normal", "SuccessfulDelete", message)
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
