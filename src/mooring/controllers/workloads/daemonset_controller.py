"""The DaemonSet controller: watches sets, pods, nodes and revisions, and executes the plan of `daemonset`."""

import structlog

from mooring.api.errors import ApiError
from mooring.api.kinds import DAEMON_SET, NODE, POD
from mooring.api.views.core import Node
from mooring.api.views.pods import Pod
from mooring.api.views.workloads import DaemonSet
from mooring.backoff import RestartBackoff
from mooring.control.component import Context, Reconciler
from mooring.controllers.workloads import daemonset
from mooring.controllers.workloads.daemonset import DaemonSetState, node_of, pod_body
from mooring.controllers.workloads.pod_control import OwnedObjects, PodControl, RevisionHistory, write_status
from mooring.controllers.workloads.pod_rules import Revision, is_namespace_terminating

log = structlog.get_logger(__name__)


class DaemonSetController(Reconciler[str]):
    name = "daemonset-controller"
    #: As upstream.
    WORKERS = 2

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("daemonset", DAEMON_SET))
        self._sets = context.informers.of(DAEMON_SET)
        self._nodes = context.informers.of(NODE)
        self._pods = OwnedObjects(context, DAEMON_SET, POD, self._queue)
        self._history = RevisionHistory(context, DAEMON_SET)
        self._pod_control = PodControl(context, DAEMON_SET, self._queue)
        self._backoff = RestartBackoff()

    async def _subscribe(self) -> None:
        await self._pod_control.watch()
        await self._pods.watch()
        await self._nodes.subscribe(self._on_node)
        await self._history.informer.synced.wait()

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or _placement_state(before) != _placement_state(after):
            for daemon_set in self._sets.items():
                self._queue.add(daemon_set.key)

    async def _sync(self, key: str) -> None:
        daemon_set = self._sets.get(key)
        if daemon_set is None or daemon_set.deleting or await self._pod_control.expectations_pending(daemon_set):
            return
        pods = await self._pods.of(daemon_set)
        revisions = await self._history.settle(daemon_set, current="")
        if revisions is None:
            return
        newest = revisions.update
        state = DaemonSetState(newest, pods, list(self._nodes.items()), self._clock.now())
        plan = daemonset.plan_daemon_set(daemon_set, state)
        status = daemonset.daemon_set_status(daemon_set, state)
        await write_status(self._client, DAEMON_SET, daemon_set, status)
        if plan.again is not None:
            self._queue.add_after(key, plan.again)
        problems = [await self._create(daemon_set, node, newest) for node in plan.create]
        problems += [await self._pod_control.delete_pod(daemon_set, pod) for pod in plan.delete]
        problems += [await self._replace(daemon_set, pod) for pod in plan.replace]
        for problem in problems:
            if problem is not None and not is_namespace_terminating(problem):
                raise problem
        hashes = {pod.metadata.labels.get("controller-revision-hash", "") for pod in pods}
        in_use = {newest.name, *(f"{daemon_set.name}-{word}" for word in hashes)}
        await self._history.trim(daemon_set, in_use, daemon_set.spec.revision_history_limit)

    async def _create(self, daemon_set: DaemonSet, node: str, revision: Revision) -> ApiError | None:
        return await self._pod_control.create_pod(daemon_set, lambda name: pod_body(daemon_set, node, name, revision))

    async def _replace(self, daemon_set: DaemonSet, pod: Pod) -> ApiError | None:
        place = f"{daemon_set.uid} {node_of(pod)}"
        wait = self._backoff.wait(place, pod.uid, now=self._clock.monotonic())
        if wait > 0:
            self._queue.add_after(daemon_set.key, wait)
            return None
        text = f"Found failed daemon pod {pod.key} on node {node_of(pod)}, will try to kill it"
        self._recorder.record(daemon_set, DAEMON_SET, "Warning", "FailedDaemonPod", text)
        return await self._pod_control.delete_pod(daemon_set, pod)


def _placement_state(node: Node) -> tuple[object, ...]:
    """The fields that decide whether a node gets a pod."""
    return (node.uid, node.metadata.labels, node.spec.taints)
