"""Components that simulate what no Mooring component does in a simulation.

`Evictions` drains nodes like `kubectl drain --ignore-daemonsets`; `CapacityUpdater` updates CSIStorageCapacity as
publishers would; `Kubelets` starts and deletes pods by the node agent's rules, without images, ConfigMaps and
drivers; `OwnedClaimCollector` deletes claims of deleted pods (a full garbage collector would delete objects whose
owner was not listed); `LatestWarnings` keeps warnings in memory, because writing Events would cost a third of the
run.
"""

import asyncio
import random
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import times, well_known
from mooring.api.documents import Body
from mooring.api.errors import ApiError, Conflict, NotFound, TooManyRequests
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.quantity import QuantityError
from mooring.api.times import to_micro_time
from mooring.api.views.core import Node
from mooring.api.views.meta import ApiObject
from mooring.api.views.pods import Pod
from mooring.api.views.storage import Claim, Volume
from mooring.client.cache import BY_OWNER, BY_UID, POD_BY_CLAIM, POD_BY_NODE
from mooring.client.contract import Client
from mooring.client.recorder import WARNING, EventRecorder
from mooring.clock import Clock
from mooring.control.component import Context
from mooring.control.workqueue import work
from mooring.nodeagent import pod_status
from mooring.nodeagent.admission import NodeAllocations, StorageLookup, admit, mount_blocker
from mooring.nodeagent.node_objects import is_ready
from mooring.nodeagent.pod_status import Status
from mooring.nodeagent.pod_worker import ClaimUseRecorder
from mooring.whatif.drivers import PoolAllocation, SimulatedPool, SimulatedPools, reported_values
from mooring.whatif.question import belongs_to_node

#: Seconds between two tries; kubectl's.
EVICTION_RETRY_SECONDS: Final = 5.0


class Evictions:
    name = "evictions"

    def __init__(
        self, context: Context, nodes: Collection[str], copies: Mapping[str, Body], *, moved: Collection[str] = ()
    ) -> None:
        """`copies` are the pods to make once those of their keys are gone; `moved` are uids of pods of other nodes."""
        self._client = context.client
        self._clock = context.clock
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)
        self._pods.add_index(*BY_UID)
        self._nodes = nodes
        self._moved = moved
        self._copies = dict(copies)
        #: What budgets say of pods that are still there, by their keys; and what kept copies from being made.
        self.refused: dict[str, str] = {}
        self.ready = False

    async def run(self) -> None:
        await self._pods.synced.wait()
        self.ready = True
        while self._nodes or self._moved:
            for pod in [*self._evictable()]:
                await self._evict(pod)
            await self._clock.sleep(0)
            await self._follow()
            await self._clock.sleep(EVICTION_RETRY_SECONDS)
        await asyncio.Event().wait()

    def _evictable(self) -> Iterator[Pod]:
        for node in sorted(self._nodes):
            for pod in sorted(self._pods.by_index(POD_BY_NODE.name, node), key=lambda pod: pod.key):
                if not belongs_to_node(pod) and not pod.deleting:
                    yield pod
        for uid in sorted(self._moved):
            yield from (pod for pod in self._pods.by_index(BY_UID.name, uid) if not pod.deleting)

    async def _evict(self, pod: Pod) -> None:
        try:
            await self._client.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
            self.refused.pop(pod.key, None)
        except TooManyRequests as error:
            self.refused[pod.key] = error.message
        except (NotFound, Conflict):
            # gone already, or made anew meanwhile; the next round sees it.
            self.refused.pop(pod.key, None)

    async def _follow(self) -> None:
        for key in [key for key in self._copies if self._pods.get(key) is None]:
            body = self._copies.pop(key)
            try:
                await self._client.create(POD, body, namespace=body["metadata"]["namespace"])
            except ApiError as error:
                self.refused[key] = f"cannot be recreated: {error.message}"


#: Seconds between a volume and the figure that has seen it: publishers ask their driver after a moment, and a figure
#: counts as later than a volume only if its moment is.
PUBLISH_DELAY_SECONDS: Final = 1.0


class CapacityUpdater:
    name = "capacity-figures"

    def __init__(self, context: Context, pools: SimulatedPools) -> None:
        self._client = context.client
        self._clock = context.clock
        self._pools = pools
        self._due: set[str] = set()
        self._news = asyncio.Event()
        self.ready = False

    def changed(self, taken: PoolAllocation) -> None:
        if taken.pools:
            self._due.update(taken.pools)
            self._news.set()

    async def run(self) -> None:
        self.ready = True
        while True:
            await self._news.wait()
            await self._clock.sleep(PUBLISH_DELAY_SECONDS)
            due, self._due = sorted(self._due), set()
            self._news.clear()
            for key in due:
                await self._publish(self._pools[key])

    async def _publish(self, pool: SimulatedPool) -> None:
        namespace, _, name = pool.key.partition("/")
        notes = {well_known.CAPACITY_POLLED_AT: to_micro_time(self._clock.now())}
        body = {"metadata": {"annotations": notes}, **reported_values(pool)}
        try:
            await self._client.patch(STORAGE_CAPACITY, name, MergePatch(body), namespace=namespace)
        except NotFound:
            # Race: the object was removed with its nodes.
            return


