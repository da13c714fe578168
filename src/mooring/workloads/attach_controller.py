"""The attach controller: has volumes attached to the nodes that need them, and detached when they no longer do.

It writes VolumeAttachments; who calls the driver is the driver's attacher. A volume is detached when no pod of the
node uses it and the node says that it is no longer mounted, or when the node is gone, or has been silent for so long
that nobody waits for it any more.
"""

from typing import Final

import structlog

from mooring.api.errors import AlreadyExists, NotFound
from mooring.api.kinds import CLAIM, CSI_DRIVER, NODE, POD, VOLUME, VOLUME_ATTACHMENT
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import CsiDriver, VolumeAttachment
from mooring.api.views.volume import CsiSource, Volume
from mooring.client.indexes import ATTACHMENT_BY_NODE, ATTACHMENT_BY_VOLUME, POD_BY_CLAIM, POD_BY_NODE
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.volumes.attachment_names import attachment_name
from mooring.workloads import attachments
from mooring.workloads.node_health import readiness

WORKERS: Final = 4
#: How long a node that is not ready may hold on to volumes nobody uses; upstream's maxWaitForUnmountDuration.
UNMOUNT_SECONDS: Final = 360.0

log = structlog.get_logger(__name__)


class AttachController:
    name = "attachdetach-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
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
        #: Since when each volume of a silent node, as `node/volume`, is used by nobody.
        self._idle: dict[str, float] = {}
        self._queue = context.work_queue("attach_detach")
        self.ready = False

    async def run(self) -> None:
        await self._pods.subscribe(self._on_pod)
        await self._claims.subscribe(self._on_claim)
        await self._nodes.subscribe(self._on_node)
        await self._volumes.subscribe(self._on_volume)
        await self._drivers.subscribe(self._on_driver)
        await self._attachments.subscribe(self._on_attachment)
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

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
        """News of a volume may come after those of its claim and of the pod that waits for it."""
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
        if node is None or (before is not None and after is not None and _alike(before, after)):
            return
        for attachment in self._attachments.by_index(ATTACHMENT_BY_NODE.name, node.name):
            self._queue.add(f"{node.name}/{attachment.spec.source.persistent_volume_name}")

    def _on_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        attachment = after if after is not None else before
        assert attachment is not None
        self._queue.add(f"{attachment.spec.node_name}/{attachment.spec.source.persistent_volume_name}")
        if after is not None and (before is None or before.status != after.status):
            self._tell(after)
        if after is None:
            # Somebody else may have waited for the volume.
            for pod in self._users(self._volumes.get(attachment.spec.source.persistent_volume_name)):
                self._on_pod(None, pod)

    def _tell(self, attachment: VolumeAttachment) -> None:
        """People look at pods, not at attachments."""
        volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
        error = attachment.status.attach_error
        for pod in attachments.wanted_by(self._users(volume), attachment.spec.node_name):
            which = f'volume "{attachment.spec.source.persistent_volume_name}"'
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
        csi = attachments.source(volume, driver)
        if volume is None or csi is None:
            return
        attached = self._attachments.get(attachment_name(csi.driver, csi.volume_handle, node))
        pods = attachments.wanted_by(self._users(volume), node)
        if not pods:
            if attached is not None and not attached.deleting:
                await self._detach(key, csi, node, attached)
            return
        self._idle.pop(key, None)
        if attached is None:
            await self._attach(csi, volume, node, pods)

    async def _attach(self, csi: CsiSource, volume: Volume, node: str, pods: list[Pod]) -> None:
        other = attachments.elsewhere(volume, node, self._attachments.by_index(ATTACHMENT_BY_VOLUME.name, volume.name))
        if other:
            users = ", ".join(pod.name for pod in attachments.wanted_by(self._users(volume), other))
            used = f"Volume is already used by pod(s) {users}" if users else f"Volume is still attached to {other}"
            for pod in pods:
                text = f'Multi-Attach error for volume "{volume.name}" {used}'
                self._recorder.record(pod, POD, "Warning", "FailedAttachVolume", text)
            return
        try:
            await self._client.create(VOLUME_ATTACHMENT, attachments.body(csi, volume.name, node))
        except AlreadyExists:
            log.debug("attachment is there already", volume=volume.name, node=node)

    async def _detach(self, key: str, csi: CsiSource, node: str, attached: VolumeAttachment) -> None:
        known = self._nodes.get(node)
        if attachments.in_use(csi, known):
            if known is not None and readiness(known) == "True":
                # SEEN: the node still has it; its status will change when it has let go.
                self._idle.pop(key, None)
                return
            since = self._idle.setdefault(key, self._clock.monotonic())
            left = since + UNMOUNT_SECONDS - self._clock.monotonic()
            if left > 0:
                self._queue.add_after(key, left)
                return
            log.warning("detaching from a silent node", node=node, attachment=attached.name)
        try:
            await self._client.delete(VOLUME_ATTACHMENT, attached.name, uid=attached.uid)
        except NotFound:
            log.debug("attachment was gone already", attachment=attached.name)
        self._idle.pop(key, None)


def _alike(before: Node, after: Node) -> bool:
    same = before.status.volumes_in_use == after.status.volumes_in_use
    return same and readiness(before) == readiness(after)
