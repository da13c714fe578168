"""Attach/detach controller and ephemeral volume controller."""

import contextlib
from typing import Any, Final

import msgspec
import structlog

from mooring.api.errors import AlreadyExists, NotFound
from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, POD, VOLUME, VOLUME_ATTACHMENT
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod, PodVolume
from mooring.api.views.storage import Claim, CsiDriver, CsiSource, Volume, VolumeAttachment
from mooring.client.cache import ATTACHMENT_BY_NODE, ATTACHMENT_BY_VOLUME, POD_BY_CLAIM, POD_BY_NODE
from mooring.control.component import Context, Reconciler
from mooring.controllers.node_health import readiness
from mooring.controllers.workloads.pod_rules import owner_reference
from mooring.volumes import usage
from mooring.volumes.usage import attachment_name

#: Wait for the unmount on a node that is not ready; upstream's maxWaitForUnmountDuration.
UNMOUNT_SECONDS: Final = 360.0

log = structlog.get_logger(__name__)


class AttachController(Reconciler[str]):
    """Creates and deletes VolumeAttachments; the driver's attacher carries them out. A volume is detached when no pod
    of the node uses it and the node reports it unmounted, is deleted, or is not ready for UNMOUNT_SECONDS."""

    name = "attachdetach-controller"
    WORKERS = 4

    def __init__(self, context: Context) -> None:
        queue = context.work_queue("attach_detach", VOLUME, find=lambda key: self._volumes.get(key.partition("/")[2]))
        super().__init__(context, queue)
        self._pods = context.informers.of(POD)
        self._nodes = context.informers.of(NODE)
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._drivers = context.informers.of(CSI_DRIVER)
        self._attachments = context.informers.of(VOLUME_ATTACHMENT)
        self._pods.add_index(*POD_BY_CLAIM)
        self._pods.add_index(*POD_BY_NODE)
        self._attachments.add_index(*ATTACHMENT_BY_VOLUME)
        self._attachments.add_index(*ATTACHMENT_BY_NODE)
        #: `node/volume` -> since when it is unused on a node that is not ready.
        self._idle: dict[str, float] = {}

    async def _subscribe(self) -> None:
        await self._pods.subscribe(self._on_pod)
        await self._claims.subscribe(self._on_claim)
        await self._nodes.subscribe(self._on_node)
        await self._volumes.subscribe(self._on_volume)
        await self._drivers.subscribe(self._on_driver)
        await self._attachments.subscribe(self._on_attachment)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after if after is not None else before
        if pod is None or not pod.spec.node_name:
            return
        for key in pod.claim_keys:
            claim = self._claims.get(key)
            if claim is not None and claim.spec.volume_name:
                self._queue.add(f"{pod.spec.node_name}/{claim.spec.volume_name}")

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        if after is not None and after.fully_bound and (before is None or not before.fully_bound):
            for pod in self._pods.by_index(POD_BY_CLAIM.name, after.key):
                self._on_pod(None, pod)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        """The volume may be observed after its claim and the pod that waits for it."""
        if after is not None and (before is None or before.spec != after.spec):
            for pod in self._users(after):
                self._on_pod(None, pod)

    def _on_driver(self, before: CsiDriver | None, after: CsiDriver | None) -> None:
        """The same for whether volumes of a driver are attached at all."""
        if after is None or (before is not None and before.spec == after.spec):
            return
        for volume in self._volumes.items():
            if volume.spec.csi is not None and volume.spec.csi.driver == after.name:
                self._on_volume(None, volume)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        node = after if after is not None else before
        if node is None or (before is not None and after is not None and _mounts(before) == _mounts(after)):
            return
        for attachment in self._attachments.by_index(ATTACHMENT_BY_NODE.name, node.name):
            self._queue.add(f"{node.name}/{attachment.spec.source.persistent_volume_name}")

    def _on_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        attachment = after if after is not None else before
        assert attachment is not None
        self._queue.add(f"{attachment.spec.node_name}/{attachment.spec.source.persistent_volume_name}")
        if after is not None and (before is None or before.status != after.status):
            self._record_result(after)
        if after is None:
            # Pods on other nodes may wait for the volume.
            for pod in self._users(self._volumes.get(attachment.spec.source.persistent_volume_name)):
                self._on_pod(None, pod)

    def _record_result(self, attachment: VolumeAttachment) -> None:
        """Record the result as an event on the pods that use the volume."""
        volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
        error = attachment.status.attach_error
        which = f'volume "{attachment.spec.source.persistent_volume_name}"'
        for pod in usage.pods_needing_attachment(self._users(volume), attachment.spec.node_name):
            if attachment.status.attached:
                text = f"AttachVolume.Attach succeeded for {which} "
                self._recorder.record(pod, POD, "Normal", "SuccessfulAttachVolume", text)
            elif error is not None:
                text = f"AttachVolume.Attach failed for {which} : {error.message}"
                self._recorder.record(pod, POD, "Warning", "FailedAttachVolume", text)

    def _users(self, volume: Volume | None) -> list[Pod]:
        reference = volume.spec.claim_ref if volume is not None else None
        if volume is None or reference is None:
            return []
        key = f"{reference.namespace}/{reference.name}"
        claim = self._claims.get(key)
        if claim is None or claim.uid != reference.uid or not claim.fully_bound:
            return []
        return list(self._pods.by_index(POD_BY_CLAIM.name, key))

    async def _sync(self, key: str) -> None:
        node, _, name = key.partition("/")
        volume = self._volumes.get(name)
        driver = self._drivers.get(volume.spec.csi.driver) if volume is not None and volume.spec.csi else None
        csi = usage.attachable_source(volume, driver)
        if volume is None or csi is None:
            return
        attached = self._attachments.get(attachment_name(csi.driver, csi.volume_handle, node))
        pods = usage.pods_needing_attachment(self._users(volume), node)
        if not pods:
            if attached is not None and not attached.deleting:
                await self._detach(key, csi, node, attached)
            return
        self._idle.pop(key, None)
        if attached is None:
            await self._attach(csi, volume, node, pods)

    async def _attach(self, csi: CsiSource, volume: Volume, node: str, pods: list[Pod]) -> None:
        attached = self._attachments.by_index(ATTACHMENT_BY_VOLUME.name, volume.name)
        if other := usage.attached_elsewhere(volume, node, attached):
            users = ", ".join(pod.name for pod in usage.pods_needing_attachment(self._users(volume), other))
            used = f"Volume is already used by pod(s) {users}" if users else f"Volume is still attached to {other}"
            for pod in pods:
                text = f'Multi-Attach error for volume "{volume.name}" {used}'
                self._recorder.record(pod, POD, "Warning", "FailedAttachVolume", text)
            return
        with contextlib.suppress(AlreadyExists):
            await self._client.create(VOLUME_ATTACHMENT, usage.attachment_body(csi, volume.name, node))

    async def _detach(self, key: str, csi: CsiSource, node: str, attached: VolumeAttachment) -> None:
        known = self._nodes.get(node)
        if usage.is_volume_in_use(csi, known):
            if known is not None and readiness(known) == "True":
                # The node will report the unmount.
                self._idle.pop(key, None)
                return
            since = self._idle.setdefault(key, self._clock.monotonic())
            left = since + UNMOUNT_SECONDS - self._clock.monotonic()
            if left > 0:
                self._queue.add_after(key, left)
                return
            log.warning("volume force-detached: node not ready", node=node, attachment=attached.name)
        with contextlib.suppress(NotFound):
            await self._client.delete(VOLUME_ATTACHMENT, attached.name, uid=attached.uid)
        self._idle.pop(key, None)


