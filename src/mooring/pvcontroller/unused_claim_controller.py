"""Replaces bound claims that keep a pod pending and that no pod ever used, for StorageClasses with
`mooring.dev/unused-claims`.

It watches all pods, which is the proof (`volumes.unused.proof`); a restart or a missed event ends the proof for claims
that are bound by then. Whether the pod fits afterwards is not checked; the delay doubles with each replacement.
"""

from collections.abc import Sequence
from typing import Final

from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME_ATTACHMENT
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, VolumeAttachment
from mooring.client.cache import ATTACHMENT_BY_VOLUME, POD_BY_CLAIM, Index
from mooring.client.recorder import NORMAL, WARNING
from mooring.control.component import Context
from mooring.pvcontroller.claim_replacement import RecordingController
from mooring.pvcontroller.unused_claim_replacement import (
    ReplacementOutcome,
    ReplacementProgress,
    UnusedClaimReplacement,
)
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.lost_storage_record import RecoveryConfigMap
from mooring.volumes.unused.proof import (
    KEPT_TEXT,
    REPLACED_TEXT,
    RETURNED_TEXT,
    UnusedRefusal,
    UnusedRefusalCode,
    Usage,
    UsageHistory,
    WatchPosition,
    blocking_refusal,
    unschedulable_since,
)
from mooring.volumes.unused.record import ReplacementRecord, is_guarded

#: Between two looks at a claim with the finalizer: a server sends a bookmark about once a minute.
RETRY_SECONDS: Final = 5.0
#: Between two looks whether the pods of a deleted claim can be forgotten: after the next bookmark.
FORGET_SECONDS: Final = 60.0
#: Between two attempts for a claim that is refused: the next reason may be another one.
REFUSED_SECONDS: Final = 300.0

_BY_CLASS: Final[Index[Claim]] = Index("storage class", lambda claim: (claim.storage_class,))
#: Refusals that need no event: nothing is wrong, or nothing was asked for.
_SILENT: Final = frozenset(
    {
        UnusedRefusalCode.CLASS_NOT_OPTED_IN,
        UnusedRefusalCode.NOT_BLOCKING,
        UnusedRefusalCode.DELAY_NOT_OVER,
        UnusedRefusalCode.NOT_BOUND,
        UnusedRefusalCode.CLAIM_CHANGING,
        UnusedRefusalCode.REACHABLE_EVERYWHERE,
    }
)


