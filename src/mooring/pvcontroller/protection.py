"""PVC and PV protection finalizers, and the claim condition `Unused`.

The API server adds the finalizers at creation; this component adds missing ones and removes them from deleted
objects that are not in use. Before a claim counts as unused, the pods of its namespace are listed live: one may just
have been bound. One list serves all claims of the namespace that wait for an answer.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.times import to_time
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.cache import POD_BY_CLAIM
from mooring.control.component import Context
from mooring.control.feature_gates import UNUSED_SINCE
from mooring.control.workqueue import work
from mooring.multimap import Multimap

UNUSED_CONDITION: Final = "Unused"
#: Claims whose condition is written by one list of pods: their pods may change while the writes are sent.
MAX_CONDITIONS: Final = 500


def is_used(claim: Claim, pods: Iterable[Pod]) -> bool:
    """Whether a pod names the claim and has not terminated, with or without a node."""
    return any(not _terminated(pod) and _mounts(pod, claim) for pod in pods)


def _terminated(pod: Pod) -> bool:
    """As for kube-controller-manager: finished, or being deleted without a running container."""
    if not pod.deleting or pod.finished:
        return pod.finished
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return all(one.state.terminated is not None or one.state.waiting is not None for one in statuses)


def _mounts(pod: Pod, claim: Claim) -> bool:
    """Whether a volume of the pod is the claim. A claim of another owner is not that of an ephemeral volume."""
    named = [volume for volume in pod.spec.volumes if pod.claim_name(volume) == claim.name]
    owned = claim.controller is not None and claim.controller.uid == pod.uid
    return any(volume.ephemeral is None or owned for volume in named)


def is_reported(claim: Claim, *, used: bool) -> bool:
    """Whether the condition says so already; claims that are not bound or are being deleted get none."""
    said = next((condition.status for condition in claim.status.conditions if condition.type == UNUSED_CONDITION), None)
    return claim.deleting or claim.status.phase != "Bound" or said == _status(used=used)


def unused_condition(claim: Claim, *, used: bool, now: str) -> StrategicPatch:
    """The change of the claim's status; other conditions stay."""
    told: dict[str, Any] = {
        "type": UNUSED_CONDITION,
        "status": _status(used=used),
        "reason": "PodUsingPVC" if used else "NoPodsUsingPVC",
        "message": f"{'A pod is' if used else 'No pods are'} currently referencing this PVC",
        "lastTransitionTime": now,
    }
    meta = {"resourceVersion": claim.metadata.resource_version}
    return StrategicPatch({"metadata": meta, "status": {"conditions": [told]}})


def _status(*, used: bool) -> str:
    return "False" if used else "True"


log = structlog.get_logger(__name__)


def claim_in_use(claim: Claim, pods: Iterable[Pod]) -> bool:
    """A pod that has a node protects its claims, even after it finished; a pod without a node does not."""
    return any(_protects(pod, claim) for pod in pods)


def _protects(pod: Pod, claim: Claim) -> bool:
    if not pod.spec.node_name or pod.namespace != claim.namespace or not _mounts(pod, claim):
        return False
    # An ephemeral claim goes with its pod, once the node has let go of it.
    shut_down = pod.deleting and pod.metadata.deletion_grace_period_seconds == 0
    mounts = (volume for volume in pod.spec.volumes if pod.claim_name(volume) == claim.name)
    return not shut_down or any(volume.ephemeral is None for volume in mounts)


def volume_in_use(volume: Volume) -> bool:
    return volume.status.phase == "Bound"


