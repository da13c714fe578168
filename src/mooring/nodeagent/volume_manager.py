"""Mounts and unmounts the CSI volumes of pods through the drivers of their nodes.

    record ─► stage, once per node ─► publish, once per pod ─► … ─► unpublish ─► unstage after the last ─► remove

All calls are idempotent and repeated after a restart. The mounts of a pod are recorded together before the driver is
called; each is removed after it has unmounted. Calls for one volume of one node are serialised, so that it is not
unstaged while a pod publishes it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import structlog

from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CSI_DRIVER, NODE, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pods import Pod
from mooring.client.live_reads import secret_values
from mooring.control.component import Context
from mooring.control.workqueue import KeyedLocks
from mooring.csi.contract import DriverError, NodeCapability, NodeService
from mooring.multimap import Multimap
from mooring.nodeagent.admission import StorageLookup
from mooring.nodeagent.mounts import Mount, MountRequest, mount_requests
from mooring.volumes.usage import attachment_name, in_use_name


class MountStore:
    """For drivers without files: mounts end with the process. Durable stores override the methods."""

    root = "/played"

    def load(self) -> list[Mount]:
        """The mounts that an earlier process recorded."""
        return []

    async def record(self, mount: Mount) -> None:
        """Returns when the record survives the end of the process. Raises OSError."""

    async def remove(self, mount: Mount) -> None:
        """As `record`."""


#: By node and driver name.
Drivers = Mapping[str, Mapping[str, NodeService]]

_STAGES: Final = NodeCapability.STAGE_UNSTAGE_VOLUME
_FINER: Final = NodeCapability.SINGLE_NODE_MULTI_WRITER

#: Node, driver and handle.
VolumeKey = tuple[str, str, str]

log = structlog.get_logger(__name__)


class _PreparedMount(NamedTuple):
    """Arguments of the driver's calls that had to be read first."""

    request: MountRequest
    attachment: Mapping[str, str]
    stage_secret: Mapping[str, str]
    publish_secret: Mapping[str, str]


