"""Decisions about groups of pods: their records, and the held volumes of their members.

    object changed ──► verdict on informers and record ──► five live reads ──► gates ──► swap of the record
                                                           └──► swaps of the volumes, many in flight

One worker at a time decides about a group, and groups do not wait for each other. Nothing depends on that, nor on the
coordinator's lease: `volumes.holds.group_gates` permits every write by itself.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Final

import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import Conflict, Forbidden, NotFound
from mooring.api.kinds import CLAIM, LEASE, POD, POD_GROUP, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import Meta
from mooring.api.views.pod_groups import PodGroup
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.backoff import KeyedBackoff
from mooring.client.group_records import GroupRecords
from mooring.client.live_reads import get_named, get_or_none
from mooring.client.recorder import NORMAL, WARNING
from mooring.control.component import Context
from mooring.control.feature_gates import GANG_VOLUMES
from mooring.control.workqueue import repeat, work
from mooring.coordinator.claim_states import ClaimStates, CoordinatorSettings, FirstSeen
from mooring.coordinator.group_states import GroupObjects, GroupStates
from mooring.coordinator.metrics import GroupMetrics
from mooring.volumes.holds import group_gates, group_objects, group_policy, group_record, objects
from mooring.volumes.holds.group_gates import ClaimHold, LiveGroup
from mooring.volumes.holds.group_policy import Contender, GroupTimeouts, HoldProgress, VolumeStep
from mooring.volumes.holds.group_record import GROUP_LABEL, LISTS, UNMARKED, GroupPhase, GroupRecord, StoredGroup
from mooring.volumes.holds.transitions import Intent

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Swaps of volumes of one group at the same time.
SWAPS_IN_FLIGHT: Final = 32
WORKERS: Final = 8
#: Between two lists of all records: what a scheduler begins is noticed by its volumes, what it left behind by these.
RELIST_SECONDS: Final = 15.0
#: After a change: further ones follow, and a look costs as much as the group has members.
SETTLING_SECONDS: Final = 0.1
RECHECK_SECONDS: Final = 1.0
#: Between two looks at a group that holds: records are not watched, and its scheduler may have changed it.
MAX_WAIT_SECONDS: Final = 2.0
#: The longest pause after writes that were lost to other writers one after the other.
MAX_RACE_SECONDS: Final = 15.0
#: How long it is known that a group is no gang, or does not exist.
LOOKUP_SECONDS: Final = 5.0
#: The Lease may be renewed by another holder in between; the identity in the announcement tells.
ANNOUNCE_SECONDS: Final = 2.0


class GroupCoordinator:
    def __init__(
        self, context: Context, settings: CoordinatorSettings, claim_states: ClaimStates, registry: CollectorRegistry
    ) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._namespace = settings.hold_namespace
        self._records = GroupRecords(context.client, namespace=self._namespace)
        self._enabled = context.gates.enabled(GANG_VOLUMES) and not settings.timeouts.draining
        #: No component may start to hold for groups because of this process, and nothing may stay held.
        self._timeouts = GroupTimeouts(draining=not self._enabled)
        self._claims = context.informers.of(CLAIM)
        self._pods = context.informers.of(POD)
        self._claim_states = claim_states
        self._states = GroupStates(context.informers, claim_states, hold_namespace=self._namespace)
        #: By uid of the PodGroup: its record as last read or written, and its key.
        self._known: dict[str, StoredGroup] = {}
        self._uids: dict[str, str] = {}
        #: By key, until when pods of a group are known to be decided about one by one, on the monotonic clock.
        self._single_until: dict[str, float] = {}
        self._contenders: dict[str, Contender] = {}
        self._since = FirstSeen()
        #: Claims that had a selected node or a held volume, by uid of the group.
        self._assigned: dict[str, set[str]] = {}
        self._metrics = GroupMetrics(registry, lambda: [each.record.phase for each in self._known.values()])
        self._queue = context.work_queue("groups")
        #: Groups of which another client changed an object before the write; and how often in a row.
        self._raced: set[str] = set()
        self._races: KeyedBackoff[str] = KeyedBackoff(SETTLING_SECONDS, MAX_RACE_SECONDS)

    @property
    def announces(self) -> bool:
        return self._enabled

    async def run(self) -> None:
        report = self._context.internal_error
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._queue, self._sync, workers=WORKERS, name="groups"))
            pause = partial(self._clock.sleep, RELIST_SECONDS)
            group.create_task(repeat(self._relist, pause, name="records of groups", report=report))
            if self._enabled:
                pause = partial(self._clock.sleep, ANNOUNCE_SECONDS)
                group.create_task(repeat(self._announce, pause, name="announcement", report=report))

    def owns(self, volume: Volume) -> bool:
        """Whether a held volume is decided about here, and not by its pod alone. A provisioner that has not observed
        the pod holds its volume without label: then the pod's group is looked up, and the volume waits for that."""
        if group_objects.group_uid_of(volume):
            return True
        claim = self._claim_states.claim(self._states.held_for(volume))
        keys = {pod.group_key for pod in self._claim_states.users(claim)} - {""} if claim is not None else set()
        return self._enabled and any(self._may_be_gang(key) for key in keys)

    def _may_be_gang(self, key: str) -> bool:
        stored = self._known.get(self._uids.get(key, ""))
        if stored is not None and stored.record.phase is not GroupPhase.IDLE:
            return stored.record.phase not in LISTS
        if self._clock.monotonic() < self._single_until.get(key, 0.0):
            return False
        self._queue.add(key)
        return True

    async def _look_up(self, key: str) -> None:
        """By the key of a group: its uid, or that its pods are decided about one by one for now."""
        self._single_until = {each: end for each, end in self._single_until.items() if end > self._clock.monotonic()}
        group = await self._pod_group("", key)
        if group is not None and group.is_gang:
            found = self._states.cached(group.uid, key)
            stored = await self._records.read(group.uid)
            is_under_way = stored is not None and stored.record.phase in (GroupPhase.HOLDING, GroupPhase.GIVING_UP)
            if is_under_way or (_may_begin(stored, group, found) and self._states.can_be_held(found)):
                self._uids[key] = group.uid
                self._queue.add(group.uid)
                return
        self._single_until[key] = self._clock.monotonic() + LOOKUP_SECONDS

    def volume_changed(self, volume: Volume) -> None:
        if uid := group_objects.group_uid_of(volume):
            self._queue.add_after(uid, SETTLING_SECONDS)

    def pod_changed(self, pod: Pod) -> None:
        """Also the first change of a pod or claim that is observed after the group's held volumes: nothing else leads
        from them to the group."""
        if pod.group_key and (uid := self._uids.get(pod.group_key) or self._states.group_uid_of(pod)):
            self._queue.add_after(uid, SETTLING_SECONDS)

    def claim_changed(self, claim: Claim) -> None:
        for pod in self._claim_states.users(claim):
            self.pod_changed(pod)

    async def _announce(self) -> None:
        """On the Lease, with the name of its holder: only a coordinator that runs has it."""
        try:
            lease = await self._client.get(LEASE, well_known.COORDINATOR_LEASE, namespace=self._namespace)
        except NotFound:
            return
        holder = lease.spec.holder_identity
        if not holder or lease.metadata.annotations.get(group_objects.ANNOUNCEMENT) == holder:
            return
        metadata = {
            "resourceVersion": lease.metadata.resource_version,
            "annotations": {group_objects.ANNOUNCEMENT: holder},
        }
        try:
            await self._client.patch(LEASE, lease.name, MergePatch({"metadata": metadata}), namespace=self._namespace)
        except Conflict:
            # Race: renewed in between.
            return

    async def _relist(self) -> None:
        found = await self._records.list_all()
        for uid in self._known.keys() - found.keys():
            self._forget(uid)
        for uid, stored in found.items():
            self._remember(uid, stored)
            if stored.record.phase is not GroupPhase.COMMITTED or not self._is_tidy(stored):
                self._queue.add(uid)

    def _is_tidy(self, stored: StoredGroup) -> bool:
        """A committed group costs nothing while its pods exist."""
        record = stored.record
        return bool(self._states.cached(record.uid, f"{record.namespace}/{record.name}").pods)

    def _remember(self, uid: str, stored: StoredGroup) -> None:
        before = self._known.get(uid)
        if stored.record.phase is GroupPhase.GIVING_UP and before is not None:
            self._report_given_up(before.record, stored.record)
        self._known[uid] = stored
        self._uids[f"{stored.record.namespace}/{stored.record.name}"] = uid

    def _report_given_up(self, before: GroupRecord, record: GroupRecord) -> None:
        """By this coordinator or by a scheduler; once."""
        if before.phase is not GroupPhase.HOLDING:
            return
        known = group_record.GiveUpReason.__members__.get(record.reason)
        self._metrics.given_up(record.reason, max(self._clock.now() - record.since, 0.0))
        text = group_objects.GIVEN_UP_TEXT.format(reason=record.reason, text=known.value if known is not None else "")
        self._record_event(record, WARNING, group_objects.GIVEN_UP, text)
        log.info("group given up", group=f"{record.namespace}/{record.name}", reason=record.reason)

    def _forget(self, uid: str) -> None:
        stored = self._known.pop(uid, None)
        self._contenders.pop(uid, None)
        self._assigned.pop(uid, None)
        self._since.forget(uid)
        self._races.forget(uid)
        if stored is not None:
            key = f"{stored.record.namespace}/{stored.record.name}"
            if self._uids.get(key) == uid:
                del self._uids[key]

    async def _sync(self, uid: str) -> None:
        """By the uid of a group; or by its key, where that is all that is known."""
        if "/" in uid:
            await self._look_up(uid)
            return
        stored = await self._records.read(uid)
        self._report_lost_record(uid, stored)
        record = stored.record if stored is not None else None
        key = f"{record.namespace}/{record.name}" if record is not None else self._key_of(uid)
        group = await self._pod_group(uid, key)
        if stored is not None:
            self._remember(uid, stored)
        elif group is None:
            self._forget(uid)
        else:
            self._uids[key] = uid
        stored, wait = await self._decide(uid, stored, group, self._states.cached(uid, key))
        if self._states.labelled(uid) or (stored is not None and stored.record.phase is GroupPhase.HOLDING):
            stored = await self._step_volumes(uid, key, stored, group)
        if stored is not None:
            stored = await self._conclude(stored, group)
        if wait is not None:
            self._queue.add_after(uid, wait)
        elif stored is not None and stored.record.phase in (GroupPhase.COMMITTING, GroupPhase.GIVING_UP):
            self._queue.add_after(uid, RECHECK_SECONDS)
        if uid in self._raced:
            self._raced.discard(uid)
            self._queue.add_after(uid, self._races.next_delay(uid))
        else:
            self._races.forget(uid)

    def _key_of(self, uid: str) -> str:
        """Of a group without record."""
        return self._states.key_of(uid) or next((key for key, each in self._uids.items() if each == uid), "")

    def _report_lost_record(self, uid: str, stored: StoredGroup | None) -> None:
        known = self._known.get(uid)
        if stored is None and known is not None and known.record.phase is GroupPhase.COMMITTING:
            log.error("record of a group deleted while its volumes were committed", group=uid)
            self._metrics.given_up("RecordLost", 0.0)
            text = group_objects.RECORD_LOST_TEXT
            self._recorder.record(_reference(known.record), POD_GROUP, WARNING, group_objects.RECORD_LOST, text)

    async def _decide(
        self, uid: str, stored: StoredGroup | None, group: PodGroup | None, found: GroupObjects
    ) -> tuple[StoredGroup | None, float | None]:
        """The record after what was decided, and the seconds until the next look."""
        if group is not None and group.is_gang and self._enabled and _may_begin(stored, group, found):
            stored = await self._begin(stored, group, found) or stored
        if stored is None or stored.record.phase is not GroupPhase.HOLDING:
            self._contenders.pop(uid, None)
            return stored, None
        stored = await self._enter(stored, found) or stored
        live = self._states.live(stored, group, found)
        progress = self._progress(live, group, found)
        match group_policy.group_verdict(live, progress, self._timeouts):
            case group_policy.CommitGroup():
                return await self._commit(stored.record) or stored, RECHECK_SECONDS
            case group_policy.GiveUpGroup(reason):
                given_up = group_record.give_up(stored.record, reason)
                return await self._swap(stored, given_up) or stored, RECHECK_SECONDS
            case group_policy.LetLeave(pods):
                left = group_record.leave(stored.record, pods)
                return await self._swap(stored, left) or stored, RECHECK_SECONDS
            case group_policy.WaitForGroup(seconds):
                return stored, min(max(seconds, RECHECK_SECONDS), MAX_WAIT_SECONDS)

    def _progress(self, live: LiveGroup, group: PodGroup | None, found: GroupObjects) -> HoldProgress:
        record, now = live.stored.record, self._clock.monotonic()
        uid = record.uid
        assigned = self._assigned.setdefault(uid, set())
        claims = {claim.uid: claim for pod in found.pods for claim in self._states.late_claims(pod, found) or ()}
        adrift: dict[str, float] = {}
        requested: set[str] = set()
        lacking: set[str] = set()
        for pod in live.waiting.values():
            own, member = pod.claims or frozenset(), record.by_pod.get(pod.uid)
            loose = {each for each in own if _is_loose(claims[each], live.claims[each])}
            assigned |= own - loose
            failing = loose | {each for each in own if member is not None and _is_elsewhere(live.claims[each], member)}
            seconds = self._since.seconds(uid, pod.uid, begins=bool(failing), ends=not failing, now=now)
            if failing:
                adrift[pod.uid] = seconds
                lacking |= {claims[each].storage_class for each in loose}
                if assigned & failing:
                    requested.add(pod.uid)
        holds = {claims[each].storage_class for each, hold in live.claims.items() if hold.held}
        contender = Contender(
            uid,
            group.spec.priority if group is not None else 0,
            (group.metadata.creation_timestamp or "") if group is not None else "",
            frozenset(holds),
            frozenset(lacking),
        )
        self._contenders[uid] = contender
        return HoldProgress(
            held_seconds=max(self._clock.now() - record.since, 0.0),
            missing_seconds=self._since.seconds(uid, "", begins=group is None, ends=group is not None, now=now),
            adrift=adrift,
            requested=frozenset(requested),
            own=contender,
            contenders=tuple(self._contenders.values()),
        )

    async def _begin(self, stored: StoredGroup | None, group: PodGroup, found: GroupObjects) -> StoredGroup | None:
        """The record, where a scheduler writes none: with the members that have held volumes so far."""
        members = self._entries(found, known=frozenset())
        if not members or not self._states.can_be_held(found):
            return None
        record = stored.record if stored is not None else GroupRecord(group.namespace, group.name, group.uid)
        begun = group_record.begin(record, members, min_count=group.min_count, domain="", now=self._clock.now())
        if begun is None or group_objects.is_too_large(begun):
            return None
        written = await self._swap(stored, begun)
        if written is not None:
            text = group_objects.HOLDING_TEXT.format(needed=group.min_count)
            self._record_event(begun, NORMAL, group_objects.HOLDING, text)
        return written

    async def _enter(self, stored: StoredGroup, found: GroupObjects) -> StoredGroup | None:
        """Further members whose volumes are held without marks."""
        record = stored.record
        known = frozenset(member.pod for member in record.staying)
        entered = record
        for member in self._entries(found, known=known):
            entered = group_record.enter(entered, member) or entered
        if entered == record or group_objects.is_too_large(entered):
            return None
        return await self._swap(stored, entered)

    def _entries(self, found: GroupObjects, *, known: frozenset[str]) -> list[group_record.RecordedMember]:
        """Of pods that are not known and have a held volume without marks: on its node."""
        nodes: dict[str, str] = {}
        for volume in found.volumes:
            if self._states.is_held(volume) and group_objects.mark_of(volume) == UNMARKED:
                nodes[self._states.held_for(volume)] = volume.metadata.annotations.get(objects.NODE, "")
        members = []
        for pod in found.pods:
            late = self._states.late_claims(pod, found)
            if pod.uid in known or not pod.waits or late is None:
                continue
            node = next((nodes[claim.uid] for claim in late if claim.uid in nodes), "")
            if node:
                members.append(
                    group_record.RecordedMember(
                        pod.uid, node, 0, tuple(group_record.MemberClaim(claim.uid) for claim in late)
                    )
                )
        return members

    async def _commit(self, record: GroupRecord) -> StoredGroup | None:
        """On live reads, the record first; then one swap."""
        stored, found, group = await self._read_live(record)
        if stored is None:
            return None
        claims = group_gates.claims_to_commit(self._states.live(stored, group, found))
        if claims is None:
            return stored
        written = await self._swap(stored, group_record.list_claims(stored.record, claims))
        if written is not None:
            self._metrics.committed(max(self._clock.now() - record.since, 0.0))
            members = sum(any(claim.uid in claims for claim in each.claims) for each in record.members)
            text = group_objects.COMMITTED_TEXT.format(members=members)
            self._record_event(record, NORMAL, group_objects.COMMITTED, text)
            log.info("group committed", group=f"{record.namespace}/{record.name}", epoch=record.epoch)
        return written

    async def _step_volumes(
        self, uid: str, key: str, known: StoredGroup | None, group: PodGroup | None
    ) -> StoredGroup | None:
        """What the record says about each held volume; volumes are read first, then the record (gate 3)."""
        cached = self._states.cached(uid, key)
        needs_record = self._enabled and (group is None or self._states.needs_record(group, cached))
        if not self._worth_reading(cached, known, needs_record=needs_record):
            return known
        labelled = (await self._client.list(VOLUME, labels=f"{GROUP_LABEL}={uid}")).items
        names = {volume.name for volume in labelled}
        bare = [each for each in cached.volumes if each.name not in names]
        held = [volume for volume in (*labelled, *bare) if self._states.is_held(volume)]
        claims = await self._claims_of(held, namespace=key.partition("/")[0]) if key else {}
        stored, intents = await self._read_with_intents(uid)
        if (stored is None or stored.record.phase is GroupPhase.IDLE) and (group is None or not needs_record):
            needs_record = await self._needs_record(group)
        found = GroupObjects((), lambda _: None, held, await self._with_unlabelled(held, intents))
        slots = asyncio.Semaphore(SWAPS_IN_FLIGHT)
        steps: list[Awaitable[None]] = []
        for volume in held:
            claim_uid = self._states.held_for(volume)
            claim = claims.get(claim_uid) or (self._claim_states.claim(claim_uid) if not key else None)
            hold = (
                self._states.hold_of(claim, volume, found) if claim is not None else self._states.without_claim(volume)
            )
            step = group_policy.volume_step(claim_uid, hold, stored, needs_record=needs_record)
            if step is not VolumeStep.KEEP:
                steps.append(self._carry_out(step, volume, claim_uid, claim, hold, stored, uid, slots))
        await asyncio.gather(*steps)
        return stored

    async def _needs_record(self, group: PodGroup | None) -> bool:
        """On live reads: what is detached from its group is committed without the others."""
        if group is None or not self._enabled:
            return False
        _, found, live = await self._read_live(GroupRecord(group.namespace, group.name, group.uid))
        return live is not None and self._states.needs_record(live, found)

    async def _claims_of(self, held: Iterable[Volume], *, namespace: str) -> dict[str, Claim]:
        """Live, by uid. A claim that no informer has seen may exist: only a list shows that it does not."""
        known = [self._claim_states.claim(self._states.held_for(volume)) for volume in held]
        names = {claim.name for claim in known if claim is not None}
        if all(known):
            found: Iterable[Claim] = (await get_named(self._claims, self._client, names, namespace=namespace)).values()
        else:
            found = (await self._client.list(CLAIM, namespace=namespace)).items
        return {claim.uid: claim for claim in found}

    def _worth_reading(self, found: GroupObjects, known: StoredGroup | None, *, needs_record: bool) -> bool:
        """Whether a volume would be changed, by informers."""
        for volume in found.volumes:
            if not self._states.is_held(volume):
                continue
            claim_uid = self._states.held_for(volume)
            claim = self._claim_states.claim(claim_uid)
            hold = (
                self._states.hold_of(claim, volume, found) if claim is not None else self._states.without_claim(volume)
            )
            if group_policy.volume_step(claim_uid, hold, known, needs_record=needs_record) is not VolumeStep.KEEP:
                return True
        return False

    async def _carry_out(
        self,
        step: VolumeStep,
        volume: Volume,
        claim_uid: str,
        claim: Claim | None,
        hold: ClaimHold,
        stored: StoredGroup | None,
        uid: str,
        slots: asyncio.Semaphore,
    ) -> None:
        why = stored.record.reason if stored is not None and stored.record.reason else "GroupGivenUp"
        body: dict[str, object] = {}
        if step is VolumeStep.COMMIT and claim is not None:
            body = objects.commit_patch(volume, claim)
        elif step is VolumeStep.ROLL_BACK:
            reason = f"its group does not get all its volumes: {why}"
            body = objects.rollback_patch(volume, claim_uid, reason, hold_namespace=self._namespace)
        elif step is VolumeStep.DETACH:
            body = group_objects.detachment_patch(volume)
        elif step is VolumeStep.ADOPT and stored is not None:
            entry = group_policy.entry_of(claim_uid, hold, stored)
            if entry is not None:
                body = group_objects.adoption_patch(volume, uid, group_record.GroupMark(stored.uid, entry.epoch))
        if not body:
            return
        async with slots:
            try:
                await self._client.patch(VOLUME, volume.name, MergePatch(body))
            except (Conflict, NotFound):
                # Race: another writer was faster; its change arrives through the watch.
                self._raced.add(uid)
                return
        log.info("volume of group changed", volume=volume.name, step=step.value, group=uid)

    async def _conclude(self, stored: StoredGroup, group: PodGroup | None) -> StoredGroup | None:
        """Committed when nothing listed is held, idle when nothing is, deleted when its PodGroup is."""
        record = stored.record
        if record.phase not in (GroupPhase.COMMITTING, GroupPhase.GIVING_UP) and group is not None:
            return stored
        if record.phase is GroupPhase.HOLDING:
            return stored
        if any(self._states.is_held(volume) for volume in self._states.labelled(record.uid)):
            # By informers, which may be behind: the list below is not worth its cost yet.
            return stored
        volumes = (await self._client.list(VOLUME, labels=f"{GROUP_LABEL}={record.uid}")).items
        held = [volume for volume in volumes if self._states.is_held(volume)]
        if record.phase is GroupPhase.COMMITTING:
            claims = {self._states.held_for(volume) for volume in held}
            stored = await self._note_lost(stored, claims)
            return await self._swap(stored, group_record.complete(stored.record, held=claims)) or stored
        if held:
            return stored
        if record.phase is GroupPhase.GIVING_UP:
            pause = group_policy.group_backoff(record.count + 1)
            ended = group_record.end(record, now=self._clock.now(), backoff=pause)
            return await self._swap(stored, ended) or stored
        if not volumes:
            if await self._records.delete(stored):
                self._forget(record.uid)
            return None
        return stored

    async def _note_lost(self, stored: StoredGroup, held: set[str]) -> StoredGroup:
        """Listed claims whose volume is neither held nor theirs."""
        lost = {uid for uid in stored.record.listed - held if self._has_lost(uid)}
        return await self._swap(stored, group_record.lose(stored.record, lost)) or stored

    def _has_lost(self, uid: str) -> bool:
        claim = self._claim_states.claim(uid)
        return claim is None or not self._claim_states.claim_state(claim, None).bound

    async def _read_with_intents(self, uid: str) -> tuple[StoredGroup | None, dict[str, Intent]]:
        stored, intents = await self._records.read_with_intents(uid)
        if stored is not None:
            self._remember(uid, stored)
        return stored, intents

    async def _read_live(self, record: GroupRecord) -> tuple[StoredGroup | None, GroupObjects, PodGroup | None]:
        """The record before everything else (gate 4)."""
        stored, intents = await self._read_with_intents(record.uid)
        group = await self._pod_group(record.uid, f"{record.namespace}/{record.name}")
        volumes = (await self._client.list(VOLUME, labels=f"{GROUP_LABEL}={record.uid}")).items
        # A pod that informers do not know yet is missing here: the group is then looked at again when they do.
        key = f"{record.namespace}/{record.name}"
        names = {pod.name for pod in self._states.cached(record.uid, key).pods}
        pods = await get_named(self._pods, self._client, names, namespace=record.namespace)
        own = [pod for pod in pods.values() if pod.group_key == key]
        wanted = {claim.partition("/")[2] for pod in own for claim in pod.claim_keys}
        claims = await get_named(self._claims, self._client, wanted, namespace=record.namespace)
        return stored, GroupObjects(own, claims.get, volumes, await self._with_unlabelled(volumes, intents)), group

    async def _with_unlabelled(self, volumes: Iterable[Volume], intents: dict[str, Intent]) -> dict[str, Intent]:
        """With the intents of volumes that were held before their group was known: those have no label."""
        for volume in volumes:
            uid = self._states.held_for(volume)
            if uid and uid not in intents and objects.ATTEMPT in volume.metadata.annotations:
                intent = await self._records.read_intent(uid)
                if intent is not None:
                    intents[uid] = intent
        return intents

    async def _pod_group(self, uid: str, key: str) -> PodGroup | None:
        """Live; None where it does not exist, or the kind is not served or not readable."""
        namespace, _, name = key.partition("/")
        if not name:
            return None
        try:
            return await get_or_none(self._client, POD_GROUP, name, namespace=namespace, uid=uid)
        except Forbidden as refusal:
            log.warning("pod group not readable", group=key, error=refusal.message)
            return None

    async def _swap(self, stored: StoredGroup | None, record: GroupRecord | None) -> StoredGroup | None:
        """Create the record, or replace the one that was read. None where there is nothing to write, or another client
        was faster."""
        if record is None:
            return None
        after = await self._records.write(stored, record)
        if after is None:
            self._raced.add(record.uid)
        else:
            self._remember(record.uid, after)
        return after

    def _record_event(self, record: GroupRecord, kind: str, reason: str, text: str) -> None:
        self._recorder.record(_reference(record), POD_GROUP, kind, reason, text)


def _may_begin(stored: StoredGroup | None, group: PodGroup, found: GroupObjects) -> bool:
    """Without a record, between two attempts, or after the members of a committed one were replaced; pods that come to
    a committed group are decided about one by one."""
    if stored is None or stored.record.phase is GroupPhase.IDLE:
        return True
    if stored.record.phase is not GroupPhase.COMMITTED:
        return False
    return sum(pod.uid in stored.record.by_pod for pod in found.pods if not pod.finished) < group.min_count


def _is_loose(claim: Claim, hold: ClaimHold) -> bool:
    """Whether it has neither a volume nor a node for which one is provisioned."""
    return not (claim.spec.volume_name or claim.selected_node or hold.held or hold.committed)


def _is_elsewhere(hold: ClaimHold, member: group_record.RecordedMember) -> bool:
    """Whether its volume cannot be used on the member's node: the driver made it elsewhere, or the node was deleted."""
    return (hold.held or hold.committed) and not hold.reaches(member.node)


def _reference(record: GroupRecord) -> PodGroup:
    """The PodGroup as far as an event names it."""
    return PodGroup(metadata=Meta(name=record.name, namespace=record.namespace, uid=record.uid))
