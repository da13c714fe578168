"""Provisioning of held volumes: record the attempt, create the volume, create the held PersistentVolume.

Carries out `volumes.holds.transitions` step by step, beginning with live reads; what an attempt has written itself is
not read again, since every further write compares the record's resourceVersion. The caller serialises the calls for one
claim (a work queue gives a key to one worker at a time) and retries after a ProvisioningFailure.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import well_known
from mooring.api.errors import Conflict
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.client.cache import POD_BY_CLAIM
from mooring.client.live_reads import get_or_none
from mooring.control.feature_gates import PROVISIONING_ROLLBACK
from mooring.control.leader_election import LeaseMonitor
from mooring.provisioner import events
from mooring.provisioner.provision import request, selected_node
from mooring.provisioner.provision.create import DriverContext, VolumeCreator
from mooring.provisioner.provision.selected_node import live_claim
from mooring.provisioner.rollback.attempts import HeldAttempt, HeldAttempts, direct_plan, held_plan
from mooring.provisioner.rollback.groups import GroupHolds, HoldingGroup
from mooring.provisioner.rollback.orphans import OrphanCollector
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState
from mooring.volumes.binding import HoldState, hold_state, is_delayed
from mooring.volumes.holds import objects, transitions
from mooring.volumes.holds.transitions import HoldSnapshot, Intent, IntentPhase

log: FilteringBoundLogger = structlog.get_logger(__name__)


class HoldPolicy:
    """Volumes are held for pods and for groups of pods that wait for several of them, while a coordinator runs.

    All others are provisioned without hold and record: a held volume that is never committed would block its pod.
    """

    def __init__(self, context: DriverContext, *, enabled: bool) -> None:
        """If not enabled, no further volumes are held; attempts on record are completed."""
        informers = context.component.informers
        self._enabled = enabled
        self._is_active = partial(context.component.is_active, PROVISIONING_ROLLBACK)
        self._coordinator = LeaseMonitor(
            context.client, context.clock, name=well_known.COORDINATOR_LEASE, namespace=context.namespace
        )
        self._groups = GroupHolds(context, self._coordinator, enabled=enabled)
        self._claims = informers.of(CLAIM)
        self._classes = informers.of(STORAGE_CLASS)
        self._pods = informers.of(POD) if enabled else None
        if self._pods is not None:
            self._pods.add_index(*POD_BY_CLAIM)

    async def should_hold(self, claim: Claim) -> bool:
        if self._needs_several_volumes(claim):
            return await self.has_coordinator()
        return await self.group_of(claim) is not None

    async def group_of(self, claim: Claim) -> HoldingGroup | None:
        """The group of pods that the claim's volume is held for, also where its pod has no other."""
        if self._pods is None or not self._awaits_provisioning(claim):
            return None
        return await self._groups.group_for(claim, self.waiting_pods(claim), self._awaits_volume)

    def _awaits_volume(self, key: str) -> bool:
        """Also a claim that is not known yet."""
        claim = self._claims.get(key)
        return claim is None or self._awaits_provisioning(claim)

    async def has_coordinator(self) -> bool:
        """Whether a coordinator runs, which commits or rolls back held volumes, and no instance lacks the
        feature."""
        return self._enabled and self._is_active() and await self._coordinator.is_held()

    def waiting_pods(self, claim: Claim) -> list[Pod]:
        """The pods that wait for the claim; none if pods are not watched."""
        pods = self._pods.by_index(POD_BY_CLAIM.name, claim.key) if self._pods is not None else ()
        return [pod for pod in pods if pod.waits]

    def siblings(self, claim: Claim, pods: Iterable[Pod]) -> list[Claim | None]:
        """The other claims of the pods; None for one that the cache lacks."""
        return [self._claims.get(key) for key in {key for pod in pods for key in pod.claim_keys} - {claim.key}]

    def _needs_several_volumes(self, claim: Claim) -> bool:
        """Whether a pod waits for this claim and for another one like it. Pods and claims that the cache lacks count as
        waiting: the scheduler had observed them when it selected the node."""
        if self._pods is None or not self._awaits_provisioning(claim) or self._has_pod_on(claim, claim.selected_node):
            return False
        waiting = self.waiting_pods(claim)
        return not waiting or any(
            other is None or self._awaits_provisioning(other) for other in self.siblings(claim, waiting)
        )

    async def should_hold_attempt(self, claim: Claim, node: str) -> bool:
        """Whether an attempt on record is held. A pod with a preset node may have been observed after an earlier
        attempt."""
        return not self._has_pod_on(claim, node) and await self.has_coordinator()

    def _has_pod_on(self, claim: Claim, node: str | None) -> bool:
        """Whether a pod with a preset node needs the volume there: a rollback could not move it, and no scheduler would
        have the held volume committed."""
        pods = self._pods.by_index(POD_BY_CLAIM.name, claim.key) if self._pods is not None else ()
        return any(pod.spec.node_name == node and not pod.finished and not pod.deleting for pod in pods)

    def _awaits_provisioning(self, claim: Claim) -> bool:
        return is_delayed(claim.storage_class, self._classes.get) is True and not claim.spec.volume_name