class CsiMounter:
    def __init__(self, context: Context, drivers: Drivers, mount_store: MountStore) -> None:
        self._client = context.client
        self._drivers = drivers
        self._mount_store = mount_store
        self._nodes = context.informers.of(NODE)
        self._driver_objects = context.informers.of(CSI_DRIVER)
        self.attachments = context.informers.of(VOLUME_ATTACHMENT)
        self._locks: KeyedLocks[VolumeKey] = KeyedLocks()
        self._reports: KeyedLocks[str] = KeyedLocks()
        #: Volumes that are or may be mounted, by pod, by volume and by node.
        self._by_pod: defaultdict[str, dict[str, Mount]] = defaultdict(dict)
        self._users: Multimap[VolumeKey, str] = Multimap()
        self._in_use: Multimap[str, str] = Multimap()
        for mount in mount_store.load():
            self._track(mount)
        self.informers = (self._driver_objects, self.attachments)

    @property
    def pods(self) -> Collection[str]:
        """Uids of the pods that have or may have mounted volumes. A live view."""
        return self._by_pod.keys()

    async def mount(self, pod: Pod, storage: StorageLookup) -> str | None:
        """Mount the pod's volumes. Returns why the first could not be mounted, None if all are."""
        drivers = self._drivers.get(pod.spec.node_name, {})
        if not drivers:
            return None
        root = f"{self._mount_store.root}/{pod.spec.node_name}"
        blocker: str | None = None
        prepared: list[_PreparedMount] = []
        for request in mount_requests(pod, storage, drivers, self._driver_objects.get, root=root):
            ready = await self._prepare(request)
            if isinstance(ready, str):
                blocker = ready
                break
            prepared.append(ready)
        if prepared:
            # Before any driver is called; together, since each record and each report waits for a disk.
            try:
                await self._record(ready.request.mount for ready in prepared)
            except OSError as error:
                return f'MountVolume.SetUp failed for volume "{prepared[0].request.mount.name}" : {error}'
            await self._report_volumes_in_use(pod.spec.node_name)
        for ready in prepared:
            mount = ready.request.mount
            async with self._locks.holding([mount.volume]):
                error_text = await self._publish(ready, drivers[mount.driver])
            if error_text is not None:
                return error_text
        return blocker

    async def _prepare(self, request: MountRequest) -> _PreparedMount | str:
        """What the driver is called with, or why the volume has to wait."""
        mount = request.mount
        attachment: Mapping[str, str] = {}
        if request.attach:
            found = self.attachments.get(attachment_name(mount.driver, mount.handle, mount.node))
            if found is None or not found.status.attached or found.deleting:
                return (
                    f"Unable to attach or mount volumes: unmounted volumes=[{mount.name}], unattached volumes="
                    f"[{mount.name}], failed to process volumes=[]: waiting for the volume to be attached"
                )
            attachment = found.status.attachment_metadata or {}
        try:
            stage_secret = await secret_values(self._client, request.stage_secret)
            publish_secret = await secret_values(self._client, request.publish_secret)
        except ApiError as error:
            return f'MountVolume.SetUp failed for volume "{mount.name}" : {error.message}'
        return _PreparedMount(request, attachment, stage_secret, publish_secret)

    async def _record(self, mounts: Iterable[Mount]) -> None:
        """Those that are not recorded yet: attempts are repeated. Raises OSError."""
        new = [mount for mount in mounts if self._by_pod.get(mount.pod, {}).get(mount.name) != mount]
        await asyncio.gather(*map(self._mount_store.record, new))
        for mount in new:
            self._track(mount)

    async def _publish(self, ready: _PreparedMount, driver: NodeService) -> str | None:
        request, mount = ready.request, ready.request.mount
        step = "MountDevice"
        try:
            can = await driver.node_capabilities()
            capability = request.capability(finer=_FINER in can)
            staging = mount.staging if mount.staging and _STAGES in can else ""
            if staging:
                await driver.stage(
                    mount.handle,
                    staging_target=staging,
                    capability=capability,
                    context=request.context,
                    publish_context=ready.attachment,
                    secrets=ready.stage_secret,
                )
            step = "SetUp"
            await driver.publish(
                mount.handle,
                target=mount.target,
                capability=capability,
                read_only=request.read_only,
                staging_target=staging,
                context=request.context,
                publish_context=ready.attachment,
                secrets=ready.publish_secret,
            )
        except DriverError as error:
            return f'MountVolume.{step} failed for volume "{mount.name}" : {error}'
        return None

    async def unmount(self, pod: str) -> str | None:
        """Unmount the volumes of the pod with this uid. Returns why the first failed, None if all are unmounted."""
        mounts = list(self._by_pod.get(pod, {}).values())
        error_text: str | None = None
        for mount in mounts:
            driver = self._drivers.get(mount.node, {}).get(mount.driver)
            if driver is None:
                error_text = f'UnmountVolume failed for volume "{mount.name}" : driver {mount.driver} is not registered'
            else:
                async with self._locks.holding([mount.volume]):
                    error_text = await self._unpublish(mount, driver)
            if error_text is not None:
                break
        for node in {mount.node: None for mount in mounts}:
            await self._report_volumes_in_use(node)
        return error_text

    async def _unpublish(self, mount: Mount, driver: NodeService) -> str | None:
        step = "UnmountVolume.TearDown"
        try:
            await driver.unpublish(mount.handle, target=mount.target)
            step = "UnmountDevice"
            last = self._users.get(mount.volume, {}).keys() <= {mount.pod}
            if mount.staging and last and _STAGES in await driver.node_capabilities():
                await driver.unstage(mount.handle, staging_target=mount.staging)
        except DriverError as error:
            return f'{step} failed for volume "{mount.name}" : {error}'
        try:
            await self._mount_store.remove(mount)
        except OSError as error:
            return f'{step} failed for volume "{mount.name}" : {error}'
        self._by_pod[mount.pod].pop(mount.name, None)
        if not self._by_pod[mount.pod]:
            del self._by_pod[mount.pod]
        self._users.discard(mount.volume, mount.pod)
        if mount.volume not in self._users:
            self._in_use.discard(mount.node, in_use_name(mount.driver, mount.handle))
        return None

    def _track(self, mount: Mount) -> None:
        self._by_pod[mount.pod][mount.name] = mount
        self._users.add(mount.volume, mount.pod)
        self._in_use.add(mount.node, in_use_name(mount.driver, mount.handle))

    async def _report_volumes_in_use(self, node: str) -> None:
        """Write status.volumesInUse, which protects from detaching: before staging, and after unstaging."""
        # One by one: of two reports at once, the older one might be written last.
        async with self._reports.holding([node]):
            in_use = sorted(self._in_use.get(node, ()))
            known = self._nodes.get(node)
            if known is None or sorted(known.status.volumes_in_use) == in_use:
                return
            patch = MergePatch({"metadata": {"uid": known.uid}, "status": {"volumesInUse": in_use or None}})
            try:
                await self._client.patch(NODE, node, patch, subresource="status")
            except NotFound:
                log.info("object already deleted", node=node)
