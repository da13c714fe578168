"""The driver: identity, controller and node service over one volume store.

Several nodes may share one store: a central driver. Staging is only recorded; publishing shows the volume at the pod's
path. A publication is recorded before its path is created and dropped after the path is removed: a crash leaves at most
a record, which the repeated call repairs.
"""

import errno
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, Unpack

import msgspec

from mooring.csi import contract
from mooring.csi.contract import Code, ControllerCapability, DriverError, DriverVolume, NodeCapability, PluginCapability
from mooring.hostpath import placement, records, usage
from mooring.hostpath.files import Files, Publisher
from mooring.hostpath.records import DriverLayout, HostpathSettings, Publication, VolumePhase, VolumeRecord
from mooring.hostpath.state_file import StateFile
from mooring.hostpath.volume_store import VolumeStore, file_errors

CONTROLLER_CAPABILITIES: Final = frozenset(
    {
        ControllerCapability.CREATE_DELETE_VOLUME,
        ControllerCapability.LIST_VOLUMES,
        ControllerCapability.GET_CAPACITY,
        ControllerCapability.GET_VOLUME,
        ControllerCapability.SINGLE_NODE_MULTI_WRITER,
    }
)
ATTACH_CAPABILITIES: Final = CONTROLLER_CAPABILITIES | {
    ControllerCapability.PUBLISH_UNPUBLISH_VOLUME,
    ControllerCapability.PUBLISH_READONLY,
    ControllerCapability.LIST_VOLUMES_PUBLISHED_NODES,
}
NO_SPACE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NODE_CAPABILITIES: Final = frozenset({NodeCapability.STAGE_UNSTAGE_VOLUME, NodeCapability.SINGLE_NODE_MULTI_WRITER})


