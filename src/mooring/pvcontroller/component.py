"""The PV controller's shell: watches, queues, and carries out what the state machines ask for.

Claims and volumes are looked at again whenever something they depend on changes; upstream leaves some of that to its
period of 15 s (a new volume for a waiting claim, a class that comes later, a pod that appears). Every 15 s what is not
at rest is looked at once more, and now and then everything, in case a change was missed. Many keys are worked on at
once, each by one worker; a volume that is being reserved is promised, so that claims do not run after the same one.
"""

import asyncio
import itertools
from functools import partial
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.client.indexes import POD_BY_CLAIM
from mooring.control.component import Context
from mooring.control.feature_gates import CLAIM_ROLLBACK, VOLUME_SCHEDULING
from mooring.control.invariants import Invariant
from mooring.control.worker import repeat, work
from mooring.pvcontroller import claims, volumes
from mooring.pvcontroller.claim_status import BOUND
from mooring.pvcontroller.facts import Facts
from mooring.pvcontroller.intents import ReserveVolume, Say, Step, Write
from mooring.pvcontroller.second_looks import SecondLooks
from mooring.pvcontroller.writes import to_request
from mooring.volumes.clean_claims import rolls_back

#: kube-controller-manager's --pvclaimbinder-sync-period.
RESYNC_SECONDS: Final = 15.0
#: What is at rest is looked at every so many periods: at 100,000 pairs a look at all takes seconds of work.
ALL_EVERY: Final = 20
#: Writes on their way at once, per queue; more gain nothing on a server with two cores.
WORKERS: Final = 16
#: Binding takes five writes at most; more in one go means that two machines undo each other.
MOST_WRITES: Final = 8

log = structlog.get_logger(__name__)


