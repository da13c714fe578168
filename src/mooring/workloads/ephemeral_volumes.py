"""Generic ephemeral volumes: makes the claims that pods describe in their own spec.

Such a claim is named `<pod>-<volume>` and owned by its pod, so that the garbage collector removes it with the pod. A
claim of that name that belongs to somebody else is left alone and reported: the pod must not use another's data.
"""

from typing import Any, Final

import msgspec
import structlog

from mooring.api.errors import AlreadyExists
from mooring.api.kinds import CLAIM, POD
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod, PodVolume
from mooring.client.indexes import POD_BY_CLAIM
from mooring.control.component import Context
from mooring.control.worker import work

WORKERS: Final = 2

log = structlog.get_logger(__name__)


def claim_body(pod: Pod, volume: PodVolume) -> dict[str, Any]:
    """The claim for one ephemeral volume of a pod."""
    assert volume.ephemeral is not None
    template = msgspec.json.decode(volume.ephemeral.volume_claim_template)
    meta = template.get("metadata", {})
    owner = {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": pod.claim_name(volume),
            "labels": meta.get("labels", {}),
            "annotations": meta.get("annotations", {}),
            "ownerReferences": [owner],
        },
        "spec": template.get("spec", {}),
    }


def belongs_to(claim: Claim, pod: Pod) -> bool:
    return claim.controller is not None and claim.controller.uid == pod.uid


class EphemeralVolumeController:
    name = "ephemeral-volume-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)
        self._claims = context.informers.of(CLAIM)
        self._queue = context.work_queue("ephemeral_volume")
        self.ready = False

    async def run(self) -> None:
        await self._pods.subscribe(self._on_pod)
        await self._claims.subscribe(self._on_claim)
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_pod(self, _: Pod | None, after: Pod | None) -> None:
        if after is not None and any(volume.ephemeral is not None for volume in after.spec.volumes):
            self._queue.add(after.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        """A claim that goes while its pod stays has to be made again."""
        if after is None and before is not None:
            for pod in self._pods.by_index(POD_BY_CLAIM.name, before.key):
                self._on_pod(None, pod)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or pod.deleting or pod.finished:
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                await self._ensure(pod, volume)

    async def _ensure(self, pod: Pod, volume: PodVolume) -> None:
        name = pod.claim_name(volume)
        found = self._claims.get(f"{pod.namespace}/{name}")
        if found is None:
            try:
                found = await self._client.create(CLAIM, claim_body(pod, volume), namespace=pod.namespace)
            except AlreadyExists:
                # SEEN: our own write of a moment ago, or somebody else's claim; only the server can tell.
                found = await self._client.get(CLAIM, name, namespace=pod.namespace)
            else:
                log.info("made the claim of an ephemeral volume", pod=pod.key, claim=name)
        if not belongs_to(found, pod):
            text = f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"
            self._recorder.record(pod, POD, "Warning", "EphemeralVolumeCreation", text)
