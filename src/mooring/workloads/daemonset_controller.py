"""The DaemonSet controller's shell: watches sets, pods, nodes and revisions, and does what `daemonset` asks for."""

from typing import Final

import structlog

from mooring.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from mooring.api.kinds import DAEMON_SET, NODE, POD
from mooring.api.patches.contract import MergePatch
from mooring.api.views.daemon_set import DaemonSet
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads import daemonset, replicaset
from mooring.workloads.daemon_placement import node_of, pod_body
from mooring.workloads.daemonset import World
from mooring.workloads.expectations import PATIENCE, Expectations
from mooring.workloads.owned_pods import OwnedPods
from mooring.workloads.ownership import compiled
from mooring.workloads.patience import Patience
from mooring.workloads.refusals import namespace_goes
from mooring.workloads.replicaset import ALPHABET, SUFFIX
from mooring.workloads.revision_history import RevisionHistory
from mooring.workloads.revisions import Revision, revision_of

#: Upstream's number of sets handled at once.
WORKERS: Final = 2

log = structlog.get_logger(__name__)


class DaemonSetController:
    name = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._rng = context.rng
        self._recorder = context.recorder
        self._queue = context.work_queue("daemonset")
        self._sets = context.informers.of(DAEMON_SET)
        self._nodes = context.informers.of(NODE)
        self._pods = OwnedPods(context, DAEMON_SET, self._queue, selector=lambda owner: compiled(owner.spec.selector))
        self._history = RevisionHistory(context, DAEMON_SET)
        self._expectations = Expectations()
        self._patience = Patience()
        self.ready = False

    async def run(self) -> None:
        self._sets.on_change(self._on_set)
        self._nodes.on_change(self._on_node)
        self._pods.informer.on_change(self._on_pod)
        self._pods.watch()
        for informer in (self._sets, self._nodes, self._pods.informer, self._history.informer):
            await informer.synced.wait()
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_set(self, before: DaemonSet | None, after: DaemonSet | None) -> None:
        if after is not None:
            self._queue.add(after.key)
        elif before is not None:
            self._expectations.forget(before.uid)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or _place(before) != _place(after):
            for daemon_set in self._sets.items():
                self._queue.add(daemon_set.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after if after is not None else before
        if pod is not None and pod.controller is not None:
            self._expectations.met(pod.controller.uid, pod.name)

    async def _sync(self, key: str) -> None:
        daemon_set = self._sets.get(key)
        if daemon_set is None or daemon_set.deleting or await self._waits_for_news(daemon_set):
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
        problems = [await self._create(daemon_set, node, newest) for node in plan.create]
        problems += [await self._delete(daemon_set, pod) for pod in plan.delete]
        problems += [await self._replace(daemon_set, pod) for pod in plan.replace]
        if refused := [problem for problem in problems if problem is not None]:
            raise refused[0]
        hashes = {pod.metadata.labels.get("controller-revision-hash", "") for pod in pods}
        in_use = {newest.name, *(f"{daemon_set.name}-{word}" for word in hashes)}
        await self._history.trim(daemon_set, in_use, daemon_set.spec.revision_history_limit)

    async def _waits_for_news(self, daemon_set: DaemonSet) -> bool:
        """Whether pods that were asked for have not been seen yet; those that take long are asked about."""
        for pod in self._expectations.overdue(daemon_set.uid, now=self._clock.monotonic()):
            try:
                await self._client.get(POD, pod, namespace=daemon_set.namespace)
            except NotFound:
                self._expectations.met(daemon_set.uid, pod)
        waits = bool(self._expectations.awaited(daemon_set.uid))
        if waits:
            self._queue.add_after(daemon_set.key, PATIENCE)
        return waits

    async def _create(self, daemon_set: DaemonSet, node: str, revision: Revision) -> ApiError | None:
        name = replicaset.name(daemon_set.name, "".join(self._rng.choices(ALPHABET, k=SUFFIX)))
        self._expectations.expect(daemon_set.uid, name, now=self._clock.monotonic())
        body = pod_body(daemon_set, node, name, revision)
        try:
            await self._client.create(POD, body, namespace=daemon_set.namespace)
        except Unreachable:
            # SEEN: it may be there or not; the expectation stays until somebody knows.
            self._queue.add_after(daemon_set.key, PATIENCE)
            return None
        except ApiError as error:
            self._expectations.met(daemon_set.uid, name)
            if isinstance(error, AlreadyExists):
                # SEEN: the name was taken; the next look chooses another.
                self._queue.add(daemon_set.key)
                return None
            return self._failed(daemon_set, "FailedCreate", f"Error creating: {error.message}", error, name)
        self._recorder.record(daemon_set, DAEMON_SET, "Normal", "SuccessfulCreate", f"Created pod: {name}")
        return None

    async def _replace(self, daemon_set: DaemonSet, pod: Pod) -> ApiError | None:
        place = f"{daemon_set.uid} {node_of(pod)}"
        wait = self._patience.wait(place, pod.uid, now=self._clock.monotonic())
        if wait > 0:
            self._queue.add_after(daemon_set.key, wait)
            return None
        text = f"Found failed daemon pod {pod.key} on node {node_of(pod)}, will try to kill it"
        self._recorder.record(daemon_set, DAEMON_SET, "Warning", "FailedDaemonPod", text)
        return await self._delete(daemon_set, pod)

    async def _delete(self, daemon_set: DaemonSet, pod: Pod) -> ApiError | None:
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid)
        except (NotFound, Conflict):
            # SEEN: that very pod is gone already.
            return None
        except ApiError as error:
            return self._failed(daemon_set, "FailedDelete", f"Error deleting: {error.message}", error, pod.name)
        self._recorder.record(daemon_set, DAEMON_SET, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return None

    def _failed(self, daemon_set: DaemonSet, reason: str, text: str, error: ApiError, pod: str) -> ApiError | None:
        """Tells people; None if there is no point in trying again."""
        if namespace_goes(error):
            return None
        # Without the random part of the name: what is said again and again must be the same each time.
        told = text.replace(pod, f"{daemon_set.name}-")
        self._recorder.record(daemon_set, DAEMON_SET, "Warning", reason, told)
        return error

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
