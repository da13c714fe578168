"""Keeps nodes on the books: Node, CSINode and Lease of every row, heartbeats, and the status when it is due.

A shell without a queue of pods; what runs on the nodes is `pod_runner`'s business. A Node that is deleted stays away
until the agent starts again, as a kubelet's does.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from mooring.api import timestamps
from mooring.api.errors import AlreadyExists, NotFound
from mooring.api.kinds import CSI_NODE, LEASE, NODE
from mooring.api.patches.contract import MergePatch, StrategicPatch
from mooring.api.views.node import Node
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.csi.contract import DriverError, NodeInfo
from mooring.nodeagent import csi_registration, heartbeat
from mooring.nodeagent.csi_mounter import Drivers
from mooring.nodeagent.heartbeat import powered
from mooring.nodeagent.rows import (
    DEFAULT_CAPACITY,
    NodeRow,
    csi_node,
    is_ready,
    played_here,
    ready_status,
    registration,
)

WORKERS: Final = 4
#: How soon a driver that did not answer is asked again.
DRIVER_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


class NodeRegistrar:
    def __init__(self, context: Context, rows: Sequence[NodeRow], drivers: Drivers, *, pace: float) -> None:
        self._pace = pace
        self._client = context.client
        self._recorder = context.recorder
        self._drivers = drivers
        self._clock = context.clock
        self._rng: random.Random = context.rng
        self._capacity = {row.name: row.capacity for row in rows}
        #: Rows without a Node so far.
        self._unregistered = {row.name: row for row in rows}
        self._nodes = context.informers.of(NODE)
        #: When the status of each node was last written, on the monotonic clock.
        self._reported: dict[str, float] = {}
        #: Uids of the nodes whose drivers are listed in their CSINode.
        self._introduced: set[str] = set()
        self._work = context.work_queue("node_agent_nodes")
        self._heartbeats = context.work_queue("node_agent_leases")

    async def run(self) -> None:
        """The informer of nodes must have synced."""
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
                self._introduced.discard(before.uid)
        elif played_here(after):
            self._work.add(after.name)
            if before is None or powered(before) != powered(after):
                self._heartbeats.add(after.name)

    async def _sync(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            if name in self._unregistered:
                await self._register(self._unregistered[name])
            return
        self._unregistered.pop(name, None)
        if not played_here(node) or not powered(node):
            return
        if node.uid not in self._introduced:
            await self._introduce(node)
        # What an earlier agent reported counts from the moment this one saw it.
        reported = self._reported.setdefault(name, self._clock.monotonic())
        if not is_ready(node) or self._clock.monotonic() - reported >= heartbeat.REPORT_SECONDS:
            await self._report(node)
        self._work.add_after(name, heartbeat.REPORT_SECONDS)

    async def _register(self, row: NodeRow) -> None:
        try:
            await self._client.create(NODE, registration(row))
        except AlreadyExists:
            log.info("node is known already", node=row.name)
        else:
            log.info("node registered", node=row.name, zone=row.zone)
        self._unregistered.pop(row.name, None)

    async def _introduce(self, node: Node) -> None:
        """List the node's drivers in its CSINode, which is made if it is not there, and their topology on the Node."""
        infos: dict[str, NodeInfo] = {}
        for name, driver in self._drivers.get(node.name, {}).items():
            try:
                infos[name] = await driver.info()
            except DriverError as error:
                text = f"driver {name} does not say which node it is on: {error}"
                self._recorder.record(node, NODE, "Warning", "CSIDriverRegistrationFailed", text)
                self._work.add_after(node.name, DRIVER_SECONDS)
                return
        for problem in csi_registration.contradictions(node, infos):
            self._recorder.record(node, NODE, "Warning", "CSIDriverRegistrationFailed", problem)
        missing = csi_registration.labels(node, infos)
        if missing:
            await self._client.patch(NODE, node.name, MergePatch({"metadata": {"uid": node.uid, "labels": missing}}))
        await self._list_drivers(node, infos)
        self._introduced.add(node.uid)

    async def _list_drivers(self, node: Node, infos: Mapping[str, NodeInfo]) -> None:
        body = csi_node(node) | {"spec": {"drivers": [csi_registration.entry(*info) for info in infos.items()]}}
        try:
            await self._client.create(CSI_NODE, body)
        except AlreadyExists:
            known = await self._client.get(CSI_NODE, node.name)
            wanted = csi_registration.listed(known, infos)
            if wanted is not None:
                meta = {"resourceVersion": known.metadata.resource_version}
                patch = MergePatch({"metadata": meta, "spec": {"drivers": wanted}})
                await self._client.patch(CSI_NODE, node.name, patch)

    async def _report(self, node: Node) -> None:
        status = ready_status(node, self._capacity.get(node.name, DEFAULT_CAPACITY), now=self._time())
        meta = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        patch = StrategicPatch({"metadata": meta, "status": status})
        await self._client.patch(NODE, node.name, patch, subresource="status")
        self._reported[node.name] = self._clock.monotonic()

    async def _renew(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None or not played_here(node) or not powered(node):
            return
        now = timestamps.to_micro_time(self._clock.now())
        duration = heartbeat.lease_seconds(len(self._nodes.items()), pace=self._pace)
        try:
            spec = heartbeat.renewal(name, duration=duration, now=now)
            await self._client.patch(LEASE, name, MergePatch({"spec": spec}), namespace=heartbeat.NAMESPACE)
        except NotFound:
            body = heartbeat.lease(node, duration=duration, now=now)
            await self._client.create(LEASE, body, namespace=heartbeat.NAMESPACE)
        # Stretched by up to a twentieth, so that nodes registered together do not renew together for ever.
        self._heartbeats.add_after(name, duration / heartbeat.RENEWALS * (1 + self._rng.random() / 20))

    def _time(self) -> str:
        return timestamps.to_time(self._clock.now())
