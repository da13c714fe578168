"""Sends away pods that do not tolerate a `NoExecute` taint of their node, or no longer do.

`stays` decides; the rest is the shell. The time a pod may stay counts from the moment the taint was added, as the
taint itself says, so that it does not begin anew when this controller does.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import NotFound
from mooring.api.kinds import NODE, POD
from mooring.api.patches.contract import StrategicPatch
from mooring.api.tolerations import tolerates
from mooring.api.views.node import Node, Taint
from mooring.api.views.pod import Pod
from mooring.client.indexes import POD_BY_NODE
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads.node_taints import NO_EXECUTE

#: Upstream's number of pods handled at once.
WORKERS: Final = 8
EVENT: Final = "TaintManagerEviction"

log = structlog.get_logger(__name__)


def stays(pod: Pod, taints: Sequence[Taint]) -> float:
    """Seconds the pod may stay beside these `NoExecute` taints: 0 is not at all, infinite is for ever."""
    longest = math.inf
    for taint in taints:
        fitting = [toleration for toleration in pod.spec.tolerations if tolerates(toleration, taint)]
        if not fitting:
            return 0.0
        for toleration in fitting:
            if toleration.toleration_seconds is not None:
                longest = min(longest, max(float(toleration.toleration_seconds), 0.0))
    return longest


def expelling(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


class TaintEvictionController:
    name = "taint-eviction-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._pods.add_index(*POD_BY_NODE)
        #: When each node's taints began to count, for taints that do not say.
        self._since: dict[tuple[str, str], float] = {}
        #: Uids of pods that were told they have to go later.
        self._doomed: set[str] = set()
        self._queue = context.work_queue("taint_eviction")
        self.ready = False

    async def run(self) -> None:
        await self._nodes.subscribe(self._on_node)
        await self._pods.subscribe(self._on_pod)
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        node = after if after is not None else before
        old = expelling(before) if before is not None else ()
        new = expelling(after) if after is not None else ()
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
                self._doomed.discard(before.uid)
        elif before is None or before.spec != after.spec:
            node = self._nodes.get(after.spec.node_name) if after.spec.node_name else None
            if node is not None and expelling(node):
                self._queue.add(after.key)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or pod.deleting or pod.finished:
            return
        taints = expelling(node)
        allowed = stays(pod, taints)
        if math.isinf(allowed):
            if pod.uid in self._doomed:
                self._doomed.discard(pod.uid)
                self._recorder.record(pod, POD, "Normal", EVENT, f"Cancelling deletion of Pod {pod.key}")
            return
        wait = min(self._added(node, taint) for taint in taints) + allowed - self._clock.now()
        if allowed > 0 and wait > 0:
            self._doomed.add(pod.uid)
            self._queue.add_after(key, wait)
            return
        self._doomed.discard(pod.uid)
        self._recorder.record(pod, POD, "Normal", EVENT, f"Marking for deletion Pod {pod.key}")
        await self._evict(pod)

    def _added(self, node: Node, taint: Taint) -> float:
        if taint.time_added is not None:
            return timestamps.from_time(taint.time_added)
        return self._since.get((node.name, taint.key), self._clock.now())

    async def _evict(self, pod: Pod) -> None:
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": timestamps.to_time(self._clock.now()),
        }
        patch = StrategicPatch({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}})
        try:
            await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
        except NotFound:
            log.debug("pod was gone already", pod=pod.key)
        else:
            log.info("pod sent away", pod=pod.key, node=pod.spec.node_name)
