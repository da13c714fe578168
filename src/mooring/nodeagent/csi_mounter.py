"""Mounts and unmounts the CSI volumes of pods through the drivers of their nodes.

    remember ─► stage, once per node ─► publish, once per pod ─► … ─► unpublish ─► unstage after the last ─► forget

The shell around `csi_mounts`. Every call may be made again: drivers must take that, and after a restart it is how
the agent finds out what was done. One volume of one node is handled by one task at a time, so that it is never
unstaged while another pod is being given it.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

import structlog

from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CSI_DRIVER, NODE, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.api.views.pod import Pod
from mooring.api.views.volume import SecretName
from mooring.client.secret_values import secret_values
from mooring.control.component import Context
from mooring.control.keyed_locks import KeyedLocks
from mooring.csi.contract import DriverError, NodeCapability, NodeService
from mooring.nodeagent.csi_mounts import Mount, Order, orders
from mooring.nodeagent.ground import Ground
from mooring.nodeagent.mounting import Storage
from mooring.volumes.attachment_names import attachment_name, in_use_name

#: The drivers of each node by name, and how to reach them there.
Drivers = Mapping[str, Mapping[str, NodeService]]

_STAGES: Final = NodeCapability.STAGE_UNSTAGE_VOLUME
_FINER: Final = NodeCapability.SINGLE_NODE_MULTI_WRITER

#: Node, driver and handle.
VolumeKey = tuple[str, str, str]

log = structlog.get_logger(__name__)


class CsiMounter:
    def __init__(self, context: Context, drivers: Drivers, ground: Ground) -> None:
        self._client = context.client
        self._drivers = drivers
        self._ground = ground
        self._nodes = context.informers.of(NODE)
        self._driver_objects = context.informers.of(CSI_DRIVER)
        self.attachments = context.informers.of(VOLUME_ATTACHMENT)
        self._turns: KeyedLocks[VolumeKey] = KeyedLocks()
        #: What is mounted, or may be, by pod, by volume and by node.
        self._by_pod: defaultdict[str, dict[str, Mount]] = defaultdict(dict)
        self._users: defaultdict[VolumeKey, set[str]] = defaultdict(set)
        self._in_use: defaultdict[str, set[str]] = defaultdict(set)
        for mount in ground.remembered():
            self._note(mount)
        self.informers = (self._driver_objects, self.attachments)

    @property
    def pods(self) -> Collection[str]:
        """Uids of the pods that have, or may have, something mounted. A live view."""
        return self._by_pod.keys()

    async def mount(self, pod: Pod, storage: Storage) -> str | None:
        """Give the pod its volumes; why the first that cannot be had cannot, None when it has all of them."""
        drivers = self._drivers.get(pod.spec.node_name, {})
        if not drivers:
            return None
        root = f"{self._ground.root}/{pod.spec.node_name}"
        for order in orders(pod, storage, drivers, self._driver_objects.get, root=root):
            async with self._turns.holding([order.mount.volume]):
                why = await self._publish(order, drivers[order.mount.driver])
            if why is not None:
                return why
        return None

    async def _publish(self, order: Order, driver: NodeService) -> str | None:
        mount = order.mount
        attachment: Mapping[str, str] = {}
        if order.attach:
            found = self.attachments.get(attachment_name(mount.driver, mount.handle, mount.node))
            if found is None or not found.status.attached or found.deleting:
                return (
                    f"Unable to attach or mount volumes: unmounted volumes=[{mount.name}], unattached volumes="
                    f"[{mount.name}], failed to process volumes=[]: waiting for the volume to be attached"
                )
            attachment = found.status.attachment_metadata or {}
        try:
            stage_secret = await self._secret(order.stage_secret)
            publish_secret = await self._secret(order.publish_secret)
        except ApiError as error:
            return f'MountVolume.SetUp failed for volume "{mount.name}" : {error.message}'
        self._ground.remember(mount)
        self._note(mount)
        await self._tell_in_use(mount.node)
        step = "MountDevice"
        try:
            can = await driver.node_capabilities()
            capability = order.capability(finer=_FINER in can)
            staging = mount.staging if mount.staging and _STAGES in can else ""
            if staging:
                await driver.stage(
                    mount.handle,
                    staging_target=staging,
                    capability=capability,
                    context=order.context,
                    publish_context=attachment,
                    secrets=stage_secret,
                )
            step = "SetUp"
            await driver.publish(
                mount.handle,
                target=mount.target,
                capability=capability,
                read_only=order.read_only,
                staging_target=staging,
                context=order.context,
                publish_context=attachment,
                secrets=publish_secret,
            )
        except DriverError as error:
            return f'MountVolume.{step} failed for volume "{mount.name}" : {error}'
        return None

    async def unmount(self, pod: str) -> str | None:
        """Take everything away from the pod with this uid; why the first volume could not be, None when all are."""
        for mount in list(self._by_pod.get(pod, {}).values()):
            driver = self._drivers.get(mount.node, {}).get(mount.driver)
            if driver is None:
                return f'UnmountVolume failed for volume "{mount.name}" : driver {mount.driver} is not registered'
            async with self._turns.holding([mount.volume]):
                why = await self._unpublish(mount, driver)
            if why is not None:
                return why
            await self._tell_in_use(mount.node)
        return None

    async def _unpublish(self, mount: Mount, driver: NodeService) -> str | None:
        step = "UnmountVolume.TearDown"
        try:
            await driver.unpublish(mount.handle, target=mount.target)
            step = "UnmountDevice"
            last = self._users[mount.volume] <= {mount.pod}
            if mount.staging and last and _STAGES in await driver.node_capabilities():
                await driver.unstage(mount.handle, staging_target=mount.staging)
        except DriverError as error:
            return f'{step} failed for volume "{mount.name}" : {error}'
        self._ground.forget(mount)
        self._by_pod[mount.pod].pop(mount.name, None)
        if not self._by_pod[mount.pod]:
            del self._by_pod[mount.pod]
        self._users[mount.volume].discard(mount.pod)
        if not self._users[mount.volume]:
            del self._users[mount.volume]
            self._in_use[mount.node].discard(in_use_name(mount.driver, mount.handle))
            if not self._in_use[mount.node]:
                del self._in_use[mount.node]
        return None

    def _note(self, mount: Mount) -> None:
        self._by_pod[mount.pod][mount.name] = mount
        self._users[mount.volume].add(mount.pod)
        self._in_use[mount.node].add(in_use_name(mount.driver, mount.handle))

    async def _secret(self, reference: SecretName | None) -> dict[str, str]:
        if reference is None:
            return {}
        return await secret_values(self._client, reference.name, namespace=reference.namespace)

    async def _tell_in_use(self, node: str) -> None:
        """Say which volumes must not be detached from the node: before the first is staged, after the last is not."""
        wanted = sorted(self._in_use.get(node, ()))
        known = self._nodes.get(node)
        if known is None or sorted(known.status.volumes_in_use) == wanted:
            return
        patch = MergePatch({"metadata": {"uid": known.uid}, "status": {"volumesInUse": wanted or None}})
        try:
            await self._client.patch(NODE, node, patch, subresource="status")
        except NotFound:
            log.info("node is gone with its volumes", node=node)
