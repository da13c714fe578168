"""The Deployment controller's shell: watches Deployments and their ReplicaSets, and does what `deployment` asks for."""

from typing import Any, Final

import structlog

from mooring.api.errors import AlreadyExists, ApiError, NotFound
from mooring.api.kinds import DEPLOYMENT, POD, REPLICA_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.deployment import Deployment, ReplicaSet
from mooring.api.views.pod import Pod
from mooring.client.indexes import BY_OWNER, ORPHANS
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import deployment, deployment_sets, deployment_status, ownership
from mooring.workloads.deployment import Action, CreateSet, DeleteSet, NoteOnSet, NoteRevision, ScaleSet
from mooring.workloads.deployment_sets import Sets
from mooring.workloads.refusals import namespace_goes

#: Upstream's number of Deployments handled at once.
WORKERS: Final = 5

log = structlog.get_logger(__name__)


class DeploymentController:
    name = "deployment-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._deployments = context.informers.of(DEPLOYMENT)
        self._sets = context.informers.of(REPLICA_SET)
        self._pods = context.informers.of(POD)
        self._sets.add_index(*BY_OWNER)
        self._sets.add_index(*ORPHANS)
        self._pods.add_index(*BY_OWNER)
        self._queue = context.work_queue("deployment")
        self.ready = False

    async def run(self) -> None:
        await self._deployments.subscribe(self._on_deployment)
        await self._sets.subscribe(self._on_set)
        await self._pods.subscribe(self._on_pod)
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_deployment(self, _: Deployment | None, after: Deployment | None) -> None:
        if after is not None:
            self._queue.add(after.key)

    def _on_set(self, before: ReplicaSet | None, after: ReplicaSet | None) -> None:
        for one in (before, after):
            owner = one.controller if one is not None else None
            if one is not None and owner is not None and owner.kind == DEPLOYMENT.kind:
                self._queue.add(f"{one.namespace}/{owner.name}")
        if after is not None and after.controller is None:
            for candidate in self._deployments.items():
                selector = ownership.compiled(candidate.spec.selector)
                if candidate.namespace == after.namespace and selector and selector.matches(after.metadata.labels):
                    self._queue.add(candidate.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """The last pod of an old set that goes lets a Deployment go on that recreates its pods."""
        owner = before.controller if before is not None and after is None else None
        if before is not None and owner is not None and owner.kind == REPLICA_SET.kind:
            replica_set = self._sets.get(f"{before.namespace}/{owner.name}")
            if replica_set is not None:
                self._on_set(None, replica_set)

    async def _sync(self, key: str) -> None:
        found = self._deployments.get(key)
        if found is None or found.deleting:
            return
        sets = deployment_sets.sorted_sets(found, await self._owned(found))
        actions = deployment.plan(found, sets, old_pods_run=any(self._runs(one) for one in sets.old))
        try:
            for action in actions:
                await self._do(found, action)
        except ApiError as refusal:
            if not namespace_goes(refusal):
                raise
            return
        await self._write_status(found, sets)
        wait = deployment_status.deadline(found, now=self._clock.now())
        if wait is not None:
            self._queue.add_after(key, max(wait, 1.0))

    async def _owned(self, found: Deployment) -> list[ReplicaSet]:
        candidates = [
            *self._sets.by_index(BY_OWNER.name, found.uid),
            *self._sets.by_index(ORPHANS.name, found.namespace),
        ]
        held = ownership.sorted_out(found, ownership.compiled(found.spec.selector), candidates)
        mine = held.mine
        for orphan in held.adopt:
            fresh = await self._client.get(DEPLOYMENT, found.name, namespace=found.namespace)
            if fresh.uid == found.uid and not fresh.deleting:
                patch = ownership.adoption(DEPLOYMENT, found, orphan)
                mine.append(await self._client.patch(REPLICA_SET, orphan.name, patch, namespace=orphan.namespace))
        for stranger in held.release:
            patch = ownership.release(found, stranger)
            await self._client.patch(REPLICA_SET, stranger.name, patch, namespace=stranger.namespace)
        return mine

    def _runs(self, replica_set: ReplicaSet) -> bool:
        return any(not pod.finished for pod in self._pods.by_index(BY_OWNER.name, replica_set.uid))

    async def _do(self, found: Deployment, action: Action) -> None:
        match action:
            case CreateSet(body):
                await self._create(found, body)
            case ScaleSet(replica_set, replicas):
                await self._scale(found, replica_set, replicas)
            case NoteOnSet(replica_set, annotations):
                body = {"metadata": {"annotations": annotations}} if annotations else {}
                await self._change(replica_set, body | {"spec": {"minReadySeconds": found.spec.min_ready_seconds}})
            case NoteRevision(number):
                patch = MergePatch({"metadata": {"annotations": {deployment_sets.REVISION: number}}})
                await self._client.patch(DEPLOYMENT, found.name, patch, namespace=found.namespace)
            case DeleteSet(replica_set):
                await self._delete(replica_set)

    async def _create(self, found: Deployment, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        try:
            await self._client.create(REPLICA_SET, body, namespace=found.namespace)
        except AlreadyExists:
            there = await self._client.get(REPLICA_SET, name, namespace=found.namespace)
            if there.controller is not None and there.controller.uid == found.uid:
                # SEEN: the cache is behind.
                return
            await self._count_collision(found)
            return
        except ApiError as error:
            if not namespace_goes(error):
                text = f'Failed to create new replica set "{name}": {error.message}'
                self._recorder.record(found, DEPLOYMENT, "Warning", "ReplicaSetCreateError", text)
            raise
        self._tell_scaled(found, "up", name, 0, body["spec"]["replicas"])

    async def _count_collision(self, found: Deployment) -> None:
        """Somebody else has the name: the next one is made with another number in it."""
        count = (found.status.collision_count or 0) + 1
        meta = {"resourceVersion": found.metadata.resource_version}
        patch = MergePatch({"metadata": meta, "status": {"collisionCount": count}})
        await self._client.patch(DEPLOYMENT, found.name, patch, namespace=found.namespace, subresource="status")

    async def _scale(self, found: Deployment, replica_set: ReplicaSet, replicas: int) -> None:
        before = replica_set.spec.replicas
        body = {"metadata": {"annotations": deployment_sets.sizes(found)}, "spec": {"replicas": replicas}}
        await self._change(replica_set, body)
        if replicas != before:
            self._tell_scaled(found, "up" if replicas > before else "down", replica_set.name, before, replicas)

    def _tell_scaled(self, found: Deployment, direction: str, name: str, before: int, after: int) -> None:
        text = f"Scaled {direction} replica set {name} from {before} to {after}"
        log.info(text, deployment=found.key)
        self._recorder.record(found, DEPLOYMENT, "Normal", "ScalingReplicaSet", text)

    async def _change(self, replica_set: ReplicaSet, body: dict[str, Any]) -> None:
        meta = {"resourceVersion": replica_set.metadata.resource_version, **body.get("metadata", {})}
        patch = MergePatch({**body, "metadata": meta})
        await self._client.patch(REPLICA_SET, replica_set.name, patch, namespace=replica_set.namespace)

    async def _delete(self, replica_set: ReplicaSet) -> None:
        try:
            await self._client.delete(
                REPLICA_SET,
                replica_set.name,
                namespace=replica_set.namespace,
                uid=replica_set.uid,
                resource_version=replica_set.metadata.resource_version,
            )
        except NotFound:
            log.debug("replica set already deleted", set=replica_set.key)

    async def _write_status(self, found: Deployment, sets: Sets) -> None:
        wanted = deployment_status.status(found, sets, now=self._clock.now())
        if wanted == deployment_status.reported(found):
            return
        meta = {"uid": found.uid}
        patch = MergePatch({"metadata": meta, "status": wanted})
        await self._client.patch(DEPLOYMENT, found.name, patch, namespace=found.namespace, subresource="status")