def is_settled(item: ApiObject, finalizer: str) -> bool:
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
        self._claim_work = context.work_queue("pvcprotection", CLAIM)
        self._volume_work = context.work_queue("pvprotection", VOLUME)
        #: Deleted claims that are protected, by namespace.
        self._dying: Multimap[str, str] = Multimap()
        #: Claims whose condition has to be written, by namespace.
        self._unreported: Multimap[str, str] = Multimap()
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
            self._dying.discard(before.namespace, before.key)
            self._unreported.discard(before.namespace, before.key)
        if after is None:
            return
        if not is_settled(after, well_known.PVC_PROTECTION):
            if after.deleting:
                self._dying.add(after.namespace, after.key)
            self._claim_work.add(after.key)
        self._report(after)

    def _report(self, claim: Claim) -> None:
        """Have the condition written if it is not what the pods are."""
        if self._tells_unused and not is_reported(claim, used=is_used(claim, self._users(claim))):
            self._unreported.add(claim.namespace, claim.key)
            self._claim_work.add(claim.key)

    def _on_volume(self, _: Volume | None, after: Volume | None) -> None:
        if after is not None and not is_settled(after, well_known.PV_PROTECTION):
            self._volume_work.add(after.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """A running pod only ever begins to use a claim; all others may have stopped."""
        pod = after if after is not None else before
        if pod is None:
            return
        runs = after is not None and after.spec.node_name and not after.finished and not after.deleting
        for key in pod.claim_keys:
            claim = self._claims.get(key)
            if claim is None:
                continue
            if not runs and not is_settled(claim, well_known.PVC_PROTECTION):
                self._claim_work.add(key)
            self._report(claim)

    async def _sync_claim(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        if key in self._unreported.get(claim.namespace, ()):
            await self._write_unused_conditions(claim.namespace, first=key)
            claim = self._claims.get(key)
        if claim is None or is_settled(claim, well_known.PVC_PROTECTION):
            return
        if not claim.deleting:
            await self._add(CLAIM, claim, well_known.PVC_PROTECTION)
        elif not claim_in_use(claim, self._users(claim)):
            await self._release_unused(claim.namespace)

    async def _write_unused_conditions(self, namespace: str, *, first: str) -> None:
        """Bring the condition of unreported claims of a namespace up to date, with one list of pods at most."""
        # Claims that come to wait during the list keep their turn: the list may be older than what they wait for.
        waiting = self._waiting(self._unreported, namespace)
        claims = sorted(waiting, key=lambda claim: claim.key != first)[:MAX_CONDITIONS]
        used = {claim.key for claim in claims if is_used(claim, self._users(claim))}
        if len(used) < len(claims):
            live = await self._live_pods(namespace)
            used |= {claim.key for claim in claims if is_used(claim, live.get(claim.key, ()))}

        async def write(claim: Claim) -> None:
            if not is_reported(claim, used=claim.key in used):
                patch = unused_condition(claim, used=claim.key in used, now=to_time(self._clock.now()))
                with suppress(NotFound):
                    await self._client.patch(CLAIM, claim.name, patch, namespace=namespace, subresource="status")

        await self._for_each(write, claims, self._unreported)

    async def _release_unused(self, namespace: str) -> None:
        """Remove the finalizer of all deleted, unused claims of a namespace, with one list of pods."""
        live = await self._live_pods(namespace)
        dying = self._waiting(self._dying, namespace)
        free = [one for one in dying if not claim_in_use(one, (*self._users(one), *live.get(one.key, ())))]
        await self._for_each(lambda claim: self._remove(CLAIM, claim, well_known.PVC_PROTECTION), free, self._dying)

    def _waiting(self, waiting: Multimap[str, str], namespace: str) -> list[Claim]:
        return [claim for key in sorted(waiting.get(namespace, ())) if (claim := self._claims.get(key)) is not None]

    async def _for_each(
        self, write: Callable[[Claim], Awaitable[None]], claims: Sequence[Claim], waiting: Multimap[str, str]
    ) -> None:
        """Claims no longer wait unless their write failed. Each has its own turn coming, and this one is tried again
        for all that failed."""
        for claim in claims:
            waiting.discard(claim.namespace, claim.key)
        done = await asyncio.gather(*map(write, claims), return_exceptions=True)
        for claim, error in zip(claims, done, strict=True):
            if error is not None and self._claims.get(claim.key) is not None:
                waiting.add(claim.namespace, claim.key)
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
        if volume is None or is_settled(volume, well_known.PV_PROTECTION):
            return
        if not volume.deleting:
            await self._add(VOLUME, volume, well_known.PV_PROTECTION)
        elif not volume_in_use(volume):
            await self._remove(VOLUME, volume, well_known.PV_PROTECTION)

    async def _add(self, kind: Kind[ApiObject], item: ApiObject, finalizer: str) -> None:
        await self._write(kind, item, [*item.metadata.finalizers, finalizer])
        log.info("finalizer added", kind=kind.kind, object=item.key)

    async def _remove(self, kind: Kind[ApiObject], item: ApiObject, finalizer: str) -> None:
        await self._write(kind, item, [name for name in item.metadata.finalizers if name != finalizer])
        log.info("finalizer removed", kind=kind.kind, object=item.key)

    async def _write(self, kind: Kind[ApiObject], item: ApiObject, finalizers: list[str]) -> None:
        body = {"metadata": {"resourceVersion": item.metadata.resource_version, "finalizers": finalizers or None}}
        try:
            await self._client.patch(kind, item.name, MergePatch(body), namespace=item.namespace)
        except NotFound:
            log.debug("object already deleted", kind=kind.kind, object=item.key)
