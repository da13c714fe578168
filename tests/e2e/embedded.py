"""The embedded cluster inside the test's process, used over HTTP.

All of `mooring up` but the command: API server, controllers, played nodes, hostpath driver, in real time. Tests that
draw clusters from a seed need pools of their own sizes, which the command does not offer, and a cluster per seed.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from builders import Body
from mooring.api.kinds import LEASE, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.client.kubeconfig import load
from mooring.client.transport import TIMEOUT, Transport
from mooring.client.wire import Request
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.serving import Settings, serving
from mooring.cluster.storage import StorageSettings
from mooring.hostpath.layout import Pool

#: In the server's logs.
NAME: Final = "embedded-test"
#: Generous: everything here takes less than two seconds, CI machines are slow at times.
PATIENCE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.2
#: Looks at which nothing changed and nothing was under way after which the cluster counts as settled.
QUIET_LOOKS: Final = 3
#: Queues of pods that the scheduler is going to try without anything else happening.
BUSY_QUEUES: Final = tuple(f'scheduler_pending_pods{{queue="{name}"}} ' for name in ("active", "backoff"))


class Embedded:
    """A cluster that runs, as its administrator uses it."""

    def __init__(self, client: Client, transport: Transport, kinds: Iterable[Kind[ApiObject]]) -> None:
        self.client = client
        self._transport = transport
        self._kinds = tuple(kinds)

    async def listed(self) -> list[Body]:
        """Everything of the kinds, as kubectl would print it."""
        found: list[Body] = []
        for kind in self._kinds:
            answer = msgspec.json.decode(await self._transport.call(Request("GET", kind.path())))
            found += ({"apiVersion": kind.api_version, "kind": kind.kind} | item for item in answer["items"])
        return found

    async def until(self, condition: Callable[[list[Body]], bool]) -> list[Body]:
        """The first listing of which that is true."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = await self.listed()
                if condition(found):
                    return found
                await asyncio.sleep(LOOK_SECONDS)

    async def settle(self) -> None:
        """Until no pod is about to be tried, started or ended, and no object changes any more."""
        last, quiet = None, 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while quiet < QUIET_LOOKS:
                bodies = [body for body in await self.listed() if body["kind"] != LEASE.kind]
                versions = sorted((body["metadata"]["uid"], body["metadata"]["resourceVersion"]) for body in bodies)
                busy = await self._pods_to_try() or any(map(_under_way, bodies))
                quiet = 0 if busy or versions != last else quiet + 1
                last = versions
                await asyncio.sleep(LOOK_SECONDS)

    async def _pods_to_try(self) -> bool:
        lines = (await self._transport.call(Request("GET", "/metrics"))).decode().splitlines()
        queues = [line for line in lines if line.startswith(BUSY_QUEUES)]
        assert len(queues) == len(BUSY_QUEUES), queues
        return any(float(line.rpartition(" ")[2]) for line in queues)


@asynccontextmanager
async def embedded(
    kubeconfig: Path, layout: Layout, pools: Iterable[Pool], kinds: Iterable[Kind[ApiObject]]
) -> AsyncIterator[Embedded]:
    """The cluster, ready inside the block; `kinds` are those that are listed and waited for."""
    clock = SystemClock()
    settings = Settings(layout, 0, None, kubeconfig, storage=StorageSettings(pools=tuple(pools)))
    async with serving(settings, clock=clock, rng=random.Random(0)) as cluster:
        access = load(str(cluster.kubeconfig))
        client = HttpClient(access, component=NAME, clock=clock)
        transport = Transport(access, component=NAME, clock=clock, timeout=TIMEOUT, in_flight=1)
        try:
            yield Embedded(client, transport, kinds)
        finally:
            await transport.close()
            await client.close()


def _under_way(body: Body) -> bool:
    """A pod that goes, that was not tried yet, or that has a node and does not run there yet."""
    if body["kind"] != POD.kind:
        return False
    if "deletionTimestamp" in body["metadata"]:
        return True
    if body["spec"].get("nodeName"):
        return bool(body["status"].get("phase", "Pending") == "Pending")
    conditions = body["status"].get("conditions", ())
    return not any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
