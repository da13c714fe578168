"""The PV controller's shell: watches, queues, and carries out what the state machines ask for.

One worker per queue, as upstream; claims and volumes are looked at again whenever something they depend on changes,
and every 15 s in case a change was missed.
"""

import asyncio
from typing import Final

import structlog

from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ObjectReference
from mooring.api.views.pod import Pod
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.control.worker import work
from mooring.pvcontroller import claims, volumes
from mooring.pvcontroller.facts import Facts
from mooring.pvcontroller.intents import Say, Step, Write
from mooring.pvcontroller.writes import to_request

#: kube-controller-manager's --pvclaimbinder-sync-period.
RESYNC_SECONDS: Final = 15.0
#: Binding takes four writes; more in one go means that two machines undo each other.
MOST_WRITES: Final = 8

log = structlog.get_logger(__name__)


class _ClaimBehind:
    """Answers the volume machine's question with a claim the server has confirmed, or confirmed gone."""

    def __init__(self, claim: Claim | None) -> None:
        self._claim = claim

    def claim_of(self, reference: ObjectReference) -> Claim | None:
        return self._claim


class PersistentVolumeController:
    name = "persistentvolume-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._informers = context.informers
        self._recorder = context.recorder
        self._clock = context.clock
        self._facts = Facts()
        self._claims: WorkQueue[str] = WorkQueue(context.clock)
        self._volumes: WorkQueue[str] = WorkQueue(context.clock)
        self.ready = False

    async def run(self) -> None:
        informers = self._informers
        informers.of(STORAGE_CLASS).on_change(self._on_class)
        informers.of(POD).on_change(self._on_pod)
        informers.of(VOLUME).on_change(self._on_volume)
        informers.of(CLAIM).on_change(self._on_claim)
        for kind in (STORAGE_CLASS, POD, VOLUME, CLAIM):
            await informers.of(kind).synced.wait()
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._claims, self._sync_claim, workers=1, name=f"{self.name} claims"))
            group.create_task(work(self._volumes, self._sync_volume, workers=1, name=f"{self.name} volumes"))
            group.create_task(self._resync())

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(RESYNC_SECONDS)
            for claim in self._informers.of(CLAIM).items():
                self._claims.add(claim.key)
            for volume in self._informers.of(VOLUME).items():
                self._volumes.add(volume.key)

    def _on_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        self._facts.observe_class(before, after)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        self._facts.observe_pod(before, after)

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
        for claim in self._facts.claims.filed_under(volume.name):
            self._claims.add(claim.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        self._facts.claims.observe(before, after)
        for claim in (before, after):
            if claim is not None:
                self._claims.add(claim.key)
                if claim.spec.volume_name:
                    self._volumes.add(claim.spec.volume_name)

    async def _sync_claim(self, key: str) -> None:
        for _ in range(MOST_WRITES):
            claim = self._facts.claims.get(key)
            if claim is None:
                return
            if not await self._take(claims.next_step(claim, self._facts)):
                return
        log.warning("claim does not settle", claim=key, writes=MOST_WRITES)

    async def _sync_volume(self, key: str) -> None:
        for _ in range(MOST_WRITES):
            volume = self._facts.volumes.get(key)
            if volume is None:
                return
            behind = _ClaimBehind(await self._claim_behind(volume))
            if not await self._take(volumes.next_step(volume, behind)):
                return
        log.warning("volume does not settle", volume=key, writes=MOST_WRITES)

    async def _claim_behind(self, volume: Volume) -> Claim | None:
        """The claim the volume was bound to. Before it counts as gone, the server itself must say so."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self._facts.claims.get(f"{reference.namespace}/{reference.name}")
        if claim is None or claim.uid != reference.uid:
            try:
                claim = await self._client.get(CLAIM, reference.name, namespace=reference.namespace)
            except NotFound:
                return None
        return claim if claim.uid == reference.uid else None

    async def _take(self, step: Step) -> bool:
        """Carry one step out; True when there may be another."""
        for say in step.says:
            self._say(say)
        if step.look_at_claim:
            self._claims.add(step.look_at_claim)
        if step.write is None:
            return False
        await self._write(step.write)
        return True

    async def _write(self, write: Write) -> None:
        request = to_request(write)
        target = request.target
        returned = await self._client.patch(
            request.kind, target.name, request.patch, namespace=target.namespace, subresource=request.subresource
        )
        log.info("wrote", what=type(write).__name__, kind=request.kind.kind, object=target.key)
        if isinstance(returned, Claim):
            self._facts.claims.put(returned)
        elif isinstance(returned, Volume):
            self._facts.volumes.put(returned)

    def _say(self, say: Say) -> None:
        kind = CLAIM if isinstance(say.about, Claim) else VOLUME
        self._recorder.record(say.about, kind, say.type, say.reason, say.message)
