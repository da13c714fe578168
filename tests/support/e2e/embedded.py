"""The embedded cluster inside the test's process, used over HTTP.

All of `mooring up` except the command: API server, controllers, simulated nodes, hostpath driver, in real time. Tests
that draw clusters from a seed need pools of their own sizes, which the command does not offer, and a cluster per seed.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from mooring.api.kinds import LEASE, POD, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.client.kubeconfig import load
from mooring.client.transport import TIMEOUT, Request, Transport
from mooring.clock import SystemClock
from mooring.cluster.bootstrap import Layout
from mooring.cluster.embedded import Settings, serving
from mooring.cluster.storage import StorageSettings
from mooring.hostpath.records import Pool
from support.builders import Body

#: The user name in the server's logs.
NAME: Final = "embedded-test"
#: Every condition takes less than two seconds; CI machines may be slow.
TIMEOUT_SECONDS: Final = 60.0
POLL_INTERVAL_SECONDS: Final = 0.2
#: Number of polls without changes and pending work after which the cluster has settled.
QUIET_POLLS: Final = 3
#: Queues of pods that the scheduler will try without further events.
BUSY_QUEUES: Final = tuple(f'scheduler_pending_pods{{queue="{name}"}} ' for name in ("active", "backoff"))


class Embedded:
    """A running cluster, as its administrator uses it."""

    def __init__(self, client: Client, transport: Transport, kinds: Iterable[Kind[ApiObject]]) -> None:
        self.client = client
        self._transport = transport
        self._kinds = tuple(kinds)

    async def listed(self) -> list[Body]:
        """All objects of the kinds, as kubectl prints them."""
        found: list[Body] = []
        for kind in self._kinds:
            response = msgspec.json.decode(await self._transport.call(Request("GET", kind.path())))
            found += ({"apiVersion": kind.api_version, "kind": kind.kind} | item for item in response["items"])
        return found

    async def until(self, condition: Callable[[list[Body]], bool]) -> list[Body]:
        """The first listing that satisfies the condition."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                found = await self.listed()
                if condition(found):
                    return found
                await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def settle(self) -> None:
        """Wait until no pod is about to be scheduled, started or terminated, and no object changes."""
        last, quiet = None, 0
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while quiet < QUIET_POLLS:
                bodies = [body for body in await self.listed() if body["kind"] != LEASE.kind]
                versions = sorted((body["metadata"]["uid"], body["metadata"]["resourceVersion"]) for body in bodies)
                busy = await self._pods_to_try() or any(map(_under_way, bodies))
                quiet = 0 if busy or versions != last else quiet + 1
                last = versions
                await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def _pods_to_try(self) -> bool:
        lines = (await self._transport.call(Request("GET", "/metrics"))).decode().splitlines()
        queues = [line for line in lines if line.startswith(BUSY_QUEUES)]
        assert len(queues) == len(BUSY_QUEUES), queues
        return any(float(line.rpartition(" ")[2]) for line in queues)


@asynccontextmanager
async def embedded(
    kubeconfig: Path, layout: Layout, pools: Iterable[Pool], kinds: Iterable[Kind[ApiObject]]
) -> AsyncIterator[Embedded]:
    """The cluster, ready inside the block; `kinds` are the kinds that are listed and awaited."""
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
    """A pod that is terminating, that was not tried yet, or that is scheduled and does not run yet."""
    if body["kind"] != POD.kind:
        return False
    if "deletionTimestamp" in body["metadata"]:
        return True
    if body["spec"].get("nodeName"):
        return bool(body["status"].get("phase", "Pending") == "Pending")
    conditions = body["status"].get("conditions", ())
    return not any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