class _Situation(NamedTuple):
    """A claim as it was read, with what has been written since."""

    claim: Claim | None
    volume: Volume | None
    attempt: HeldAttempt | None

    def snapshot(self, *, hold_namespace: str) -> HoldSnapshot:
        facts = None
        intent = self.attempt.intent if self.attempt is not None else None
        if self.volume is not None:
            facts = objects.volume_facts(self.volume, hold_namespace=hold_namespace, attached=False)
        return HoldSnapshot(objects.claim_facts(self.claim), facts, intent)


class HeldVolumeProvisioner:
    def __init__(self, context: DriverContext, policy: HoldPolicy, *, single_writer: bool) -> None:
        """`single_writer`: no other instance begins attempts while this one runs, so a claim that is not in `records`
        has no record. Where that is wrong after all, the first write is a Conflict."""
        self._context = context
        self._client = context.client
        self._attempts = HeldAttempts.of(context)
        self._policy = policy
        self._creator = VolumeCreator(context)
        self._capacity_listener = context.capacity_listener
        self._volumes = context.component.informers.of(VOLUME)
        self._single_writer = single_writer
        #: By claim uid: the record as it was last read or written here, None where that is not known.
        self.records: dict[str, HeldAttempt | None] = {}

    def is_settled(self, uid: str, claim: Claim | None) -> bool:
        """Whether there is nothing to do by informers and the known record. Only what is to be done needs live reads:
        whatever changes that is an event of the claim or of its volume."""
        attempt = self.records.get(uid)
        volume = self._volumes.get(self._context.driver.volume_name(uid))
        return attempt is not None and self._next_step(_Situation(claim, volume, attempt)) == transitions.Nothing()

    async def serve(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> Volume | None:
        """The held PersistentVolume; None if there is nothing to do.

        Raises ProvisioningFailure, and Conflict if another instance updated the record.
        """
        result: Volume | None = None
        situation = await self._read_situation(uid, claim)
        while True:
            attempt = situation.attempt
            match self._next_step(situation):
                case transitions.OpenAttempt(intent):
                    attempt = await self._open_attempt(uid, claim, storage_class, intent, attempt)
                    situation = situation._replace(attempt=attempt)
                case transitions.CreateStorage():
                    assert attempt is not None, "only an open attempt is carried out"
                    # Closed before anything is deleted: an object that another instance saves is not committed then.
                    before_discard = partial(self._attempts.end_failed, attempt, reschedule=False)
                    try:
                        result = await self._creator.create(attempt.plan, before_discard=before_discard)
                    except ProvisioningFailure as failure:
                        if await self._fail(attempt, failure):
                            # Race: an earlier process cleared the node and crashed, and the scheduler has selected
                            # another one. This process has known that from its start: no event of the claim follows.
                            raise ProvisioningFailure(ProvisioningState.FINISHED, failure.text) from failure
                        raise
                    self._capacity_listener.volume_created(result)
                    situation = situation._replace(volume=result)
                case transitions.Close(intent):
                    assert attempt is not None, "only an open attempt is closed"
                    situation = situation._replace(attempt=await self._attempts.close(attempt, intent))
                    result = result or situation.volume
                case _:
                    self.records[uid] = situation.attempt
                    return result

    def _next_step(self, situation: _Situation) -> transitions.ProvisioningStep:
        return transitions.next_provisioning_step(situation.snapshot(hold_namespace=self._attempts.namespace))

    async def _read_situation(self, uid: str, claim: Claim | None) -> _Situation:
        """Live reads: CreateVolume cannot be taken back. The record is read last: a rollback closes the attempt before
        it deletes the object, so an attempt that is open after the object was found missing was not rolled back."""
        recorded = uid in self.records or not self._single_writer
        known, self.records[uid] = self.records.get(uid), None
        about = claim or (request.claim_of_plan(known.plan) if known is not None else None)
        if about is None:
            # Deleted before this process has seen it: only the record says what it was called.
            known = await self._attempts.read(uid)
            about = request.claim_of_plan(known.plan) if known is not None else None
        live = await live_claim(self._client, uid, about)
        volume = await get_or_none(self._client, VOLUME, self._context.driver.volume_name(uid))
        return _Situation(live, volume, await self._attempts.read(uid) if recorded else None)

    async def _open_attempt(
        self,
        uid: str,
        claim: Claim | None,
        storage_class: StorageClass | None,
        intent: Intent,
        over: HeldAttempt | None,
    ) -> HeldAttempt:
        if over is not None and over.intent.attempt == intent.attempt:
            # The PersistentVolume of a created volume was deleted; the attempt continues with the same plan.
            return await self._attempts.open(uid, intent, over.plan, over=over)
        assert claim is not None, "an attempt begins with a claim"
        assert storage_class is not None, "eligible claims have a class"
        try:
            self._require_no_rollback(claim, intent.node)
            result = self._context.plan(claim.assumed_on(intent.node), storage_class)
        except ProvisioningFailure as failure:
            if failure.state is ProvisioningState.RESCHEDULE:
                await selected_node.clear_selected_node(self._client, claim, intent.node)
            raise
        if await self._policy.should_hold_attempt(claim, intent.node):
            namespace, now = self._attempts.namespace, self._context.clock.now()
            group = await self._policy.group_of(claim)
            result = held_plan(result, claim, intent, now=now, hold_namespace=namespace, group=group)
        else:
            result = direct_plan(result, intent)
        return await self._attempts.open(uid, intent, result, over=over)

    def _require_no_rollback(self, claim: Claim, node: str) -> None:
        """A sibling whose volume is rolled back on a node keeps the node selected for a while, and with it the pod: in
        the space it has freed this claim would get a volume, which then blocks the sibling, and so on in turns."""
        namespace = self._attempts.namespace
        for sibling in self._policy.siblings(claim, self._policy.waiting_pods(claim)):
            name = self._context.driver.volume_name(sibling.uid) if sibling is not None else ""
            volume = self._volumes.get(name)
            if sibling is None or volume is None or volume.metadata.annotations.get(objects.NODE) != node:
                continue
            if hold_state(volume, hold_namespace=namespace) is HoldState.ROLLING_BACK:
                reason = f'the volume of claim "{sibling.name}" of the same pod is rolled back there'
                text = events.SELECTED_NODE_CLEARED.format(node=node, reason=reason)
                raise ProvisioningFailure(ProvisioningState.RESCHEDULE, text)

    async def _fail(self, attempt: HeldAttempt, failure: ProvisioningFailure) -> bool:
        """Whether the claim has another node by now. An attempt whose request is in flight stays open."""
        if failure.state is not ProvisioningState.NO_CHANGE:
            self._capacity_listener.provisioning_failed(attempt.plan)
        if failure.state not in (ProvisioningState.RESCHEDULE, ProvisioningState.FINISHED):
            return False
        reschedule = failure.state is ProvisioningState.RESCHEDULE
        if reschedule:
            await self._capacity_listener.refresh(attempt.plan)
        return await self._attempts.end_failed(attempt, reschedule=reschedule)


class HeldVolumeController:
    """The hold protocol as the provision controller uses it.

    Once a claim has a provisioning record, its further attempts follow the protocol too: they are numbered.
    """

    def __init__(self, context: DriverContext, orphan_collector: OrphanCollector, *, enabled: bool, node: str) -> None:
        """`node` excludes attempts for other nodes; `enabled` as for HoldPolicy."""
        self._node = node
        self._policy = HoldPolicy(context, enabled=enabled)
        self._orphan_collector = orphan_collector
        self._attempts = HeldAttempts.of(context)
        self._provisioning = HeldVolumeProvisioner(context, self._policy, single_writer=not node)
        self._records = self._provisioning.records

    async def load(self) -> list[str]:
        """Load the records of an earlier process. Returns the uids of their claims."""
        found = await self._attempts.load()
        self._records.update((attempt.uid, attempt) for attempt in found)
        return [attempt.uid for attempt in found]

    def has_record(self, uid: str) -> bool:
        return uid in self._records

    def expect_record(self, uid: str) -> None:
        """Another instance has recorded an attempt since the start of this one."""
        self._records.setdefault(uid, None)

    def priority(self, claim: Claim | None) -> tuple[bool, str, str]:
        """For the order of claims: first those of pods that have begun to get their volumes, then those of the pod that
        has waited longest, all of one pod together, so that pods become complete one after the other, and not all of
        them last."""
        if claim is None:
            return False, "", ""
        pods = self._policy.waiting_pods(claim)
        siblings = self._policy.siblings(claim, pods)
        begun = any(each is not None and each.uid in self._records for each in (claim, *siblings))
        waiting = [(each.metadata.creation_timestamp or "", each.uid) for each in (*pods, *(() if pods else (claim,)))]
        return not begun, *min(waiting)

    async def applies_to(self, uid: str, claim: Claim | None) -> bool:
        if uid in self._records:
            return True
        if claim is None or not claim.selected_node or self._node not in ("", claim.selected_node):
            return False
        return await self._policy.should_hold(claim)

    async def resolve_orphan(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> bool:
        """Adopt or delete the claim's orphaned volume, if the driver has one; False to retry later."""
        if not self._orphan_collector.suspects(uid):
            return True
        if claim is not None and not await self._policy.has_coordinator():
            # It would be held without a coordinator. The next ListVolumes reports it again.
            return True
        try:
            if await self._orphan_collector.resolve(uid, claim, storage_class):
                self._records[uid] = None
        except Conflict:
            return False
        except ProvisioningFailure as failure:
            log.warning("orphaned volume not resolved", claim=uid, error=failure.text)
            return False
        return True

    async def serve(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> Volume | None:
        """As `HeldVolumeProvisioner.serve`. After a Conflict the next call reads the record."""
        try:
            outcome = None
            if not self._provisioning.is_settled(uid, claim):
                if await self._belongs_to_other_node(uid, claim):
                    return None
                outcome = await self._provisioning.serve(uid, claim, storage_class)
            if outcome is None and (claim is None or claim.spec.volume_name):
                await self._delete_record(uid)
        except Conflict:
            self._records[uid] = None
            raise
        return outcome

    async def _belongs_to_other_node(self, uid: str, claim: Claim | None) -> bool:
        """An attempt is begun by the instance of the selected node, and carried out where it was begun."""
        if not self._node:
            return False
        attempt = await self._attempts.read(uid)
        if attempt is not None and not attempt.intent.closed:
            return attempt.intent.node != self._node
        return claim is not None and not claim.spec.volume_name and claim.selected_node != self._node

    async def _delete_record(self, uid: str) -> None:
        """The claim is bound or deleted: delete its record, unless a request may be in flight."""
        attempt = self._records.get(uid) or await self._attempts.read(uid)
        if attempt is not None and attempt.intent.phase is IntentPhase.CREATING:
            return
        if attempt is not None and attempt.intent.closed:
            self._orphan_collector.claim_deleted(attempt)
        await self._attempts.delete(uid, known=attempt)
        self._records.pop(uid, None)
