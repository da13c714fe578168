"""The StatefulSet controller's shell: watches sets, pods and claims, and does what `statefulset` asks for."""

from typing import Final

import structlog

from mooring.api.errors import AlreadyExists, Conflict, NotFound
from mooring.api.kinds import CLAIM, POD, STATEFUL_SET
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.workload import StatefulSet
from mooring.client.indexes import BY_OWNER, POD_BY_CLAIM
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.control.worker import work
from mooring.workloads import statefulset
from mooring.workloads.statefulset import Action, CreateClaim, CreatePod, DeletePod

WORKERS: Final = 2

log = structlog.get_logger(__name__)


class StatefulSetController:
    name = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._sets = context.informers.of(STATEFUL_SET)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
        self._pods.add_index(*BY_OWNER)
        self._pods.add_index(*POD_BY_CLAIM)
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self.ready = False

    async def run(self) -> None:
        self._sets.on_change(self._on_set)
        self._pods.on_change(self._on_pod)
        self._claims.on_change(self._on_claim)
        for informer in (self._sets, self._pods, self._claims):
            await informer.synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_set(self, before: StatefulSet | None, after: StatefulSet | None) -> None:
        changed = after or before
        if changed is not None:
            self._queue.add(changed.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            owner = pod.controller if pod is not None else None
            if pod is not None and owner is not None and owner.kind == STATEFUL_SET.kind:
                self._queue.add(f"{pod.namespace}/{owner.name}")

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        """A claim that went away may have to be made again for the pod that uses it."""
        if after is None and before is not None:
            for pod in self._pods.by_index(POD_BY_CLAIM.name, before.key):
                self._on_pod(pod, None)

    async def _sync(self, key: str) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return
        owned = self._pods.by_index(BY_OWNER.name, stateful_set.uid)
        pods = [pod for pod in owned if pod.controller is not None and pod.controller.uid == stateful_set.uid]
        claims = {c.name: c for c in self._claims.items() if c.namespace == stateful_set.namespace}
        for problem in statefulset.unsupported(stateful_set):
            self._recorder.record(stateful_set, STATEFUL_SET, "Warning", "Unsupported", problem)
        for action in statefulset.next_actions(stateful_set, pods, claims):
            await self._do(stateful_set, action)
        await self._write_status(stateful_set, pods)

    async def _do(self, stateful_set: StatefulSet, action: Action) -> None:
        """What already is as it should be counts as done: the cache may be behind."""
        namespace = stateful_set.namespace
        match action:
            case CreateClaim(body):
                try:
                    await self._client.create(CLAIM, body, namespace=namespace)
                except AlreadyExists:
                    return
                self._said(stateful_set, "SuccessfulCreate", f"create Claim {body['metadata']['name']} success")
            case CreatePod(body):
                try:
                    await self._client.create(POD, body, namespace=namespace)
                except AlreadyExists:
                    return
                name = body["metadata"]["name"]
                self._said(
                    stateful_set, "SuccessfulCreate", f"create Pod {name} in StatefulSet {stateful_set.name} successful"
                )
            case DeletePod(pod, why):
                try:
                    await self._client.delete(POD, pod.name, namespace=namespace, uid=pod.uid)
                except (NotFound, Conflict):
                    return
                self._said(
                    stateful_set,
                    "SuccessfulDelete",
                    f"delete Pod {pod.name} in StatefulSet {stateful_set.name} successful: {why}",
                )

    def _said(self, stateful_set: StatefulSet, reason: str, message: str) -> None:
        log.info(message, set=stateful_set.key)
        self._recorder.record(stateful_set, STATEFUL_SET, "Normal", reason, message)

    async def _write_status(self, stateful_set: StatefulSet, pods: list[Pod]) -> None:
        wanted = statefulset.status(stateful_set, pods)
        if wanted == _reported(stateful_set):
            return
        body = {"metadata": {"resourceVersion": stateful_set.metadata.resource_version}, "status": wanted}
        await self._client.patch(
            STATEFUL_SET,
            stateful_set.name,
            MergePatch(body),
            namespace=stateful_set.namespace,
            subresource="status",
        )


def _reported(stateful_set: StatefulSet) -> dict[str, object]:
    said = stateful_set.status
    return {
        "observedGeneration": said.observed_generation,
        "replicas": said.replicas,
        "readyReplicas": said.ready_replicas,
        "availableReplicas": said.available_replicas,
        "currentReplicas": said.current_replicas,
        "updatedReplicas": said.updated_replicas,
        "currentRevision": said.current_revision,
        "updateRevision": said.update_revision,
        "collisionCount": said.collision_count,
    }