class LatestWarnings(EventRecorder):
    """One for all components: what matters is what was said last."""

    def __init__(self, client: Client, clock: Clock, rng: random.Random) -> None:
        super().__init__(client, clock, "what-if", rng)
        self._warnings: dict[tuple[str, str], dict[str, str]] = {}

    def record(self, regarding: ApiObject, kind: Kind[ApiObject], event_type: str, reason: str, message: str) -> None:
        if event_type == WARNING:
            self._warnings.setdefault((kind.kind, regarding.key), {})[reason] = message

    def warning(self, kind: Kind[ApiObject], key: str, reason: str) -> str:
        """The last warning of a reason about an object; "" where there was none."""
        return self._warnings.get((kind.kind, key), {}).get(reason, "")

    async def run(self) -> None:
        """Nothing is written."""
        await asyncio.Event().wait()


WORKERS: Final = 4

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Kubelets:
    name = "kubelets"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        classes = context.informers.of(STORAGE_CLASS)
        self._storage = StorageLookup(self._claims.get, self._volumes.get, classes.get)
        self._pods.add_index(*POD_BY_NODE)
        self._pods.add_index(*POD_BY_CLAIM)
        self._synced = (self._nodes, self._pods, self._claims, self._volumes, classes)
        self._allocations = NodeAllocations()
        self._use = ClaimUseRecorder(context)
        self._work = context.work_queue("kubelets")
        #: Why pods that have their node do not start, by their keys.
        self.obstacles: dict[str, str] = {}
        self.ready = False

    async def run(self) -> None:
        self._pods.on_change(self._on_pod)
        for informer in self._synced:
            await informer.synced.wait()
        self._nodes.on_change(self._on_node)
        self._claims.on_change(self._on_claim)
        self._volumes.on_change(self._on_volume)
        self.ready = True
        await work(self._work, self._sync, workers=WORKERS, name=self.name)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._allocations.release(before.uid)
                self.obstacles.pop(before.key, None)
        elif after.finished:
            self._allocations.release(after.uid)
        elif after.spec.node_name:
            if after.status.phase == "Running":
                self._take_place(after)
            if after.status.phase != "Running" or after.deleting:
                self._work.add(after.key)

    def _take_place(self, pod: Pod) -> None:
        try:
            self._allocations.allocate(pod)
        except QuantityError as error:
            log.warning("pod requests ignored: invalid quantity", pod=pod.key, error=str(error))

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is not None and (before is None or is_ready(before) != is_ready(after)):
            for pod in self._pods.by_index(POD_BY_NODE.name, after.name):
                self._on_pod(None, pod)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        if (claim := after or before) is not None:
            self._look_at_users(claim.key)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        volume = after or before
        if volume is not None and (reference := volume.spec.claim_ref) is not None:
            self._look_at_users(f"{reference.namespace}/{reference.name}")

    def _look_at_users(self, claim_key: str) -> None:
        for pod in self._pods.by_index(POD_BY_CLAIM.name, claim_key):
            self._on_pod(None, pod)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        node = self._nodes.get(pod.spec.node_name)
        waits = not pod.deleting and pod.status.phase in ("", "Pending")
        if node is None or not is_ready(node):
            if waits:
                state = "does not exist" if node is None else "is not ready"
                self.obstacles[key] = f"its node {pod.spec.node_name} {state}"
        elif pod.deleting:
            await self._let_go(pod)
        elif waits:
            await self._start(pod, node)

    async def _let_go(self, pod: Pod) -> None:
        if pod.metadata.deletion_grace_period_seconds == 0:
            # let go already; finalizers keep the object.
            return
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
        except (NotFound, Conflict):
            log.debug("object already deleted", pod=pod.key)

    async def _start(self, pod: Pod, node: Node) -> None:
        now = times.to_time(self._clock.now())
        if pod.uid not in self._allocations:
            refused = await self._use.rollback_in_progress(pod) or admit(pod, node, self._allocations)
            if refused is not None:
                self.obstacles[pod.key] = refused.message
                await self._write(pod, pod_status.rejected_status(*refused, now=now))
                return
        why = mount_blocker(pod, node, self._storage)
        if why is not None:
            self.obstacles[pod.key] = why
            return
        self.obstacles.pop(pod.key, None)
        await self._use.mark_dirty(pod)
        await self._write(pod, pod_status.running_status(pod, now=now))

    async def _write(self, pod: Pod, status: Status) -> None:
        meta = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
        patch = pod_status.status_patch(pod, {"metadata": meta, "status": status})
        await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")


class OwnedClaimCollector:
    name = "remains"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._pods = context.informers.of(POD)
        self._pods.add_index(*BY_UID)
        self._claims = context.informers.of(CLAIM)
        self._claims.add_index(*BY_OWNER)
        self._work = context.work_queue("remains")
        self.ready = False

    async def run(self) -> None:
        await self._pods.synced.wait()
        await self._claims.synced.wait()
        self._pods.on_change(self._on_pod)
        self.ready = True
        await work(self._work, self._sync, workers=1, name=self.name)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and after is None:
            for claim in self._claims.by_index(BY_OWNER.name, before.uid):
                self._work.add(claim.key)

    async def _sync(self, key: str) -> None:
        claim = self._claims.get(key)
        owners = () if claim is None else claim.metadata.owner_references
        remaining = (owner.kind != POD.kind or self._pods.by_index(BY_UID.name, owner.uid) for owner in owners)
        if claim is None or not owners or any(remaining):
            return
        try:
            await self._client.delete(CLAIM, claim.name, namespace=claim.namespace, uid=claim.uid)
        except (NotFound, Conflict):
            # Race: the claim was deleted by another component.
            return
