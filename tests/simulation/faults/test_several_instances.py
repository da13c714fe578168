"""Two instances of the controllers under leader election and a scheduler with other gates, in virtual time."""

import asyncio
import random

import pytest

from mooring.api.kinds import EVENT, LEASE, NAMESPACE, STATEFUL_SET
from mooring.api.patches.contract import MergePatch
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.cluster.local_client import LocalClient
from mooring.control.component import ComponentGroup, Context
from mooring.control.component_info import ComponentInfo
from mooring.control.feature_gates import parse_feature_gates
from mooring.control.leader_election import lead
from mooring.control.version_skew import VersionSkewMonitor
from mooring.controllers.workloads.statefulset_controller import StatefulSetController
from mooring.nodeagent.component import NodeAgent
from mooring.nodeagent.node_objects import NodeTemplate
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.store.watch_cache import MemoryStore
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders.stateful_sets import set_body
from support.partial_control_plane import FlakyClient

USER = User("tester", ("system:masters",))
#: All requests of a disconnected process are lost.
ALL_LOST = 2.0


class Process:
    """One process: its own client, caches and randomness, and leader election for the lease of its component."""

    def __init__(self, server: ApiServer, clock: VirtualClock, name: str, identity: str, part: str, gates: str) -> None:
        rng = random.Random(identity)
        self._client = FlakyClient(server, USER, rng, 0.1)
        informers = Informers(self._client, clock, rng)
        recorder = EventRecorder(self._client, clock, name, rng)
        context = Context(self._client, informers, recorder, clock, rng, parse_feature_gates(gates))
        watch = VersionSkewMonitor(context, ComponentInfo(name, "1.0", parse_feature_gates(gates), frozenset({part})))
        acting = ComponentGroup(name, [StatefulSetController(context), watch] if part != "scheduler" else [watch])

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(informers.run())
                group.create_task(recorder.run())
                await lead(
                    self._client, clock, rng, name=name, namespace="kube-system", identity=identity, act=acting.run
                )

        self._task = asyncio.create_task(run())

    async def crash(self) -> None:
        """Disconnect first, then cancel."""
        self._client._share = ALL_LOST
        self._task.cancel()
        await asyncio.wait((self._task,))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.req("T35.failover", "T35.skew")
def test_second_instance_takes_over_and_gate_skew_is_reported(seed: int) -> None:
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
        messages = {event.message for event in events if event.reason == "ComponentSkew"}
        expected = "VolumeScheduling is false in mooring-scheduler and true in mooring-controller"
        assert any(message.startswith(expected) for message in messages)
        for process in (second, other):
            await process.crash()
        nodes.cancel()
        await asyncio.wait((nodes,))

    virtual_time.run_in_virtual_time(main)


async def _nodes(server: ApiServer, clock: VirtualClock) -> None:
    client, rng = LocalClient(server, USER), random.Random(0)
    informers, recorder = Informers(client, clock, rng), EventRecorder(client, clock, "node-agent", rng)
    agent = NodeAgent(Context(client, informers, recorder, clock, rng), [NodeTemplate("node-1")])
    async with asyncio.TaskGroup() as group:
        for part in (informers, recorder, agent):
            group.create_task(part.run())


async def _ready(client: LocalClient, clock: VirtualClock, replicas: int) -> bool:
    """Within two minutes: the lease must be acquired, and every tenth response is lost."""
    for _ in range(240):
        if (await client.get(STATEFUL_SET, "web", namespace="default")).status.ready_replicas == replicas:
            return True
        await clock.sleep(0.5)
    return False