class HostpathController:
    """Secrets are ignored."""

    def __init__(self, volumes: VolumeStore) -> None:
        self._volumes = volumes

    async def controller_capabilities(self) -> frozenset[str]:
        return ATTACH_CAPABILITIES if self._volumes.settings.attach else CONTROLLER_CAPABILITIES

    async def create_volume(self, request: contract.CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        volume = await self._volumes.finish(self._create(request))
        return volume.to_csi()

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        await self._volumes.finish(self._delete(volume_id))

    async def controller_publish(self, volume_id: str, **request: Unpack[contract.AttachRequest]) -> Mapping[str, str]:
        requested = records.Attachment(request["node_id"], request["capability"], request.get("read_only", False))
        await self._volumes.finish(self._attach(volume_id, requested))
        return {}

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        await self._volumes.finish(self._detach(volume_id, node_id))

    async def validate_capabilities(self, volume_id: str, **request: Unpack[contract.ValidationRequest]) -> str | None:
        volume = self._volumes.known(volume_id)
        parameters, context = request.get("parameters"), request.get("context")
        if parameters and not placement.has_same_parameters(volume, parameters):
            return "the volume was created with other parameters"
        if context and context != volume.to_csi().context:
            return "the volume has another context"
        return usage.unsupported_reason(volume, request["capabilities"])

    async def list_volumes(self) -> Sequence[DriverVolume]:
        """Without inline volumes, which belong to a pod and are not orphans."""
        return [volume.to_csi() for volume in self._volumes.records.volumes() if not volume.inline]

    async def get_volume(self, volume_id: str) -> DriverVolume:
        return self._volumes.known(volume_id).to_csi()

    async def get_capacity(self, **request: Unpack[contract.CapacityRequest]) -> contract.Capacity:
        topology = request["accessible_from"]
        segments = None if topology is None else topology.segments
        return placement.capacity(await self._volumes.pools(), request["parameters"], segments)

    async def _attach(self, volume_id: str, requested: records.Attachment) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.known(volume_id)
            usage.check_ready(volume)
            already = volumes.records.attached_to(requested.node)
            await volumes.put(usage.attached(volume, requested, volumes.layout, volumes.settings, already=already))

    async def _detach(self, volume_id: str, node_id: str) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.records.get(volume_id)
            if volume is not None:
                await volumes.put(usage.detached(volume, node_id))

    async def _create(self, request: contract.CreateVolume) -> VolumeRecord:
        volumes = self._volumes
        with volumes.exclusive(request.name):
            volume = placement.existing_volume(request, volumes.records) or await self._place(request)
            if volume.phase is VolumePhase.READY:
                return volume
            # The record is durable; the backing may exist in whole, in part or not at all.
            try:
                await volumes.backing.create(volume)
            except OSError as error:
                await self._clean_up(volume, error)
            ready = msgspec.structs.replace(volume, phase=VolumePhase.READY)
            await volumes.put(ready)
            return ready

    async def _place(self, request: contract.CreateVolume) -> VolumeRecord:
        volumes = self._volumes
        async with volumes.placing:
            pools = await volumes.pools()
            volume = placement.place_volume(request, pools, volume_id=volumes.new_id())
            durable = volumes.put(volume)
        await durable
        return volume

    async def _clean_up(self, volume: VolumeRecord, reason: OSError) -> None:
        """Remove the backing; only then the error may be final."""
        text = f"cannot create volume {volume.name}: {reason.strerror or reason}"
        try:
            await self._volumes.backing.remove(volume)
        except OSError as error:
            raise DriverError(Code.ABORTED, f"{text}; its remaining files cannot be removed") from error
        await self._volumes.forget(volume)
        raise DriverError(
            Code.RESOURCE_EXHAUSTED if reason.errno in NO_SPACE_ERRORS else Code.INTERNAL, text
        ) from reason

    async def _delete(self, volume_id: str) -> None:
        volumes = self._volumes
        found = volumes.records.get(volume_id)
        if found is None:
            return
        with volumes.exclusive(found.name or volume_id):
            async with volumes.locked(volume_id):
                volume = volumes.records.get(volume_id)
                if volume is None:
                    return
                usage.check_unused(volume)
                deleting = msgspec.structs.replace(volume, phase=VolumePhase.DELETING)
                await volumes.put(deleting)
            # Recorded as deleting: from here on a restart removes it.
            with file_errors(Code.ABORTED, f"cannot remove volume {volume_id}"):
                await volumes.backing.remove(deleting)
            await volumes.forget(deleting)


class HostpathNode:
    def __init__(self, volumes: VolumeStore, node_id: str) -> None:
        self._volumes = volumes
        self._node = node_id

    async def node_capabilities(self) -> frozenset[str]:
        return NODE_CAPABILITIES

    async def info(self) -> contract.NodeInfo:
        layout = self._volumes.layout
        segments = layout.nodes.get(self._node)
        if segments is None:
            raise DriverError(Code.NOT_FOUND, f"node {self._node} is not known to this driver")
        return contract.NodeInfo(
            node_id=self._node,
            max_volumes=self._volumes.settings.max_volumes_per_node,
            accessible_from=contract.Topology(segments) if layout.has_topology else None,
        )

    async def stage(self, volume_id: str, **request: Unpack[contract.StageRequest]) -> None:
        requested = records.Staging(self._node, request["staging_target"], request["capability"])
        await self._volumes.finish(self._stage(volume_id, requested))

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        await self._volumes.finish(self._unstage(volume_id, staging_target))

    async def publish(self, volume_id: str, **request: Unpack[contract.PublishRequest]) -> None:
        requested = Publication(self._node, request["target"], request["capability"], request["read_only"])
        context = request.get("context", {})
        if usage.is_inline_request(context):
            await self._volumes.finish(self._publish_inline(volume_id, requested, context))
        else:
            await self._volumes.finish(self._publish(volume_id, requested, request.get("staging_target", "")))

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        await self._volumes.finish(self._unpublish(volume_id, target))

    async def _stage(self, volume_id: str, requested: records.Staging) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.known(volume_id)
            usage.check_ready(volume)
            already = volumes.records.staged_on(self._node)
            await volumes.put(usage.staged(volume, requested, volumes.layout, volumes.settings, already=already))

    async def _unstage(self, volume_id: str, staging_target: str) -> None:
        async with self._volumes.locked(volume_id):
            volume = self._volumes.known(volume_id)
            await self._volumes.put(usage.unstaged(volume, self._node, staging_target))

    async def _publish(self, volume_id: str, requested: Publication, staging: str) -> None:
        async with self._volumes.locked(volume_id):
            volume = self._volumes.known(volume_id)
            usage.check_ready(volume)
            await self._publish_recorded(volume, requested, staging)

    async def _publish_inline(self, volume_id: str, requested: Publication, context: Mapping[str, str]) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.records.get(volume_id) or await self._place_inline(volume_id, requested, context)
            if not volume.inline:
                raise DriverError(Code.ALREADY_EXISTS, f"volume {volume_id} exists and is not an inline volume")
            try:
                with file_errors(Code.INTERNAL, f"cannot create volume {volume_id}"):
                    await volumes.backing.create(volume)
                await self._publish_recorded(msgspec.structs.replace(volume, phase=VolumePhase.READY), requested, "")
            except DriverError:
                if not volumes.known(volume_id).published:
                    await self._remove_inline(volumes.known(volume_id))
                raise

    async def _place_inline(self, volume_id: str, requested: Publication, context: Mapping[str, str]) -> VolumeRecord:
        volumes = self._volumes
        async with volumes.placing:
            volume = usage.new_inline_volume(volume_id, requested, context, await volumes.pools())
            durable = volumes.put(volume)
        await durable
        return volume

    async def _publish_recorded(self, volume: VolumeRecord, requested: Publication, staging: str) -> None:
        """Record the publication, then publish; a new record is reverted if publishing fails."""
        volumes = self._volumes
        after = usage.published(volume, requested, staging=staging, layout=volumes.layout)
        await volumes.put(after)
        try:
            await volumes.backing.publish(volume, requested)
        except OSError as error:
            if requested not in volume.published:
                await volumes.put(volume)
            text = f"cannot publish volume {volume.volume_id} at {requested.target}: {error.strerror or error}"
            raise DriverError(Code.INTERNAL, text) from error

    async def _unpublish(self, volume_id: str, target: str) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.records.get(volume_id)
            if volume is None:
                if usage.is_foreign_id(volume_id):
                    # An inline volume whose removal went through and whose response was lost.
                    return
                raise DriverError(Code.NOT_FOUND, f"volume {volume_id} does not exist")
            for publication in volume.published:
                if (publication.node, publication.target) == (self._node, target):
                    with file_errors(Code.INTERNAL, f"cannot unpublish volume {volume_id}"):
                        await volumes.backing.withdraw(publication)
            after = usage.unpublished(volume, self._node, target)
            await volumes.put(after)
            if after.inline and not after.published:
                await self._remove_inline(after)

    async def _remove_inline(self, volume: VolumeRecord) -> None:
        with file_errors(Code.INTERNAL, f"cannot remove volume {volume.volume_id}"):
            await self._volumes.backing.remove(volume)
        await self._volumes.forget(volume)


class Hostpath(HostpathController, HostpathNode):
    def __init__(self, volumes: VolumeStore, node_id: str) -> None:
        HostpathController.__init__(self, volumes)
        HostpathNode.__init__(self, volumes, node_id)

    async def name(self) -> str:
        return self._volumes.settings.name

    async def vendor_version(self) -> str:
        return self._volumes.settings.version

    async def plugin_capabilities(self) -> frozenset[str]:
        if self._volumes.layout.has_topology:
            return frozenset({PluginCapability.CONTROLLER_SERVICE, PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS})
        return frozenset({PluginCapability.CONTROLLER_SERVICE})

    async def probe(self) -> bool:
        return True


@asynccontextmanager
async def open_volume_store(
    layout: DriverLayout, settings: HostpathSettings, folder: Path, publisher: Publisher, *, chance: Random
) -> AsyncIterator[VolumeStore]:
    """Volumes below `folder`, which is locked against other drivers. Raises StateUnusable."""
    store = StateFile(folder)
    store.open()
    try:
        volumes = VolumeStore(layout, settings, store, Files(folder / "volumes", publisher), chance=chance)
        await volumes.open()
        try:
            yield volumes
        finally:
            await volumes.close()
    finally:
        store.close()
