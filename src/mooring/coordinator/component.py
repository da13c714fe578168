"""Looks at held volumes, and commits them or gives them up.

    something changed ──► verdict on what the informers know ──► ask the server itself ──► gate ──► one swap
                               └──► nothing yet: look again when patience ends

Cheap looks decide what to look at closely; what is written rests on live reads alone.
"""

import asyncio
from typing import Final

import msgspec
import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import from_time
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.client.recorder import NORMAL, WARNING
from mooring.control.component import Context
from mooring.control.feature_gates import PROVISIONING_ROLLBACK
from mooring.control.invariants import Invariant
from mooring.control.keyed_locks import KeyedLocks
from mooring.control.worker import work
from mooring.coordinator.metrics import HoldMetrics
from mooring.coordinator.presence import show
from mooring.coordinator.settings import Settings
from mooring.coordinator.standings import Standings
from mooring.coordinator.waiting import Since
from mooring.volumes.holds import gates, objects
from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent, MalformedIntent
from mooring.volumes.holds.verdicts import (
    OF_THE_CLAIM,
    Commit,
    GiveUp,
    Patience,
    Standing,
    Verdict,
    Wait,
    impossible,
    verdict,
)

#: Volumes looked at closely at once.
WORKERS: Final = 4
#: What rounding leaves of a wait that is over would not move any clock.
SHORTEST_WAIT_SECONDS: Final = 0.01
#: Records of attempts are not watched, and how one ends may be the last thing that happens for a while.
LONGEST_WAIT_SECONDS: Final = 5.0
#: Until what stands in the way of a decision is looked at again.
LOOK_AGAIN_SECONDS: Final = 1.0

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Coordinator:
    name = "mooring-coordinator"

    def __init__(
        self, context: Context, settings: Settings | None = None, *, registry: CollectorRegistry | None = None
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._invariants = context.invariants
        self._informers = context.informers
        self._settings = settings or Settings()
        if not context.gates.enabled(PROVISIONING_ROLLBACK):
            # Nobody shall begin to hold because of us, and nothing shall stay held.
            self._settings = msgspec.structs.replace(self._settings, patience=Patience(ending=True), alone=False)
        self._standings = Standings(context.informers, hold_namespace=self._settings.hold_namespace)
        self._metrics = HoldMetrics(registry or CollectorRegistry(), self._standings.held_count)
        self._deciding: KeyedLocks[str] = KeyedLocks()
        self._adrift = Since()
        self._unwanted = Since()
        self._held = Since()
        self._queue = context.work_queue("held volumes")
        self.ready = False

    async def run(self) -> None:
        informers = self._informers
        for kind in (VOLUME, CLAIM, POD, STORAGE_CLASS, NODE, CSI_NODE, VOLUME_ATTACHMENT):
            await informers.of(kind).synced.wait()
        await informers.of(VOLUME).subscribe(self._on_volume)
        await informers.of(CLAIM).subscribe(self._on_claim)
        await informers.of(POD).subscribe(self._on_pod)
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._queue, self._sync, workers=WORKERS, name=self.name))
            if self._settings.alone:
                namespace = self._settings.hold_namespace
                group.create_task(show(self._client, self._clock, namespace=namespace, identity=self.name))

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        """A volume that comes, goes or changes its state may complete or break the group of others."""
        if before is not None and (after is None or self._standings.held(after.name) is None):
            self._forget(before)
        for volume in (before, after):
            if volume is None:
                continue
            uid = objects.held_for(volume, hold_namespace=self._settings.hold_namespace)
            uid = uid or (volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else "")
            claim = self._standings.claim(uid) if uid else None
            if claim is not None:
                self._look_around(claim)
            elif uid:
                self._queue.add(volume.name)

    def _forget(self, volume: Volume) -> None:
        for times in (self._unwanted, self._adrift, self._held):
            times.forget(volume.uid)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        for claim in (before, after):
            if claim is not None:
                self._look_around(claim)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            for claim in self._standings.siblings(pod) if pod is not None else ():
                self._look_at(claim)

    def _look_around(self, claim: Claim) -> None:
        """At the claim's own volume and at those of its siblings."""
        self._look_at(claim)
        for pod in self._standings.users(claim):
            for sibling in self._standings.siblings(pod):
                self._look_at(sibling)

    def _look_at(self, claim: Claim) -> None:
        for volume in self._standings.volumes_of(claim.uid):
            if self._standings.held(volume.name) is not None:
                self._queue.add(volume.name)

    async def _sync(self, name: str) -> None:
        volume = self._standings.held(name)
        if volume is None:
            return
        uid = objects.held_for(volume, hold_namespace=self._settings.hold_namespace)
        decided = await self._verdict(volume, uid)
        if (now := self._standings.held(name)) is None or now.uid != volume.uid:
            # What was noted while the server was asked would outlive the volume.
            self._forget(volume)
        if isinstance(decided, Wait):
            self._queue.add_after(name, min(max(decided.seconds, SHORTEST_WAIT_SECONDS), LONGEST_WAIT_SECONDS))
        else:
            await self._act(volume, uid, decided)

    async def _verdict(self, volume: Volume, uid: str) -> Verdict:
        claim = self._standings.claim(uid)
        now = self._clock.monotonic()
        if claim is None:
            alone = Standing("", Situation(None, self._standings.facts(volume), None))
            return self._judged(volume, alone, [], unwanted=0.0)
        pods = self._standings.users(claim)
        groups = [await self._group(pod, volume, now) for pod in pods]
        held = self._standings.standing(claim, await self._intent(uid), adrift_seconds=0.0, volume=volume)
        unwanted = self._unwanted.seconds(volume.uid, begins=not pods, ends=bool(pods), now=now)
        return self._judged(volume, held, groups, unwanted=unwanted)

    def _judged(self, volume: Volume, held: Standing, groups: list[list[Standing]], *, unwanted: float) -> Verdict:
        # As long as we have seen it: its date is of somebody else's clock, which must not end a hold, nor prolong it.
        seconds = self._held.seconds(volume.uid, begins=True, ends=False, now=self._clock.monotonic())
        patience = self._settings.patience
        return verdict(held, groups, held_seconds=seconds, unwanted_seconds=unwanted, patience=patience)

    def _held_seconds(self, volume: Volume) -> float:
        """By its date, for the metrics."""
        since = volume.metadata.annotations.get(objects.SINCE) or volume.metadata.creation_timestamp
        return max(self._clock.now() - from_time(since), 0.0) if since else 0.0

    async def _group(self, pod: Pod, held: Volume, now: float) -> list[Standing]:
        known = [await self._standing(each, held, now) for each in self._standings.siblings(pod)]
        return known + [self._unseen(key, held, now) for key in self._standings.unseen(pod)]

    def _unseen(self, key: str, held: Volume, now: float) -> Standing:
        """A claim that is gone, or that is not known here yet: what the pod needs is not complete without it."""
        seconds = self._adrift.seconds(held.uid, key, begins=True, ends=False, now=now)
        return Standing(key.partition("/")[2], Situation(None, None, None), adrift_seconds=seconds)

    async def _standing(self, claim: Claim, held: Volume, now: float) -> Standing:
        intent = await self._intent(claim.uid)
        standing = self._standings.standing(claim, intent, adrift_seconds=0.0)
        node = held.metadata.annotations.get(objects.NODE, "")
        is_adrift = not standing.bound and not standing.in_the_making and (claim.selected_node or "") != node
        # A scheduler that knows no other node asks for the same one again and again: that does not start the time anew.
        has_volume = standing.situation.volume is not None
        seconds = self._adrift.seconds(held.uid, claim.uid, begins=is_adrift, ends=has_volume, now=now)
        return self._standings.standing(claim, intent, adrift_seconds=seconds)

    async def _intent(self, uid: str) -> Intent | None:
        name, namespace = objects.intent_name(uid), self._settings.hold_namespace
        try:
            return objects.intent_of(await self._client.get(objects.INTENT_RECORD, name, namespace=namespace))
        except NotFound:
            return None
        except MalformedIntent as problem:
            log.warning("record of an attempt cannot be read", record=f"{namespace}/{name}", why=str(problem))
            return None

    async def _act(self, known: Volume, uid: str, decided: Commit | GiveUp) -> None:
        """Everything is read again from the server: what is decided now stays. One at a time for claims that a pod has
        in common, so that none of a group is given up while another is given; other groups do not wait."""
        async with self._deciding.holding(self._group_of(uid)):
            await self._decide(known, uid, decided)

    def _group_of(self, uid: str) -> set[str]:
        """Uids of the claims that are decided about together with a claim."""
        claim = self._standings.claim(uid)
        pods = self._standings.users(claim) if claim is not None else []
        return {uid, *(each.uid for pod in pods for each in self._standings.siblings(pod))}

    async def _decide(self, known: Volume, uid: str, decided: Commit | GiveUp) -> None:
        try:
            volume = await self._client.get(VOLUME, known.name)
        except NotFound:
            return
        if objects.held_for(volume, hold_namespace=self._settings.hold_namespace) != uid:
            return
        claim = await self._live_claim(volume, uid)
        intent = await self._intent(uid)
        facts = self._standings.facts(volume)
        situation = Situation(objects.claim_facts(claim) if claim is not None else None, facts, intent)
        if isinstance(decided, Commit):
            may = claim is not None and gates.may_commit(situation) and await self._is_complete(claim, volume)
            if may and claim is not None:
                await self._commit(volume, claim)
                return
        elif gates.may_roll_back(situation) and self._is_so(decided, claim, volume, intent):
            await self._give_up(volume, uid, claim, decided)
            return
        # SEEN: old news, an attempt that is still open, an attachment that is still there. Not all ends are heard of.
        self._queue.add_after(volume.name, LOOK_AGAIN_SECONDS)

    def _is_so(self, decided: GiveUp, claim: Claim | None, volume: Volume, intent: Intent | None) -> bool:
        """Whether a reason that lies in the claim holds by the server's own word."""
        if decided.reason not in OF_THE_CLAIM or claim is None:
            return True
        return impossible(self._standings.standing(claim, intent, adrift_seconds=0.0, volume=volume)) is not None

    async def _is_complete(self, claim: Claim, volume: Volume) -> bool:
        """Whether a pod that wants the volume has all the others, by the server's own word."""
        if claim.spec.volume_name == volume.name:
            return True
        node = volume.metadata.annotations.get(objects.NODE, "")
        for pod in self._standings.users(claim):
            others = [each for each in self._standings.siblings(pod) if each.uid != claim.uid]
            if not self._standings.unseen(pod) and all([await self._is_ready(each, node) for each in others]):
                return True
        return False

    async def _is_ready(self, known: Claim, node: str) -> bool:
        try:
            claim = await self._client.get(CLAIM, known.name, namespace=known.namespace)
            names = [each.name for each in self._standings.volumes_of(claim.uid)]
            for name in (claim.spec.volume_name,) if claim.spec.volume_name else names:
                volume = await self._client.get(VOLUME, name)
                standing = self._standings.standing(claim, None, adrift_seconds=0.0, volume=volume)
                if claim.uid in self._standings.claim_uids(volume) and standing.ready_on(node):
                    return True
        except NotFound:
            log.info("a sibling is gone", claim=known.key)
        return False

    async def _live_claim(self, volume: Volume, uid: str) -> Claim | None:
        namespace, _, name = volume.metadata.annotations.get(objects.CLAIM, "").partition("/")
        known = self._standings.claim(uid)
        if known is not None:
            namespace, name = known.namespace, known.name
        if not name:
            return None
        try:
            claim = await self._client.get(CLAIM, name, namespace=namespace)
        except NotFound:
            return None
        return claim if claim.uid == uid else None

    async def _commit(self, volume: Volume, claim: Claim) -> None:
        held_for = objects.held_for(volume, hold_namespace=self._settings.hold_namespace)
        detail = f"held for claim uid {held_for}, to be committed to {claim.key} with uid {claim.uid}"
        self._invariants.require(held_for == claim.uid, Invariant.COMMIT_MATCHES_CLAIM, volume, detail)
        if await self._swap(volume, objects.committed(volume, claim)):
            text = f"volume {volume.name} is given to the claim: its pod has all its volumes"
            self._recorder.record(claim, CLAIM, NORMAL, "VolumeCommitted", text)
            self._metrics.committed(self._held_seconds(volume))
            log.info("committed", volume=volume.name, claim=claim.key)

    async def _give_up(self, volume: Volume, uid: str, claim: Claim | None, decided: GiveUp) -> None:
        node = volume.metadata.annotations.get(objects.NODE, "")
        why = decided.reason.value.format(sibling=decided.sibling, node=node)
        body = objects.given_up(volume, uid, why, hold_namespace=self._settings.hold_namespace)
        if not await self._swap(volume, body):
            return
        self._metrics.rolled_back(decided.reason, self._held_seconds(volume))
        log.info("given up", volume=volume.name, claim=claim.key if claim is not None else uid, why=why)
        if claim is not None:
            text = f"volume {volume.name} is rolled back before anybody used it: {why}"
            self._recorder.record(claim, CLAIM, WARNING, "ProvisioningRolledBack", text)
            for pod in self._standings.users(claim):
                told = f'volume of claim "{claim.name}" is rolled back: {why}'
                self._recorder.record(pod, POD, WARNING, "ProvisioningRolledBack", told)

    async def _swap(self, volume: Volume, body: dict[str, object]) -> bool:
        try:
            await self._client.patch(VOLUME, volume.name, MergePatch(body))
        except (Conflict, NotFound):
            # SEEN: somebody else was faster, and what they did will be heard of.
            self._queue.add(volume.name)
            return False
        return True
