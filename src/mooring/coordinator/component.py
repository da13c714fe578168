"""The coordinator component and its lease.

    object changed ──► verdict on informer state ──► live reads, verdict ──► safety rules ──► compare-and-swap
                           └──► no decision yet: check again when a timeout ends

Informer state selects what to check; every write rests on live reads alone. The volumes of a pod are read and committed
together: one worker decides for all of them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import msgspec
import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import CLAIM, CSI_NODE, LEASE, NODE, POD, STORAGE_CLASS, VOLUME, VOLUME_ATTACHMENT
from mooring.api.patches.contract import MergePatch
from mooring.api.times import from_time, to_micro_time
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.contract import Client, ReportInternalError, Unreachable
from mooring.client.live_reads import get_or_none
from mooring.client.recorder import NORMAL, WARNING
from mooring.clock import Clock
from mooring.control.component import Context
from mooring.control.feature_gates import PROVISIONING_ROLLBACK
from mooring.control.invariants import Invariant
from mooring.control.workqueue import KeyedLocks, repeat, work
from mooring.coordinator.claim_states import ClaimStates, CoordinatorSettings, FirstSeen
from mooring.coordinator.groups import GroupCoordinator
from mooring.coordinator.metrics import HoldMetrics
from mooring.coordinator.nominations import NODE_REASONS, Nominations, nomination_patch
from mooring.volumes.binding import HoldState
from mooring.volumes.holds import group_objects, objects, policy, transitions
from mooring.volumes.holds.policy import ClaimState, Commit, RollBack
from mooring.volumes.holds.transitions import HoldSnapshot, Intent, IntentPhase, MalformedIntent

#: Upstream's lease duration and retry period.
LEASE_DURATION_SECONDS: Final = 15
RENEW_SECONDS: Final = 5.0


async def renew_lease(
    client: Client,
    clock: Clock,
    *,
    namespace: str,
    identity: str,
    report: ReportInternalError,
    is_active: Callable[[], bool],
) -> None:
    """Until cancelled. A renewal that fails is tried again with the next. Not renewed while the feature is not active:
    provisioners of an older version look at nothing else before they hold a volume."""
    name = well_known.COORDINATOR_LEASE

    async def renew() -> None:
        if not is_active():
            return
        now = to_micro_time(clock.now())
        spec = {"holderIdentity": identity, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": now}
        try:
            await client.patch(LEASE, name, MergePatch({"spec": spec}), namespace=namespace)
        except NotFound:
            with suppress(AlreadyExists):
                await client.create(LEASE, {"metadata": {"name": name}, "spec": spec}, namespace=namespace)

    pause = partial(clock.sleep, RENEW_SECONDS)
    await repeat(renew, pause, name=f"renewal of lease {namespace}/{name}", report=report)


#: Groups that are read and committed at once. A worker mostly waits for the API server.
WORKERS: Final = 16
#: What rounding leaves of a wait that is over would not move any clock.
MIN_WAIT_SECONDS: Final = 0.01
#: Records of attempts are not watched, and how one ends may be the last thing that happens for a while.
MAX_WAIT_SECONDS: Final = 5.0
#: Until what stands in the way of a decision is looked at again.
RECHECK_SECONDS: Final = 1.0
#: How old all held volumes of a pod must be before they are committed. When a volume appears, its attempt is about to
#: be closed and its phase to be written: an earlier look would read in vain, and an earlier write would conflict.
SETTLING_SECONDS: Final = 0.05

log: FilteringBoundLogger = structlog.get_logger(__name__)


class _LiveClaim(NamedTuple):
    """A claim and its volume by live reads."""

    claim: Claim
    volume: Volume
    state: ClaimState


class Coordinator:
    name = "mooring-coordinator"

    def __init__(
        self,
        context: Context,
        settings: CoordinatorSettings | None = None,
        *,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._require = context.require
        self._informers = context.informers
        self._settings = settings or CoordinatorSettings()
        if not context.gates.enabled(PROVISIONING_ROLLBACK):
            # No component may start a hold because of this lease, and nothing may stay held.
            self._settings = msgspec.structs.replace(
                self._settings, timeouts=policy.HoldTimeouts(draining=True), renews_lease=False
            )
        self._claim_states = ClaimStates(context.informers, hold_namespace=self._settings.hold_namespace)
        registry = registry or CollectorRegistry()
        self._metrics = HoldMetrics(registry, lambda: self._claim_states.count(HoldState.HELD))
        #: Volumes of groups are decided about there.
        self._groups = GroupCoordinator(context, self._settings, self._claim_states, registry)
        self._deciding: KeyedLocks[str] = KeyedLocks()
        self._adrift = FirstSeen()
        self._unwanted = FirstSeen()
        self._held = FirstSeen()
        #: Uids of volumes that informers show as held and that are decided: the change is on its way.
        self._decided: set[str] = set()
        self._queue = context.work_queue("held volumes", VOLUME)
        self._nominations = Nominations()
        self._nominating = context.work_queue("nominations", POD)
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
            group.create_task(self._groups.run())
            group.create_task(work(self._nominating, self._nominate, workers=1, name="nominations"))
            if self._settings.renews_lease:
                namespace = self._settings.hold_namespace
                report = self._context.internal_error
                is_active = partial(self._context.is_active, PROVISIONING_ROLLBACK)
                renewal = renew_lease(
                    self._client,
                    self._clock,
                    namespace=namespace,
                    identity=self.name,
                    report=report,
                    is_active=is_active,
                )
                group.create_task(renewal)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        """A volume that comes, goes or changes its state may complete or break the group of others."""
        if before is not None and (
            after is None or after.uid != before.uid or self._claim_states.held(after.name) is None
        ):
            self._forget(before)
        for volume in (before, after):
            if volume is not None:
                self._groups.volume_changed(volume)
        uids = {
            uid: volume
            for volume in (before, after)
            if volume is not None
            for uid in self._claim_states.claim_uids(volume)
        }
        for uid, volume in uids.items():
            claim = self._claim_states.claim(uid)
            if claim is not None:
                self._enqueue_siblings(claim)
            else:
                self._queue.add(volume.name)

    def _forget(self, volume: Volume) -> None:
        for times in (self._unwanted, self._adrift, self._held):
            times.forget(volume.uid)
        self._decided.discard(volume.uid)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        for claim in {each.uid: each for each in (before, after) if each is not None}.values():
            self._groups.claim_changed(claim)
            self._enqueue_siblings(claim)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or after.uid != before.uid or not after.waits):
            self._nominations.forget(before.uid)
        if after is not None and self._nominations.due(after):
            self._nominating.add(after.key)
        for pod in {each.uid: each for each in (before, after) if each is not None}.values():
            self._groups.pod_changed(pod)
            for claim in self._claim_states.siblings(pod):
                self._look_at(claim)

    def _enqueue_siblings(self, claim: Claim) -> None:
        """At the claim's own volume and at those of its siblings."""
        self._look_at(claim)
        for pod in self._claim_states.users(claim):
            if self._nominations.due(pod):
                self._nominating.add(pod.key)
            for sibling in self._claim_states.siblings(pod):
                self._look_at(sibling)

    def _look_at(self, claim: Claim) -> None:
        for volume in self._claim_states.volumes_of(claim.uid):
            if self._claim_states.held(volume.name) is not None:
                self._queue.add(volume.name)

    async def _sync(self, name: str) -> None:
        volume = self._claim_states.held(name)
        if volume is None or volume.uid in self._decided:
            return
        if self._groups.owns(volume):
            if not group_objects.group_uid_of(volume):
                self._queue.add_after(name, RECHECK_SECONDS)
            return
        uid = objects.held_for(volume, hold_namespace=self._settings.hold_namespace)
        decided = await self._verdict(volume, uid)
        if (now := self._claim_states.held(name)) is None or now.uid != volume.uid:
            # What was noted while the server was asked would outlive the volume.
            self._forget(volume)
        if isinstance(decided, policy.Wait):
            self._queue.add_after(name, min(max(decided.seconds, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS))
        else:
            await self._act(volume, uid, decided)

    async def _verdict(self, volume: Volume, uid: str) -> policy.Verdict:
        claim = self._claim_states.claim(uid)
        now = self._clock.monotonic()
        facts = self._claim_states.facts(volume)
        if claim is None:
            return self._judged(volume, ClaimState("", HoldSnapshot(None, facts, None)), [], unwanted=0.0)
        pods = self._claim_states.users(claim)
        groups = [await self._group(pod, volume, now) for pod in pods]
        unwanted = self._unwanted.seconds(volume.uid, begins=not pods, ends=bool(pods), now=now)
        # A commit rests on a live read of the record, and a new volume is of the attempt that made it, almost always:
        # what needs no record is decided without one.
        presumed = Intent(facts.attempt, facts.node, IntentPhase.CREATED)
        held = self._claim_states.claim_state(claim, presumed, volume)
        decided = self._judged(volume, held, groups, unwanted=unwanted)
        if isinstance(decided, Commit):
            age = min(map(self._seconds_held, self._held_together(claim)), default=SETTLING_SECONDS)
            return decided if age >= SETTLING_SECONDS else policy.Wait(SETTLING_SECONDS - age)
        if isinstance(decided, policy.Wait) and self._seconds_held(volume) < RECHECK_SECONDS:
            return policy.Wait(min(decided.seconds, RECHECK_SECONDS))
        held = self._claim_states.claim_state(claim, await self._intent(uid), volume)
        return self._judged(volume, held, groups, unwanted=unwanted)

    def _judged(
        self, volume: Volume, held: ClaimState, groups: list[list[ClaimState]], *, unwanted: float
    ) -> policy.Verdict:
        seconds, timeouts = self._seconds_held(volume), self._settings.timeouts
        return policy.verdict(held, groups, held_seconds=seconds, unused_seconds=unwanted, timeouts=timeouts)

    def _seconds_held(self, volume: Volume) -> float:
        """As long as we have seen it: its timestamp is of another process's clock, which must not end or prolong a
        hold."""
        return self._held.seconds(volume.uid, begins=True, ends=False, now=self._clock.monotonic())

    def _held_seconds(self, volume: Volume) -> float:
        """By its date, for the metrics."""
        since = volume.metadata.annotations.get(objects.SINCE) or volume.metadata.creation_timestamp
        return max(self._clock.now() - from_time(since), 0.0) if since else 0.0

    async def _group(self, pod: Pod, held: Volume, now: float) -> list[ClaimState]:
        known = [await self._claim_state(each, held, now) for each in self._claim_states.siblings(pod)]
        return known + [self._unseen(key, held, now) for key in self._claim_states.missing_claims(pod)]

    def _unseen(self, key: str, held: Volume, now: float) -> ClaimState:
        """A claim that is gone, or that is not known here yet: what the pod needs is not complete without it."""
        seconds = self._adrift.seconds(held.uid, key, begins=True, ends=False, now=now)
        return ClaimState(key.partition("/")[2], HoldSnapshot(None, None, None), unassigned_seconds=seconds)

    async def _claim_state(self, claim: Claim, held: Volume, now: float) -> ClaimState:
        claim_state = self._claim_states.claim_state(claim, None)
        node = held.metadata.annotations.get(objects.NODE, "")
        if policy.depends_on_record(claim_state, node):
            claim_state = self._claim_states.claim_state(claim, await self._intent(claim.uid))
        is_adrift = not claim_state.bound and not claim_state.provisioning and (claim.selected_node or "") != node
        # A scheduler that knows no other node asks for the same one again and again: that does not restart the timeout.
        has_volume = claim_state.snapshot.volume is not None
        seconds = self._adrift.seconds(held.uid, claim.uid, begins=is_adrift, ends=has_volume, now=now)
        return msgspec.structs.replace(claim_state, unassigned_seconds=seconds)

    async def _intent(self, uid: str) -> Intent | None:
        name, namespace = objects.intent_name(uid), self._settings.hold_namespace
        record = await get_or_none(self._client, objects.INTENT_RECORD, name, namespace=namespace)
        try:
            return None if record is None else objects.intent_of(record)
        except MalformedIntent as problem:
            log.warning("intent record malformed", record=f"{namespace}/{name}", error=str(problem))
            return None

    async def _act(self, known: Volume, uid: str, decided: Commit | RollBack) -> None:
        """Everything is read again from the server: what is decided now stays. One at a time for claims that a pod has
        in common, so that none of a group is rolled back while another is given, and one worker commits them all;
        other groups do not wait."""
        claim = self._claim_states.claim(uid)
        async with self._deciding.holding(self._group_of(claim) if claim is not None else (uid,)):
            volume = self._claim_states.held(known.name)
            if volume is not None and volume.uid == known.uid and volume.uid not in self._decided:
                await self._decide(known, uid, decided)

    def _group_of(self, claim: Claim) -> dict[str, Claim]:
        """The claims that are decided about together with a claim, by uid."""
        pods = self._claim_states.users(claim)
        return {claim.uid: claim} | {each.uid: each for pod in pods for each in self._claim_states.siblings(pod)}

    def _held_together(self, claim: Claim) -> list[Volume]:
        volumes = (each for uid in self._group_of(claim) for each in self._claim_states.volumes_of(uid))
        return [each for each in volumes if self._claim_states.held(each.name) is not None]

    async def _decide(self, known: Volume, uid: str, decided: Commit | RollBack) -> None:
        intent = await self._intent(uid)
        facts = self._claim_states.facts(known)
        if isinstance(decided, Commit) and intent is not None and intent.is_being_made(facts.attempt):
            # The volume is saved and the attempt about to be closed: in no time, unless much else goes on.
            wait = min(max(self._seconds_held(known), SETTLING_SECONDS), RECHECK_SECONDS)
            self._queue.add_after(known.name, wait)
            return
        volume = await get_or_none(self._client, VOLUME, known.name)
        if volume is None or objects.held_for(volume, hold_namespace=self._settings.hold_namespace) != uid:
            return
        claim = await self._live_claim(volume, uid)
        if isinstance(decided, Commit) and claim is not None:
            own = _LiveClaim(claim, volume, self._claim_states.claim_state(claim, intent, volume))
            if commits := await self._committable(own):
                await asyncio.gather(*(self._commit(each.volume, each.claim) for each in commits))
                return
            reason = policy.permanent_failure(own.state)
            decided = RollBack(reason) if reason in policy.CLAIM_REASONS else decided
        if isinstance(decided, RollBack):
            snapshot = HoldSnapshot(objects.claim_facts(claim), self._claim_states.facts(volume), intent)
            if transitions.may_roll_back(snapshot) and self._confirm_live(decided, claim, volume, intent):
                await self._give_up(volume, uid, claim, decided)
                return
        # Old news, an attempt that is still open, an attachment that is still there. Not all ends are heard of.
        self._queue.add_after(volume.name, RECHECK_SECONDS)

    def _confirm_live(self, decided: RollBack, claim: Claim | None, volume: Volume, intent: Intent | None) -> bool:
        """Whether a reason that lies in the claim holds by the server's own word."""
        if decided.reason not in policy.CLAIM_REASONS or claim is None:
            return True
        return policy.permanent_failure(self._claim_states.claim_state(claim, intent, volume)) is not None

    async def _committable(self, own: _LiveClaim) -> list[_LiveClaim]:
        """The held volumes of a pod that has all its volumes by the server's own word, `own` among them; empty without
        such a pod."""
        if self._may_commit(own, []):
            return [own]
        node = own.volume.metadata.annotations.get(objects.NODE, "")
        for pod in self._claim_states.users(own.claim):
            group = await self._live_group(pod, own, node)
            states = [each.state for each in group]
            held = [each for each in group if not each.state.bound]
            if any(self._groups.owns(each.volume) for each in held):
                continue
            # Together or not at all: where the attempt of one is still open, the others wait for it.
            if group and all(self._may_commit(each, states) for each in held):
                return held
        return []

    def _may_commit(self, live: _LiveClaim, group: list[ClaimState]) -> bool:
        return transitions.may_commit(live.state.snapshot) and isinstance(
            self._judged(live.volume, live.state, [group] if group else [], unwanted=0.0), Commit
        )

    async def _live_group(self, pod: Pod, own: _LiveClaim, node: str) -> list[_LiveClaim]:
        """The delayed claims of a pod; empty unless all of them are there and have volumes for the node."""
        group: list[_LiveClaim] = []
        if self._claim_states.missing_claims(pod):
            return group
        for known in self._claim_states.siblings(pod):
            live = own if known.uid == own.claim.uid else await self._live_sibling(known, node)
            if live is None:
                return []
            group.append(live)
        return group

    async def _live_sibling(self, known: Claim, node: str) -> _LiveClaim | None:
        claim = await get_or_none(self._client, CLAIM, known.name, namespace=known.namespace, uid=known.uid)
        if claim is None:
            log.info("sibling claim already deleted", claim=known.key)
            return None
        names = [each.name for each in self._claim_states.volumes_of(claim.uid)]
        for name in (claim.spec.volume_name,) if claim.spec.volume_name else names:
            volume = await get_or_none(self._client, VOLUME, name)
            if volume is None or claim.uid not in self._claim_states.claim_uids(volume):
                continue
            state = self._claim_states.claim_state(claim, None, volume)
            if state.ready_on(node):
                intent = await self._intent(claim.uid) if state.held_on else None
                return _LiveClaim(claim, volume, self._claim_states.claim_state(claim, intent, volume))
        return None

    async def _live_claim(self, volume: Volume, uid: str) -> Claim | None:
        namespace, _, name = volume.metadata.annotations.get(objects.CLAIM, "").partition("/")
        known = self._claim_states.claim(uid)
        if known is not None:
            namespace, name = known.namespace, known.name
        return await get_or_none(self._client, CLAIM, name, namespace=namespace, uid=uid) if name else None

    async def _commit(self, volume: Volume, claim: Claim) -> None:
        held_for = objects.held_for(volume, hold_namespace=self._settings.hold_namespace)
        detail = f"held for claim uid {held_for}, to be committed to {claim.key} with uid {claim.uid}"
        self._require(held_for == claim.uid, Invariant.COMMIT_MATCHES_CLAIM, volume, VOLUME, detail)
        if await self._swap(volume, objects.commit_patch(volume, claim)):
            text = policy.COMMITTED_TEXT.format(volume=volume.name)
            self._recorder.record(claim, CLAIM, NORMAL, policy.COMMITTED, text)
            self._metrics.committed(self._held_seconds(volume))
            log.info("hold committed", volume=volume.name, claim=claim.key)

    async def _give_up(self, volume: Volume, uid: str, claim: Claim | None, decided: RollBack) -> None:
        node = volume.metadata.annotations.get(objects.NODE, "")
        why = decided.reason.value.format(sibling=decided.sibling, node=node)
        body = objects.rollback_patch(volume, uid, why, hold_namespace=self._settings.hold_namespace)
        if not await self._swap(volume, body):
            return
        self._metrics.rolled_back(decided.reason, self._held_seconds(volume))
        log.info("hold rolled back", volume=volume.name, claim=claim.key if claim is not None else uid, reason=why)
        if claim is not None:
            text = policy.ROLLED_BACK_TEXT.format(volume=volume.name, reason=why)
            self._recorder.record(claim, CLAIM, WARNING, policy.ROLLED_BACK, text)
            text = policy.ROLLED_BACK_POD_TEXT.format(claim=claim.name, reason=why)
            for pod in self._claim_states.users(claim):
                self._recorder.record(pod, POD, WARNING, policy.ROLLED_BACK, text)
                if decided.reason in NODE_REASONS and pod.spec.scheduler_name in self._settings.nominate_for:
                    self._nominations.rolled_back(pod.uid, node)

    async def _nominate(self, key: str) -> None:
        """Nominate a pod to a node where it was not tried, once no claim of it has a selected node: until then a
        scheduler can choose no other, and clears the nomination when its attempt fails."""
        pod = self._claim_states.pod(key)
        if pod is None or not self._nominations.due(pod) or self._claim_states.is_selected(pod):
            return
        failed = self._nominations.failed_node(pod.uid)
        node = self._nominations.choose(pod.uid, frozenset(self._claim_states.other_nodes(pod, failed)))
        if not node:
            return
        try:
            await self._client.patch(
                POD, pod.name, nomination_patch(pod, node), namespace=pod.namespace, subresource="status"
            )
        except (Conflict, NotFound):
            # Race: the scheduler was faster; its change arrives through the watch.
            return
        except (ApiError, Unreachable) as error:
            # A hint: without it the scheduler selects a node by its scores.
            log.warning("node not nominated", pod=pod.key, node=node, error=str(error))
            return
        self._nominations.nominated(pod.uid, node)
        log.info("node nominated", pod=pod.key, node=node, failed=failed)

    async def _swap(self, volume: Volume, body: dict[str, object]) -> bool:
        try:
            await self._client.patch(VOLUME, volume.name, MergePatch(body))
        except (Conflict, NotFound):
            # Race: another writer was faster; its change arrives through the watch.
            self._queue.add(volume.name)
            return False
        self._decided.add(volume.uid)
        return True
