"""The node service of the driver, as seen from one node.

Staging costs nothing here and is only written down; publishing shows the volume at the pod's path. A record is kept
before a path is made and dropped after it is gone, so a crash leaves at most a record, which the same call repairs.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.csi.contract import (
    Code,
    DriverError,
    NodeCapability,
    NodeInfo,
    NodeService,
    Topology,
    VolumeCapability,
)
from mooring.hostpath import inline
from mooring.hostpath.records import Phase, Publication, Staging, Volume
from mooring.hostpath.usage import published, refuse_unready, staged, unpublished, unstaged
from mooring.hostpath.volume_store import VolumeStore

CAPABILITIES: Final = frozenset({NodeCapability.STAGE_UNSTAGE_VOLUME, NodeCapability.SINGLE_NODE_MULTI_WRITER})


class Node:
    def __init__(self, volumes: VolumeStore, node_id: str) -> None:
        self._volumes = volumes
        self._node = node_id

    async def node_capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    async def info(self) -> NodeInfo:
        layout = self._volumes.layout
        segments = layout.nodes.get(self._node)
        if segments is None:
            raise DriverError(Code.NOT_FOUND, f"node {self._node} is not known to this driver")
        return NodeInfo(
            node_id=self._node,
            max_volumes=self._volumes.settings.max_volumes_per_node,
            accessible_from=Topology(segments) if layout.has_topology else None,
        )

    async def stage(
        self,
        volume_id: str,
        *,
        staging_target: str,
        capability: VolumeCapability,
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        await self._volumes.finish(self._stage(volume_id, Staging(self._node, staging_target, capability)))

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        await self._volumes.finish(self._unstage(volume_id, staging_target))

    async def publish(
        self,
        volume_id: str,
        *,
        target: str,
        capability: VolumeCapability,
        read_only: bool,
        staging_target: str = "",
        context: Mapping[str, str] = {},
        publish_context: Mapping[str, str] = {},
        secrets: Mapping[str, str] = {},
    ) -> None:
        wanted = Publication(self._node, target, capability, read_only)
        if inline.asked_for(context):
            await self._volumes.finish(self._publish_inline(volume_id, wanted, context))
        else:
            await self._volumes.finish(self._publish(volume_id, wanted, staging_target))

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        await self._volumes.finish(self._unpublish(volume_id, target))

    async def _stage(self, volume_id: str, wanted: Staging) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.known(volume_id)
            refuse_unready(volume)
            already = volumes.ledger.staged_on(self._node)
            await volumes.put(staged(volume, wanted, volumes.layout, volumes.settings, already=already))

    async def _unstage(self, volume_id: str, staging_target: str) -> None:
        async with self._volumes.locked(volume_id):
            volume = self._volumes.known(volume_id)
            await self._volumes.put(unstaged(volume, self._node, staging_target))

    async def _publish(self, volume_id: str, wanted: Publication, staging: str) -> None:
        async with self._volumes.locked(volume_id):
            volume = self._volumes.known(volume_id)
            refuse_unready(volume)
            await self._show(volume, wanted, staging)

    async def _publish_inline(self, volume_id: str, wanted: Publication, context: Mapping[str, str]) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.ledger.get(volume_id) or await self._place_inline(volume_id, wanted, context)
            if not volume.inline:
                raise DriverError(Code.ALREADY_EXISTS, f"volume {volume_id} exists and is not an inline volume")
            try:
                await _make(volumes, volume)
                await self._show(msgspec.structs.replace(volume, phase=Phase.READY), wanted, "")
            except DriverError:
                if not volumes.known(volume_id).published:
                    await self._remove_inline(volumes.known(volume_id))
                raise

    async def _place_inline(self, volume_id: str, wanted: Publication, context: Mapping[str, str]) -> Volume:
        volumes = self._volumes
        async with volumes.placing:
            volume = inline.new_volume(
                volume_id,
                node=self._node,
                capability=wanted.capability,
                context=context,
                layout=volumes.layout,
                settings=volumes.settings,
                ledger=volumes.ledger,
                free=await volumes.free(),
            )
            durable = volumes.put(volume)
        await durable
        return volume

    async def _show(self, volume: Volume, wanted: Publication, staging: str) -> None:
        """Keep that it is published, then publish; undo both when that fails and it is new."""
        volumes = self._volumes
        after = published(volume, wanted, staging=staging, layout=volumes.layout)
        await volumes.put(after)
        try:
            await volumes.backing.publish(volume, wanted)
        except OSError as error:
            if wanted not in volume.published:
                await volumes.put(volume)
            raise DriverError(
                Code.INTERNAL, f"cannot publish volume {volume.volume_id} at {wanted.target}: {error.strerror or error}"
            ) from error

    async def _unpublish(self, volume_id: str, target: str) -> None:
        volumes = self._volumes
        async with volumes.locked(volume_id):
            volume = volumes.ledger.get(volume_id)
            if volume is None:
                if inline.never_ours(volume_id):
                    # An inline volume whose removal went through and whose response was lost.
                    return
                raise DriverError(Code.NOT_FOUND, f"volume {volume_id} does not exist")
            for publication in volume.published:
                if (publication.node, publication.target) == (self._node, target):
                    await self._withdraw(publication, volume_id)
            after = unpublished(volume, self._node, target)
            await volumes.put(after)
            if after.inline and not after.published:
                await self._remove_inline(after)

    async def _withdraw(self, publication: Publication, volume_id: str) -> None:
        try:
            await self._volumes.backing.withdraw(publication)
        except OSError as error:
            why = error.strerror or error
            raise DriverError(Code.INTERNAL, f"cannot take volume {volume_id} away: {why}") from error

    async def _remove_inline(self, volume: Volume) -> None:
        try:
            await self._volumes.backing.remove(volume)
        except OSError as error:
            raise DriverError(
                Code.INTERNAL, f"cannot remove volume {volume.volume_id}: {error.strerror or error}"
            ) from error
        await self._volumes.forget(volume)


async def _make(volumes: VolumeStore, volume: Volume) -> None:
    try:
        await volumes.backing.create(volume)
    except OSError as error:
        why = error.strerror or error
        raise DriverError(Code.INTERNAL, f"cannot make volume {volume.volume_id}: {why}") from error


def _contract(node: Node) -> NodeService:
    return node
