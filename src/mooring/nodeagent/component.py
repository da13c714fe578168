"""The node agent's shell: registers its rows, and moves the pods bound to them through their lives."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import AlreadyExists, Conflict, NotFound
from mooring.api.kinds import CLAIM, NODE, POD, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.client.indexes import POD_BY_CLAIM, POD_BY_NODE
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.control.worker import work
from mooring.nodeagent import lifecycle
from mooring.nodeagent.admission import Admit, Reject, Wait, admit
from mooring.nodeagent.rows import DEFAULT_CAPACITY, NodeRow, is_ready, played_here, ready_status, registration

#: How long a pod that waits for its volumes is left before the next look; kubelets retry mounts about as often.
RETRY_SECONDS: Final = 2.0
WORKERS: Final = 4

log = structlog.get_logger(__name__)


class NodeAgent:
    name = "node-agent"

    def __init__(self, context: Context, rows: Sequence[NodeRow] = ()) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._rows = rows
        self._capacity = {row.name: row.capacity for row in rows}
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._pods.add_index(*POD_BY_NODE)
        self._pods.add_index(*POD_BY_CLAIM)
        self._node_work: WorkQueue[str] = WorkQueue(context.clock)
        self._pod_work: WorkQueue[str] = WorkQueue(context.clock)
        self.ready = False

    async def run(self) -> None:
        await self._register()
        self._nodes.on_change(self._on_node)
        self._pods.on_change(self._on_pod)
        self._claims.on_change(self._on_claim)
        for informer in (self._nodes, self._pods, self._claims, self._volumes):
            await informer.synced.wait()
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._node_work, self._sync_node, workers=1, name=f"{self.name} nodes"))
            group.create_task(work(self._pod_work, self._sync_pod, workers=WORKERS, name=f"{self.name} pods"))

    async def _register(self) -> None:
        for row in self._rows:
            try:
                await self._client.create(NODE, registration(row))
            except AlreadyExists:
                log.info("node is known already", node=row.name)
            else:
                log.info("node registered", node=row.name, zone=row.zone)

    def _on_node(self, _: Node | None, after: Node | None) -> None:
        if after is not None and played_here(after):
            self._node_work.add(after.key)
            for pod in self._pods.by_index(POD_BY_NODE.name, after.name):
                self._pod_work.add(pod.key)

    def _on_pod(self, _: Pod | None, after: Pod | None) -> None:
        if after is not None and after.spec.node_name:
            self._pod_work.add(after.key)

    def _on_claim(self, _: Claim | None, after: Claim | None) -> None:
        if after is not None:
            for pod in self._pods.by_index(POD_BY_CLAIM.name, after.key):
                self._on_pod(None, pod)

    async def _sync_node(self, key: str) -> None:
        node = self._nodes.get(key)
        if node is None or not played_here(node) or is_ready(node):
            return
        capacity = self._capacity.get(node.name, DEFAULT_CAPACITY)
        status = ready_status(node, capacity, now=self._now())
        await self._client.patch(NODE, node.name, MergePatch({"status": status}), subresource="status")

    async def _sync_pod(self, key: str) -> None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not played_here(node):
            return
        if pod.deleting:
            await self._let_go(pod)
        elif pod.status.phase == "Pending":
            await self._start(pod, node)

    async def _let_go(self, pod: Pod) -> None:
        """Nothing runs that would need its grace period: the pod may go at once."""
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
        except (NotFound, Conflict):
            log.debug("pod was gone already", pod=pod.key)

    async def _start(self, pod: Pod, node: Node) -> None:
        verdict = admit(pod, node, others=self._neighbours(pod), claim=self._claims.get, volume=self._volumes.get)
        match verdict:
            case Admit():
                await self._write_status(pod, lifecycle.running(pod, now=self._now()))
                self._recorder.record(pod, POD, "Normal", "Started", "All containers are up (none is really run)")
            case Wait(reason, message):
                self._recorder.record(pod, POD, "Warning", reason, message)
                self._pod_work.add_after(pod.key, RETRY_SECONDS)
            case Reject(reason, message):
                await self._write_status(pod, lifecycle.rejected(reason, message, now=self._now()))
                self._recorder.record(pod, POD, "Warning", reason, message)

    def _neighbours(self, pod: Pod) -> Iterable[Pod]:
        """Pods this node runs already; those still waiting have no claim to its resources yet."""
        here = self._pods.by_index(POD_BY_NODE.name, pod.spec.node_name)
        return [other for other in here if other.uid != pod.uid and other.status.phase == "Running"]

    async def _write_status(self, pod: Pod, status: dict[str, object]) -> None:
        body = {"metadata": {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}, "status": status}
        await self._client.patch(POD, pod.name, MergePatch(body), namespace=pod.namespace, subresource="status")

    def _now(self) -> str:
        return timestamps.to_time(self._clock.now())
