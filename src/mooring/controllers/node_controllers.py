"""Node lifecycle, taint eviction and pod garbage collection. The decisions about nodes are in `node_health`."""

import asyncio
import contextlib
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import structlog

from mooring.api import times
from mooring.api.errors import NotFound
from mooring.api.kinds import LEASE, NODE, POD
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.pod_requirements import NO_EXECUTE, tolerates
from mooring.api.views.core import Lease, Node, Taint
from mooring.api.views.pods import Pod
from mooring.client.cache import POD_BY_NODE
from mooring.client.contract import Client
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context, Reconciler
from mooring.control.workqueue import repeat
from mooring.controllers import node_health
from mooring.controllers.node_health import HeartbeatTracker
from mooring.controllers.workloads.pod_rules import condition_body

#: --node-monitor-period.
MONITOR_PERIOD_SECONDS: Final = 5.0
NODE_LEASE_NAMESPACE: Final = "kube-node-lease"

log = structlog.get_logger(__name__)


class NodeLifecycleController(Reconciler[str]):
    """Sets the conditions of nodes without heartbeat to Unknown, and taints nodes by their conditions."""

    name = "node-lifecycle-controller"
    WORKERS = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("node_lifecycle", NODE))
        self._report = context.internal_error
        self._nodes = context.informers.of(NODE)
        self._leases = context.informers.of(LEASE)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)
        self._heartbeats = HeartbeatTracker()
        #: Nodes that have or need a NoExecute taint.
        self._unhealthy: set[str] = set()
        #: Zone -> monotonic time from which the next node may be tainted for eviction.
        self._next_eviction: dict[str, float] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            pause = partial(self._clock.sleep, MONITOR_PERIOD_SECONDS)
            group.create_task(repeat(self._monitor, pause, name=f"{self.name} monitor", report=self._report))

    async def _subscribe(self) -> None:
        await self._nodes.subscribe(self._on_node)
        await self._leases.subscribe(self._on_lease)
        await self._pods.synced.wait()

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is None:
            if before is not None:
                self._heartbeats.forget(before.name)
                self._unhealthy.discard(before.name)
            return
        self._heartbeats.observe(after, self._lease(after.name), now=self._clock.monotonic())
        if node_health.no_execute_key(after) is not None or node_health.has_eviction_taint(after):
            self._unhealthy.add(after.name)
        else:
            self._unhealthy.discard(after.name)
        if before is None or _relevant_state(before) != _relevant_state(after):
            self._queue.add(after.name)

    def _on_lease(self, _: Lease | None, after: Lease | None) -> None:
        node = self._nodes.get(after.name) if after is not None and after.namespace == NODE_LEASE_NAMESPACE else None
        if node is not None:
            self._heartbeats.observe(node, after, now=self._clock.monotonic())

    async def _monitor(self) -> None:
        # With long Leases most heartbeats are older than a short period; those within all grace periods need no check.
        graces = (node_health.grace_seconds(node, self._lease(node.name)) for node in self._nodes.items())
        late = self._heartbeats.missing(min(graces, default=0.0), now=self._clock.monotonic())
        # Of unhealthy nodes the eviction rate may allow it now, or the disruption state of the cluster changed.
        for name in (*late, *self._unhealthy):
            self._queue.add(name)

    def _lease(self, node: str) -> Lease | None:
        return self._leases.get(f"{NODE_LEASE_NAMESPACE}/{node}")

    async def _sync(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        lease = self._lease(name)
        silent = self._heartbeats.observe(node, lease, now=self._clock.monotonic())
        if silent > node_health.grace_seconds(node, lease):
            if node_health.readiness(node) != "Unknown":
                if await self._renewed_unseen(name, lease):
                    log.warning("lease renewed, informer behind", node=name)
                    return
                await self._declare_unknown(node)
                return
            # Repeated: a crash or an error may have left pods out.
            await self._declare_pods_not_ready(node)
        taints = node_health.desired_taints(node, evict=self._may_evict(node), now=self._date())
        if taints is not None:
            body = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}}
            await self._client.patch(NODE, name, MergePatch(body))
            log.info("node tainted", node=name, taints=[taint["key"] for taint in taints])

    async def _renewed_unseen(self, node: str, lease: Lease | None) -> bool:
        """Whether the node's Lease is newer than the informer's: then this process is cut off from changes, not the
        node, and judges it when the informer has caught up."""
        live = await get_or_none(self._client, LEASE, node, namespace=NODE_LEASE_NAMESPACE)
        seen = lease.spec.renew_time if lease is not None else None
        return live is not None and live.spec.renew_time != seen

    async def _declare_unknown(self, node: Node) -> None:
        conditions = node_health.unknown_conditions(node, now=self._date())
        meta = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        patch = StrategicPatch({"metadata": meta, "status": {"conditions": conditions}})
        await self._client.patch(NODE, node.name, patch, subresource="status")
        log.warning("node heartbeat missing", node=node.name)
        self._recorder.record(node, NODE, "Normal", "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")
        await self._declare_pods_not_ready(node)

    async def _declare_pods_not_ready(self, node: Node) -> None:
        for pod in tuple(self._pods.by_index(POD_BY_NODE.name, node.name)):
            if pod.ready:
                condition = {"type": "Ready", "status": "False", "lastTransitionTime": self._date()}
                with contextlib.suppress(NotFound):
                    await _set_condition(self._client, pod, condition)
                self._recorder.record(pod, POD, "Warning", "NodeNotReady", "Node is not ready")

    def _may_evict(self, node: Node) -> bool:
        """Whether to taint the node for eviction; reverted only when all zones are disrupted."""
        if node_health.no_execute_key(node) is None:
            return False
        rates = node_health.zone_eviction_rates(self._nodes.items())
        if rates is None:
            return False
        if node_health.has_eviction_taint(node):
            return True
        zone, now = node_health.zone_of(node), self._clock.monotonic()
        rate = rates.get(zone, 0.0)
        if rate <= 0 or now < self._next_eviction.get(zone, now):
            return False
        self._next_eviction[zone] = now + 1 / rate
        return True

    def _date(self) -> str:
        return times.to_time(self._clock.now())