class PersistentVolumeController:
    name = "persistentvolume-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._informers = context.informers
        self._recorder = context.recorder
        self._clock = context.clock
        self._invariants = context.invariants
        pods = context.informers.of(POD)
        pods.add_index(*POD_BY_CLAIM)
        self._claims = context.work_queue("claims")
        self._volumes = context.work_queue("volumes")
        self._facts = Facts(
            lambda claim: pods.by_index(POD_BY_CLAIM.name, claim),
            delayed_binding=context.gates.enabled(VOLUME_SCHEDULING),
            claim_rollback=context.gates.enabled(CLAIM_ROLLBACK),
            call=lambda claim: self._claims.add(claim.key),
        )
        self._looks = SecondLooks(context.client, self._facts)
        self._periods = itertools.count(1)
        self.ready = False

    async def run(self) -> None:
        informers = self._informers
        await informers.of(STORAGE_CLASS).subscribe(self._on_class)
        await informers.of(VOLUME).subscribe(self._on_volume)
        await informers.of(CLAIM).subscribe(self._on_claim)
        await informers.of(POD).subscribe(self._on_pod)
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._claims, self._sync_claim, workers=WORKERS, name=f"{self.name} claims"))
            group.create_task(work(self._volumes, self._sync_volume, workers=WORKERS, name=f"{self.name} volumes"))
            pause = partial(self._clock.sleep, RESYNC_SECONDS)
            group.create_task(repeat(self._resync, pause, name=f"{self.name} resync", at_once=False))

    async def _resync(self) -> None:
        everything = next(self._periods) % ALL_EVERY == 0
        for claim in self._informers.of(CLAIM).items():
            if everything or claim.status.phase != BOUND or not claim.fully_bound:
                self._claims.add(claim.key)
        for volume in self._informers.of(VOLUME).items():
            if everything or volume.status.phase not in ("Available", "Bound"):
                self._volumes.add(volume.key)

    def _on_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        """Claims of the class may have waited for it, claims without one for a default."""
        self._facts.observe_class(before, after)
        names = {storage_class.name for storage_class in (before, after) if storage_class is not None}
        for name in (*names, ""):
            for claim in self._facts.claims_without_volume(name):
                self._claims.add(claim.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """What a delayed claim says it waits for depends on the pods that use it, and so does whether a claim can be
        unbound."""
        if _waits(before) == _waits(after):
            return
        for pod in (before, after):
            for key in pod.claim_keys if pod is not None else ():
                claim = self._facts.claims.get(key)
                if claim is not None and (not claim.spec.volume_name or rolls_back(claim)):
                    self._claims.add(key)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        self._facts.volumes.observe(before, after)
        for volume in (before, after):
            if volume is not None:
                self._volumes.add(volume.key)
                self._look_at_claims_of(volume)

    def _look_at_claims_of(self, volume: Volume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            self._claims.add(f"{reference.namespace}/{reference.name}")
        for claim in self._facts.claims_naming(volume.name):
            self._claims.add(claim.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        self._facts.claims.observe(before, after)
        for claim in (before, after):
            if claim is not None:
                self._claims.add(claim.key)
                self._look_at_volumes_of(claim)

    def _look_at_volumes_of(self, claim: Claim) -> None:
        if claim.spec.volume_name:
            self._volumes.add(claim.spec.volume_name)
        for volume in self._facts.volumes_reserved_for(claim.key):
            self._volumes.add(volume.key)

    async def _sync_claim(self, key: str) -> None:
        with self._facts.turn_of(key):
            await self._bind(key)

    async def _bind(self, key: str) -> None:
        for _ in range(MOST_WRITES):
            claim = self._facts.claims.get(key)
            if claim is None:
                return
            step = claims.next_step(claim, self._facts)
            if doubt := await self._looks.against(step, claim):
                log.info("cache is behind, so nothing is written yet", claim=key, why=doubt)
                return
            if not await self._take(step, key):
                return
        log.warning("claim does not settle", claim=key, writes=MOST_WRITES)

    async def _sync_volume(self, key: str) -> None:
        for _ in range(MOST_WRITES):
            volume = self._facts.volumes.get(key)
            if volume is None:
                return
            claim = await self._claim_behind(volume)
            users = self._facts.users_of_gone_claim(volume)
            if not await self._take(volumes.next_step(volume, claim, users=users), key):
                return
        log.warning("volume does not settle", volume=key, writes=MOST_WRITES)

    async def _claim_behind(self, volume: Volume) -> Claim | None:
        """The claim the volume was bound to. Before it counts as gone, the server itself must say so."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self._facts.claims.get(f"{reference.namespace}/{reference.name}")
        if claim is None and volume.status.phase in ("Released", "Failed"):
            # SEEN: the server said so when the volume was released; a uid does not come back.
            return None
        if claim is None or claim.uid != reference.uid:
            try:
                claim = await self._client.get(CLAIM, reference.name, namespace=reference.namespace)
            except NotFound:
                return None
        return claim if claim.uid == reference.uid else None

    async def _take(self, step: Step, key: str) -> bool:
        """Carry one step out; True when there may be another."""
        if step.write is not None:
            await self._write(step.write)
        if step.problem:
            log.warning("cannot decide", object=key, why=step.problem)
        for say in step.says:
            self._say(say)
        if step.look_at_claim:
            self._claims.add(step.look_at_claim)
        return step.write is not None

    async def _write(self, write: Write) -> None:
        if not isinstance(write, ReserveVolume):
            await self._send(write)
            return
        reference = write.volume.spec.claim_ref
        owner = reference.uid if reference is not None else ""
        detail = f"it belongs to claim uid {owner}, to be reserved for {write.claim.key} with uid {write.claim.uid}"
        is_free = owner in ("", write.claim.uid)
        self._invariants.require(is_free, Invariant.RESERVATION_MATCHES_CLAIM, write.volume, detail)
        with self._facts.promised(write.volume):
            await self._send(write)

    async def _send(self, write: Write) -> None:
        request = to_request(write, now=timestamps.to_time(self._clock.now()))
        target = request.target
        returned = await self._client.patch(
            request.kind, target.name, request.patch, namespace=target.namespace, subresource=request.subresource
        )
        log.info("wrote", what=type(write).__name__, kind=request.kind.kind, object=target.key)
        if isinstance(returned, Claim):
            self._facts.claims.learn(returned)
        elif isinstance(returned, Volume):
            self._facts.volumes.learn(returned)

    def _say(self, say: Say) -> None:
        kind = CLAIM if isinstance(say.about, Claim) else VOLUME
        self._recorder.record(say.about, kind, say.type, say.reason, say.message)


def _waits(pod: Pod | None) -> bool:
    return pod is not None and pod.unplaced
