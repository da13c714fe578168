"""Node agent component: registration and heartbeats of simulated nodes, and the pod worker.

A deleted Node is not registered again until the agent restarts, as with a kubelet.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog

from mooring.api import times
from mooring.api.errors import AlreadyExists, ApiError, NotFound
from mooring.api.kinds import CSI_NODE, LEASE, NODE
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.core import Node, NodeStatus
from mooring.api.views.storage import CsiNode
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.workqueue import work
from mooring.csi.contract import DriverError, NodeInfo
from mooring.nodeagent import node_objects
from mooring.nodeagent.node_objects import NodeTemplate, is_powered, is_ready, is_simulated
from mooring.nodeagent.pod_worker import PodWorker
from mooring.nodeagent.volume_manager import CsiMounter, Drivers, MountStore

WORKERS: Final = 32
#: Nodes of a new cluster that are registered side by side: a commit of the store takes as many, and a signal stops a
#: start within the time that these take.
REGISTERED_TOGETHER: Final = 512
#: Before NodeGetInfo is retried.
DRIVER_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


class _NodeInfoFailed(Exception):
    """A driver did not answer NodeGetInfo; the text is the event's."""


class NodeRegistrar:
    def __init__(self, context: Context, templates: Sequence[NodeTemplate], drivers: Drivers, *, pace: float) -> None:
        self._pace = pace
        self._client = context.client
        self._recorder = context.recorder
        self._drivers = drivers
        self._clock = context.clock
        self._rng: random.Random = context.rng
        self._capacity = {template.name: template.capacity for template in templates}
        #: Templates without a Node so far.
        self._unregistered = {template.name: template for template in templates}
        self._nodes = context.informers.of(NODE)
        #: When the status of each node was last written, on the monotonic clock.
        self._reported: dict[str, float] = {}
        #: Uids of the nodes whose drivers are listed in their CSINode.
        self._registered: set[str] = set()
        #: Names of the nodes that this agent has created without a Lease so far.
        self._unleased: set[str] = set()
        self._work = context.work_queue("node_agent_nodes", NODE)
        self._heartbeats = context.work_queue("node_agent_leases", NODE)

    async def register_missing(self, report: Callable[[int, int], None]) -> None:
        """Create the Nodes that do not exist, ready, and register the drivers of all, best effort: `run` repeats what
        failed. `report` gets the number of Nodes that exist, and the total.

        Before `run`, and before anything watches: to create 5,000 nodes one event at a time takes four times as long.
        """
        csi_nodes = {each.name: each for each in (await self._client.list(CSI_NODE)).items}
        steps: list[Callable[[], Awaitable[None]]] = []
        for node in (await self._client.list(NODE)).items:
            if self._unregistered.pop(node.name, None) and is_simulated(node) and is_powered(node):
                if await self._is_registered(node, csi_nodes.get(node.name)):
                    self._registered.add(node.uid)
                else:
                    steps.append(partial(self._register_drivers, node))
        # Ready, although only their CSINodes say what they can attach: no pod is scheduled before both exist.
        steps += [partial(self._register, template, ready=True) for template in self._unregistered.values()]
        total = len(self._capacity)
        for start in range(0, len(steps), REGISTERED_TOGETHER):
            report(total - len(steps) + start, total)
            together = (step() for step in steps[start : start + REGISTERED_TOGETHER])
            for outcome in await asyncio.gather(*together, return_exceptions=True):
                if isinstance(outcome, ApiError | Unreachable):
                    log.info("node not registered", error=str(outcome))
                elif outcome is not None:
                    raise outcome

    async def _is_registered(self, node: Node, known: CsiNode | None) -> bool:
        """Whether an earlier agent has registered the drivers of the node as they are now."""
        try:
            infos = await self._driver_infos(node.name)
        except _NodeInfoFailed:
            return False
        labels = node.metadata.labels.items()
        return (
            known is not None
            and node_objects.csi_node_drivers(known, infos) is None
            and node_objects.reported_topology(infos).items() <= labels
        )

    async def run(self) -> None:
        """Requires that the node informer has synced."""
        self._nodes.on_change(self._on_node)
        for name in self._unregistered:
            self._work.add(name)
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._work, self._sync, workers=WORKERS, name="node agent nodes"))
            group.create_task(work(self._heartbeats, self._renew, workers=WORKERS, name="node agent leases"))

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if after is None:
            if before is not None:
                self._reported.pop(before.name, None)
                self._unleased.discard(before.name)
                self._registered.discard(before.uid)
        elif is_simulated(after):
            self._work.add(after.name)
            if before is None:
                # Spread over the nodes: until a Lease exists the status is the heartbeat, and registrations go first.
                delay = self._rng.random() * len(self._capacity) / node_objects.FIRST_RENEWALS_PER_SECOND
                self._heartbeats.add_after(after.name, delay)
            elif is_powered(before) != is_powered(after):
                self._heartbeats.add(after.name)

    async def _sync(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            if name in self._unregistered:
                await self._register(self._unregistered[name], ready=False)
            return
        self._unregistered.pop(name, None)
        if not is_simulated(node) or not is_powered(node):
            return
        if node.uid not in self._registered:
            await self._register_drivers(node)
        # The report of an earlier agent counts from the time when this one observed it.
        reported = self._reported.setdefault(name, self._clock.monotonic())
        if not is_ready(node) or self._clock.monotonic() - reported >= node_objects.REPORT_SECONDS:
            await self._report(node)
        self._work.add_after(name, node_objects.REPORT_SECONDS)

    async def _register(self, template: NodeTemplate, *, ready: bool) -> None:
        """Create the Node, with its topology if its drivers answer, and its CSINode. Unless `ready`, its status follows
        once the CSINode exists, as with a kubelet."""
        try:
            infos: Mapping[str, NodeInfo] | None = await self._driver_infos(template.name)
        except _NodeInfoFailed:
            # Repeated once the Node exists, which the event is about.
            infos = None
        body = node_objects.registration(template, infos or {})
        if ready and infos is not None:
            body["status"] = self._ready_status(template.name, NodeStatus())
        try:
            node = await self._client.create(NODE, body)
        except AlreadyExists:
            log.info("object already exists", node=template.name)
            self._unregistered.pop(template.name, None)
            return
        log.info("node registered", node=template.name, zone=template.zone)
        self._unregistered.pop(template.name, None)
        self._unleased.add(template.name)
        if infos is not None:
            await self._list_drivers(node, infos)

    async def _driver_infos(self, node: str) -> Mapping[str, NodeInfo]:
        """NodeGetInfo of the node's drivers. Raises _NodeInfoFailed."""
        infos: dict[str, NodeInfo] = {}
        for name, driver in self._drivers.get(node, {}).items():
            try:
                infos[name] = await driver.info()
            except DriverError as error:
                raise _NodeInfoFailed(f"NodeGetInfo of driver {name} failed: {error}") from error
        return infos

    async def _register_drivers(self, node: Node) -> None:
        """Register the drivers of a node that exists: topology labels of the Node, entries of the CSINode."""
        try:
            infos = await self._driver_infos(node.name)
        except _NodeInfoFailed as error:
            self._recorder.record(node, NODE, "Warning", "CSIDriverRegistrationFailed", str(error))
            self._work.add_after(node.name, DRIVER_SECONDS)
            return
        missing = node_objects.missing_topology_labels(node, infos)
        if missing:
            await self._client.patch(NODE, node.name, MergePatch({"metadata": {"uid": node.uid, "labels": missing}}))
        await self._list_drivers(node, infos)

    async def _list_drivers(self, node: Node, infos: Mapping[str, NodeInfo]) -> None:
        for contradiction in node_objects.topology_contradictions(node, infos):
            self._recorder.record(node, NODE, "Warning", "CSIDriverRegistrationFailed", contradiction)
        try:
            await self._client.create(CSI_NODE, node_objects.csi_node(node, infos))
        except AlreadyExists:
            known = await self._client.get(CSI_NODE, node.name)
            desired = node_objects.csi_node_drivers(known, infos)
            if desired is not None:
                meta = {"resourceVersion": known.metadata.resource_version}
                patch = MergePatch({"metadata": meta, "spec": {"drivers": desired}})
                await self._client.patch(CSI_NODE, known.name, patch)
        self._registered.add(node.uid)

    def _ready_status(self, name: str, before: NodeStatus) -> dict[str, Any]:
        capacity = self._capacity.get(name, node_objects.DEFAULT_CAPACITY)
        return node_objects.ready_status(name, before, capacity, now=times.to_time(self._clock.now()))

    async def _report(self, node: Node) -> None:
        meta = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        patch = StrategicPatch({"metadata": meta, "status": self._ready_status(node.name, node.status)})
        await self._client.patch(NODE, node.name, patch, subresource="status")
        self._reported[node.name] = self._clock.monotonic()

    async def _renew(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or not is_simulated(node) or not is_powered(node):
            return
        duration = node_objects.lease_seconds(len(self._nodes.items()), pace=self._pace)
        await self._write_lease(node, duration)
        # Jitter of up to 5%, so that nodes that were registered together do not keep renewing together.
        self._heartbeats.add_after(name, duration / node_objects.RENEWALS * (1 + self._rng.random() / 20))

    async def _write_lease(self, node: Node, duration: int) -> None:
        name, now = node.name, times.to_micro_time(self._clock.now())
        body = node_objects.lease_body(node, duration=duration, now=now)
        if name not in self._unleased:
            try:
                patch = MergePatch({"spec": body["spec"]})
                await self._client.patch(LEASE, name, patch, namespace=node_objects.NAMESPACE)
                return
            except NotFound:
                log.debug("lease not found", node=name)
        try:
            await self._client.create(LEASE, body, namespace=node_objects.NAMESPACE)
        except AlreadyExists:
            self._heartbeats.add(name)
        self._unleased.discard(name)


#: For agents whose nodes have no drivers.
NO_DRIVERS: Drivers = {}


class NodeAgent:
    name = "node-agent"

    def __init__(
        self,
        context: Context,
        templates: Sequence[NodeTemplate] = (),
        *,
        drivers: Drivers = NO_DRIVERS,
        mount_store: MountStore | None = None,
        pace: float = node_objects.RENEWALS_PER_SECOND,
    ) -> None:
        """Volumes of `drivers` are mounted and recorded in `mount_store`; mounts of other drivers are simulated. All
        nodes together renew their Leases at most `pace` times a second."""
        self._registrar = NodeRegistrar(context, templates, drivers, pace=pace)
        self._mounter = CsiMounter(context, drivers, mount_store or MountStore())
        self._pod_worker = PodWorker(context, self._mounter)
        self.ready = False

    async def register_missing(self, report: Callable[[int, int], None]) -> None:
        """Create the Nodes of a new cluster together; see `NodeRegistrar.register_missing`."""
        await self._registrar.register_missing(report)

    async def run(self) -> None:
        for informer in (*self._pod_worker.informers, *self._mounter.informers):
            await informer.synced.wait()
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registrar.run(), name=f"{self.name} nodes")
            group.create_task(self._pod_worker.run(), name=f"{self.name} pods")
