"""Deletion of released volumes: DeleteVolume, then the PersistentVolume, then the finalizer that keeps that order.

After a crash all steps are repeated: DeleteVolume is idempotent.
"""

import contextlib
from collections.abc import Callable

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ObjectReference
from mooring.api.views.storage import Claim, SecretReference, Volume
from mooring.client.cache import ATTACHMENT_BY_VOLUME
from mooring.client.contract import Client, Unreachable
from mooring.client.live_reads import get_or_none
from mooring.client.recorder import WARNING
from mooring.csi.contract import ControllerCapability, DriverError, NodeInfo
from mooring.provisioner.provision import create, request, secrets
from mooring.provisioner.provision.create import DriverContext
from mooring.provisioner.provision.eligibility import VolumeAction, is_ours, is_reachable, next_step
from mooring.provisioner.rollback.attempts import HeldAttempts
from mooring.provisioner.rollback.orphans import OrphanCollector
from mooring.provisioner.rollback.rollback import HoldRollback
from mooring.provisioner.settings import ProvisioningFailure, rpc_text
from mooring.volumes.claim_rollback import detached_from
from mooring.volumes.holds import objects

log: FilteringBoundLogger = structlog.get_logger(__name__)


async def remove_object(client: Client, volume: Volume) -> None:
    """Delete the PersistentVolume of deleted storage and remove its finalizer. Raises ApiError and Unreachable."""
    with contextlib.suppress(NotFound):
        await client.delete(VOLUME, volume.name, uid=volume.uid)
        terminating = await client.get(VOLUME, volume.name)
        if terminating.uid == volume.uid:
            await drop_finalizer(client, terminating)
    log.info("volume deleted", volume=volume.name)


async def add_finalizer(client: Client, volume: Volume) -> None:
    await _write_finalizers(client, volume, (*volume.metadata.finalizers, well_known.EXTERNAL_PROVISIONER))


async def drop_finalizer(client: Client, volume: Volume) -> None:
    if well_known.EXTERNAL_PROVISIONER in volume.metadata.finalizers:
        rest = tuple(each for each in volume.metadata.finalizers if each != well_known.EXTERNAL_PROVISIONER)
        await _write_finalizers(client, volume, rest)


async def _write_finalizers(client: Client, volume: Volume, finalizers: tuple[str, ...]) -> None:
    version = volume.metadata.resource_version
    body = {"metadata": {"resourceVersion": version, "finalizers": list(finalizers) or None}}
    with contextlib.suppress(NotFound):
        await client.patch(VOLUME, volume.name, MergePatch(body))


