"""The zonal upgrade controller: adds the node affinity that a volume's zone and region labels mean; and its undo.

For volumes older than node affinity, on servers that do not add it at creation. Labels stay for their readers. An
affinity is immutable and must name labels that nodes have, so it is written only once the nodes are known. Undone is
exactly what labels imply, so nothing is lost: VolumeZone goes by the labels. An annotation keeps it undone.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import structlog

from mooring.api import well_known
from mooring.api.errors import Conflict, Invalid, NotFound
from mooring.api.kinds import NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.core import Node
from mooring.api.views.storage import Volume
from mooring.client.cache import Index
from mooring.client.contract import Client
from mooring.control.component import Context, Reconciler
from mooring.volumes.in_tree import ZONE_KEYS, implied_by_labels, zonal_affinity

log = structlog.get_logger(__name__)


def is_due(volume: Volume) -> bool:
    """Whether a volume says by labels alone where it is."""
    undone = volume.metadata.annotations.get(well_known.ZONAL_UPGRADE) == well_known.ZONAL_UPGRADE_UNDONE
    bare = volume.spec.node_affinity is None and not volume.deleting and not undone
    return bare and not volume.metadata.labels.keys().isdisjoint(ZONE_KEYS)


#: Tries against other writers of the same volume.
MAX_CONFLICTS: Final = 5


class UndoResult(NamedTuple):
    """What happened to the node affinity of a volume."""

    volume: str
    #: Why the volume keeps it; "" if it was removed.
    kept: str = ""


def undo_patch(volume: Volume) -> MergePatch | None:
    """Removes the affinity that the labels of a volume imply; None for a volume with another one, or with none."""
    affinity = volume.spec.node_affinity
    if affinity is None or not implied_by_labels(affinity, volume.metadata.labels):
        return None
    notes = {well_known.ZONAL_UPGRADE: well_known.ZONAL_UPGRADE_UNDONE}
    meta = {"resourceVersion": volume.metadata.resource_version, "annotations": notes}
    return MergePatch({"metadata": meta, "spec": {"nodeAffinity": None}})


async def undo_zonal_upgrade(client: Client) -> AsyncIterator[UndoResult]:
    """Remove what the upgrade added, volume by volume; safe to repeat. Raises ApiError and Unreachable."""
    for listed in (await client.list(VOLUME)).items:
        if undo_patch(listed) is not None:
            try:
                yield await _undo(client, listed)
            except NotFound:
                continue


async def _undo(client: Client, volume: Volume) -> UndoResult:
    for _ in range(MAX_CONFLICTS):
        patch = undo_patch(volume)
        if patch is None:
            break
        try:
            await client.patch(VOLUME, volume.name, patch)
        except Invalid as error:
            return UndoResult(volume.name, error.message)
        except Conflict:
            volume = await client.get(VOLUME, volume.name)
        else:
            break
    else:
        return UndoResult(volume.name, "other clients keep changing it")
    return UndoResult(volume.name)


_BY_ZONE_KEY: Final[Index[Node]] = Index(
    "zone and region label", lambda node: [key for key in ZONE_KEYS if key in node.metadata.labels]
)


class ZonalUpgrade(Reconciler[str]):
    name = "zonal-volume-upgrade"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("zonal_upgrade", VOLUME))
        self._volumes = context.informers.of(VOLUME)
        self._nodes = context.informers.of(NODE)
        self._nodes.add_index(*_BY_ZONE_KEY)

    async def _subscribe(self) -> None:
        await self._nodes.synced.wait()
        await self._volumes.subscribe(self._on_volume)

    def _on_volume(self, _: Volume | None, after: Volume | None) -> None:
        if after is not None and is_due(after):
            self._queue.add(after.key)

    async def _sync(self, key: str) -> None:
        volume = self._volumes.get(key)
        if volume is None or not is_due(volume):
            return
        node_keys = [key for key in ZONE_KEYS if self._nodes.by_index(_BY_ZONE_KEY.name, key)]
        affinity = zonal_affinity(volume.metadata.labels, node_keys)
        if affinity is None:
            log.warning("zone labels empty", volume=key)
            return
        body = {"metadata": {"resourceVersion": volume.metadata.resource_version}, "spec": {"nodeAffinity": affinity}}
        try:
            await self._client.patch(VOLUME, volume.name, MergePatch(body))
        except NotFound:
            log.debug("object already deleted", volume=key)
            return
        log.info("node affinity added", volume=key)
        self._recorder.record(
            volume, VOLUME, "Normal", "NodeAffinityAdded", "node affinity was added as the zone and region labels say"
        )