class UnusedClaimController(RecordingController[ReplacementRecord]):
    """Its keys are those of claims."""

    name = "unused-claim-controller"

    def __init__(self, context: Context, *, namespace: str = HOLD_NAMESPACE) -> None:
        """`namespace` is that of the records."""
        super().__init__(context, "unused_claims", CLAIM, ReplacementRecord, namespace=namespace)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)
        self._claims = context.informers.of(CLAIM)
        self._claims.add_index(*_BY_CLASS)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._attachments = context.informers.of(VOLUME_ATTACHMENT)
        self._attachments.add_index(*ATTACHMENT_BY_VOLUME)
        self._history = UsageHistory()
        self._replacement = UnusedClaimReplacement(context.client, context.clock, self, namespace=namespace)

    async def _subscribe(self) -> None:
        for informer in (self._pods, self._claims, self._classes, self._attachments):
            await informer.synced.wait()
        await self._pods.subscribe(self._on_pod)
        # The cache of claims may be older than the deletions that were not delivered here.
        self._history.forget(self._pods.seen)
        await self._claims.subscribe(self._on_claim)
        await self._classes.subscribe(self._on_class)
        await self._records.subscribe(self._on_record)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        self._history.pod_changed(before, after, self._pods.seen)
        if after is None and before is not None:
            for key in before.claim_keys:
                self._forget_later(key)
        if after is not None and unschedulable_since(after) is not None:
            for key in after.claim_keys:
                self._consider(self._claims.get(key))

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        self._history.claim_changed(before, after, self._claims.seen, now=self._clock.now())
        self._consider(after)
        if after is None and before is not None:
            self._forget_later(before.key)

    def _forget_later(self, key: str) -> None:
        if self._claims.get(key) is None and self._history.remembers_pods(key):
            self._queue.add_after(key, FORGET_SECONDS)

    def _on_class(self, _: StorageClass | None, after: StorageClass | None) -> None:
        for claim in self._claims.by_index(_BY_CLASS.name, after.name) if after is not None else ():
            self._consider(claim)

    def _consider(self, claim: Claim | None) -> None:
        """Queue a claim that is bound and keeps a pod pending, or will after a delay."""
        if claim is not None and is_guarded(claim):
            self._queue.add(claim.key)
        elif claim is not None and claim.fully_bound:
            refusal = self._blocking_refusal(claim)
            if refusal is None or refusal.seconds or refusal.code is UnusedRefusalCode.BAD_POLICY:
                self._queue.add(claim.key)

    def _blocking_refusal(self, claim: Claim) -> UnusedRefusal | None:
        storage_class = self._classes.get(claim.storage_class)
        bound_at = self._history.bound_at(claim)
        return blocking_refusal(claim, storage_class, self.pods(claim), self._clock.now(), bound_at=bound_at)

    def _queued_for(self, record: ReplacementRecord) -> str:
        return record.key

    def _on_record(self, before: RecoveryConfigMap | None, after: RecoveryConfigMap | None) -> None:
        super()._on_record(before, after)
        if not self._unfinished:
            self._replacement.forget_lists()

    def bound_at(self, claim: Claim) -> float:
        return self._history.bound_at(claim)

    def pods(self, claim: Claim) -> Sequence[Pod]:
        return tuple(self._pods.by_index(POD_BY_CLAIM.name, claim.key))

    def attachments(self, claim: Claim) -> Sequence[VolumeAttachment]:
        return tuple(self._attachments.by_index(ATTACHMENT_BY_VOLUME.name, claim.spec.volume_name))

    def usage(self, claim: Claim, until: int) -> Usage:
        position = WatchPosition(self._pods.listed, self._pods.seen)
        return self._history.usage(claim, self.pods(claim), position, until=until)

    async def _sync(self, key: str) -> None:
        claim = self._claims.get(key)
        record = self._unfinished_record(key)
        if record is not None:
            self._report(key, claim, await self._replacement.resume(record))
            return
        if claim is None:
            if not self._history.forget_claim(key, pods_seen=self._pods.seen, claims_seen=self._claims.seen):
                self._queue.add_after(key, FORGET_SECONDS)
            return
        # A first look at the cache; the decision itself is made on live objects.
        refusal = self._blocking_refusal(claim)
        if refusal is None or is_guarded(claim):
            namespace, _, name = key.partition("/")
            outcome = await self._replacement.replace(namespace, name)
            if outcome is not None:
                self._report(key, claim, outcome)
        elif refusal.seconds:
            self._queue.add_after(key, refusal.seconds)
        elif refusal.code not in _SILENT:
            self._explain(claim, refusal)

    def _report(self, key: str, claim: Claim | None, outcome: ReplacementOutcome) -> None:
        if outcome.progress is ReplacementProgress.WAITING:
            self._queue.add_after(key, RETRY_SECONDS)
        elif claim is None:
            return
        elif outcome.progress is ReplacementProgress.REFUSED:
            if outcome.refusal is not None and outcome.refusal.code not in _SILENT:
                self._explain(claim, outcome.refusal)
                self._queue.add_after(key, REFUSED_SECONDS)
        elif outcome.progress is ReplacementProgress.REPLACED:
            text = REPLACED_TEXT.format(volume=outcome.volume)
            self._recorder.record(claim, CLAIM, NORMAL, "UnusedClaimReplaced", text)
        else:
            text = RETURNED_TEXT.format(volume=outcome.volume)
            self._recorder.record(claim, CLAIM, WARNING, "UsedClaimReturned", text)

    def _explain(self, claim: Claim, refusal: UnusedRefusal) -> None:
        text = KEPT_TEXT.format(code=refusal.code.value, reason=refusal.reason)
        self._recorder.record(claim, CLAIM, WARNING, "UnusedClaimKept", text)