class VolumeDeleter:
    """`sync` takes the name of a volume and requeues it after a failure."""

    def __init__(
        self, context: DriverContext, orphan_collector: OrphanCollector, on_deleted: Callable[[str], None]
    ) -> None:
        """`on_deleted` is called with the uid of the claim whose volume was rolled back or whose PersistentVolume was
        deleted."""
        component = context.component
        self._client = context.client
        self._clock = context.clock
        self._recorder = component.recorder
        self._volumes = component.informers.of(VOLUME)
        self._classes = component.informers.of(STORAGE_CLASS)
        self._driver = context.driver
        attaches = ControllerCapability.PUBLISH_UNPUBLISH_VOLUME in context.driver.facts.controller_capabilities
        self._attachments = component.informers.of(VOLUME_ATTACHMENT) if attaches else None
        if self._attachments is not None:
            self._attachments.add_index(*ATTACHMENT_BY_VOLUME)
        self._calls = context.calls
        self._capacity_listener = context.capacity_listener
        self._metrics = context.metrics
        self._backoff = context.driver.retry_backoff()
        self._orphan_collector = orphan_collector
        self._on_deleted = on_deleted
        self._hold_rollback = HoldRollback(
            component,
            HeldAttempts.of(context),
            delete_storage=self._delete_storage,
            remove_object=self._remove_rolled_back,
            attached=lambda name: bool(self._attached_to(name)),
        )
        self.queue = component.work_queue("volumes", VOLUME)

    def observe(self, before: Volume | None, after: Volume | None) -> None:
        if after is None:
            if before is not None:
                self._observe_deletion(before)
        elif is_ours(after, self._driver.facts.name) and after.name not in self._backoff:
            self.queue.add(after.name)

    def _observe_deletion(self, volume: Volume) -> None:
        """Enqueue the claim: the object of a rolled-back volume may be deleted late because of other finalizers, and
        users delete objects of unbound volumes. If the storage still exists, the repeated request finds it."""
        self._backoff.forget(volume.name)
        self._hold_rollback.forget(volume.name)
        reference = volume.spec.claim_ref
        uid = (
            self._hold_rollback.claim_uid(volume)
            or detached_from(volume)
            or ("" if reference is None else reference.uid)
        )
        if uid and is_ours(volume, self._driver.facts.name):
            self._on_deleted(uid)

    async def sync(self, name: str) -> None:
        volume = self._volumes.get(name)
        if volume is None:
            self._backoff.forget(name)
            return
        if self._hold_rollback.applies_to(volume):
            if is_reachable(volume, self._node_info):
                await self._roll_back(volume)
            return
        match self._next_step(volume):
            case VolumeAction.NOTHING:
                self._backoff.forget(name)
            case VolumeAction.ADD_FINALIZER:
                await add_finalizer(self._client, volume)
            case VolumeAction.REMOVE_FINALIZER:
                await drop_finalizer(self._client, volume)
            case VolumeAction.DELETE:
                await self._delete(volume)

    async def _roll_back(self, volume: Volume) -> None:
        uid = self._hold_rollback.claim_uid(volume)
        error_text, wait = await self._hold_rollback.roll_back(volume.name)
        if error_text:
            self._recorder.record(volume, VOLUME, WARNING, "RollbackFailed", error_text)
            wait = self._backoff.next_delay(volume.name)
        if wait:
            self.queue.add_after(volume.name, wait)
            return
        self._backoff.forget(volume.name)
        self._capacity_listener.volume_deleted(volume)
        self._on_deleted(uid)

    async def _remove_rolled_back(self, volume: Volume, claim: Claim | None) -> None:
        await remove_object(self._client, volume)
        namespace, _, name = volume.metadata.annotations.get(objects.CLAIM, "").partition("/")
        if claim is None and name:
            uid = self._hold_rollback.claim_uid(volume)
            await self._report_deleted(volume, ObjectReference(namespace=namespace, name=name, uid=uid))

    async def _report_deleted(self, volume: Volume, claim: ObjectReference) -> None:
        """The claim is deleted as well. Volumes of other provisioners have no annotation for their secret."""
        if request.DELETION_SECRET_NAME in volume.metadata.annotations:
            secret = await self._deletion_secret(volume)
            self._orphan_collector.volume_deleted(volume, request.minimal_claim(claim), secret)

    def _next_step(self, volume: Volume) -> VolumeAction:
        return next_step(volume, self._driver.facts.name, self._node_info)

    @property
    def _node_info(self) -> NodeInfo | None:
        """The node of this instance in a node deployment."""
        return self._driver.facts.node if self._driver.settings.node_deployment is not None else None

    async def _delete(self, known: Volume) -> None:
        """Decided again on a live read: the cache may be behind."""
        volume = await get_or_none(self._client, VOLUME, known.name, uid=known.uid)
        if volume is None or self._next_step(volume) is not VolumeAction.DELETE:
            return
        begun = self._clock.monotonic()
        error_text = await self._delete_storage(volume)
        if error_text:
            self._metrics.delete_failed.labels(volume.storage_class).inc()
            self._recorder.record(volume, VOLUME, WARNING, "VolumeFailedDelete", error_text)
            self.queue.add_after(volume.name, self._backoff.next_delay(volume.name))
            return
        self._capacity_listener.volume_deleted(volume)
        await remove_object(self._client, volume)
        if volume.spec.claim_ref is not None:
            # Released: its claim is deleted.
            await self._report_deleted(volume, volume.spec.claim_ref)
        self._metrics.deleted.labels(volume.storage_class).inc()
        self._metrics.delete_duration.labels(volume.storage_class).observe(self._clock.monotonic() - begun)
        self._backoff.forget(volume.name)

    async def _delete_storage(self, volume: Volume) -> str:
        """Why the storage could not be deleted; "" once it is."""
        if volume.spec.csi is None:
            return f"volume {volume.name} is not a CSI volume"
        if node := self._attached_to(volume.name):
            return f"persistentvolume {volume.name} is still attached to node {node}"
        try:
            secrets = await create.read_secret(self._client, await self._deletion_secret(volume))
        except ProvisioningFailure as failure:
            log.warning("deletion secret not read; deleting without it", volume=volume.name, error=failure.text)
            secrets = {}
        try:
            await self._calls.delete_volume(volume.spec.csi.volume_handle, secrets)
        except DriverError as error:
            return rpc_text(error)
        return ""

    def _attached_to(self, volume: str) -> str:
        if self._attachments is None:
            return ""
        found = self._attachments.by_index(ATTACHMENT_BY_VOLUME.name, volume)
        return next((attachment.spec.node_name for attachment in found), "")

    async def _deletion_secret(self, volume: Volume) -> SecretReference | None:
        """From the volume's annotations; for volumes without them, from the StorageClass."""
        notes = volume.metadata.annotations
        name, namespace = notes.get(request.DELETION_SECRET_NAME), notes.get(request.DELETION_SECRET_NAMESPACE)
        if name is not None and namespace is not None:
            return SecretReference(name, namespace) if name and namespace else None
        storage_class, reference = self._classes.get(volume.storage_class), volume.spec.claim_ref
        if storage_class is None or reference is None:
            return None
        try:
            claim = await self._client.get(CLAIM, reference.name, namespace=reference.namespace)
        except (ApiError, Unreachable):
            # The claimRef has the names that most templates use; a template over annotations stays unresolved.
            claim = request.minimal_claim(reference)
        try:
            return secrets.resolve_secret(secrets.PROVISIONER, storage_class.parameters, claim, volume.name)
        except ProvisioningFailure:
            return None
