"""`--drain`, which ends all holds, and the check that the hold namespace is protected.

Draining runs beside a coordinator with `HoldTimeouts.draining` and without lease, so that no new holds begin.
Provisioners finish attempts and rollbacks; finished intent records are deleted here. A held volume is reserved for a
claim `hold-…` that does not exist: a user who could create that claim would get the volume, so the namespace must
not be writable.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, cast

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import ApiError, Conflict, NotFound
from mooring.api.kinds import ACCESS_REVIEW, CLAIM, VOLUME, Kind
from mooring.api.views.meta import ApiObject, View
from mooring.api.views.storage import Volume
from mooring.client.cache import BY_UID
from mooring.client.contract import Client, Unreachable
from mooring.client.group_records import GroupRecords
from mooring.client.informer import Informers
from mooring.clock import Clock
from mooring.control.leader_election import LeaseMonitor
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import objects
from mooring.volumes.holds.group_record import GroupPhase
from mooring.volumes.holds.transitions import IntentPhase, MalformedIntent

log: FilteringBoundLogger = structlog.get_logger(__name__)

POLL_INTERVAL_SECONDS: Final = 1.0
#: How long a lease may outlive its holder: upstream's lease duration, and a second look.
MAX_LEASE_SECONDS: Final = 20.0
#: How long nothing may be left before it counts: provisioners and schedulers may take for so long that a coordinator
#: is there, and have writes under way.
QUIET_SECONDS: Final = 5.0
#: Volumes that are held or rolled back, by their state and by the uid of their claim.
UNDECIDED: Final = "undecided"


class RemainingHolds(msgspec.Struct, frozen=True):
    """What is not settled yet."""

    held: int = 0
    rolling_back: int = 0
    #: Attempts, and groups of pods, that are not over.
    open: int = 0

    @property
    def nothing(self) -> bool:
        return not (self.held or self.rolling_back or self.open)

    def __str__(self) -> str:
        return f"{self.held} held, {self.rolling_back} being rolled back, {self.open} attempts open"


class AnotherCoordinator(Exception):
    """One sentence that says what to do."""


class HoldDrain:
    def __init__(self, client: Client, clock: Clock, informers: Informers, *, hold_namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = hold_namespace
        self._groups = GroupRecords(client, namespace=hold_namespace)
        self._lease = LeaseMonitor(client, clock, name=well_known.COORDINATOR_LEASE, namespace=hold_namespace)
        self._claims = informers.of(CLAIM)
        self._claims.add_index(*BY_UID)
        self._volumes = informers.of(VOLUME)
        self._volumes.add_index(UNDECIDED, self._undecided)

    async def wait_until_sole(self) -> None:
        """Wait until no coordinator shows itself. Raises AnotherCoordinator."""
        deadline = self._clock.monotonic() + MAX_LEASE_SECONDS
        while await self._lease.is_held():
            if self._clock.monotonic() >= deadline:
                lease = f"{self._namespace}/{well_known.COORDINATOR_LEASE}"
                raise AnotherCoordinator(f"Another coordinator holds the Lease {lease}: stop it first.")
            await self._clock.sleep(POLL_INTERVAL_SECONDS)

    async def drain(self, report: Callable[[RemainingHolds], None]) -> None:
        """Until nothing has been left for a while. `tell` hears what is left whenever that changes."""
        told: RemainingHolds | None = None
        quiet_since: float | None = None
        while True:
            left = await self._look()
            if left is not None:
                now = self._clock.monotonic()
                quiet_since = (quiet_since if quiet_since is not None else now) if left.nothing else None
                if quiet_since is not None and now - quiet_since >= QUIET_SECONDS:
                    return
                if left != told:
                    report(left)
                    told = left
            await self._clock.sleep(POLL_INTERVAL_SECONDS)

    async def _look(self) -> RemainingHolds | None:
        """What is left; None where that cannot be told now."""
        try:
            open_attempts = await self._collect()
        except (ApiError, Unreachable) as error:
            log.warning("intent records not listed", error=str(error))
            return None
        held, rolling_back = (
            len(self._volumes.by_index(UNDECIDED, state.value)) for state in (HoldState.HELD, HoldState.ROLLING_BACK)
        )
        return RemainingHolds(held, rolling_back, open_attempts)

    async def _collect(self) -> int:
        """Remove the records that are over; how many are not."""
        left = await self._collect_groups()
        for record in (await self._client.list(objects.INTENT_RECORD, namespace=self._namespace)).items:
            if not objects.claim_uid_of(record):
                continue
            over = self._over(record)
            if over is None:
                continue
            if not over:
                left += 1
                continue
            try:
                version = record.metadata.resource_version
                await self._client.delete(
                    objects.INTENT_RECORD, record.name, namespace=self._namespace, resource_version=version
                )
            except NotFound:
                continue
            except Conflict:
                left += 1
        return left

    async def _collect_groups(self) -> int:
        """Remove records of groups that are neither held nor decided about; how many are."""
        left = 0
        for stored in (await self._groups.list_all()).values():
            over = stored.record.phase in (GroupPhase.IDLE, GroupPhase.COMMITTED)
            if not over or not await self._groups.delete(stored):
                left += 1
        return left

    def _over(self, record: objects.IntentRecord) -> bool | None:
        """Nothing comes of it any more: it ended without a volume that is still there, or the claim has its volume.
        None for an attempt that is not held, which is its provisioner's business alone."""
        try:
            intent = objects.intent_of(record)
        except MalformedIntent as problem:
            log.warning("intent record malformed", record=record.key, error=str(problem))
            return False
        if not intent.held:
            return None
        uid = objects.claim_uid_of(record)
        if intent.phase is IntentPhase.CREATING or self._volumes.by_index(UNDECIDED, uid):
            return False
        claim = next(iter(self._claims.by_index(BY_UID.name, uid)), None)
        return intent.closed or claim is None or bool(claim.spec.volume_name)

    def _undecided(self, volume: Volume) -> tuple[str, ...]:
        """Its state and the uid of its claim, if it is held or rolled back."""
        uid = objects.held_for(volume, hold_namespace=self._namespace)
        return (hold_state(volume, hold_namespace=self._namespace).value, uid) if uid else ()


#: The group of all authenticated users.
AUTHENTICATED_GROUP: Final = "system:authenticated"


class AccessReviewStatus(View, frozen=True, gc=False):
    allowed: bool = False


class AccessReview(ApiObject, frozen=True, gc=False):
    status: AccessReviewStatus = AccessReviewStatus()


_REVIEW: Final = cast("Kind[AccessReview]", replace(ACCESS_REVIEW, view=AccessReview))


class UnprotectedHoldNamespace(Exception):
    """One sentence that says what is wrong and what to do."""


async def check_hold_namespace(client: Client, namespace: str) -> None:
    """Raises OpenNamespace, and ApiError where the question itself is not allowed."""
    for resource in ("persistentvolumeclaims", "configmaps"):
        attributes = {"namespace": namespace, "verb": "create", "resource": resource}
        body = {"spec": {"resourceAttributes": attributes, "user": "user", "groups": [AUTHENTICATED_GROUP]}}
        review = await client.create(_REVIEW, body)
        if review.status.allowed:
            raise UnprotectedHoldNamespace(
                f"Every user may create {resource} in namespace {namespace}, so any user could claim held volumes; "
                "choose another with --hold-namespace, or remove that permission."
            )
