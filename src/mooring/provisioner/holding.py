"""Whose volumes are held, and what becomes of them: what the rest of the provisioner sees of the hold protocol."""

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import Conflict
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.held_attempts import HeldAttempts
from mooring.provisioner.held_provisioning import HeldProvisioning
from mooring.provisioner.hold_policy import HoldPolicy
from mooring.provisioner.sweeping import Sweeping
from mooring.volumes.holds.intent import Phase

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Holding:
    """Once a claim's volume was held, its next one is too: attempts are told apart by their numbers."""

    def __init__(
        self,
        policy: HoldPolicy,
        attempts: HeldAttempts,
        provisioning: HeldProvisioning,
        sweeping: Sweeping,
        *,
        node: str = "",
    ) -> None:
        """`node` leaves to others what is made for other nodes."""
        self._node = node
        self._policy = policy
        self._sweeping = sweeping
        self._attempts = attempts
        self._provisioning = provisioning
        #: Uids of claims with a record.
        self._known: set[str] = set()

    async def load(self) -> list[str]:
        """Take up what an earlier process left behind; the uids of claims with something to do."""
        found = await self._attempts.load()
        self._known = {attempt.uid for attempt in found}
        return [attempt.uid for attempt in found]

    def knows(self, uid: str) -> bool:
        """Whether there is a record of the claim's attempts."""
        return uid in self._known

    async def concerns(self, uid: str, claim: Claim | None) -> bool:
        if uid in self._known:
            return True
        return claim is not None and bool(claim.selected_node) and await self._policy.wants(claim)

    async def swept(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> bool:
        """Decide about a volume of the claim's that nothing names, if there is one; False to look again later."""
        if not self._sweeping.suspects(uid):
            return True
        if claim is not None and not await self._policy.coordinated():
            # SEEN: it would be held, and nobody is there to decide about it. The next list brings it up again.
            return True
        try:
            adopted = await self._sweeping.sweep(uid, claim, storage_class)
        except Conflict:
            return False
        if isinstance(adopted, Refusal):
            log.warning("orphan is still there", claim=uid, why=adopted.text)
            return False
        if adopted:
            self._known.add(uid)
        return True

    async def serve(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> Volume | Refusal | None:
        """As `HeldProvisioning.serve`; somebody else at work is a reason to come back later."""
        self._known.add(uid)
        if await self._is_elsewhere(uid, claim):
            return None
        try:
            ended = await self._provisioning.serve(uid, claim, storage_class)
        except Conflict as overtaken:
            return Refusal(State.NO_CHANGE, f"somebody else is at it: {overtaken.message}")
        if ended is None and (claim is None or claim.spec.volume_name):
            await self._collect(uid)
        return ended

    async def _is_elsewhere(self, uid: str, claim: Claim | None) -> bool:
        """An attempt is carried out where it was begun, and begun where the claim's volume is wanted."""
        if not self._node:
            return False
        attempt = await self._attempts.read(uid)
        if attempt is not None and not attempt.intent.closed:
            return attempt.intent.node != self._node
        return claim is not None and not claim.spec.volume_name and claim.selected_node != self._node

    async def _collect(self, uid: str) -> None:
        """The claim is bound or gone. Its record goes, unless an attempt is open that must still come to an end."""
        attempt = await self._attempts.read(uid)
        if attempt is not None and attempt.intent.phase is Phase.CREATING:
            return
        if attempt is not None and attempt.intent.closed:
            self._sweeping.ended(attempt)
        await self._attempts.collect(uid)
        self._known.discard(uid)
