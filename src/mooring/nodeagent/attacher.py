"""Attacher of one CSI driver: ControllerPublish and ControllerUnpublish for VolumeAttachments, as external-attacher.

The finalizer is added before the driver is called and removed after it has detached. Without PUBLISH_UNPUBLISH_VOLUME,
attachments are marked attached at once.
"""

from typing import Any, Final

import structlog

from mooring.api import times
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CSI_NODE, VOLUME, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import VolumeAttachment
from mooring.client.contract import Unreachable
from mooring.client.live_reads import secret_values
from mooring.control.component import Context
from mooring.control.workqueue import work
from mooring.csi import contract
from mooring.csi.contract import ControllerCapability, ControllerService, DriverError
from mooring.nodeagent.mounts import first_access_mode

#: external-attacher's --worker-threads.
WORKERS: Final = 10
_PUBLISHES: Final = ControllerCapability.PUBLISH_UNPUBLISH_VOLUME

log = structlog.get_logger(__name__)


class Attacher:
    name = "csi-attacher"

    def __init__(self, context: Context, driver: str, controller: ControllerService) -> None:
        self._client = context.client
        self._clock = context.clock
        self._driver = driver
        self._controller = controller
        self._finalizer = f"external-attacher/{driver.replace('.', '-')}"
        self._attachments = context.informers.of(VOLUME_ATTACHMENT)
        self._volumes = context.informers.of(VOLUME)
        self._csi_nodes = context.informers.of(CSI_NODE)
        self._queue = context.work_queue("csi_attacher", VOLUME_ATTACHMENT)
        self.ready = False

    async def run(self) -> None:
        self._attachments.on_change(self._on_attachment)
        for informer in (self._attachments, self._volumes, self._csi_nodes):
            await informer.synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        """The attacher's own error reports must not trigger an immediate retry."""
        if after is None or after.spec.attacher != self._driver:
            return
        if before is None or (before.deleting, before.status.attached) != (after.deleting, after.status.attached):
            self._queue.add(after.name)

    async def _sync(self, name: str) -> None:
        attachment = self._attachments.get(name)
        if attachment is None:
            return
        if attachment.deleting:
            if self._finalizer in attachment.metadata.finalizers:
                await self._detach(attachment)
        elif not attachment.status.attached:
            await self._attach(attachment)

    async def _attach(self, attachment: VolumeAttachment) -> None:
        if self._finalizer not in attachment.metadata.finalizers:
            finalizers = [*attachment.metadata.finalizers, self._finalizer]
            attachment = await self._patch(attachment, {"metadata": {"finalizers": finalizers}})
        try:
            metadata = await self._publish(attachment)
        except (DriverError, ApiError) as error:
            known = attachment.status.attach_error
            if known is None or known.message != _words(error):
                status = {"attached": False, "attachError": self._problem(error)}
                await self._patch(attachment, {"status": status}, "status")
            raise Unreachable(_words(error)) from error
        done = {"attached": True, "attachError": None, "attachmentMetadata": metadata or None}
        await self._patch(attachment, {"status": done}, "status")
        log.info(
            "volume attached", volume=attachment.spec.source.persistent_volume_name, node=attachment.spec.node_name
        )

    async def _publish(self, attachment: VolumeAttachment) -> dict[str, str]:
        if _PUBLISHES not in await self._controller.controller_capabilities():
            return {}
        name = attachment.spec.source.persistent_volume_name
        volume = self._volumes.get(name)
        if volume is None or (csi := volume.spec.csi) is None:
            raise DriverError(contract.Code.NOT_FOUND, f"persistentvolume {name!r} not found, or not a CSI volume")
        answer = await self._controller.controller_publish(
            csi.volume_handle,
            node_id=self._node_id(attachment.spec.node_name),
            capability=contract.VolumeCapability.of(
                contract.access_modes(finer=False)[first_access_mode(volume)],
                volume.spec.volume_mode,
                fs_type=csi.fs_type,
                mount_flags=volume.spec.mount_options,
            ),
            read_only=csi.read_only,
            context=csi.volume_attributes or {},
            secrets=await secret_values(self._client, csi.controller_publish_secret_ref),
        )
        return dict(answer)

    async def _detach(self, attachment: VolumeAttachment) -> None:
        volume = self._volumes.get(attachment.spec.source.persistent_volume_name)
        csi = volume.spec.csi if volume is not None else None
        try:
            if csi is not None and _PUBLISHES in await self._controller.controller_capabilities():
                secrets = await secret_values(self._client, csi.controller_publish_secret_ref)
                node = self._node_id(attachment.spec.node_name)
                await self._controller.controller_unpublish(csi.volume_handle, node_id=node, secrets=secrets)
        except (DriverError, ApiError) as error:
            # NOT_FOUND as well: CSI requires OK for a volume that is detached because it was deleted.
            known = attachment.status.detach_error
            if known is None or known.message != _words(error):
                await self._patch(attachment, {"status": {"detachError": self._problem(error)}}, "status")
            raise Unreachable(_words(error)) from error
        rest = [finalizer for finalizer in attachment.metadata.finalizers if finalizer != self._finalizer]
        try:
            await self._patch(attachment, {"metadata": {"finalizers": rest or None}})
        except NotFound:
            return
        log.info(
            "volume detached", volume=attachment.spec.source.persistent_volume_name, node=attachment.spec.node_name
        )

    def _problem(self, error: DriverError | ApiError) -> dict[str, str]:
        return {"time": times.to_time(self._clock.now()), "message": _words(error)}

    def _node_id(self, node: str) -> str:
        """The driver's node id from the CSINode; the node's name without one, so that volumes can be detached from a
        deleted node."""
        known = self._csi_nodes.get(node)
        drivers = known.spec.drivers or () if known is not None else ()
        return next((driver.node_id for driver in drivers if driver.name == self._driver), node)

    async def _patch(
        self, attachment: VolumeAttachment, body: dict[str, Any], subresource: str = ""
    ) -> VolumeAttachment:
        meta = {"resourceVersion": attachment.metadata.resource_version, **body.get("metadata", {})}
        patch = MergePatch({**body, "metadata": meta})
        return await self._client.patch(VOLUME_ATTACHMENT, attachment.name, patch, subresource=subresource)


def _words(error: DriverError | ApiError) -> str:
    return str(error) if isinstance(error, DriverError) else error.message
