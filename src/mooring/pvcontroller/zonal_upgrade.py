"""The zonal upgrade controller: gives volumes that say by labels where they are the node affinity those stand for.

For volumes made before there was node affinity, and on servers that do not add it at creation. Labels stay, so that
whoever still reads them goes on working. An affinity can be written once and never changed: volumes are only looked
at once the nodes are known, because it has to be spelled in labels that nodes have.
"""

import structlog

from mooring.api.errors import NotFound
from mooring.api.kinds import NODE, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.volume import Volume
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.volumes.zonal_affinity import zonal_affinity
from mooring.volumes.zones import ZONE_KEYS

log = structlog.get_logger(__name__)


def is_due(volume: Volume) -> bool:
    """Whether a volume says by labels alone where it is."""
    bare = volume.spec.node_affinity is None and not volume.deleting
    return bare and not volume.metadata.labels.keys().isdisjoint(ZONE_KEYS)


class ZonalUpgrade:
    name = "zonal-volume-upgrade"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._volumes = context.informers.of(VOLUME)
        self._nodes = context.informers.of(NODE)
        self._queue = context.work_queue("zonal_upgrade")
        self.ready = False

    async def run(self) -> None:
        await self._nodes.synced.wait()
        await self._volumes.subscribe(self._on_volume)
        self.ready = True
        await work(self._queue, self._sync, workers=1, name=self.name)

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
            log.warning("zone labels say nothing", volume=key)
            return
        body = {
            "metadata": {"resourceVersion": volume.metadata.resource_version},
            "spec": {"nodeAffinity": affinity},
        }
        try:
            await self._client.patch(VOLUME, volume.name, MergePatch(body))
        except NotFound:
            log.debug("gone already", volume=key)
            return
        log.info("node affinity added", volume=key)
        self._recorder.record(
            volume, VOLUME, "Normal", "NodeAffinityAdded", "node affinity was added as the zone and region labels say"
        )
