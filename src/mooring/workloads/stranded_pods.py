"""Removes pods whose node is gone: no node agent is left that could end them.

Without this such a pod shows Running for ever, its claims stay in use and its StatefulSet never replaces it. A node is
believed to be gone after 40 seconds, and only if the server confirms it.
"""

from typing import Final

import structlog

from mooring.api.errors import NotFound
from mooring.api.kinds import NODE, POD
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.client.indexes import POD_BY_NODE
from mooring.control.component import Context
from mooring.control.worker import work

#: Upstream's pod garbage collector: how long a node must be missing; it may only be registering again.
QUARANTINE_SECONDS: Final = 40.0

log = structlog.get_logger(__name__)


class StrandedPodCollector:
    name = "pod-garbage-collector"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)
        self._queue = context.work_queue("stranded_pods")
        self.ready = False

    async def run(self) -> None:
        await self._nodes.subscribe(self._on_node)
        await self._pods.subscribe(self._on_pod)
        self.ready = True
        await work(self._queue, self._sync, workers=1, name=self.name)

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
        try:
            await self._client.get(NODE, node)
        except NotFound:
            for pod in pods:
                await self._delete(pod)

    async def _delete(self, pod: Pod) -> None:
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
        except NotFound:
            return
        log.info("removed a pod whose node is gone", pod=pod.key, node=pod.spec.node_name)
