"""Rollback of held volumes, and orphaned volumes: those that the driver lists without a PersistentVolume.

Both carry out `volumes.holds.transitions` on live reads.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context
from mooring.control.invariants import Invariant
from mooring.control.workqueue import repeat
from mooring.csi.contract import ControllerCapability, DriverError, DriverVolume
from mooring.provisioner.provision import create, request, selected_node
from mooring.provisioner.provision.create import DriverContext
from mooring.provisioner.provision.request import VOLUME_NAME
from mooring.provisioner.provision.selected_node import live_claim
from mooring.provisioner.rollback.attempts import HeldAttempt, HeldAttempts, held_plan
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState, rpc_text
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import group_objects, objects, transitions
from mooring.volumes.holds.policy import retry_backoff
from mooring.volumes.holds.transitions import HoldSnapshot, Intent

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Longer than any call to the driver or the API server may take, and far longer than a healthy attempt does.
SUSPECT_AFTER_SECONDS: Final = 600.0
#: Between two ListVolumes calls: an orphan costs capacity, not correctness.
LIST_INTERVAL_SECONDS: Final = 300.0
#: How long, and for how many deleted claims, the last attempt is cached if it ended without a volume: several times the
#: time until a volume that appears late is suspected.
DELETED_CLAIM_TTL_SECONDS: Final = 4 * (SUSPECT_AFTER_SECONDS + 2 * LIST_INTERVAL_SECONDS)
MAX_DELETED_CLAIMS: Final = 1000
#: Shorter waits are rounding errors of a wait that is over.
MIN_WAIT_SECONDS: Final = 0.01
#: Phases of a volume that was never bound to a claim.
NEVER_BOUND: Final = frozenset({"", "Pending", "Available"})
REFUSED: Final = "rollback refused, nothing deleted: the volume is bound, attached or not held"


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


class OrphanCollector:
    """Adopts or deletes orphaned volumes of claims. Lists volumes periodically; an orphan is resolved under the
    claim's key of the work queue, so that no attempt for the claim runs at the same time."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._volumes = context.component.informers.of(VOLUME)
        self._driver = context.driver
        self._calls = context.calls
        self._attempts = HeldAttempts.of(context)
        self._orphans = OrphanTracker(prefix=context.driver.settings.volume_name_prefix)
        #: Last attempt and its time for deleted claims, whose records are deleted; the oldest first. Volumes that
        #: appear after these have expired are left for operators to delete.
        self._deleted_claims: OrderedDict[str, tuple[HeldAttempt, float]] = OrderedDict()
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
        if self._disabled_reason():
            return
        self._deleted_claims[attempt.uid] = attempt, self._clock.monotonic()
        self._deleted_claims.move_to_end(attempt.uid)
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
        attempt = await self._attempts.read(uid) or self._deleted_claims.get(uid, (None,))[0]
        known = claim or (request.claim_of_plan(attempt.plan) if attempt is not None else None)
        claim = await live_claim(self._client, uid, known)
        situation = await self._read_situation(uid, claim, attempt)
        node = self._node(volume, claim)
        match transitions.next_orphan_step(situation, name=self._driver.volume_name(uid), node=node):
            case transitions.OpenAttempt(intent) if node and storage_class is not None and claim is not None:
                return await self._adopt(claim, storage_class, intent, attempt)
            case transitions.DeleteOrphan():
                return await self._delete(uid, volume, attempt)
            case transitions.IgnoreOrphan() | transitions.OpenAttempt():
                if volume.volume_id not in self._logged:
                    self._logged.add(volume.volume_id)
                    reason = "it may have been used and hold data"
                    log.warning("orphaned volume kept", volume=volume.volume_id, claim=uid, reason=reason)
        self._orphans.forget(uid)
        return False

    async def _read_situation(self, uid: str, claim: Claim | None, attempt: HeldAttempt | None) -> HoldSnapshot:
        facts = None
        volume = await get_or_none(self._client, VOLUME, self._driver.volume_name(uid))
        if volume is not None:
            facts = objects.volume_facts(volume, hold_namespace=self._attempts.namespace, attached=False)
        return HoldSnapshot(objects.claim_facts(claim), facts, attempt.intent if attempt is not None else None)

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

    async def _delete(self, uid: str, volume: DriverVolume, attempt: HeldAttempt | None) -> bool:
        try:
            secrets = await create.read_secret(self._client, attempt.plan.secret if attempt is not None else None)
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


