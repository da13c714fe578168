"""Pod worker: admits or rejects the pods bound to simulated nodes, mounts their volumes and writes their status.

The decisions are in `admission` and `pod_status`. Nodes without power, and their pods, are not touched.
"""

import asyncio
from functools import partial
from typing import Final

import structlog

from mooring.api import times
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import StrategicPatch
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume, VolumeAttachment
from mooring.client.cache import POD_BY_CLAIM, POD_BY_NODE
from mooring.client.contract import Unreachable
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context
from mooring.control.feature_gates import CLAIM_ROLLBACK
from mooring.control.workqueue import work
from mooring.nodeagent import admission, pod_status
from mooring.nodeagent.admission import AdmissionFailure, NodeAllocations, StorageLookup, admit, mount_blocker
from mooring.nodeagent.node_objects import is_powered, is_ready, is_simulated
from mooring.nodeagent.pod_status import InvalidBehavior, PodBehavior, PodTransition, Status, behavior_of
from mooring.nodeagent.volume_manager import CsiMounter
from mooring.volumes.claim_rollback import dirty_condition, is_clean, is_rolling_back


class ClaimUseRecorder:
    """Marks claims dirty before a pod may use their volumes, and rejects pods whose claims are being rolled back."""

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._claims = context.informers.of(CLAIM)
        self._rollback_enabled = partial(context.is_active, CLAIM_ROLLBACK)

    async def rollback_in_progress(self, pod: Pod) -> AdmissionFailure | None:
        """The rejection of a pod whose claim is being rolled back. It is final, so it is decided on a live read."""
        for claim in self._claims_of(pod) if self._rollback_enabled() else ():
            if is_rolling_back(claim):
                live = await get_or_none(self._client, CLAIM, claim.name, namespace=claim.namespace)
                if live is not None and is_rolling_back(live):
                    return AdmissionFailure("ClaimRollback", f"PVC {claim.key} is being rolled back")
        return None

    async def mark_dirty(self, pod: Pod) -> None:
        """Mark the pod's clean claims dirty. Raises Conflict for a claim that was unbound meanwhile.

        Also with the gate off: a claim must not be clean when the gate is enabled again.
        """
        for claim in self._claims_of(pod):
            if is_clean(claim):
                condition = dirty_condition(pod.key, pod.spec.node_name, now=times.to_time(self._clock.now()))
                meta = {"uid": claim.uid, "resourceVersion": claim.metadata.resource_version}
                patch = StrategicPatch({"metadata": meta, "status": {"conditions": [condition]}})
                await self._client.patch(CLAIM, claim.name, patch, namespace=claim.namespace, subresource="status")

    def _claims_of(self, pod: Pod) -> list[Claim]:
        return [claim for key in pod.claim_keys if (claim := self._claims.get(key)) is not None]


#: Between two events about a pod that waits for its claims; the kubelet's podAttachAndMountTimeout. Changes of claims
#: and volumes trigger a sync at once.
EVENT_INTERVAL_SECONDS: Final = 123.0
#: The kubelet's backoff for missing ConfigMaps and failed driver calls, doubling.
INITIAL_RETRY_SECONDS: Final = 0.5
MAX_RETRY_SECONDS: Final = 122.0
#: Pods in flight: what they write is synced in groups, and each waits for several groups.
WORKERS: Final = 64
#: Reason of rejections and events for invalid annotations.
INVALID_BEHAVIOR: Final = "InvalidScript"

log = structlog.get_logger(__name__)


