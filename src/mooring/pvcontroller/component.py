"""The PV controller's loop: watches, queues, live checks before irreversible writes, and the writes.

Claims and volumes are synced when something they depend on changes; every 15 s those not settled, and now and then
all, in case a change was missed. Each key is synced by one worker. Live checks read the other objects that a write
was decided on, because informers may lag behind each other; the written object is guarded by its resourceVersion.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import structlog
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.api import times
from mooring.api.kinds import CLAIM, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, StorageClass, Volume
from mooring.client.cache import POD_BY_CLAIM
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context
from mooring.control.feature_gates import CLAIM_ROLLBACK, VOLUME_SCHEDULING
from mooring.control.invariants import Invariant
from mooring.control.workqueue import repeat, work
from mooring.pvcontroller import actions, claim_sync, volume_sync
from mooring.pvcontroller.cache import BindingCache
from mooring.pvcontroller.claim_sync import BOUND, LOST
from mooring.volumes.claim_rollback import detached_from, is_rolling_back, may_have_used_volumes, unbound_from


class LiveChecks:
    def __init__(self, client: Client, cache: BindingCache) -> None:
        self._client = client
        self._cache = cache

    async def against(self, step: actions.SyncStep, claim: Claim) -> str:
        """Why a step for a claim should not be taken on what is known here; "" if nothing speaks against it."""
        match step.write:
            case actions.SetClaimStatus(phase=phase) if phase == LOST:
                # No event may report lost data because one watch lags behind another.
                return "" if await self._knows_volume_of(claim) else "its volume is not what it was"
            case actions.ReserveVolume(by_controller=True) if self._relies_on_no_class(claim):
                # A claim bound before its pod was placed stays so.
                found_class = await get_or_none(self._client, STORAGE_CLASS, claim.storage_class)
                return "its class is there" if found_class is not None else ""
            case actions.SetClaimVolumeName(volume=name) if self._cache.claim_rollback:
                # Another controller may have ended a rollback in which the volume was let go.
                found = await get_or_none(self._client, VOLUME, name)
                return "" if found is not None and _belongs(found, claim) else "the volume is not reserved for it"
            case actions.UnbindClaim():
                # A node that admits a pod writes to the claim first, so it is safe; but a pod that was just bound would
                # wait there indefinitely.
                return "a pod that uses it has a node" if await self._is_near(claim) else ""
            case actions.DetachVolume(volume=volume) | actions.ReleaseVolume(volume=volume):
                # If the rollback has been ended, the volume may be the one that was chosen since.
                return "" if await self._is_unbound(claim, volume.name) else "it is not being rolled back"
            case actions.EndRollback() if name := unbound_from(claim):
                # Other writers that release the volume must fail: the annotation stays until the volume has changed.
                left = await get_or_none(self._client, VOLUME, name)
                has_it = left is not None and (_belongs(left, claim) or detached_from(left) == claim.uid)
                return "its volume is still there" if has_it else ""
        return ""

    async def _knows_volume_of(self, claim: Claim) -> bool:
        name = claim.spec.volume_name
        if not name:
            return True
        known, actual = self._cache.volume(name), await get_or_none(self._client, VOLUME, name)
        if known is None or actual is None:
            return known is actual
        return known.metadata.resource_version == actual.metadata.resource_version

    def _relies_on_no_class(self, claim: Claim) -> bool:
        """Whether a volume was chosen for a claim because there is no class that would have it wait."""
        chosen = not claim.spec.volume_name
        return chosen and bool(claim.storage_class) and claim.storage_class not in self._cache.classes

    async def _is_near(self, claim: Claim) -> bool:
        pods = (await self._client.list(POD, namespace=claim.namespace)).items
        return any(claim.key in pod.claim_keys and may_have_used_volumes(pod) for pod in pods)

    async def _is_unbound(self, claim: Claim, volume: str) -> bool:
        actual = await get_or_none(self._client, CLAIM, claim.name, namespace=claim.namespace, uid=claim.uid)
        return actual is not None and unbound_from(actual) == volume


def _belongs(volume: Volume, claim: Claim) -> bool:
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid == claim.uid


#: kube-controller-manager's name of a volume plugin that it does not know.
UNKNOWN_PLUGIN: Final = "N/A"


class BoundObjects(Collector):
    """Metrics under kube-controller-manager's names: claims and volumes, bound and not.

    Counted when they are scraped, as kube-controller-manager does, so that binding costs nothing more.
    """

    def __init__(self, informers: Informers) -> None:
        self._claims = informers.of(CLAIM)
        self._volumes = informers.of(VOLUME)

    def collect(self) -> Iterator[Metric]:
        volumes, claims = list(self._volumes.items()), list(self._claims.items())
        total = GaugeMetricFamily(
            "pv_collector_total_pv_count",
            "Gauge measuring total number of persistent volumes",
            labels=["plugin_name", "volume_mode"],
        )
        bound_volumes = GaugeMetricFamily(
            "pv_collector_bound_pv_count",
            "Gauge measuring number of persistent volume currently bound",
            labels=["storage_class"],
        )
        unbound_volumes = GaugeMetricFamily(
            "pv_collector_unbound_pv_count",
            "Gauge measuring number of persistent volume currently unbound",
            labels=["storage_class"],
        )
        bound_claims = GaugeMetricFamily(
            "pv_collector_bound_pvc_count",
            "Gauge measuring number of persistent volume claim currently bound",
            labels=["namespace", "storage_class", "volume_attributes_class"],
        )
        unbound_claims = GaugeMetricFamily(
            "pv_collector_unbound_pvc_count",
            "Gauge measuring number of persistent volume claim currently unbound",
            labels=["namespace", "storage_class", "volume_attributes_class"],
        )
        yield _filled(total, ((plugin_name(volume), volume.spec.volume_mode) for volume in volumes))
        for bound, family in ((True, bound_volumes), (False, unbound_volumes)):
            found = [volume for volume in volumes if (volume.status.phase == BOUND) is bound]
            yield _filled(family, ((volume.storage_class,) for volume in found))
        for bound, family in ((True, bound_claims), (False, unbound_claims)):
            asked = [claim for claim in claims if (claim.status.phase == BOUND) is bound]
            yield _filled(family, (_claim_labels(claim) for claim in asked))


def _claim_labels(claim: Claim) -> tuple[str, ...]:
    return claim.namespace, claim.storage_class, claim.spec.volume_attributes_class_name


def plugin_name(volume: Volume) -> str:
    """As kube-controller-manager names the plugin of a CSI volume; those of other sources are not told apart here."""
    return UNKNOWN_PLUGIN if volume.spec.csi is None else f"kubernetes.io/csi:{volume.spec.csi.driver}"


def _filled(family: GaugeMetricFamily, rows: Iterable[tuple[str, ...]]) -> Metric:
    for row, count in sorted(Counter(rows).items()):
        family.add_metric(row, count)
    return family


#: kube-controller-manager's --pvclaimbinder-sync-period.
RESYNC_SECONDS: Final = 15.0
#: What is at rest is looked at every so many periods: at 100,000 pairs a look at all takes seconds of work.
FULL_RESYNC_PERIODS: Final = 20
#: Writes on their way at once, per queue; more gain nothing on a server with two cores.
WORKERS: Final = 16
#: Binding takes five writes at most; more in one go means that two machines undo each other.
MAX_WRITES_PER_SYNC: Final = 8

log = structlog.get_logger(__name__)


class PersistentVolumeController:
    name = "persistentvolume-controller"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client = context.client
        self._informers = context.informers
        self._recorder = context.recorder
        self._clock = context.clock
        self._require = context.require
        pods = context.informers.of(POD)
        pods.add_index(*POD_BY_CLAIM)
        self._claims = context.work_queue("claims", CLAIM)
        self._volumes = context.work_queue("volumes", VOLUME)
        self._cache = BindingCache(
            lambda claim: pods.by_index(POD_BY_CLAIM.name, claim),
            delayed_binding=context.gates.enabled(VOLUME_SCHEDULING),
            claim_rollback=partial(context.is_active, CLAIM_ROLLBACK),
            claim_to_notify=lambda claim: self._claims.add(claim.key),
        )
        if context.registry is not None:
            context.registry.register(BoundObjects(context.informers))
        self._looks = LiveChecks(context.client, self._cache)
        self._periods = itertools.count(1)
        #: Last event by claim, with the claim's version: the watch echoes each own write, which says nothing new.
        #: Forgotten at each full resync, after which what is still waited for is said again: every 15 s, the events of
        #: thousands of claims that wait for a provisioner would be most of an API server's load.
        self._last_events: dict[str, tuple[str, str]] = {}
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
            resync = repeat(
                self._resync, pause, name=f"{self.name} resync", report=self._context.internal_error, at_once=False
            )
            group.create_task(resync)

    async def _resync(self) -> None:
        everything = next(self._periods) % FULL_RESYNC_PERIODS == 0
        if everything:
            self._last_events.clear()
        for claim in self._informers.of(CLAIM).items():
            if everything or claim.status.phase != BOUND or not claim.fully_bound:
                self._claims.add(claim.key)
        for volume in self._informers.of(VOLUME).items():
            if everything or volume.status.phase not in ("Available", "Bound"):
                self._volumes.add(volume.key)

    def _on_class(self, before: StorageClass | None, after: StorageClass | None) -> None:
        """Claims of the class may have waited for it, claims without one for a default."""
        self._cache.observe_class(before, after)
        names = {storage_class.name for storage_class in (before, after) if storage_class is not None}
        for name in (*names, ""):
            for claim in self._cache.claims_without_volume(name):
                self._claims.add(claim.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """What a delayed claim says it waits for depends on the pods that use it, and so does whether a claim can be
        unbound."""
        if _waits(before) == _waits(after):
            return
        for pod in (before, after):
            for key in pod.claim_keys if pod is not None else ():
                claim = self._cache.claims.get(key)
                if claim is not None and (not claim.spec.volume_name or is_rolling_back(claim)):
                    self._claims.add(key)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        self._cache.volumes.observe(before, after)
        for volume in (before, after):
            if volume is not None:
                self._volumes.add(volume.key)
                reference = volume.spec.claim_ref
                if reference is not None:
                    self._claims.add(f"{reference.namespace}/{reference.name}")
                for claim in self._cache.claims_naming(volume.name):
                    self._claims.add(claim.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        self._cache.claims.observe(before, after)
        if after is None and before is not None:
            self._last_events.pop(before.uid, None)
        for claim in (before, after):
            if claim is not None:
                self._claims.add(claim.key)
                if claim.spec.volume_name:
                    self._volumes.add(claim.spec.volume_name)
                for volume in self._cache.volumes_reserved_for(claim.key):
                    self._volumes.add(volume.key)

    async def _sync_claim(self, key: str) -> None:
        with self._cache.binding_attempt(key):
            for _ in range(MAX_WRITES_PER_SYNC):
                claim = self._cache.claims.get(key)
                if claim is None:
                    return
                step = claim_sync.next_claim_step(claim, self._cache)
                if doubt := await self._looks.against(step, claim):
                    log.info("claim write postponed: informer behind", claim=key, reason=doubt)
                    return
                if not await self._take(step, key):
                    return
            log.warning("claim does not settle", claim=key, writes=MAX_WRITES_PER_SYNC)

    async def _sync_volume(self, key: str) -> None:
        for _ in range(MAX_WRITES_PER_SYNC):
            volume = self._cache.volumes.get(key)
            if volume is None:
                return
            claim = await self._claim_behind(volume)
            users = self._cache.users_of_gone_claim(volume)
            if not await self._take(volume_sync.next_volume_step(volume, claim, users=users), key):
                return
        log.warning("volume does not settle", volume=key, writes=MAX_WRITES_PER_SYNC)

    async def _claim_behind(self, volume: Volume) -> Claim | None:
        """The claim the volume was bound to. Before it counts as gone, the server itself must say so."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self._cache.claims.get(f"{reference.namespace}/{reference.name}")
        if claim is None and volume.status.phase in ("Released", "Failed"):
            # The server said so when the volume was released; a uid does not come back.
            return None
        if claim is not None and claim.uid == reference.uid:
            return claim
        namespace = reference.namespace
        return await get_or_none(self._client, CLAIM, reference.name, namespace=namespace, uid=reference.uid)

    async def _take(self, step: actions.SyncStep, key: str) -> bool:
        """Carry one step out; True when there may be another."""
        if step.write is not None:
            await self._write(step.write)
        if step.problem:
            log.warning("object not synced", object=key, reason=step.problem)
        for say in step.events:
            self._say(say)
        if step.enqueue_claim:
            self._claims.add(step.enqueue_claim)
        return step.write is not None

    async def _write(self, write: actions.Write) -> None:
        if not isinstance(write, actions.ReserveVolume):
            await self._send(write)
            return
        reference = write.volume.spec.claim_ref
        owner = reference.uid if reference is not None else ""
        detail = f"it belongs to claim uid {owner}, to be reserved for {write.claim.key} with uid {write.claim.uid}"
        is_free = owner in ("", write.claim.uid)
        self._require(is_free, Invariant.RESERVATION_MATCHES_CLAIM, write.volume, VOLUME, detail)
        with self._cache.assumed(write.volume):
            await self._send(write)

    async def _send(self, write: actions.Write) -> None:
        request = actions.to_request(write, now=times.to_time(self._clock.now()))
        target = request.target
        returned = await self._client.patch(
            request.kind, target.name, request.patch, namespace=target.namespace, subresource=request.subresource
        )
        log.info("object patched", action=type(write).__name__, kind=request.kind.kind, object=target.key)
        if isinstance(returned, Claim):
            self._cache.claims.apply_write_result(returned)
        elif isinstance(returned, Volume):
            self._cache.volumes.apply_write_result(returned)

    def _say(self, say: actions.EmitEvent) -> None:
        kind = CLAIM if isinstance(say.about, Claim) else VOLUME
        latest = say.message, say.about.metadata.resource_version
        if self._last_events.get(say.about.uid) == latest:
            return
        self._last_events[say.about.uid] = latest
        self._recorder.record(say.about, kind, say.type, say.reason, say.message)


def _waits(pod: Pod | None) -> bool:
    return pod is not None and pod.unplaced
