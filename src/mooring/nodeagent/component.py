"""The node agent: nodes that are on the books and run what is bound to them, as one component."""

import asyncio
from collections.abc import Sequence

from mooring.control.component import Context
from mooring.nodeagent.csi_mounter import CsiMounter, Drivers
from mooring.nodeagent.ground import Ground, Memory
from mooring.nodeagent.heartbeat import RENEWALS_PER_SECOND
from mooring.nodeagent.pod_runner import PodRunner
from mooring.nodeagent.registrar import NodeRegistrar
from mooring.nodeagent.rows import NodeRow

#: For agents whose nodes have no drivers.
NO_DRIVERS: Drivers = {}


class NodeAgent:
    name = "node-agent"

    def __init__(
        self,
        context: Context,
        rows: Sequence[NodeRow] = (),
        *,
        drivers: Drivers = NO_DRIVERS,
        ground: Ground | None = None,
        pace: float = RENEWALS_PER_SECOND,
    ) -> None:
        """`drivers` are those of each node; their volumes are mounted on `ground`, those of others are only played.
        All nodes together renew their Leases `pace` times a second at most."""
        self._registrar = NodeRegistrar(context, rows, drivers, pace=pace)
        self._mounter = CsiMounter(context, drivers, ground or Memory())
        self._runner = PodRunner(context, self._mounter)
        self.ready = False

    async def run(self) -> None:
        for informer in (*self._runner.informers, *self._mounter.informers):
            await informer.synced.wait()
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registrar.run(), name=f"{self.name} nodes")
            group.create_task(self._runner.run(), name=f"{self.name} pods")