class PodWorker:
    def __init__(self, context: Context, mounter: CsiMounter) -> None:
        self._client = context.client
        self._mounter = mounter
        self._use = ClaimUseRecorder(context)
        self._clock = context.clock
        self._recorder = context.recorder
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._storage = StorageLookup(self._claims.get, self._volumes.get, self._classes.get)
        self._pods.add_index(*POD_BY_NODE)
        self._pods.add_index(*POD_BY_CLAIM)
        self._allocations = NodeAllocations()
        #: Last backoff by pod uid, while the pod waits for a driver or for objects that are not watched.
        self._retry_seconds: dict[str, float] = {}
        self._work = context.work_queue("node_agent_pods", POD)
        #: Uids of deleted pods with mounted volumes.
        self._orphaned = context.work_queue("node_agent_remains")
        self.informers = (self._nodes, self._pods, self._claims, self._volumes, self._classes)

    async def run(self) -> None:
        """Requires that the informers have synced."""
        self._nodes.on_change(self._on_node)
        self._pods.on_change(self._on_pod)
        self._claims.on_change(self._on_claim)
        self._volumes.on_change(self._on_volume)
        self._mounter.attachments.on_change(self._on_attachment)
        there = {pod.uid for pod in self._pods.items()}
        for uid in self._mounter.pods:
            if uid not in there:
                self._orphaned.add(uid)
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._work, self._sync, workers=WORKERS, name="node agent pods"))
            group.create_task(work(self._orphaned, self._clean_up_orphaned, workers=WORKERS, name="node agent remains"))

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is None or not is_simulated(after) or (before is not None and _is_unchanged(before, after)):
            return
        for pod in self._pods.by_index(POD_BY_NODE.name, after.name):
            self._work.add(pod.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._allocations.release(before.uid)
                self._retry_seconds.pop(before.uid, None)
                if before.uid in self._mounter.pods:
                    self._orphaned.add(before.uid)
            return
        if after.finished:
            self._allocations.release(after.uid)
        elif after.spec.node_name and after.status.container_statuses:
            # Admitted by this agent or an earlier one.
            self._allocations.allocate(after)
        if after.spec.node_name:
            self._work.add(after.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        claim = after if after is not None else before
        if claim is not None:
            self._enqueue_users(claim.key)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        for volume in (before, after):
            reference = volume.spec.claim_ref if volume is not None else None
            if reference is not None:
                self._enqueue_users(f"{reference.namespace}/{reference.name}")

    def _on_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        if after is not None and after.status.attached and (before is None or not before.status.attached):
            self._on_volume(None, self._volumes.get(after.spec.source.persistent_volume_name))

    def _enqueue_users(self, claim_key: str) -> None:
        for pod in self._pods.by_index(POD_BY_CLAIM.name, claim_key):
            if pod.spec.node_name:
                self._work.add(pod.key)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not is_simulated(node) or not is_powered(node):
            return
        try:
            behavior = behavior_of(pod)
        except InvalidBehavior as error:
            if pod.status.phase in ("", "Pending") and not pod.deleting:
                await self._refuse(pod, AdmissionFailure(INVALID_BEHAVIOR, str(error)))
                return
            # Annotated while running; the default behavior applies.
            self._recorder.record(pod, POD, "Warning", INVALID_BEHAVIOR, str(error))
            behavior = PodBehavior()
        if pod.deleting:
            await self._terminate(pod, behavior)
        elif pod.finished:
            await self._unmount(pod)
        elif pod.status.phase == "Running":
            await self._apply(pod, pod_status.proceed_pod(pod, behavior, now=self._clock.now()))
        elif is_ready(node):
            # A Node without a status has no allocatable resources, and a rejection would be final.
            await self._start(pod, node, behavior)

    async def _terminate(self, pod: Pod, behavior: PodBehavior) -> None:
        """Without `stop_after`, a deleted pod stops at once."""
        if pod.metadata.deletion_grace_period_seconds == 0:
            # Already terminated; finalizers keep the object.
            return
        wait = pod_status.seconds_until_stopped(pod, behavior, now=self._clock.now())
        if wait > 0:
            self._work.add_after(pod.key, wait)
            return
        if not await self._unmount(pod):
            return
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
        except NotFound:
            log.debug("object already deleted", pod=pod.key)

    async def _start(self, pod: Pod, node: Node, behavior: PodBehavior) -> None:
        if pod.uid not in self._allocations:
            failure = await self._use.rollback_in_progress(pod) or admit(pod, node, self._allocations)
            if failure is not None:
                await self._refuse(pod, failure)
                return
        reason = mount_blocker(pod, node, self._storage) or await self._live_blocker(pod, node)
        if reason is not None:
            await self._wait(pod, reason, EVENT_INTERVAL_SECONDS)
            return
        await self._use.mark_dirty(pod)
        missing = await self._missing(pod)
        error_text = missing.missing if missing is not None else await self._mounter.mount(pod, self._storage)
        if error_text is not None:
            await self._wait(pod, error_text, self._pause(pod))
            return
        self._retry_seconds.pop(pod.uid, None)
        await self._apply(pod, pod_status.start_pod(pod, behavior, now=self._clock.now()))

    async def _live_blocker(self, pod: Pod, node: Node) -> str | None:
        """As the kubelet, which reads claims from the API server: one that is being deleted is not mounted."""
        keys = dict.fromkeys(pod.claim_keys)
        live = {key: await get_or_none(self._client, CLAIM, key.split("/")[1], namespace=pod.namespace) for key in keys}
        return mount_blocker(pod, node, self._storage._replace(claim=live.get))

    async def _unmount(self, pod: Pod) -> bool:
        """Whether all volumes of the pod are unmounted; otherwise the pod is requeued."""
        error_text = await self._mounter.unmount(pod.uid)
        if error_text is None:
            return True
        self._recorder.record(pod, POD, "Warning", "FailedUnMount", error_text)
        self._work.add_after(pod.key, self._pause(pod))
        return False

    async def _clean_up_orphaned(self, uid: str) -> None:
        """Unmount the volumes of a pod that was deleted without its node."""
        error_text = await self._mounter.unmount(uid)
        if error_text is not None:
            raise Unreachable(error_text)

    def _pause(self, pod: Pod) -> float:
        last = self._retry_seconds.get(pod.uid, INITIAL_RETRY_SECONDS / 2)
        pause = min(last * 2, MAX_RETRY_SECONDS)
        if self._pods.get(pod.key) is not None:
            # A pod deleted during the driver call would never be removed from the cache.
            self._retry_seconds[pod.uid] = pause
        return pause

    async def _missing(self, pod: Pod) -> admission.MountSource | None:
        """The first ConfigMap or Secret of the pod's volumes that does not exist."""
        for source in admission.sources(pod):
            if await get_or_none(self._client, source.kind, source.name, namespace=pod.namespace) is None:
                return source
        return None

    async def _wait(self, pod: Pod, reason: str, seconds: float) -> None:
        """The pod stays admitted and is synced again on changes, or after `seconds`."""
        self._recorder.record(pod, POD, "Warning", admission.FAILED_MOUNT, reason)
        if not pod.status.container_statuses:
            await self._write(pod, pod_status.creating_status(pod, now=self._date()))
        self._work.add_after(pod.key, seconds)

    async def _refuse(self, pod: Pod, failure: AdmissionFailure) -> None:
        await self._write(pod, pod_status.rejected_status(*failure, now=self._date()))
        self._recorder.record(pod, POD, "Warning", failure.reason, failure.message)

    async def _apply(self, pod: Pod, step: PodTransition) -> None:
        if step.status is not None:
            await self._write(pod, step.status)
        if step.event is not None:
            self._recorder.record(pod, POD, *step.event)
        if step.requeue_seconds is not None:
            self._work.add_after(pod.key, step.requeue_seconds)

    async def _write(self, pod: Pod, status: Status) -> None:
        meta = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
        patch = pod_status.status_patch(pod, {"metadata": meta, "status": status})
        await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")

    def _date(self) -> str:
        return times.to_time(self._clock.now())


def _is_unchanged(before: Node, after: Node) -> bool:
    """Whether readiness, power and labels are equal; heartbeats do not change them."""
    return (
        is_ready(before) == is_ready(after)
        and is_powered(before) == is_powered(after)
        and before.metadata.labels == after.metadata.labels
        and is_simulated(before)
    )
