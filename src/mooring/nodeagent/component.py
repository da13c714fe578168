"""The node agent's shell: registers its rows, and moves the pods bound to them through their lives."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import AlreadyExists, Conflict, NotFound
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import StrategicPatch
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.client.indexes import POD_BY_CLAIM, POD_BY_NODE
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.nodeagent import lifecycle
from mooring.nodeagent.admission import refusal
from mooring.nodeagent.mounting import FAILED_MOUNT, Storage, obstacle
from mooring.nodeagent.rows import DEFAULT_CAPACITY, NodeRow, is_ready, played_here, ready_status, registration

#: How often people are told again what a pod waits for; kubelet's podAttachAndMountTimeout. Changes of what it waits
#: for are acted on at once.
REMIND_SECONDS: Final = 123.0
WORKERS: Final = 4

log = structlog.get_logger(__name__)


class NodeAgent:
    name = "node-agent"

    def __init__(self, context: Context, rows: Sequence[NodeRow] = ()) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._capacity = {row.name: row.capacity for row in rows}
        #: Rows without a Node so far. A Node that is deleted later stays away until the agent starts again.
        self._unregistered = {row.name: row for row in rows}
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._storage = Storage(self._claims.get, self._volumes.get, self._classes.get)
        self._pods.add_index(*POD_BY_NODE)
        self._pods.add_index(*POD_BY_CLAIM)
        #: Uids of pods that have their place on a node, whether or not the server shows it yet.
        self._admitted: set[str] = set()
        self._node_work = context.work_queue("node_agent_nodes")
        self._pod_work = context.work_queue("node_agent_pods")
        self.ready = False

    async def run(self) -> None:
        self._nodes.on_change(self._on_node)
        self._pods.on_change(self._on_pod)
        self._claims.on_change(self._on_claim)
        self._volumes.on_change(self._on_volume)
        for synced in (self._nodes.synced, self._pods.synced, self._claims.synced, self._volumes.synced):
            await synced.wait()
        await self._classes.synced.wait()
        for name in self._unregistered:
            self._node_work.add(name)
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._node_work, self._sync_node, workers=WORKERS, name=f"{self.name} nodes"))
            group.create_task(work(self._pod_work, self._sync_pod, workers=WORKERS, name=f"{self.name} pods"))

    def _on_node(self, _: Node | None, after: Node | None) -> None:
        if after is not None and played_here(after):
            self._node_work.add(after.key)
            for pod in self._pods.by_index(POD_BY_NODE.name, after.name):
                self._pod_work.add(pod.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None:
            if after.spec.node_name:
                self._pod_work.add(after.key)
        elif before is not None:
            self._admitted.discard(before.uid)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        claim = after if after is not None else before
        if claim is not None:
            self._look_at_users(claim.key)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        for volume in (before, after):
            reference = volume.spec.claim_ref if volume is not None else None
            if reference is not None:
                self._look_at_users(f"{reference.namespace}/{reference.name}")

    def _look_at_users(self, claim_key: str) -> None:
        for pod in self._pods.by_index(POD_BY_CLAIM.name, claim_key):
            if pod.spec.node_name:
                self._pod_work.add(pod.key)

    async def _sync_node(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            if name in self._unregistered:
                await self._register(self._unregistered[name])
            return
        self._unregistered.pop(name, None)
        if played_here(node) and not is_ready(node):
            status = ready_status(node, self._capacity.get(name, DEFAULT_CAPACITY), now=self._now())
            await self._client.patch(NODE, name, _status_patch(node, status), subresource="status")

    async def _register(self, row: NodeRow) -> None:
        try:
            await self._client.create(NODE, registration(row))
        except AlreadyExists:
            log.info("node is known already", node=row.name)
        else:
            log.info("node registered", node=row.name, zone=row.zone)
        self._unregistered.pop(row.name, None)

    async def _sync_pod(self, key: str) -> None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not played_here(node):
            return
        if pod.deleting:
            await self._let_go(pod)
        elif pod.status.phase in ("", "Pending") and is_ready(node):
            # A node that has not reported yet has no room for anybody, and a refusal would be final.
            await self._start(pod, node)

    async def _let_go(self, pod: Pod) -> None:
        """Nothing runs that would need its grace period: the pod may go at once."""
        if pod.metadata.deletion_grace_period_seconds == 0:
            # SEEN: let go already; finalizers keep the object.
            return
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
        except (NotFound, Conflict):
            log.debug("pod was gone already", pod=pod.key)

    async def _start(self, pod: Pod, node: Node) -> None:
        if pod.uid not in self._admitted:
            refused = refusal(pod, node, others=self._neighbours(pod))
            if refused is not None:
                await self._write_status(pod, lifecycle.rejected(*refused, now=self._now()))
                self._recorder.record(pod, POD, "Warning", refused.reason, refused.message)
                return
            self._admitted.add(pod.uid)
        why = obstacle(pod, node, self._storage)
        if why is not None:
            self._recorder.record(pod, POD, "Warning", FAILED_MOUNT, why)
            self._pod_work.add_after(pod.key, REMIND_SECONDS)
            return
        await self._write_status(pod, lifecycle.running(pod, now=self._now()))
        self._recorder.record(pod, POD, "Normal", "Started", "All containers are up (none is really run)")

    def _neighbours(self, pod: Pod) -> Iterable[Pod]:
        """Pods that have their place on the node: they run, or were admitted and wait for their volumes."""
        for other in self._pods.by_index(POD_BY_NODE.name, pod.spec.node_name):
            placed = other.status.phase == "Running" or other.uid in self._admitted
            if other.uid != pod.uid and placed and not other.finished:
                yield other

    async def _write_status(self, pod: Pod, status: dict[str, object]) -> None:
        patch = _status_patch(pod, status)
        await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")

    def _now(self) -> str:
        return timestamps.to_time(self._clock.now())


def _status_patch(target: ApiObject, status: dict[str, object]) -> StrategicPatch:
    meta = {"uid": target.uid, "resourceVersion": target.metadata.resource_version}
    return StrategicPatch({"metadata": meta, "status": status})
