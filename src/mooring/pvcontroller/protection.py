"""Keeps claims and volumes from vanishing while they are in use, by their protection finalizers.

The API server adds `pvc-protection` and `pv-protection` at creation; this component adds them where that was missed
and removes them from deleted objects that nobody uses. "In use" is a pure question; before the answer "no" takes
effect for a claim, the server is asked for its pods once more, because one may have been bound a moment ago.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import structlog

from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_time
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.client.indexes import POD_BY_CLAIM
from mooring.control.component import Context
from mooring.control.feature_gates import UNUSED_SINCE
from mooring.control.worker import work
from mooring.pvcontroller import unused

log = structlog.get_logger(__name__)


def claim_in_use(claim: Claim, pods: Iterable[Pod]) -> bool:
    """A pod that has a node protects its claims, even after it finished; a pod without a node does not."""
    return any(_protects(pod, claim) for pod in pods)


def _protects(pod: Pod, claim: Claim) -> bool:
    if not pod.spec.node_name or pod.namespace != claim.namespace:
        return False
    mounts = [volume for volume in pod.spec.volumes if pod.claim_name(volume) == claim.name]
    if any(volume.ephemeral is None for volume in mounts):
        return True
    # An ephemeral claim goes with its pod, once the node has let go of it.
    owned = claim.controller is not None and claim.controller.uid == pod.uid
    shut_down = pod.deleting and pod.metadata.deletion_grace_period_seconds == 0
    return bool(mounts) and owned and not shut_down


def volume_in_use(volume: Volume) -> bool:
    return volume.status.phase == "Bound"


def settled(item: ApiObject, finalizer: str) -> bool:
    """Whether nothing is to be done: living objects carry the finalizer, dying ones do not."""
    return item.deleting != (finalizer in item.metadata.finalizers)


class VolumeProtection:
    name = "volume-protection"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._tells_unused = context.gates.enabled(UNUSED_SINCE)
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_CLAIM)
        self._claim_work = context.work_queue("pvcprotection")
        self._volume_work = context.work_queue("pvprotection")
        #: Deleted claims that are protected, by namespace.
        self._dying: dict[str, set[str]] = {}
        self.ready = False

    async def run(self) -> None:
        await self._pods.subscribe(self._on_pod)
        await self._claims.subscribe(self._on_claim)
        await self._volumes.subscribe(self._on_volume)
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._claim_work, self._sync_claim, workers=1, name=f"{self.name} claims"))
            group.create_task(work(self._volume_work, self._sync_volume, workers=1, name=f"{self.name} volumes"))

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        if before is not None:
            self._drop_dying(before)
        if after is None:
            return
        if not settled(after, keys.PVC_PROTECTION):
            if after.deleting:
                self._dying.setdefault(after.namespace, set()).add(after.key)
            self._claim_work.add(after.key)
        elif self._tells_unused and not unused.is_told(after, used=unused.is_used(self._users(after))):
            self._claim_work.add(after.key)

    def _drop_dying(self, claim: Claim) -> None:
        dying = self._dying.get(claim.namespace, set())
        dying.discard(claim.key)
        if not dying:
            self._dying.pop(claim.namespace, None)

    def _on_volume(self, _: Volume | None, after: Volume | None) -> None:
        if after is not None and not settled(after, keys.PV_PROTECTION):
            self._volume_work.add(after.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A running pod only ever begins to use a claim; all others may have stopped."""
        pod = after if after is not None else before
        runs = after is not None and after.spec.node_name and not after.finished and not after.deleting
        if pod is not None and (self._tells_unused or not runs):
            for key in pod.claim_keys:
                self._claim_work.add(key)

    async def _sync_claim(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        if self._tells_unused:
            claim = await self._tell_unused(claim)
        if settled(claim, keys.PVC_PROTECTION):
            return
        if not claim.deleting:
            await self._add(CLAIM, claim, keys.PVC_PROTECTION)
        elif not claim_in_use(claim, self._users(claim)):
            await self._release_unused(claim.namespace)

    async def _tell_unused(self, claim: Claim) -> Claim:
        """The claim with its condition brought up to date; that nobody uses it only the server may say."""
        used = unused.is_used(self._users(claim))
        if unused.is_told(claim, used=used):
            return claim
        if not used:
            used = unused.is_used((await self._live_pods(claim.namespace)).get(claim.key, ()))
            if unused.is_told(claim, used=used):
                return claim
        patch = unused.condition(claim, used=used, now=to_time(self._clock.now()))
        return await self._client.patch(CLAIM, claim.name, patch, namespace=claim.namespace, subresource="status")

    async def _release_unused(self, namespace: str) -> None:
        """Let all deleted claims of a namespace go that nobody uses. One list of pods serves them all."""
        live = await self._live_pods(namespace)
        dying = [
            claim for key in sorted(self._dying.get(namespace, ())) if (claim := self._claims.get(key)) is not None
        ]
        free = [one for one in dying if not claim_in_use(one, (*self._users(one), *live.get(one.key, ())))]
        for claim in free:
            self._drop_dying(claim)
        done = await asyncio.gather(
            *(self._remove(CLAIM, claim, keys.PVC_PROTECTION) for claim in free), return_exceptions=True
        )
        # Each has its own turn coming; this one is tried again for all that failed.
        for claim, error in zip(free, done, strict=True):
            if error is not None and self._claims.get(claim.key) is not None:
                self._dying.setdefault(namespace, set()).add(claim.key)
        failures = [error for error in done if error is not None]
        if failures:
            raise failures[0]

    def _users(self, claim: Claim) -> Collection[Pod]:
        return self._pods.by_index(POD_BY_CLAIM.name, claim.key)

    async def _live_pods(self, namespace: str) -> Mapping[str, list[Pod]]:
        """The pods of a namespace as the server has them now, by the claims they name."""
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in (await self._client.list(POD, namespace=namespace)).items:
            for key in pod.claim_keys:
                found[key].append(pod)
        return found

    async def _sync_volume(self, key: str) -> None:
        volume = self._volumes.get(key)
        if volume is None or settled(volume, keys.PV_PROTECTION):
            return
        if not volume.deleting:
            await self._add(VOLUME, volume, keys.PV_PROTECTION)
        elif not volume_in_use(volume):
            await self._remove(VOLUME, volume, keys.PV_PROTECTION)

    async def _add(self, kind: Kind[ApiObject], item: ApiObject, finalizer: str) -> None:
        await self._write(kind, item, [*item.metadata.finalizers, finalizer])
        log.info("protected", kind=kind.kind, object=item.key)

    async def _remove(self, kind: Kind[ApiObject], item: ApiObject, finalizer: str) -> None:
        await self._write(kind, item, [name for name in item.metadata.finalizers if name != finalizer])
        log.info("protection lifted", kind=kind.kind, object=item.key)

    async def _write(self, kind: Kind[ApiObject], item: ApiObject, finalizers: list[str]) -> None:
        body = {"metadata": {"resourceVersion": item.metadata.resource_version, "finalizers": finalizers or None}}
        try:
            await self._client.patch(kind, item.name, MergePatch(body), namespace=item.namespace)
        except NotFound:
            log.debug("gone already", kind=kind.kind, object=item.key)
