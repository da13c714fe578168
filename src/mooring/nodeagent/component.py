"""The node agent: nodes that are on the books and run what is bound to them, as one component."""

import asyncio
from collections.abc import Sequence

from mooring.control.component import Context
from mooring.nodeagent.pod_runner import PodRunner
from mooring.nodeagent.registrar import NodeRegistrar
from mooring.nodeagent.rows import NodeRow


class NodeAgent:
    name = "node-agent"

    def __init__(self, context: Context, rows: Sequence[NodeRow] = ()) -> None:
        self._registrar = NodeRegistrar(context, rows)
        self._runner = PodRunner(context)
        self.ready = False

    async def run(self) -> None:
        for informer in self._runner.informers:
            await informer.synced.wait()
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registrar.run(), name=f"{self.name} nodes")
            group.create_task(self._runner.run(), name=f"{self.name} pods")
