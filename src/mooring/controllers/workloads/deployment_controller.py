"""The Deployment controller: watches Deployments, ReplicaSets and pods, and executes the steps of `deployment`."""

import contextlib
from typing import Any

import structlog

from mooring.api.errors import AlreadyExists, ApiError, NotFound
from mooring.api.kinds import DEPLOYMENT, POD, REPLICA_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import Deployment, ReplicaSet
from mooring.client.cache import BY_OWNER
from mooring.control.component import Context, Reconciler
from mooring.controllers.workloads import deployment, deployment_status
from mooring.controllers.workloads.pod_control import OwnedObjects, patch_status, still_exists, write_status
from mooring.controllers.workloads.pod_rules import is_namespace_terminating

log = structlog.get_logger(__name__)


class DeploymentController(Reconciler[str]):
    name = "deployment-controller"
    #: As upstream.
    WORKERS = 5

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("deployment", DEPLOYMENT))
        self._deployments = context.informers.of(DEPLOYMENT)
        self._sets = OwnedObjects(context, DEPLOYMENT, REPLICA_SET, self._queue)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*BY_OWNER)

    async def _subscribe(self) -> None:
        await self._sets.watch()
        await self._pods.subscribe(self._on_pod)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """Strategy Recreate waits for the deletion of the last old pod."""
        owner = before.controller if before is not None and after is None else None
        if before is not None and owner is not None and owner.kind == REPLICA_SET.kind:
            replica_set = self._sets.informer.get(f"{before.namespace}/{owner.name}")
            if replica_set is not None:
                self._sets.on_dependent(None, replica_set)

    async def _sync(self, key: str) -> None:
        found = self._deployments.get(key)
        if found is None or found.deleting:
            return
        sets = deployment.sorted_sets(found, await self._sets.of(found))
        actions = deployment.plan_deployment(found, sets, old_pods_run=any(self._runs(one) for one in sets.old))
        try:
            for action in actions:
                await self._do(found, action)
        except ApiError as refusal:
            if not is_namespace_terminating(refusal):
                raise
            return
        status = deployment_status.status(found, sets, now=self._clock.now())
        # This sync may have changed the Deployment's annotations.
        await write_status(self._client, DEPLOYMENT, found, status, any_version=True)
        wait = deployment_status.deadline(found, now=self._clock.now())
        if wait is not None:
            self._queue.add_after(key, max(wait, 1.0))

    def _runs(self, replica_set: ReplicaSet) -> bool:
        return any(not pod.finished for pod in self._pods.by_index(BY_OWNER.name, replica_set.uid))

    async def _do(self, found: Deployment, action: deployment.Action) -> None:
        match action:
            case deployment.CreateSet(body):
                await self._create(found, body)
            case deployment.ScaleSet(replica_set, replicas):
                await self._scale(found, replica_set, replicas)
            case deployment.AnnotateSet(replica_set, annotations):
                body = {"metadata": {"annotations": annotations}} if annotations else {}
                await self._change(replica_set, body | {"spec": {"minReadySeconds": found.spec.min_ready_seconds}})
            case deployment.AnnotateDeployment(number):
                patch = MergePatch({"metadata": {"annotations": {deployment.REVISION: number}}})
                await self._client.patch(DEPLOYMENT, found.name, patch, namespace=found.namespace)
            case deployment.DeleteSet(replica_set):
                await self._delete(replica_set)

    async def _create(self, found: Deployment, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if not await still_exists(self._client, DEPLOYMENT, found):
            # Race: the garbage collector would delete the set, which would be created again in a loop.
            return
        try:
            await self._client.create(REPLICA_SET, body, namespace=found.namespace)
        except AlreadyExists:
            there = await self._client.get(REPLICA_SET, name, namespace=found.namespace)
            if there.controller is not None and there.controller.uid == found.uid:
                # Race: the cache is behind.
                return
            # The name is taken: the collision count changes the hash of the next one.
            count = (found.status.collision_count or 0) + 1
            await patch_status(self._client, DEPLOYMENT, found, {"collisionCount": count})
            return
        except ApiError as error:
            if not is_namespace_terminating(error):
                text = f'Failed to create new replica set "{name}": {error.message}'
                self._recorder.record(found, DEPLOYMENT, "Warning", "ReplicaSetCreateError", text)
            raise
        self._record_scaled(found, "up", name, 0, body["spec"]["replicas"])

    async def _scale(self, found: Deployment, replica_set: ReplicaSet, replicas: int) -> None:
        before = replica_set.spec.replicas
        body = {"metadata": {"annotations": deployment.size_annotations(found)}, "spec": {"replicas": replicas}}
        await self._change(replica_set, body)
        if replicas != before:
            self._record_scaled(found, "up" if replicas > before else "down", replica_set.name, before, replicas)

    def _record_scaled(self, found: Deployment, direction: str, name: str, before: int, after: int) -> None:
        text = f"Scaled {direction} replica set {name} from {before} to {after}"
        log.info(text, deployment=found.key)
        self._recorder.record(found, DEPLOYMENT, "Normal", "ScalingReplicaSet", text)

    async def _change(self, replica_set: ReplicaSet, body: dict[str, Any]) -> None:
        meta = {"resourceVersion": replica_set.metadata.resource_version, **body.get("metadata", {})}
        patch = MergePatch({**body, "metadata": meta})
        await self._client.patch(REPLICA_SET, replica_set.name, patch, namespace=replica_set.namespace)

    async def _delete(self, replica_set: ReplicaSet) -> None:
        uid, version = replica_set.uid, replica_set.metadata.resource_version
        with contextlib.suppress(NotFound):
            await self._client.delete(
                REPLICA_SET, replica_set.name, namespace=replica_set.namespace, uid=uid, resource_version=version
            )
