"""Two instances of the controllers under leader election and a scheduler with other gates, in virtual time."""

import asyncio
import random

import pytest

from mooring.api.kinds import EVENT, LEASE, NAMESPACE, STATEFUL_SET
from mooring.api.patches.contract import MergePatch
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.cluster.local_client import LocalClient
from mooring.control.announcements import Announcement
from mooring.control.component import Context, Together
from mooring.control.feature_gates import parse
from mooring.control.leader_election import lead
from mooring.control.skew_watch import SkewWatch
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.rows import NodeRow
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.sim import loop
from mooring.sim.loop import VirtualClock
from mooring.store.memory import MemoryStore
from mooring.workloads.statefulset_controller import StatefulSetController
from partial_plane import FlakyClient
from workloads.stateful_sets import set_body

USER = User("tester", ("system:masters",))
#: Everything a client sends is lost: what a process that was cut off can still do.
SEVERED = 2.0


class Process:
    """One process: its own client, caches and randomness, and a candidacy for the lease of its name."""

    def __init__(self, server: ApiServer, clock: VirtualClock, name: str, identity: str, part: str, gates: str) -> None:
        rng = random.Random(identity)
        self._client = FlakyClient(server, USER, rng, 0.1)
        informers = Informers(self._client, clock, rng)
        recorder = EventRecorder(self._client, clock, name, rng)
        context = Context(self._client, informers, recorder, clock, rng, parse(gates))
        watch = SkewWatch(context, Announcement(name, "1.0", parse(gates), frozenset({part})))
        acting = Together(name, [StatefulSetController(context), watch] if part != "scheduler" else [watch])

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(informers.run())
                group.create_task(recorder.run())
                await lead(
                    self._client, clock, rng, name=name, namespace="kube-system", identity=identity, act=acting.run
                )

        self._task = asyncio.create_task(run())

    async def crash(self) -> None:
        """First nothing gets through any more, then it ends."""
        self._client._share = SEVERED
        self._task.cancel()
        await asyncio.wait((self._task,))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.req("T35")
def test_the_second_takes_over_and_gates_that_differ_are_told(seed: int) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(MemoryStore(), clock, random.Random(seed))
        client = LocalClient(server, USER)
        for name in ("default", "kube-system", "kube-node-lease"):
            await client.create(NAMESPACE, {"metadata": {"name": name}})
        nodes = asyncio.create_task(_nodes(server, clock))
        first = Process(server, clock, "mooring-controller", f"first {seed}", "persistentvolume-controller", "")
        await clock.sleep(5.0)
        second = Process(server, clock, "mooring-controller", f"second {seed}", "persistentvolume-controller", "")
        other = Process(server, clock, "mooring-scheduler", "scheduler", "scheduler", "VolumeScheduling=false")
        body = set_body(template={"nodeName": "node-1"}, replicas=2)
        await client.create(STATEFUL_SET, body, namespace="default")
        assert await _ready(client, clock, 2)

        await first.crash()
        await client.patch(STATEFUL_SET, "web", MergePatch({"spec": {"replicas": 4}}), namespace="default")
        assert await _ready(client, clock, 4)
        lease = await client.get(LEASE, "mooring-controller", namespace="kube-system")
        assert lease.spec.holder_identity == f"second {seed}"

        await clock.sleep(60.0)
        events = (await client.list(EVENT, namespace="kube-system")).items
        said = {event.message for event in events if event.reason == "ComponentSkew"}
        told = "VolumeScheduling is false in mooring-scheduler and true in mooring-controller"
        assert any(message.startswith(told) for message in said)
        for process in (second, other):
            await process.crash()
        nodes.cancel()
        await asyncio.wait((nodes,))

    loop.run(main)


async def _nodes(server: ApiServer, clock: VirtualClock) -> None:
    client, rng = LocalClient(server, USER), random.Random(0)
    informers, recorder = Informers(client, clock, rng), EventRecorder(client, clock, "node-agent", rng)
    agent = NodeAgent(Context(client, informers, recorder, clock, rng), [NodeRow("node-1")])
    async with asyncio.TaskGroup() as group:
        for part in (informers, recorder, agent):
            group.create_task(part.run())


async def _ready(client: LocalClient, clock: VirtualClock, replicas: int) -> bool:
    """Within two minutes: a lease is waited for, and every tenth answer gets lost."""
    for _ in range(240):
        if (await client.get(STATEFUL_SET, "web", namespace="default")).status.ready_replicas == replicas:
            return True
        await clock.sleep(0.5)
    return False
