"""The node lifecycle controller: declares silent nodes unknown, taints nodes for what is wrong with them.

The shell around `node_health` and `node_taints`. Sending the pods of a lost node away is the taint eviction
controller's work; here the taint is put on that asks for it.
"""

import asyncio
from functools import partial
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import NotFound
from mooring.api.kinds import LEASE, NODE, POD
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.lease import Lease
from mooring.api.views.node import Node
from mooring.client.indexes import POD_BY_NODE
from mooring.control.component import Context
from mooring.control.worker import repeat, work
from mooring.workloads import node_health, node_taints
from mooring.workloads.node_health import Silence

#: How often nodes are looked at; --node-monitor-period.
PERIOD: Final = 5.0
#: Where nodes keep their Leases.
LEASES: Final = "kube-node-lease"
WORKERS: Final = 4

log = structlog.get_logger(__name__)


class NodeLifecycleController:
    name = "node-lifecycle-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._nodes = context.informers.of(NODE)
        self._leases = context.informers.of(LEASE)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)
        self._silence = Silence()
        #: Nodes that have, or deserve, a taint for not being ready.
        self._ill: set[str] = set()
        #: The moment from which on the next node of each zone may have its pods sent away.
        self._next: dict[str, float] = {}
        self._queue = context.work_queue("node_lifecycle")
        self.ready = False

    async def run(self) -> None:
        await self._nodes.subscribe(self._on_node)
        await self._leases.subscribe(self._on_lease)
        await self._pods.synced.wait()
        self.ready = True
        async with asyncio.TaskGroup() as group:
            pause = partial(self._clock.sleep, PERIOD)
            group.create_task(repeat(self._monitor, pause, name=f"{self.name} monitor"))
            group.create_task(work(self._queue, self._sync, workers=WORKERS, name=self.name))

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is None:
            if before is not None:
                self._silence.forget(before.name)
                self._ill.discard(before.name)
            return
        self._silence.observe(after, self._lease(after.name), now=self._clock.monotonic())
        if node_taints.lost(after) is not None or node_taints.evicting(after):
            self._ill.add(after.name)
        else:
            self._ill.discard(after.name)
        if before is None or _matters(before) != _matters(after):
            self._queue.add(after.name)

    def _on_lease(self, _: Lease | None, after: Lease | None) -> None:
        node = self._nodes.get(after.name) if after is not None and after.namespace == LEASES else None
        if node is not None:
            self._silence.observe(node, after, now=self._clock.monotonic())

    async def _monitor(self) -> None:
        for name in self._silence.silent(self._shortest_grace(), now=self._clock.monotonic()):
            self._queue.add(name)
        for name in self._ill:
            # Its turn to be tainted may have come, or the whole cluster may be seen differently now.
            self._queue.add(name)

    def _shortest_grace(self) -> float:
        """Nobody needs a look before that: where Leases last long, most nodes are silent most of the time."""
        return min((node_health.grace(node, self._lease(node.name)) for node in self._nodes.items()), default=0.0)

    def _lease(self, node: str) -> Lease | None:
        return self._leases.get(f"{LEASES}/{node}")

    def _is_silent(self, node: Node) -> bool:
        lease = self._lease(node.name)
        silent = self._silence.observe(node, lease, now=self._clock.monotonic())
        return silent > node_health.grace(node, lease)

    async def _sync(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        if self._is_silent(node):
            if node_health.readiness(node) != "Unknown":
                await self._declare_unknown(node)
                return
            # Also after a crash, or a refusal, between the node's status and those of its pods.
            await self._declare_pods_not_ready(node)
        taints = node_taints.wanted(node, evict=self._may_evict(node), now=self._date())
        if taints is not None:
            body = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}}
            await self._client.patch(NODE, name, MergePatch(body))
            log.info("node tainted", node=name, taints=[taint["key"] for taint in taints])

    async def _declare_unknown(self, node: Node) -> None:
        conditions = node_health.unknown(node, now=self._date())
        meta = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        patch = StrategicPatch({"metadata": meta, "status": {"conditions": conditions}})
        await self._client.patch(NODE, node.name, patch, subresource="status")
        log.warning("node is silent", node=node.name)
        self._recorder.record(node, NODE, "Normal", "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")
        await self._declare_pods_not_ready(node)

    async def _declare_pods_not_ready(self, node: Node) -> None:
        for pod in tuple(self._pods.by_index(POD_BY_NODE.name, node.name)):
            if pod.ready:
                await self._declare_not_ready(pod.name, pod.namespace, pod.uid)
                self._recorder.record(pod, POD, "Warning", "NodeNotReady", "Node is not ready")

    async def _declare_not_ready(self, pod: str, namespace: str, uid: str) -> None:
        """Nobody should rely on a pod that cannot be seen."""
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": self._date()}
        patch = StrategicPatch({"metadata": {"uid": uid}, "status": {"conditions": [condition]}})
        try:
            await self._client.patch(POD, pod, patch, namespace=namespace, subresource="status")
        except NotFound:
            log.debug("pod went with its node", pod=f"{namespace}/{pod}")

    def _may_evict(self, node: Node) -> bool:
        """Whether the node's pods shall be sent away; once decided, only the fate of the whole cluster undoes it."""
        if node_taints.lost(node) is None:
            return False
        rates = node_health.pace(self._nodes.items()).rates
        if rates is None:
            return False
        if node_taints.evicting(node):
            return True
        zone, now = node_health.zone_of(node), self._clock.monotonic()
        rate = rates.get(zone, 0.0)
        if rate <= 0 or now < self._next.get(zone, now):
            return False
        self._next[zone] = now + 1 / rate
        return True

    def _date(self) -> str:
        return timestamps.to_time(self._clock.now())


def _matters(node: Node) -> tuple[object, ...]:
    """Of all that changes on a node, what its taints follow."""
    conditions = tuple((condition.type, condition.status) for condition in node.status.conditions)
    return (node.uid, conditions, node.spec.unschedulable, node.spec.taints)
