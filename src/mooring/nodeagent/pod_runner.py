"""Moves the pods bound to the agent's nodes through their lives: admits or refuses them, waits for their volumes,
starts, ends and lets them go.

A shell: what a pod's status says comes from `lifecycle`, which stage is next from `stages`, whether volumes can be
mounted from `mounting`. Nodes without power are left alone with everything on them.
"""

import asyncio
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import NotFound
from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.pod import Pod
from mooring.api.views.storage import VolumeAttachment
from mooring.api.views.volume import Volume
from mooring.client.contract import Unreachable
from mooring.client.indexes import POD_BY_CLAIM, POD_BY_NODE
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.nodeagent import lifecycle, stages
from mooring.nodeagent.admission import Refusal, admitted
from mooring.nodeagent.claim_use import ClaimUse
from mooring.nodeagent.csi_mounter import CsiMounter
from mooring.nodeagent.heartbeat import powered
from mooring.nodeagent.lifecycle import Status
from mooring.nodeagent.mounting import FAILED_MOUNT, Storage, obstacle
from mooring.nodeagent.places import Places
from mooring.nodeagent.projections import Source, sources
from mooring.nodeagent.rows import is_ready, played_here
from mooring.nodeagent.script import BadScript, Script, script
from mooring.nodeagent.stages import Step

#: How often people are told again what a pod waits for; kubelet's podAttachAndMountTimeout. Changes of claims and
#: volumes are acted on at once.
REMIND_SECONDS: Final = 123.0
#: How soon a missing ConfigMap is looked for again, or a driver asked: the kubelet's first pause, doubling to its
#: longest.
FIRST_LOOK: Final = 0.5
LONGEST_LOOK: Final = 122.0
WORKERS: Final = 4
#: The reason of refusals and events about annotations that cannot be followed.
BAD_SCRIPT: Final = "InvalidScript"

log = structlog.get_logger(__name__)


