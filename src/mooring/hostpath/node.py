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
from mooring.hostpath.custody import Custody
from mooring.hostpath.records import Phase, Publication, Staging, Volume
from mooring.hostpath.usage import published, refuse_unready, staged, unpublished, unstaged

CAPABILITIES: Final = frozenset({NodeCapability.STAGE_UNSTAGE_VOLUME, NodeCapability.SINGLE_NODE_MULTI_WRITER})


class Node:
    def __init__(self, custody: Custody, node_id: str) -> None:
        self._custody = custody
        self._node = node_id

    async def node_capabilities(self) -> frozenset[str]:
        return CAPABILITIES

    async def info(self) -> NodeInfo:
        layout = self._custody.layout
        segments = layout.nodes.get(self._node)
        if segments is None:
            raise DriverError(Code.NOT_FOUND, f"node {self._node} is not known to this driver")
        return NodeInfo(
            node_id=self._node,
            max_volumes=self._custody.settings.max_volumes_per_node,
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
        custody = self._custody
        async with custody.deciding:
            volume = custody.known(volume_id)
            refuse_unready(volume)
            wanted = Staging(self._node, staging_target, capability)
            already = custody.ledger.staged_on(self._node)
            await custody.keep(staged(volume, wanted, custody.layout, custody.settings, already=already))

    async def unstage(self, volume_id: str, *, staging_target: str) -> None:
        async with self._custody.deciding:
            volume = self._custody.known(volume_id)
            await self._custody.keep(unstaged(volume, self._node, staging_target))

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
            await self._custody.finish(self._publish_inline(volume_id, wanted, context))
        else:
            await self._custody.finish(self._publish(volume_id, wanted, staging_target))

    async def unpublish(self, volume_id: str, *, target: str) -> None:
        await self._custody.finish(self._unpublish(volume_id, target))

    async def _publish(self, volume_id: str, wanted: Publication, staging: str) -> None:
        async with self._custody.deciding:
            volume = self._custody.known(volume_id)
            refuse_unready(volume)
            await self._show(volume, wanted, staging)

    async def _publish_inline(self, volume_id: str, wanted: Publication, context: Mapping[str, str]) -> None:
        custody = self._custody
        async with custody.deciding:
            volume = custody.ledger.get(volume_id)
            if volume is None:
                volume = inline.new_volume(
                    volume_id,
                    node=self._node,
                    capability=wanted.capability,
                    context=context,
                    layout=custody.layout,
                    settings=custody.settings,
                    ledger=custody.ledger,
                    free=await custody.free(),
                )
                await custody.keep(volume)
            if not volume.inline:
                raise DriverError(Code.ALREADY_EXISTS, f"volume {volume_id} exists and is not an inline volume")
            try:
                await _make(custody, volume)
                await self._show(msgspec.structs.replace(volume, phase=Phase.READY), wanted, "")
            except DriverError:
                if not custody.known(volume_id).published:
                    await self._remove_inline(custody.known(volume_id))
                raise

    async def _show(self, volume: Volume, wanted: Publication, staging: str) -> None:
        """Keep that it is published, then publish; undo both when that fails and it is new."""
        custody = self._custody
        after = published(volume, wanted, staging=staging, layout=custody.layout)
        await custody.keep(after)
        try:
            await custody.backing.publish(volume, wanted)
        except OSError as error:
            if wanted not in volume.published:
                await custody.keep(volume)
            raise DriverError(
                Code.INTERNAL, f"cannot publish volume {volume.volume_id} at {wanted.target}: {error.strerror or error}"
            ) from error

    async def _unpublish(self, volume_id: str, target: str) -> None:
        custody = self._custody
        async with custody.deciding:
            volume = custody.ledger.get(volume_id)
            if volume is None:
                if inline.never_ours(volume_id):
                    # SEEN: an inline volume whose removal went through and whose answer was lost.
                    return
                raise DriverError(Code.NOT_FOUND, f"volume {volume_id} does not exist")
            for publication in volume.published:
                if (publication.node, publication.target) == (self._node, target):
                    await self._withdraw(publication, volume_id)
            after = unpublished(volume, self._node, target)
            await custody.keep(after)
            if after.inline and not after.published:
                await self._remove_inline(after)

    async def _withdraw(self, publication: Publication, volume_id: str) -> None:
        try:
            await self._custody.backing.withdraw(publication)
        except OSError as error:
            why = error.strerror or error
            raise DriverError(Code.INTERNAL, f"cannot take volume {volume_id} away: {why}") from error

    async def _remove_inline(self, volume: Volume) -> None:
        try:
            await self._custody.backing.remove(volume)
        except OSError as error:
            raise DriverError(
                Code.INTERNAL, f"cannot remove volume {volume.volume_id}: {error.strerror or error}"
            ) from error
        await self._custody.forget(volume)


async def _make(custody: Custody, volume: Volume) -> None:
    try:
        await custody.backing.create(volume)
    except OSError as error:
        why = error.strerror or error
        raise DriverError(Code.INTERNAL, f"cannot make volume {volume.volume_id}: {why}") from error


def _contract(node: Node) -> NodeService:
    return node
