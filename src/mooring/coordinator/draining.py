"""Ends all holding: sees to it that nothing is held, nothing is on its way out and nothing is on record any more.

Runs beside a coordinator that gives up whatever is not complete (`Patience.ending`) and does not show itself, so that
provisioners and schedulers begin no new holds. What it waits for is done by others: provisioners drive attempts and
rollbacks to their ends. It collects the records of attempts that are over.
"""

from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import ApiError, Conflict, NotFound
from mooring.api.kinds import CLAIM, VOLUME
from mooring.client.contract import Client, Unreachable
from mooring.client.indexes import BY_UID
from mooring.client.informer import Informers
from mooring.clock import Clock
from mooring.control.lease_watch import LeaseWatch
from mooring.volumes.holds import objects
from mooring.volumes.holds.intent import MalformedIntent, Phase
from mooring.volumes.plan import HoldState, hold_state

log: FilteringBoundLogger = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
#: How long a lease may outlive its holder: upstream's lease duration, and a second look.
LEASE_SECONDS: Final = 20.0
#: How long nothing may be left before it counts: provisioners and schedulers may take for so long that a coordinator
#: is there, and have writes under way.
QUIET_SECONDS: Final = 5.0


class Left(msgspec.Struct, frozen=True):
    """What is not settled yet."""

    held: int = 0
    rolling_back: int = 0
    #: Attempts that are not over.
    open: int = 0

    @property
    def nothing(self) -> bool:
        return not (self.held or self.rolling_back or self.open)

    def __str__(self) -> str:
        return f"{self.held} held, {self.rolling_back} being rolled back, {self.open} attempts open"


class AnotherCoordinator(Exception):
    """One sentence that says what to do."""


class Draining:
    def __init__(self, client: Client, clock: Clock, informers: Informers, *, hold_namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = hold_namespace
        self._lease = LeaseWatch(client, clock, name=keys.COORDINATOR_LEASE, namespace=hold_namespace)
        self._claims = informers.of(CLAIM)
        self._claims.add_index(*BY_UID)
        self._volumes = informers.of(VOLUME)

    async def alone(self) -> None:
        """Wait until no coordinator shows itself. Raises AnotherCoordinator."""
        deadline = self._clock.monotonic() + LEASE_SECONDS
        while await self._lease.live():
            if self._clock.monotonic() >= deadline:
                raise AnotherCoordinator(
                    f"Another coordinator holds the Lease {self._namespace}/{keys.COORDINATOR_LEASE}: stop it first."
                )
            await self._clock.sleep(LOOK_SECONDS)

    async def drain(self, tell: Callable[[Left], None]) -> None:
        """Until nothing has been left for a while. `tell` hears what is left whenever that changes."""
        told: Left | None = None
        quiet_since: float | None = None
        while True:
            left = await self._look()
            if left is not None:
                now = self._clock.monotonic()
                quiet_since = (quiet_since if quiet_since is not None else now) if left.nothing else None
                if quiet_since is not None and now - quiet_since >= QUIET_SECONDS:
                    return
                if left != told:
                    tell(left)
                    told = left
            await self._clock.sleep(LOOK_SECONDS)

    async def _look(self) -> Left | None:
        """What is left; None where that cannot be told now."""
        try:
            open_attempts = await self._collect()
        except (ApiError, Unreachable) as error:
            log.warning("records not read", why=str(error))
            return None
        states = [hold_state(volume, hold_namespace=self._namespace) for volume in self._volumes.items()]
        return Left(states.count(HoldState.HELD), states.count(HoldState.ROLLING_BACK), open_attempts)

    async def _collect(self) -> int:
        """Remove the records that are over; how many are not."""
        left = 0
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

    def _over(self, record: objects.IntentRecord) -> bool | None:
        """Nothing comes of it any more: it ended without a volume that is still there, or the claim has its volume.
        None for an attempt that is not held, which is its provisioner's business alone."""
        try:
            intent = objects.intent_of(record)
        except MalformedIntent as problem:
            log.warning("record of an attempt cannot be read", record=record.key, why=str(problem))
            return False
        if not intent.held:
            return None
        uid = objects.claim_uid_of(record)
        if intent.phase is Phase.CREATING or self._undecided(uid):
            return False
        claim = next(iter(self._claims.by_index(BY_UID.name, uid)), None)
        return intent.closed or claim is None or bool(claim.spec.volume_name)

    def _undecided(self, uid: str) -> bool:
        volumes = self._volumes.items()
        return any(objects.held_for(volume, hold_namespace=self._namespace) == uid for volume in volumes)
