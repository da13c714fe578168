"""The controller service of the driver: volumes come, go, are listed and attached; how much room is left."""

import errno
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from mooring.csi.contract import (
    Capacity,
    Code,
    Controller,
    ControllerCapability,
    CreateVolume,
    DriverError,
    DriverVolume,
    Topology,
    VolumeCapability,
)
from mooring.hostpath.capacity import capacity
from mooring.hostpath.placement import made_so, placed, repeated
from mooring.hostpath.records import Attachment, Phase, Volume
from mooring.hostpath.usage import attached, detached, objection, refuse_unready, refuse_used
from mooring.hostpath.volume_store import VolumeStore

ALWAYS: Final = frozenset(
    {
        ControllerCapability.CREATE_DELETE_VOLUME,
        ControllerCapability.LIST_VOLUMES,
        ControllerCapability.GET_CAPACITY,
        ControllerCapability.GET_VOLUME,
        ControllerCapability.SINGLE_NODE_MULTI_WRITER,
    }
)
WITH_ATTACH: Final = ALWAYS | {
    ControllerCapability.PUBLISH_UNPUBLISH_VOLUME,
    ControllerCapability.PUBLISH_READONLY,
    ControllerCapability.LIST_VOLUMES_PUBLISHED_NODES,
}
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class ControllerService:
    """Secrets are taken and not looked at: this driver guards nothing with them."""

    def __init__(self, volumes: VolumeStore) -> None:
        self._volumes = volumes

    async def controller_capabilities(self) -> frozenset[str]:
        return WITH_ATTACH if self._volumes.settings.attach else ALWAYS

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        volume = await self._volumes.finish(self._create(request))
        return volume.told()

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        await self._volumes.finish(self._delete(volume_id))

    async def controller_publish(
        self,
        volume_id: str,
        *,
        node_id: str,
        capability: VolumeCapability,
        read_only: bool = False,
        context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> Mapping[str, str]:
        wanted = Attachment(node_id, capability, read_only)
        await self._volumes.finish(self._attach(volume_id, wanted))
        return {}

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        await self._volumes.finish(self._detach(volume_id, node_id))

    async def validate_capabilities(
        self,
        volume_id: str,
        *,
        capabilities: Sequence[VolumeCapability],
        context: Mapping[str, str] = {},
        parameters: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> str | None:
        volume = self._volumes.known(volume_id)
        if parameters and not made_so(volume, parameters):
            return "the volume was made with other parameters"
        if context and context != volume.told().context:
            return "the volume has another context"
        return objection(volume, capabilities)

    async def list_volumes(self) -> Sequence[DriverVolume]:
        """Without inline volumes: those belong to a pod, and a search for orphans must not find them."""
        return [volume.told() for volume in self._volumes.ledger.volumes() if not volume.inline]

    async def get_volume(self, volume_id: str) -> DriverVolume:
        return self._volumes.known(volume_id).told()

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity:
        volumes = self._volumes
        return capacity(
            volumes.layout,
            volumes.settings,
            volumes.ledger,
            parameters=parameters,
            topology=None if accessible_from is None else accessible_from.segments,
            free=await volumes.free(),
        )

    async def _attach(self, volume_id: str, wanted: Attachment) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.known(volume_id)
            refuse_unready(volume)
            already = volumes.ledger.attached_to(wanted.node)
            await volumes.put(attached(volume, wanted, volumes.layout, volumes.settings, already=already))

    async def _detach(self, volume_id: str, node_id: str) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.ledger.get(volume_id)
            if volume is not None:
                await volumes.put(detached(volume, node_id))

    async def _create(self, request: CreateVolume) -> Volume:
        volumes = self._volumes
        with volumes.exclusive(request.name):
            volume = repeated(request, volumes.ledger) or await self._place(request)
            if volume.phase is Phase.READY:
                return volume
            # The record is durable; the volume may be there in whole, in part or not at all.
            try:
                await volumes.backing.create(volume)
            except OSError as error:
                await self._undo(volume, error)
            ready = msgspec.structs.replace(volume, phase=Phase.READY)
            await volumes.put(ready)
            return ready

    async def _place(self, request: CreateVolume) -> Volume:
        volumes = self._volumes
        async with volumes.placing:
            free = await volumes.free()
            volume = placed(
                request, volumes.layout, volumes.settings, volumes.ledger, volume_id=volumes.new_id(), free=free
            )
            durable = volumes.put(volume)
        await durable
        return volume

    async def _undo(self, volume: Volume, reason: OSError) -> None:
        """Leave nothing behind, for only then the error may be final."""
        why = f"cannot make volume {volume.name}: {reason.strerror or reason}"
        try:
            await self._volumes.backing.remove(volume)
        except OSError as error:
            raise DriverError(Code.ABORTED, f"{why}; nor remove what there is of it") from error
        await self._volumes.forget(volume)
        raise DriverError(Code.RESOURCE_EXHAUSTED if reason.errno in NO_ROOM else Code.INTERNAL, why) from reason

    async def _delete(self, volume_id: str) -> None:
        volumes = self._volumes
        found = volumes.ledger.get(volume_id)
        if found is None:
            return
        with volumes.exclusive(found.name or volume_id):
            async with volumes.locked(volume_id):
                volume = volumes.ledger.get(volume_id)
                if volume is None:
                    return
                refuse_used(volume)
                doomed = msgspec.structs.replace(volume, phase=Phase.DELETING)
                await volumes.put(doomed)
            # Recorded as being deleted: a restart from here on removes it.
            try:
                await volumes.backing.remove(doomed)
            except OSError as error:
                raise DriverError(
                    Code.ABORTED, f"cannot remove volume {volume_id}: {error.strerror or error}"
                ) from error
            await volumes.forget(doomed)


def _contract(service: ControllerService) -> Controller:
    return service