class HoldRollback:
    """Rolls back held volumes: storage, record, object, in that order.

    Deleted storage is remembered until the process ends; after a restart DeleteVolume is called again.
    """

    def __init__(
        self,
        context: Context,
        attempts: HeldAttempts,
        *,
        delete_storage: Callable[[Volume], Awaitable[str]],
        remove_object: Callable[[Volume], Awaitable[None]],
        attached: Callable[[str], bool],
    ) -> None:
        """`delete_storage` returns why it failed; "" on success."""
        self._client = context.client
        self._clock = context.clock
        self._require = context.require
        self._attempts = attempts
        self._delete_storage = delete_storage
        self._remove_object = remove_object
        self._attached = attached
        #: Handle and time of deleted storage by volume name, until the object is deleted.
        self._deleted: dict[str, tuple[str, float]] = {}

    def applies_to(self, volume: Volume) -> bool:
        state = hold_state(volume, hold_namespace=self._attempts.namespace)
        return state is HoldState.ROLLING_BACK or (state is HoldState.HELD and volume.deleting)

    def claim_uid(self, volume: Volume) -> str:
        """Uid of the claim that the volume is held for."""
        return objects.held_for(volume, hold_namespace=self._attempts.namespace)

    async def roll_back(self, name: str) -> tuple[str, float]:
        """Why it failed, or the seconds until it can continue; neither once it is done."""
        while True:
            volume = await get_or_none(self._client, VOLUME, name)
            if volume is None:
                self.forget(name)
                return "", 0.0
            situation, claim = await self._read_situation(volume)
            facts = situation.volume
            assert facts is not None
            match transitions.next_rollback_step(situation, storage_deleted=self._has_deleted(name, facts.handle)):
                case transitions.BeginRollback():
                    reason, namespace = "PersistentVolume was deleted by a user", self._attempts.namespace
                    body = objects.rollback_patch(volume, self.claim_uid(volume), reason, hold_namespace=namespace)
                    await self._client.patch(VOLUME, name, MergePatch(body))
                case transitions.DeleteStorage(handle):
                    never_bound = volume.status.phase in NEVER_BOUND
                    detail = f"storage is about to be deleted in phase {volume.status.phase}"
                    self._require(never_bound, Invariant.ROLLBACK_NEVER_BOUND, volume, VOLUME, detail)
                    error = await self._delete_storage(volume)
                    if error:
                        return error, 0.0
                    self._deleted[name] = handle, self._clock.monotonic()
                case transitions.ClearSelectedNode(node):
                    pause = retry_backoff(facts.attempt, in_group=bool(group_objects.group_uid_of(volume)))
                    left = self._deleted[name][1] + pause - self._clock.monotonic()
                    if left > MIN_WAIT_SECONDS:
                        return "", left
                    assert claim is not None, "only a claim has a selected node"
                    await selected_node.clear_selected_node(self._client, claim, node)
                case transitions.Close(intent):
                    attempt = await self._attempts.read(self.claim_uid(volume))
                    if attempt is not None and attempt.intent == situation.intent:
                        await self._attempts.close(attempt, intent)
                case transitions.RemoveVolume():
                    await self._remove_object(volume)
                    self.forget(name)
                    return "", 0.0
                case transitions.RejectRollback():
                    return REFUSED, 0.0
                case _:
                    return "", 0.0

    def forget(self, name: str) -> None:
        self._deleted.pop(name, None)

    def _has_deleted(self, name: str, handle: str) -> bool:
        return name in self._deleted and self._deleted[name][0] == handle

    async def _read_situation(self, volume: Volume) -> tuple[HoldSnapshot, Claim | None]:
        namespace = self._attempts.namespace
        uid = self.claim_uid(volume)
        attempt = await self._attempts.read(uid)
        claim_namespace, _, name = volume.metadata.annotations.get(objects.CLAIM, "").partition("/")
        claim = await get_or_none(self._client, CLAIM, name, namespace=claim_namespace, uid=uid) if name else None
        facts = objects.volume_facts(volume, hold_namespace=namespace, attached=self._attached(volume.name))
        intent = attempt.intent if attempt is not None else None
        return HoldSnapshot(objects.claim_facts(claim), facts, intent), claim
