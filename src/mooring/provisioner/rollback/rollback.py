"""Rollback of held volumes: carries out `volumes.holds.transitions` on live reads."""

from collections.abc import Awaitable, Callable
from typing import Final

from mooring.api.kinds import CLAIM, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.storage import Claim, Volume
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context
from mooring.control.invariants import Invariant
from mooring.provisioner.provision import selected_node
from mooring.provisioner.rollback.attempts import HeldAttempts
from mooring.volumes.binding import HoldState, hold_state
from mooring.volumes.holds import group_objects, objects, transitions
from mooring.volumes.holds.policy import retry_backoff
from mooring.volumes.holds.transitions import HoldSnapshot

#: Shorter waits are rounding errors of a wait that is over.
MIN_WAIT_SECONDS: Final = 0.01
#: Phases of a volume that was never bound to a claim.
NEVER_BOUND: Final = frozenset({"", "Pending", "Available"})
REFUSED: Final = "rollback refused, nothing deleted: the volume is bound, attached or not held"


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
        remove_object: Callable[[Volume, Claim | None], Awaitable[None]],
        attached: Callable[[str], bool],
    ) -> None:
        """`delete_storage` returns why it failed; "" on success. `remove_object` gets the claim unless that is deleted,
        too."""
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
                    await self._remove_object(volume, claim)
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
