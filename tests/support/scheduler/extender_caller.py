"""An extender with a fake API server, called like kube-scheduler calls it."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from mooring.api.kinds import CLAIM, NODE, POD, STORAGE_CLASS, VOLUME
from mooring.client.informer import Informers
from mooring.control.component import Context
from mooring.scheduler.extender.component import Extender, Reply
from mooring.scheduler.extender.protocol import ExtenderSettings, Mode
from support.builders import Body, claim_body, class_body, node_body, pod_body, volume_body
from support.scheduler.cluster import SmallWorld

BINDING = ExtenderSettings(mode=Mode.BIND)


class Caller:
    """One replica, and its cluster."""

    def __init__(
        self, world: SmallWorld, settings: ExtenderSettings = BINDING, *, context: Context | None = None
    ) -> None:
        self.world = world
        self.registry = CollectorRegistry()
        self.extender = Extender(context or world.context, settings, registry=self.registry)

    async def call(self, verb: str, **body: object) -> Body:
        """The response, which must be successful."""
        reply = await self.raw(verb, json.dumps(body).encode())
        assert reply.code == 200, reply
        decoded: Body = json.loads(reply.body)
        return decoded

    async def raw(self, verb: str, body: bytes) -> Reply:
        return await self.extender.call(verb, body)

    async def passing(self, pod: str, *nodes: str) -> list[str]:
        decoded = await self.call("filter", Pod=self.world.body(POD, pod), NodeNames=nodes or ("n1", "n2"))
        assert decoded["Error"] == ""
        return list(decoded["NodeNames"])

    async def bind(self, pod: str, node: str = "n1") -> str:
        """The error of the bind call; "" on success."""
        uid = self.world.body(POD, pod)["metadata"]["uid"]
        decoded = await self.call("bind", PodName=pod, PodNamespace="default", PodUID=uid, Node=node)
        return str(decoded["Error"])

    def begin(self, pod: str, node: str = "n1") -> asyncio.Task[str]:
        return asyncio.create_task(self.bind(pod, node))

    def counted(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Caller"]:
        """Ready inside the block."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.extender.run())
            await self.world.settle()
            assert self.extender.ready
            yield self
            task.cancel()


@asynccontextmanager
async def a_second(world: SmallWorld) -> AsyncIterator[Caller]:
    """Another replica, with its own informers."""
    informers = Informers(world.client, world.clock, world.context.rng)
    context = Context(world.client, informers, world.context.recorder, world.clock, world.context.rng)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informers.run())
        async with Caller(world, context=context).running() as second:
            yield second
        task.cancel()


def furnish(world: SmallWorld, *, volumes: Sequence[Body] = (), pods: Sequence[str] = ("a",)) -> None:
    """Create two nodes, a class with delayed binding, and pods with a claim each, of the same name."""
    for name in ("n1", "n2"):
        world.put(NODE, node_body(name=name))
    world.put(STORAGE_CLASS, class_body())
    world.put(STORAGE_CLASS, class_body(name="made", provisioner="csi.example.com"))
    for body in volumes:
        world.put(VOLUME, body)
    for name in pods:
        world.put(CLAIM, claim_body(name=name))
        world.put(POD, pod_body(name=name, claims=[name]))


def on_node(name: str, node: str = "n1") -> Body:
    return volume_body(name=name, node=node)
