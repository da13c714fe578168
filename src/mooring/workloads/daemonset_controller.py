"""The DaemonSet controller's shell: watches sets, pods, nodes and revisions, and does what `daemonset` asks for."""

from functools import partial
from typing import Any, Final

import structlog

from mooring.api.errors import ApiError
from mooring.api.kinds import DAEMON_SET, NODE
from mooring.api.patches.contract import MergePatch
from mooring.api.views.daemon_set import DaemonSet
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import daemonset
from mooring.workloads.daemon_placement import node_of, pod_body
from mooring.workloads.daemonset import World
from mooring.workloads.owned_pods import OwnedPods
from mooring.workloads.ownership import compiled
from mooring.workloads.patience import Patience
from mooring.workloads.pod_maker import PodMaker
from mooring.workloads.refusals import namespace_goes
from mooring.workloads.revision_history import RevisionHistory
from mooring.workloads.revisions import revision_of

#: Upstream's number of sets handled at once.
WORKERS: Final = 2

log = structlog.get_logger(__name__)


class DaemonSetController:
    name = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._queue = context.work_queue("daemonset")
        self._sets = context.informers.of(DAEMON_SET)
        self._nodes = context.informers.of(NODE)
        self._pods = OwnedPods(context, DAEMON_SET, self._queue, selector=lambda owner: compiled(owner.spec.selector))
        self._history = RevisionHistory(context, DAEMON_SET)
        self._maker = PodMaker(context, DAEMON_SET, self._queue)
        self._patience = Patience()
        self.ready = False

    async def run(self) -> None:
        await self._sets.subscribe(self._on_set)
        await self._nodes.subscribe(self._on_node)
        await self._pods.informer.subscribe(self._maker.on_pod)
        await self._pods.watch()
        await self._history.informer.synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_set(self, before: DaemonSet | None, after: DaemonSet | None) -> None:
        if after is not None:
            self._queue.add(after.key)
        elif before is not None:
            self._maker.forget(before)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or _place(before) != _place(after):
            for daemon_set in self._sets.items():
                self._queue.add(daemon_set.key)

    async def _sync(self, key: str) -> None:
        daemon_set = self._sets.get(key)
        if daemon_set is None or daemon_set.deleting or await self._maker.waits_for_news(daemon_set):
            return
        pods = await self._pods.of(daemon_set)
        newest = revision_of(daemon_set.name, daemon_set.spec.template)
        try:
            await self._history.settle(daemon_set, newest, current="")
        except ApiError as refusal:
            if namespace_goes(refusal):
                return
            raise
        world = World(newest, pods, list(self._nodes.items()), self._clock.now())
        plan = daemonset.plan(daemon_set, world)
        await self._write_status(daemon_set, world)
        if plan.again is not None:
            self._queue.add_after(key, plan.again)
        problems = [await self._maker.make(daemon_set, partial(self._body, daemon_set, node)) for node in plan.create]
        problems += [await self._maker.remove(daemon_set, pod) for pod in plan.delete]
        problems += [await self._replace(daemon_set, pod) for pod in plan.replace]
        if refused := [problem for problem in problems if problem is not None and not namespace_goes(problem)]:
            raise refused[0]
        hashes = {pod.metadata.labels.get("controller-revision-hash", "") for pod in pods}
        in_use = {newest.name, *(f"{daemon_set.name}-{word}" for word in hashes)}
        await self._history.trim(daemon_set, in_use, daemon_set.spec.revision_history_limit)

    def _body(self, daemon_set: DaemonSet, node: str, name: str) -> dict[str, Any]:
        return pod_body(daemon_set, node, name, revision_of(daemon_set.name, daemon_set.spec.template))

    async def _replace(self, daemon_set: DaemonSet, pod: Pod) -> ApiError | None:
        place = f"{daemon_set.uid} {node_of(pod)}"
        wait = self._patience.wait(place, pod.uid, now=self._clock.monotonic())
        if wait > 0:
            self._queue.add_after(daemon_set.key, wait)
            return None
        text = f"Found failed daemon pod {pod.key} on node {node_of(pod)}, will try to kill it"
        self._recorder.record(daemon_set, DAEMON_SET, "Warning", "FailedDaemonPod", text)
        return await self._maker.remove(daemon_set, pod)

    async def _write_status(self, daemon_set: DaemonSet, world: World) -> None:
        wanted = daemonset.status(daemon_set, world)
        if wanted == daemonset.reported(daemon_set):
            return
        meta = {"resourceVersion": daemon_set.metadata.resource_version}
        patch = MergePatch({"metadata": meta, "status": wanted})
        name, namespace = daemon_set.name, daemon_set.namespace
        await self._client.patch(DAEMON_SET, name, patch, namespace=namespace, subresource="status")


def _place(node: Node) -> tuple[object, ...]:
    """What decides whether a node wants a pod."""
    return (node.uid, node.metadata.labels, node.spec.taints)
