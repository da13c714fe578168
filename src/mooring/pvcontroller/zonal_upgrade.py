"""The zonal upgrade controller: adds the node affinity that a volume's zone and region labels mean.

For volumes older than node affinity, on servers that do not add it at creation. Labels stay for their readers. An
affinity is immutable and must name labels that nodes have, so it is written only once the nodes are known.
"""

import structlog

from mooring.api.errors import NotFound
from mooring.api.kinds import NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Volume
from mooring.control.component import Context, Reconciler
from mooring.volumes.in_tree import ZONE_KEYS, zonal_affinity

log = structlog.get_logger(__name__)


def is_due(volume: Volume) -> bool:
    """Whether a volume says by labels alone where it is."""
    bare = volume.spec.node_affinity is None and not volume.deleting
    return bare and not volume.metadata.labels.keys().isdisjoint(ZONE_KEYS)


class ZonalUpgrade(Reconciler[str]):
    name = "zonal-volume-upgrade"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("zonal_upgrade", VOLUME))
        self._volumes = context.informers.of(VOLUME)
        self._nodes = context.informers.of(NODE)

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
        node_keys = {label for node in self._nodes.items() for label in node.metadata.labels}
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
