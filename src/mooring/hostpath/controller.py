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
from mooring.hostpath.custody import Custody
from mooring.hostpath.placement import made_so, placed, repeated
from mooring.hostpath.records import Attachment, Phase, Volume
from mooring.hostpath.usage import attached, detached, objection, refuse_unready, refuse_used

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

    def __init__(self, custody: Custody) -> None:
        self._custody = custody

    async def controller_capabilities(self) -> frozenset[str]:
        return WITH_ATTACH if self._custody.settings.attach else ALWAYS

    async def create_volume(self, request: CreateVolume, *, secrets: Mapping[str, str]) -> DriverVolume:
        volume = await self._custody.finish(self._create(request))
        return volume.told()

    async def delete_volume(self, volume_id: str, *, secrets: Mapping[str, str]) -> None:
        await self._custody.finish(self._delete(volume_id))

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
        custody = self._custody
        async with custody.deciding:
            volume = custody.known(volume_id)
            refuse_unready(volume)
            wanted = Attachment(node_id, capability, read_only)
            already = custody.ledger.attached_to(node_id)
            await custody.keep(attached(volume, wanted, custody.layout, custody.settings, already=already))
        return {}

    async def controller_unpublish(self, volume_id: str, *, node_id: str, secrets: Mapping[str, str] = {}) -> None:
        async with self._custody.deciding:
            volume = self._custody.ledger.get(volume_id)
            if volume is not None:
                await self._custody.keep(detached(volume, node_id))

    async def validate_capabilities(
        self,
        volume_id: str,
        *,
        capabilities: Sequence[VolumeCapability],
        context: Mapping[str, str] = {},
        parameters: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> str | None:
        volume = self._custody.known(volume_id)
        if parameters and not made_so(volume, parameters):
            return "the volume was made with other parameters"
        if context and context != volume.told().context:
            return "the volume has another context"
        return objection(volume, capabilities)

    async def list_volumes(self) -> Sequence[DriverVolume]:
        """Inline volumes are left out: they belong to a pod, and whoever looks for orphans must not find them."""
        return [volume.told() for volume in self._custody.ledger.volumes() if not volume.inline]

    async def get_volume(self, volume_id: str) -> DriverVolume:
        return self._custody.known(volume_id).told()

    async def get_capacity(
        self,
        *,
        capabilities: Sequence[VolumeCapability],
        parameters: Mapping[str, str],
        accessible_from: Topology | None,
    ) -> Capacity:
        custody = self._custody
        return capacity(
            custody.layout,
            custody.settings,
            custody.ledger,
            parameters=parameters,
            topology=None if accessible_from is None else accessible_from.segments,
            free=await custody.free(),
        )

    async def _create(self, request: CreateVolume) -> Volume:
        custody = self._custody
        with custody.working_on(request.name):
            async with custody.deciding:
                volume = repeated(request, custody.ledger)
                if volume is None:
                    volume = placed(
                        request,
                        custody.layout,
                        custody.settings,
                        custody.ledger,
                        volume_id=custody.new_id(),
                        free=await custody.free(),
                    )
                    await custody.keep(volume)
            if volume.phase is Phase.READY:
                return volume
            # SEEN: the record is kept; the volume may be there in whole, in part or not at all.
            try:
                await custody.backing.create(volume)
            except OSError as error:
                await self._undo(volume, error)
            ready = msgspec.structs.replace(volume, phase=Phase.READY)
            async with custody.deciding:
                await custody.keep(ready)
            return ready

    async def _undo(self, volume: Volume, reason: OSError) -> None:
        """Leave nothing behind, for only then the error may be final."""
        why = f"cannot make volume {volume.name}: {reason.strerror or reason}"
        try:
            await self._custody.backing.remove(volume)
        except OSError as error:
            raise DriverError(Code.ABORTED, f"{why}; nor remove what there is of it") from error
        async with self._custody.deciding:
            await self._custody.forget(volume)
        raise DriverError(Code.RESOURCE_EXHAUSTED if reason.errno in NO_ROOM else Code.INTERNAL, why) from reason

    async def _delete(self, volume_id: str) -> None:
        custody = self._custody
        found = custody.ledger.get(volume_id)
        if found is None:
            return
        with custody.working_on(found.name or volume_id):
            async with custody.deciding:
                volume = custody.ledger.get(volume_id)
                if volume is None:
                    return
                refuse_used(volume)
                doomed = msgspec.structs.replace(volume, phase=Phase.DELETING)
                await custody.keep(doomed)
            # SEEN: kept as doomed; a restart from here on removes it.
            try:
                await custody.backing.remove(doomed)
            except OSError as error:
                raise DriverError(
                    Code.ABORTED, f"cannot remove volume {volume_id}: {error.strerror or error}"
                ) from error
            async with custody.deciding:
                await custody.forget(doomed)


def _contract(service: ControllerService) -> Controller:
    return service
