"""The nodes of a what-if world, all of them: start what is bound to them and let go what is deleted, at once.

Pods that were listed as running run on untouched. Others are admitted, and wait for their volumes, by the node agent's
own rules; images, ConfigMaps and drivers are not looked at, since nobody listed them. A node that is not ready does
nothing, as in life.
"""

from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import timestamps
from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.quantity import QuantityError
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.volume import Volume
from mooring.client.indexes import POD_BY_CLAIM, POD_BY_NODE
from mooring.control.component import Component, Context
from mooring.control.worker import work
from mooring.nodeagent import lifecycle
from mooring.nodeagent.admission import admitted
from mooring.nodeagent.claim_use import ClaimUse
from mooring.nodeagent.lifecycle import Status
from mooring.nodeagent.mounting import Storage, obstacle
from mooring.nodeagent.places import Places
from mooring.nodeagent.rows import is_ready

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
        self._storage = Storage(self._claims.get, self._volumes.get, classes.get)
        self._pods.add_index(*POD_BY_NODE)
        self._pods.add_index(*POD_BY_CLAIM)
        self._synced = (self._nodes, self._pods, self._claims, self._volumes, classes)
        self._places = Places()
        self._use = ClaimUse(context)
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
                self._places.leave(before.uid)
                self.obstacles.pop(before.key, None)
        elif after.finished:
            self._places.leave(after.uid)
        elif after.spec.node_name:
            if after.status.phase == "Running":
                self._take_place(after)
            if after.status.phase != "Running" or after.deleting:
                self._work.add(after.key)

    def _take_place(self, pod: Pod) -> None:
        try:
            self._places.take(pod)
        except QuantityError as error:
            log.warning("pod counted as taking nothing", pod=pod.key, why=str(error))

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is not None and (before is None or is_ready(before) != is_ready(after)):
            for pod in self._pods.by_index(POD_BY_NODE.name, after.name):
                self._on_pod(None, pod)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        claim = after or before
        if claim is not None:
            self._look_at_users(claim.key)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        volume = after or before
        reference = volume.spec.claim_ref if volume is not None else None
        if reference is not None:
            self._look_at_users(f"{reference.namespace}/{reference.name}")

    def _look_at_users(self, claim_key: str) -> None:
        for pod in self._pods.by_index(POD_BY_CLAIM.name, claim_key):
            self._on_pod(None, pod)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None:
            return
        waits = not pod.deleting and pod.status.phase in ("", "Pending")
        if node is None or not is_ready(node):
            if waits:
                self.obstacles[key] = f"its node {pod.spec.node_name} is {'gone' if node is None else 'not ready'}"
        elif pod.deleting:
            await self._let_go(pod)
        elif waits:
            await self._start(pod, node)

    async def _let_go(self, pod: Pod) -> None:
        if pod.metadata.deletion_grace_period_seconds == 0:
            # SEEN: let go already; finalizers keep the object.
            return
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
        except (NotFound, Conflict):
            log.debug("pod was gone already", pod=pod.key)

    async def _start(self, pod: Pod, node: Node) -> None:
        now = timestamps.to_time(self._clock.now())
        if pod.uid not in self._places:
            refused = await self._use.withdrawn(pod) or admitted(pod, node, self._places)
            if refused is not None:
                self.obstacles[pod.key] = refused.message
                await self._write(pod, lifecycle.rejected(*refused, now=now))
                return
        why = obstacle(pod, node, self._storage)
        if why is not None:
            self.obstacles[pod.key] = why
            return
        self.obstacles.pop(pod.key, None)
        await self._use.mark_dirty(pod)
        await self._write(pod, lifecycle.running(pod, now=now))

    async def _write(self, pod: Pod, status: Status) -> None:
        meta = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
        patch = lifecycle.patch(pod, {"metadata": meta, "status": status})
        await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")


def _contract(kubelets: Kubelets) -> Component:
    return kubelets
