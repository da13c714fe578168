"""Keeps claims and volumes from vanishing while they are in use, by their protection finalizers.

The API server adds `pvc-protection` and `pv-protection` at creation; this component removes them from deleted objects
that nobody uses. "In use" is a pure question; before the answer "no" takes effect, the server is asked once more,
because a pod may have been bound a moment ago.
"""

import asyncio
from collections.abc import Iterable

import structlog

from mooring.api import keys
from mooring.api.kinds import CLAIM, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.control.worker import work

log = structlog.get_logger(__name__)


def claim_in_use(claim: Claim, pods: Iterable[Pod]) -> bool:
    """A pod that has a node protects its claims, even after it finished; a pod without a node does not."""
    return any(_protects(pod, claim) for pod in pods)


def _protects(pod: Pod, claim: Claim) -> bool:
    if not pod.spec.node_name or pod.namespace != claim.namespace:
        return False
    for volume in pod.spec.volumes:
        if pod.claim_name(volume) != claim.name:
            continue
        if volume.ephemeral is None:
            return True
        # An ephemeral claim goes with its pod, once the node has let go of it.
        shut_down = pod.deleting and pod.metadata.deletion_grace_period_seconds == 0
        if not shut_down:
            return True
    return False


def volume_in_use(volume: Volume) -> bool:
    return volume.status.phase == "Bound"


class VolumeProtection:
    name = "volume-protection"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._informers = context.informers
        self._claims: WorkQueue[str] = WorkQueue(context.clock)
        self._volumes: WorkQueue[str] = WorkQueue(context.clock)
        self.ready = False

    async def run(self) -> None:
        claims, volumes, pods = (self._informers.of(kind) for kind in (CLAIM, VOLUME, POD))
        claims.on_change(lambda _, after: self._enqueue(self._claims, keys.PVC_PROTECTION, after))
        volumes.on_change(lambda _, after: self._enqueue(self._volumes, keys.PV_PROTECTION, after))
        pods.on_change(self._on_pod)
        for informer in (claims, volumes, pods):
            await informer.synced.wait()
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._claims, self._sync_claim, workers=1, name=f"{self.name} claims"))
            group.create_task(work(self._volumes, self._sync_volume, workers=1, name=f"{self.name} volumes"))

    def _enqueue(self, queue: WorkQueue[str], finalizer: str, after: ApiObject | None) -> None:
        if after is not None and after.deleting and finalizer in after.metadata.finalizers:
            queue.add(after.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is None or (after is not None and not after.finished and after.spec.node_name and not after.deleting):
            return
        for key in pod.claim_keys:
            self._claims.add(key)

    async def _sync_claim(self, key: str) -> None:
        claim = self._informers.of(CLAIM).get(key)
        if claim is None or not claim.deleting or keys.PVC_PROTECTION not in claim.metadata.finalizers:
            return
        live = await self._client.list(POD, namespace=claim.namespace)
        if not claim_in_use(claim, live.items):
            await self._remove(CLAIM, claim, keys.PVC_PROTECTION)

    async def _sync_volume(self, key: str) -> None:
        volume = self._informers.of(VOLUME).get(key)
        if volume is None or not volume.deleting or keys.PV_PROTECTION not in volume.metadata.finalizers:
            return
        if not volume_in_use(volume):
            await self._remove(VOLUME, volume, keys.PV_PROTECTION)

    async def _remove(self, kind: Kind[ApiObject], item: ApiObject, finalizer: str) -> None:
        rest = [name for name in item.metadata.finalizers if name != finalizer]
        body = {"metadata": {"resourceVersion": item.metadata.resource_version, "finalizers": rest or None}}
        await self._client.patch(kind, item.name, MergePatch(body), namespace=item.namespace)
        log.info("protection lifted", kind=kind.kind, object=item.key)
