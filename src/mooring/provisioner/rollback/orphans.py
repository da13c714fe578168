"""Orphaned volumes: those that the driver lists without a PersistentVolume.

`volumes.holds.transitions` decides on live reads whether one is adopted, deleted or kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import VOLUME
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import Claim, SecretReference, StorageClass, Volume
from mooring.client.live_reads import get_or_none
from mooring.control.workqueue import repeat
from mooring.csi.contract import ControllerCapability, DriverError, DriverVolume
from mooring.provisioner.provision import create, request
from mooring.provisioner.provision.create import DriverContext
from mooring.provisioner.provision.request import VOLUME_NAME
from mooring.provisioner.provision.selected_node import live_claim
from mooring.provisioner.rollback.attempts import HeldAttempt, HeldAttempts, held_plan
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState, rpc_text
from mooring.volumes.holds import objects, transitions
from mooring.volumes.holds.transitions import HoldSnapshot, Intent, IntentPhase

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Longer than any call to the driver or the API server may take, and far longer than a healthy attempt does.
SUSPECT_AFTER_SECONDS: Final = 600.0
#: Between two ListVolumes calls: an orphan costs capacity, not correctness.
LIST_INTERVAL_SECONDS: Final = 300.0
#: How long, and for how many deleted claims, the last attempt is cached if it has left no volume: several times the
#: time until a volume that appears late is suspected.
DELETED_CLAIM_TTL_SECONDS: Final = 4 * (SUSPECT_AFTER_SECONDS + 2 * LIST_INTERVAL_SECONDS)
MAX_DELETED_CLAIMS: Final = 10_000


class OrphanTracker:
    """How long the driver has listed volumes without a PersistentVolume, since the start of this process.

    ListVolumes returns no names. The name, and with it the claim's uid, is known if the driver uses it as the id or
    returns it in the volume context under `csi.storage.k8s.io/pv/name`; other volumes are ignored.
    """

    def __init__(self, *, prefix: str) -> None:
        self._prefix = f"{prefix}-"
        #: By handle.
        self._since: dict[str, float] = {}
        self._suspects: dict[str, DriverVolume] = {}

    def observe(self, listed: Iterable[DriverVolume], named: Collection[str], now: float) -> list[str]:
        """The uids of claims whose volumes have lacked an object for SUSPECT_AFTER_SECONDS. `named` are the handles of
        all PersistentVolumes."""
        unnamed = {each.volume_id: each for each in listed if each.volume_id not in named}
        self._since = {handle: self._since.get(handle, now) for handle in unnamed}
        old = (unnamed[handle] for handle, since in self._since.items() if now - since >= SUSPECT_AFTER_SECONDS)
        self._suspects = {uid: volume for volume in old if (uid := self._claim_uid(volume))}
        return list(self._suspects)

    def suspect(self, uid: str) -> DriverVolume | None:
        return self._suspects.get(uid)

    def forget(self, uid: str) -> None:
        volume = self._suspects.pop(uid, None)
        if volume is not None:
            self._since.pop(volume.volume_id, None)

    def _claim_uid(self, volume: DriverVolume) -> str:
        for name in (volume.volume_id, volume.context.get(VOLUME_NAME, "")):
            if name.startswith(self._prefix):
                return name.removeprefix(self._prefix)
        return ""


class LastAttempt(NamedTuple):
    """Of a claim that may be deleted, and its record with it."""

    claim: ApiObject
    intent: Intent
    deletion_secret: SecretReference | None

    @classmethod
    def of(cls, attempt: HeldAttempt) -> "LastAttempt":
        return cls(request.claim_of_plan(attempt.plan), attempt.intent, attempt.plan.secret)


class OrphanCollector:
    """Adopts or deletes orphaned volumes of claims. Lists volumes periodically; an orphan is resolved under the
    claim's key of the work queue, so that no attempt for the claim runs at the same time."""

    def __init__(self, context: DriverContext, *, enabled: bool) -> None:
        self._context = context
        self._enabled = enabled
        self._client = context.client
        self._clock = context.clock
        self._volumes = context.component.informers.of(VOLUME)
        self._driver = context.driver
        self._calls = context.calls
        self._attempts = HeldAttempts.of(context)
        self._orphans = OrphanTracker(prefix=context.driver.settings.volume_name_prefix)
        #: Last attempt, which has left no volume, and its time for deleted claims, whose records are deleted; the
        #: oldest first. Volumes that appear after these have expired are left for operators to delete.
        self._deleted_claims: OrderedDict[str, tuple[LastAttempt, float]] = OrderedDict()
        self._logged: set[str] = set()

    async def run(self, enqueue: Callable[[str], None]) -> None:
        """`enqueue` puts a claim's uid into the work queue."""
        if reason := self._disabled_reason():
            log.info("orphan collection disabled", reason=reason)
            return

        async def step() -> None:
            self._expire_deleted_claims()
            try:
                listed = await self._calls.list_volumes()
            except DriverError as error:
                log.warning("volumes not listed", error=str(error))
                return
            self._logged &= {volume.volume_id for volume in listed}
            for uid in self._orphans.observe(listed, self._handles_with_object(), self._clock.monotonic()):
                enqueue(uid)

        report = self._context.component.internal_error
        await repeat(step, lambda: self._clock.sleep(LIST_INTERVAL_SECONDS), name="sweep", report=report)

    def _disabled_reason(self) -> str:
        if not self._enabled:
            return "volumes are provisioned without rollback"
        if ControllerCapability.LIST_VOLUMES not in self._driver.facts.controller_capabilities:
            return "the driver lacks LIST_VOLUMES"
        if self._driver.settings.volume_name_uuid_length >= 0:
            return "with --volume-name-uuid-length, volume names do not identify claims"
        return ""

    def _handles_with_object(self) -> set[str]:
        return {each.spec.csi.volume_handle for each in self._volumes.items() if each.spec.csi is not None}

    def suspects(self, uid: str) -> bool:
        return self._orphans.suspect(uid) is not None

    def claim_deleted(self, attempt: HeldAttempt) -> None:
        """The claim is deleted and its last attempt ended without a volume: one that appears later is an orphan."""
        self._remember(LastAttempt.of(attempt))

    def volume_deleted(self, volume: Volume, claim: ApiObject, deletion_secret: SecretReference | None) -> None:
        """The claim is deleted, and this process has deleted its volume, storage and object: one that appears later is
        an orphan. A request of a leader that was frozen may create one."""
        if volume.name != self._driver.volume_name(claim.uid):
            return
        facts = objects.volume_facts(volume, hold_namespace=self._attempts.namespace, attached=False)
        intent = Intent(facts.attempt, facts.node, IntentPhase.ROLLED_BACK)
        self._remember(LastAttempt(claim, intent, deletion_secret))

    def _remember(self, last: LastAttempt) -> None:
        if self._disabled_reason():
            return
        self._deleted_claims[last.claim.uid] = last, self._clock.monotonic()
        self._deleted_claims.move_to_end(last.claim.uid)
        self._expire_deleted_claims()

    def _expire_deleted_claims(self) -> None:
        oldest = self._clock.monotonic() - DELETED_CLAIM_TTL_SECONDS
        while self._deleted_claims and (
            len(self._deleted_claims) > MAX_DELETED_CLAIMS or next(iter(self._deleted_claims.values()))[1] < oldest
        ):
            self._deleted_claims.popitem(last=False)

    async def resolve(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> bool:
        """Resolve the claim's orphan; True if an attempt was opened to adopt it.

        Raises Conflict and ProvisioningFailure.
        """
        volume = self._orphans.suspect(uid)
        if volume is None or volume.volume_id in self._handles_with_object():
            return False
        attempt = await self._attempts.read(uid)
        last = LastAttempt.of(attempt) if attempt is not None else self._deleted_claims.get(uid, (None,))[0]
        claim = await live_claim(self._client, uid, claim or (last.claim if last is not None else None))
        situation = await self._read_situation(uid, claim, last)
        node = self._node(volume, claim)
        match transitions.next_orphan_step(situation, name=self._driver.volume_name(uid), node=node):
            case transitions.OpenAttempt(intent) if node and storage_class is not None and claim is not None:
                return await self._adopt(claim, storage_class, intent, attempt)
            case transitions.DeleteOrphan():
                return await self._delete(uid, volume, last)
            case transitions.IgnoreOrphan() | transitions.OpenAttempt():
                if volume.volume_id not in self._logged:
                    self._logged.add(volume.volume_id)
                    reason = "it may have been used and hold data"
                    log.warning("orphaned volume kept", volume=volume.volume_id, claim=uid, reason=reason)
        self._orphans.forget(uid)
        return False

    async def _read_situation(self, uid: str, claim: Claim | None, last: LastAttempt | None) -> HoldSnapshot:
        facts = None
        volume = await get_or_none(self._client, VOLUME, self._driver.volume_name(uid))
        if volume is not None:
            facts = objects.volume_facts(volume, hold_namespace=self._attempts.namespace, attached=False)
        return HoldSnapshot(objects.claim_facts(claim), facts, last.intent if last is not None else None)

    def _node(self, volume: DriverVolume, claim: Claim | None) -> str:
        """A node that reaches the volume, preferably the selected one; "" if none does."""
        reaching = [
            node.name
            for node in self._context.topology.nodes.items()
            if not volume.accessible_from
            or any(place.segments.items() <= node.metadata.labels.items() for place in volume.accessible_from)
        ]
        selected = claim.selected_node if claim is not None else None
        return selected if selected in reaching and selected is not None else min(reaching, default="")

    async def _adopt(self, claim: Claim, storage_class: StorageClass, intent: Intent, over: HeldAttempt | None) -> bool:
        """Open an attempt that requests this volume: it is held, then committed or rolled back like any other."""
        # The cached claim may be older than the attempt.
        result = self._context.plan(claim.assumed_on(intent.node), storage_class)
        plan = held_plan(result, claim, intent, now=self._clock.now(), hold_namespace=self._attempts.namespace)
        await self._attempts.open(claim.uid, intent, plan, over=over)
        log.info("orphan adopted", claim=claim.key, node=intent.node, attempt=intent.attempt)
        self._orphans.forget(claim.uid)
        return True

    async def _delete(self, uid: str, volume: DriverVolume, last: LastAttempt | None) -> bool:
        try:
            secrets = await create.read_secret(self._client, last.deletion_secret if last is not None else None)
        except ProvisioningFailure:
            secrets = {}
        try:
            await self._calls.delete_volume(volume.volume_id, secrets)
        except DriverError as error:
            raise ProvisioningFailure(ProvisioningState.NO_CHANGE, rpc_text(error)) from error
        log.info("orphan deleted", volume=volume.volume_id, claim=uid)
        self._orphans.forget(uid)
        self._deleted_claims.pop(uid, None)
        return False