def _mounts(node: Node) -> tuple[object, ...]:
    """The fields that decide whether volumes of a node may be detached."""
    return node.status.volumes_in_use, readiness(node)


def claim_body(pod: Pod, volume: PodVolume) -> dict[str, Any]:
    """The claim for one ephemeral volume of a pod."""
    assert volume.ephemeral is not None
    template = msgspec.json.decode(volume.ephemeral.volume_claim_template)
    meta = template.get("metadata", {})
    return {
        "metadata": {
            "name": pod.claim_name(volume),
            "labels": meta.get("labels", {}),
            "annotations": meta.get("annotations", {}),
            "ownerReferences": [owner_reference(POD, pod)],
        },
        "spec": template.get("spec", {}),
    }


class EphemeralVolumeController(Reconciler[str]):
    """Creates the claims of generic ephemeral volumes, named `<pod>-<volume>` and owned by the pod. A claim of that
    name with another owner is reported and not used."""

    name = "ephemeral-volume-controller"
    WORKERS = 2

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("ephemeral_volume", POD))
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)
        self._claims = context.informers.of(CLAIM)

    async def _subscribe(self) -> None:
        await self._pods.subscribe(self._on_pod)
        await self._claims.subscribe(self._on_claim)

    def _on_pod(self, _: Pod | None, after: Pod | None) -> None:
        if after is not None and any(volume.ephemeral is not None for volume in after.spec.volumes):
            self._queue.add(after.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        """A deleted claim is created again while its pod exists."""
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
                # Race: the cache is behind, or another client created the claim.
                found = await self._client.get(CLAIM, name, namespace=pod.namespace)
            else:
                log.info("ephemeral claim created", pod=pod.key, claim=name)
        if found.controller is None or found.controller.uid != pod.uid:
            text = f"PVC {pod.namespace}/{name} was not created for pod {pod.key} (pod is not owner)"
            self._recorder.record(pod, POD, "Warning", "EphemeralVolumeCreation", text)
