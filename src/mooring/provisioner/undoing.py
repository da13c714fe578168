"""Volumes that were given up before anybody was given them: storage, record, object, in that order.

Carries out `volumes.holds.rollback` on live reads. That storage was deleted is remembered for as long as the process
lives; after a restart it is deleted again, which drivers answer with success.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.volume import Volume
from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.control.invariants import UNCOUNTED, Invariant, InvariantChecks
from mooring.provisioner import selected_node
from mooring.provisioner.held_attempts import HeldAttempts
from mooring.volumes.holds import objects
from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.provisioning import Close, Unselect
from mooring.volumes.holds.rollback import DeleteStorage, GiveUp, Refuse, Remove, next_step
from mooring.volumes.holds.verdicts import pause_before_retry
from mooring.volumes.plan import HoldState, hold_state

#: Seconds; less is what rounding leaves of a pause that is over.
SHORTEST_PAUSE: Final = 0.01
#: Phases of a volume that no claim has been bound to.
NEVER_BOUND: Final = frozenset({"", "Pending", "Available"})
REFUSED: Final = "it is bound, attached or was never held, although it is marked for rollback; nothing is deleted"


class Undoing:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        attempts: HeldAttempts,
        *,
        delete_storage: Callable[[Volume], Awaitable[str]],
        remove_object: Callable[[Volume], Awaitable[None]],
        attached: Callable[[str], bool],
        invariants: InvariantChecks = UNCOUNTED,
    ) -> None:
        """`delete_storage` tells why it could not; "" once it has."""
        self._client = client
        self._clock = clock
        self._attempts = attempts
        self._delete_storage = delete_storage
        self._remove_object = remove_object
        self._attached = attached
        self._invariants = invariants
        #: The handle behind a volume's name whose storage was deleted, and when; until the object is gone.
        self._deleted: dict[str, tuple[str, float]] = {}

    def concerns(self, volume: Volume) -> bool:
        state = hold_state(volume, hold_namespace=self._attempts.namespace)
        return state is HoldState.ROLLING_BACK or (state is HoldState.HELD and volume.deleting)

    def claim_uid(self, volume: Volume) -> str:
        """Whose volume it was to be."""
        return objects.held_for(volume, hold_namespace=self._attempts.namespace)

    async def undo(self, name: str) -> tuple[str, float]:
        """What went wrong, or how long to wait before it goes on; neither once it is done."""
        while True:
            try:
                volume = await self._client.get(VOLUME, name)
            except NotFound:
                self.forget(name)
                return "", 0.0
            situation, claim = await self._look(volume)
            facts = situation.volume
            assert facts is not None
            match next_step(situation, storage_deleted=self._has_deleted(name, facts.handle)):
                case GiveUp():
                    why, namespace = "somebody deleted its object", self._attempts.namespace
                    body = objects.given_up(volume, self.claim_uid(volume), why, hold_namespace=namespace)
                    await self._client.patch(VOLUME, name, MergePatch(body))
                case DeleteStorage(handle):
                    never_bound = volume.status.phase in NEVER_BOUND
                    detail = f"its storage is about to be deleted, and its phase is {volume.status.phase}"
                    self._invariants.require(never_bound, Invariant.ROLLBACK_NEVER_BOUND, volume, detail)
                    problem = await self._delete_storage(volume)
                    if problem:
                        return problem, 0.0
                    self._deleted[name] = handle, self._clock.monotonic()
                case Unselect(node):
                    left = self._deleted[name][1] + pause_before_retry(facts.attempt) - self._clock.monotonic()
                    if left > SHORTEST_PAUSE:
                        return "", left
                    assert claim is not None, "only a claim has a selected node"
                    await selected_node.remove(self._client, claim, node)
                case Close(intent):
                    attempt = await self._attempts.read(self.claim_uid(volume))
                    if attempt is not None and attempt.intent == situation.intent:
                        await self._attempts.close(attempt, intent)
                case Remove():
                    await self._remove_object(volume)
                    self.forget(name)
                    return "", 0.0
                case Refuse():
                    return REFUSED, 0.0
                case _:
                    return "", 0.0

    def forget(self, name: str) -> None:
        """The object of that name is gone."""
        self._deleted.pop(name, None)

    def _has_deleted(self, name: str, handle: str) -> bool:
        return name in self._deleted and self._deleted[name][0] == handle

    @property
    def remembered(self) -> int:
        """How many volumes are remembered whose storage is gone and whose objects are not."""
        return len(self._deleted)

    async def _look(self, volume: Volume) -> tuple[Situation, Claim | None]:
        namespace = self._attempts.namespace
        uid = self.claim_uid(volume)
        attempt = await self._attempts.read(uid)
        claim = await self._claim(volume, uid)
        facts = objects.volume_facts(volume, hold_namespace=namespace, attached=self._attached(volume.name))
        known = objects.claim_facts(claim) if claim is not None else None
        return Situation(known, facts, attempt.intent if attempt is not None else None), claim

    async def _claim(self, volume: Volume, uid: str) -> Claim | None:
        namespace, _, name = volume.metadata.annotations.get(objects.CLAIM, "").partition("/")
        if not name:
            return None
        try:
            claim = await self._client.get(CLAIM, name, namespace=namespace)
        except NotFound:
            return None
        return claim if claim.uid == uid else None