class PodRunner:
    def __init__(self, context: Context, mounter: CsiMounter) -> None:
        self._client = context.client
        self._mounter = mounter
        self._use = ClaimUse(context)
        self._clock = context.clock
        self._recorder = context.recorder
        self._nodes = context.informers.of(NODE)
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._storage = Storage(self._claims.get, self._volumes.get, self._classes.get)
        self._pods.add_index(*POD_BY_NODE)
        self._pods.add_index(*POD_BY_CLAIM)
        self._places = Places()
        #: How long each pod, by uid, last waited for somebody who does not tell when it is worth looking again.
        self._looks: dict[str, float] = {}
        self._work = context.work_queue("node_agent_pods")
        #: Uids of pods that are gone and left volumes behind.
        self._remains = context.work_queue("node_agent_remains")
        self.informers = (self._nodes, self._pods, self._claims, self._volumes, self._classes)

    async def run(self) -> None:
        """The informers must have synced."""
        self._nodes.on_change(self._on_node)
        self._pods.on_change(self._on_pod)
        self._claims.on_change(self._on_claim)
        self._volumes.on_change(self._on_volume)
        self._mounter.attachments.on_change(self._on_attachment)
        there = {pod.uid for pod in self._pods.items()}
        for uid in self._mounter.pods:
            if uid not in there:
                self._remains.add(uid)
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._work, self._sync, workers=WORKERS, name="node agent pods"))
            group.create_task(work(self._remains, self._clear, workers=WORKERS, name="node agent remains"))

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is None or not played_here(after) or (before is not None and _alike(before, after)):
            return
        for pod in self._pods.by_index(POD_BY_NODE.name, after.name):
            self._work.add(pod.key)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._places.leave(before.uid)
                self._looks.pop(before.uid, None)
                if before.uid in self._mounter.pods:
                    self._remains.add(before.uid)
            return
        if after.finished:
            self._places.leave(after.uid)
        elif after.spec.node_name and after.status.container_statuses:
            # SEEN: admitted, by this agent or by an earlier one.
            self._places.take(after)
        if after.spec.node_name:
            self._work.add(after.key)

    def _on_claim(self, before: Claim | None, after: Claim | None) -> None:
        claim = after if after is not None else before
        if claim is not None:
            self._look_at_users(claim.key)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        for volume in (before, after):
            reference = volume.spec.claim_ref if volume is not None else None
            if reference is not None:
                self._look_at_users(f"{reference.namespace}/{reference.name}")

    def _on_attachment(self, before: VolumeAttachment | None, after: VolumeAttachment | None) -> None:
        """A volume that was attached may be what a pod on the node waits for."""
        if after is not None and after.status.attached and (before is None or not before.status.attached):
            self._on_volume(None, self._volumes.get(after.spec.source.persistent_volume_name))

    def _look_at_users(self, claim_key: str) -> None:
        for pod in self._pods.by_index(POD_BY_CLAIM.name, claim_key):
            if pod.spec.node_name:
                self._work.add(pod.key)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or not played_here(node) or not powered(node):
            return
        try:
            said = script(pod)
        except BadScript as error:
            if pod.status.phase in ("", "Pending") and not pod.deleting:
                await self._refuse(pod, Refusal(BAD_SCRIPT, str(error)))
                return
            # SEEN: written onto a pod that runs; it goes on as if nothing had been said.
            self._recorder.record(pod, POD, "Warning", BAD_SCRIPT, str(error))
            said = Script()
        if pod.deleting:
            await self._let_go(pod, said)
        elif pod.finished:
            await self._unmount(pod)
        elif pod.status.phase == "Running":
            await self._take(pod, stages.proceed(pod, said, now=self._clock.now()))
        elif is_ready(node):
            # A node that has not reported yet has no room for anybody, and a refusal would be final.
            await self._start(pod, node, said)

    async def _let_go(self, pod: Pod, said: Script) -> None:
        """Nothing runs that would need its grace period, unless the pod says so."""
        if pod.metadata.deletion_grace_period_seconds == 0:
            # SEEN: let go already; finalizers keep the object.
            return
        wait = stages.stop_wait(pod, said, now=self._clock.now())
        if wait > 0:
            self._work.add_after(pod.key, wait)
            return
        if not await self._unmount(pod):
            return
        try:
            await self._client.delete(POD, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=0)
        except NotFound:
            log.debug("pod was gone already", pod=pod.key)

    async def _start(self, pod: Pod, node: Node, said: Script) -> None:
        if pod.uid not in self._places:
            refused = await self._use.withdrawn(pod) or admitted(pod, node, self._places)
            if refused is not None:
                await self._refuse(pod, refused)
                return
        why = obstacle(pod, node, self._storage)
        if why is not None:
            await self._wait(pod, why, REMIND_SECONDS)
            return
        await self._use.mark_dirty(pod)
        missing = await self._missing(pod)
        problem = missing.missing if missing is not None else await self._mounter.mount(pod, self._storage)
        if problem is not None:
            await self._wait(pod, problem, self._pause(pod))
            return
        self._looks.pop(pod.uid, None)
        await self._take(pod, stages.start(pod, said, now=self._clock.now()))

    async def _unmount(self, pod: Pod) -> bool:
        """Whether nothing of the pod is mounted any more; otherwise it is tried again."""
        problem = await self._mounter.unmount(pod.uid)
        if problem is None:
            return True
        self._recorder.record(pod, POD, "Warning", "FailedUnMount", problem)
        self._work.add_after(pod.key, self._pause(pod))
        return False

    async def _clear(self, uid: str) -> None:
        """Take away what a pod left behind that was deleted without asking its node."""
        problem = await self._mounter.unmount(uid)
        if problem is not None:
            raise Unreachable(problem)

    def _pause(self, pod: Pod) -> float:
        last = self._looks.get(pod.uid, FIRST_LOOK / 2)
        pause = min(last * 2, LONGEST_LOOK)
        if self._pods.get(pod.key) is not None:
            # Else it went while its node was asked, and nothing would ever take the note away.
            self._looks[pod.uid] = pause
        return pause

    async def _missing(self, pod: Pod) -> Source | None:
        """The first ConfigMap or Secret of the pod's volumes that is not there."""
        for source in sources(pod):
            try:
                await self._client.get(source.kind, source.name, namespace=pod.namespace)
            except NotFound:
                return source
        return None

    async def _wait(self, pod: Pod, why: str, seconds: float) -> None:
        """The pod keeps its place and is looked at again when something changes, or after a while."""
        self._recorder.record(pod, POD, "Warning", FAILED_MOUNT, why)
        if not pod.status.container_statuses:
            await self._write(pod, lifecycle.creating(pod, now=self._date()))
        self._work.add_after(pod.key, seconds)

    async def _refuse(self, pod: Pod, refused: Refusal) -> None:
        await self._write(pod, lifecycle.rejected(*refused, now=self._date()))
        self._recorder.record(pod, POD, "Warning", refused.reason, refused.message)

    async def _take(self, pod: Pod, step: Step) -> None:
        if step.status is not None:
            await self._write(pod, step.status)
        if step.event is not None:
            self._recorder.record(pod, POD, *step.event)
        if step.again is not None:
            self._work.add_after(pod.key, step.again)

    async def _write(self, pod: Pod, status: Status) -> None:
        meta = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version}
        patch = lifecycle.patch(pod, {"metadata": meta, "status": status})
        await self._client.patch(POD, pod.name, patch, namespace=pod.namespace, subresource="status")

    def _date(self) -> str:
        return timestamps.to_time(self._clock.now())


def _alike(before: Node, after: Node) -> bool:
    """Whether nothing changed that pods on the node wait for; heartbeats change none of it."""
    return (
        is_ready(before) == is_ready(after)
        and powered(before) == powered(after)
        and before.metadata.labels == after.metadata.labels
        and played_here(before)
    )
