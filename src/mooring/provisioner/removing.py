"""Volumes whose claims are gone: deletes their storage, then the object; and keeps the finalizer that orders the two.

Whatever a crash leaves half done is begun again from the start: drivers delete what is not there without complaint.
"""

from collections.abc import Callable

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from mooring.api.views.volume import Volume
from mooring.client.contract import Unreachable
from mooring.client.indexes import ATTACHMENT_BY_VOLUME
from mooring.client.recorder import WARNING
from mooring.control.component import Context
from mooring.csi.contract import ControllerCapability, DriverError, NodeInfo
from mooring.provisioner import planning, secret_data, secret_references
from mooring.provisioner.attempt import Refusal, rpc_text
from mooring.provisioner.calls import DriverCalls
from mooring.provisioner.held_attempts import HeldAttempts
from mooring.provisioner.metrics import ProvisionerMetrics
from mooring.provisioner.object_removal import drop_finalizer, remove_object, write_finalizers
from mooring.provisioner.patience import Patience
from mooring.provisioner.removal import Step, is_here, is_ours, next_step
from mooring.provisioner.room import Room
from mooring.provisioner.secret_references import SecretReference
from mooring.provisioner.undoing import Undoing
from mooring.volumes.clean_claims import forsaken_by

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Removing:
    """`sync` takes the name of a volume. Failures wait in `queue` by themselves."""

    def __init__(
        self,
        context: Context,
        driver: planning.Driver,
        calls: DriverCalls,
        room: Room,
        metrics: ProvisionerMetrics,
        *,
        held: HeldAttempts,
        removed: Callable[[str], None] = lambda uid: None,
    ) -> None:
        """`removed` hears of the claim whose volume was rolled back, or whose volume's object is gone."""
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._invariants = context.invariants
        self._volumes = context.informers.of(VOLUME)
        self._classes = context.informers.of(STORAGE_CLASS)
        attaches = ControllerCapability.PUBLISH_UNPUBLISH_VOLUME in driver.facts.controller_capabilities
        self._attachments = context.informers.of(VOLUME_ATTACHMENT) if attaches else None
        if self._attachments is not None:
            self._attachments.add_index(*ATTACHMENT_BY_VOLUME)
        self._driver = driver
        self._calls = calls
        self._room = room
        self._metrics = metrics
        self._patience: Patience[str] = Patience(
            driver.settings.retry_interval_start, driver.settings.retry_interval_max
        )
        self._removed = removed
        self._undoing = self._rollback(held)
        self.queue = context.work_queue("volumes")

    def observe(self, before: Volume | None, after: Volume | None) -> None:
        if after is None:
            if before is not None:
                self._gone(before)
        elif is_ours(after, self._driver.facts.name) and not self._patience.failing(after.name):
            self.queue.add(after.name)

    def _gone(self, volume: Volume) -> None:
        """The object of a volume that was rolled back may go long after we let go of it: others have finalizers too.
        And people delete objects before their claims are bound. Whoever waits for this one then is looked at again, and
        where nothing told the driver to delete anything, the request that made the volume finds it."""
        self._patience.forget(volume.name)
        self._undoing.forget(volume.name)
        reference = volume.spec.claim_ref
        uid = self._undoing.claim_uid(volume) or forsaken_by(volume) or ("" if reference is None else reference.uid)
        if uid and is_ours(volume, self._driver.facts.name):
            self._removed(uid)

    async def sync(self, name: str) -> None:
        volume = self._volumes.get(name)
        if volume is None:
            self._patience.forget(name)
            return
        if self._undoing.concerns(volume):
            if is_here(volume, self._here):
                await self._undo(volume)
            return
        match self._step(volume):
            case Step.NOTHING:
                self._patience.forget(name)
            case Step.ADD_FINALIZER:
                finalizers = (*volume.metadata.finalizers, keys.EXTERNAL_PROVISIONER)
                await write_finalizers(self._client, volume, finalizers)
            case Step.REMOVE_FINALIZER:
                await drop_finalizer(self._client, volume)
            case Step.DELETE:
                await self._delete(volume)

    def _rollback(self, held: HeldAttempts) -> Undoing:
        return Undoing(
            self._client,
            self._clock,
            held,
            delete_storage=self._delete_storage,
            remove_object=lambda volume: remove_object(self._client, volume),
            attached=lambda name: bool(self._attached_to(name)),
            invariants=self._invariants,
        )

    async def _undo(self, volume: Volume) -> None:
        uid = self._undoing.claim_uid(volume)
        problem, wait = await self._undoing.undo(volume.name)
        if problem:
            self._recorder.record(volume, VOLUME, WARNING, "RollbackFailed", problem)
            wait = self._patience.next_delay(volume.name)
        if wait:
            self.queue.add_after(volume.name, wait)
            return
        self._patience.forget(volume.name)
        self._room.removed(volume)
        self._removed(uid)

    def _step(self, volume: Volume) -> Step:
        return next_step(volume, self._driver.facts.name, self._here)

    @property
    def _here(self) -> NodeInfo | None:
        """The one node this provisioner works for."""
        return self._driver.facts.node if self._driver.settings.node_deployment is not None else None

    async def _delete(self, known: Volume) -> None:
        """Nothing is deleted on old news: the server itself must say that the volume is to go."""
        try:
            volume = await self._client.get(VOLUME, known.name)
        except NotFound:
            return
        if volume.uid != known.uid or self._step(volume) is not Step.DELETE:
            return
        begun = self._clock.monotonic()
        problem = await self._delete_storage(volume)
        if problem:
            self._metrics.delete_failed.labels(volume.storage_class).inc()
            self._recorder.record(volume, VOLUME, WARNING, "VolumeFailedDelete", problem)
            self.queue.add_after(volume.name, self._patience.next_delay(volume.name))
            return
        self._room.removed(volume)
        await remove_object(self._client, volume)
        self._metrics.deleted.labels(volume.storage_class).inc()
        self._metrics.delete_duration.labels(volume.storage_class).observe(self._clock.monotonic() - begun)
        self._patience.forget(volume.name)

    async def _delete_storage(self, volume: Volume) -> str:
        """Why it could not be deleted; "" once it is."""
        if volume.spec.csi is None:
            return f"volume {volume.name} is not a CSI volume"
        if node := self._attached_to(volume.name):
            return f"persistentvolume {volume.name} is still attached to node {node}"
        secrets = await secret_data.read(self._client, await self._deletion_secret(volume))
        if isinstance(secrets, Refusal):
            log.warning("deleting without the secret", volume=volume.name, why=secrets.text)
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
        """As remembered on the volume; for volumes that remember nothing, as the class says."""
        notes = volume.metadata.annotations
        name, namespace = notes.get(planning.DELETION_SECRET_NAME), notes.get(planning.DELETION_SECRET_NAMESPACE)
        if name is not None and namespace is not None:
            return SecretReference(name, namespace) if name and namespace else None
        storage_class, reference = self._classes.get(volume.storage_class), volume.spec.claim_ref
        if storage_class is None or reference is None:
            return None
        try:
            claim = await self._client.get(CLAIM, reference.name, namespace=reference.namespace)
        except (ApiError, Unreachable):
            # The names that templates use most are in the reference; a template over annotations stays unresolved.
            claim = planning.stand_in(reference)
        found = secret_references.resolve(secret_references.PROVISIONER, storage_class.parameters, claim, volume.name)
        return None if isinstance(found, Refusal) else found