async def _set_condition(client: Client, pod: Pod, condition: dict[str, Any]) -> None:
    patch = StrategicPatch({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}})
    await client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")


def _relevant_state(node: Node) -> tuple[object, ...]:
    """The fields that determine the taints."""
    conditions = tuple((condition.type, condition.status) for condition in node.status.conditions)
    return (node.uid, conditions, node.spec.unschedulable, node.spec.taints)


#: As upstream: the node may be registering again.
QUARANTINE_SECONDS: Final = 40.0


class PodGarbageCollector(Reconciler[str]):
    """Deletes pods of deleted nodes, which no node agent would terminate. Otherwise such a pod stays Running, its
    claims stay in use, and its StatefulSet never replaces it."""

    name = "pod-garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("stranded_pods", NODE))
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)

    async def _subscribe(self) -> None:
        await self._nodes.subscribe(self._on_node)
        await self._pods.subscribe(self._on_pod)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is None and before is not None:
            self._queue.add_after(before.name, QUARANTINE_SECONDS)

    def _on_pod(self, _: Pod | None, after: Pod | None) -> None:
        node = after.spec.node_name if after is not None else ""
        if node and self._nodes.get(node) is None:
            self._queue.add_after(node, QUARANTINE_SECONDS)

    async def _sync(self, node: str) -> None:
        pods = list(self._pods.by_index(POD_BY_NODE.name, node))
        if not pods or self._nodes.get(node) is not None:
            return
        if await get_or_none(self._client, NODE, node) is not None:
            return
        for pod in pods:
            with contextlib.suppress(NotFound):
                await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
                log.info("orphaned pod deleted", pod=pod.key, node=node)


EVENT: Final = "TaintManagerEviction"


def toleration_seconds(pod: Pod, taints: Sequence[Taint]) -> float:
    """Seconds that the pod tolerates these NoExecute taints; infinite without limit."""
    longest = math.inf
    for taint in taints:
        fitting = [toleration.toleration_seconds for toleration in pod.spec.tolerations if tolerates(toleration, taint)]
        if not fitting:
            return 0.0
        longest = min([longest, *(max(float(seconds), 0.0) for seconds in fitting if seconds is not None)])
    return longest


def no_execute_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


class TaintEvictionController(Reconciler[str]):
    """Evicts pods that do not tolerate a NoExecute taint of their node. tolerationSeconds count from the taint's
    timeAdded, so that a restart of this controller does not extend them."""

    name = "taint-eviction-controller"
    WORKERS = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("taint_eviction", POD))
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)
        #: When a taint without timeAdded was first observed, by node and key.
        self._since: dict[tuple[str, str], float] = {}
        #: Uids of pods that will be evicted later.
        self._pending_evictions: set[str] = set()

    async def _subscribe(self) -> None:
        await self._nodes.subscribe(self._on_node)
        await self._pods.subscribe(self._on_pod)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        node = after if after is not None else before
        old = no_execute_taints(before) if before is not None else ()
        new = no_execute_taints(after) if after is not None else ()
        if node is None or old == new:
            return
        now = self._clock.now()
        for taint in old:
            if taint not in new:
                self._since.pop((node.name, taint.key), None)
        for taint in new:
            self._since.setdefault((node.name, taint.key), now)
        for pod in self._pods.by_index(POD_BY_NODE.name, node.name):
            self._queue.add(pod.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._pending_evictions.discard(before.uid)
        elif before is None or before.spec != after.spec:
            node = self._nodes.get(after.spec.node_name) if after.spec.node_name else None
            if node is not None and no_execute_taints(node):
                self._queue.add(after.key)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or pod.deleting or pod.finished:
            return
        taints = no_execute_taints(node)
        allowed = toleration_seconds(pod, taints)
        if math.isinf(allowed):
            if pod.uid in self._pending_evictions:
                self._pending_evictions.discard(pod.uid)
                self._recorder.record(pod, POD, "Normal", EVENT, f"Cancelling deletion of Pod {pod.key}")
            return
        wait = min(self._added(node, taint) for taint in taints) + allowed - self._clock.now()
        if allowed > 0 and wait > 0:
            self._pending_evictions.add(pod.uid)
            self._queue.add_after(key, wait)
            return
        self._pending_evictions.discard(pod.uid)
        self._recorder.record(pod, POD, "Normal", EVENT, f"Marking for deletion Pod {pod.key}")
        await self._evict(pod)

    def _added(self, node: Node, taint: Taint) -> float:
        if taint.time_added is not None:
            return times.from_time(taint.time_added)
        return self._since.get((node.name, taint.key), self._clock.now())

    async def _evict(self, pod: Pod) -> None:
        said = "True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        condition = condition_body((), "DisruptionTarget", *said, date=times.to_time(self._clock.now()))
        with contextlib.suppress(NotFound):
            await _set_condition(self._client, pod, condition)
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
            log.info("pod evicted for NoExecute taint", pod=pod.key, node=pod.spec.node_name)
