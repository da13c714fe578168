"""Fixture of the scheduler's shell: fake API server, real informers, virtual time, and faults on demand."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar, Unpack

import msgspec

from mooring.api import well_known
from mooring.api.errors import ApiError
from mooring.api.kinds import CLAIM, POD, VOLUME, Kind
from mooring.api.patches.contract import MergePatch, Patch, StrategicPatch
from mooring.api.patches.strategic import apply_strategic
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Deletion, ObjectList, Unreachable, V, WatchEvent
from mooring.client.informer import Informers
from mooring.control.component import Context
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.builders.objects import Body
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient

T = TypeVar("T")


class FaultyClient(FakeClient):
    """Injects `faults`: fails `before` the write takes effect, or `after` it, or with an ApiError.

    `faults` has one entry per request of a kind ("patch persistentvolumes", "bind", "get pods"); further requests
    succeed.
    """

    def __init__(self, api: FakeApiServer) -> None:
        super().__init__(api)
        self.faults: defaultdict[str, list[str | ApiError]] = defaultdict(list)
        self.writes: list[str] = []
        #: By plural, kinds whose watch events arrive once the event is set.
        self.late: dict[str, asyncio.Event] = {}

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        async with aclosing(super().watch(kind, after=after, namespace=namespace, labels=labels)) as events:
            async for event in events:
                if kind.plural in self.late:
                    await self.late[kind.plural].wait()
                yield event

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        return await self._faulty(
            f"list {kind.plural}",
            lambda: super(FaultyClient, self).list(kind, namespace=namespace, labels=labels, fields=fields),
        )

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        return await self._faulty(
            f"get {kind.plural}", lambda: super(FaultyClient, self).get(kind, name, namespace=namespace)
        )

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        self.writes.append(f"patch {kind.plural}/{name}{f'/{subresource}' if subresource else ''}")

        async def request() -> V:
            if not isinstance(patch, StrategicPatch):
                return await super(FaultyClient, self).patch(
                    kind, name, patch, namespace=namespace, subresource=subresource
                )
            before = self.api.get(kind, namespace, name)
            after = apply_strategic(before, dict(patch.body), kind.api_version, kind.kind)
            return kind.decode(msgspec.json.encode(self.api.update(kind, namespace, name, after, subresource)))

        return await self._faulty(f"patch {kind.plural}", request)

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        self.writes.append(f"delete {kind.plural}/{name}")
        await self._faulty(
            f"delete {kind.plural}",
            lambda: super(FaultyClient, self).delete(kind, name, namespace=namespace, **options),
        )

    async def bind(self, pod: str, *, namespace: str, uid: str, node: str) -> None:
        self.writes.append(f"bind {pod} to {node}")
        await self._faulty("bind", lambda: super(FaultyClient, self).bind(pod, namespace=namespace, uid=uid, node=node))

    async def _faulty(self, call: str, request: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(0)
        fault = self.faults[call].pop(0) if self.faults[call] else ""
        if isinstance(fault, ApiError):
            raise fault
        if fault == "before":
            raise Unreachable("connection refused")
        response = await request()
        if fault == "after":
            raise Unreachable("connection reset")
        return response


class Recorded(NamedTuple):
    pod: str
    type: str
    reason: str
    message: str


class Recorder:
    """Fake event recorder; separates the preemption part of the messages."""

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self.of_preemption: list[str] = []

    def record(self, regarding: ApiObject, kind: Kind[ApiObject], event_type: str, reason: str, message: str) -> None:
        message, _, preemption = message.partition(" preemption: ")
        self.events.append(Recorded(regarding.name, event_type, reason, message))
        if preemption:
            self.of_preemption.append(preemption)

    def messages(self, reason: str) -> list[str]:
        return [event.message for event in self.events if event.reason == reason]


class SmallWorld:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.api = FakeApiServer()
        self.client = FaultyClient(self.api)
        self.recorder = Recorder()
        self.informers = Informers(self.client, clock, random.Random(0))
        self.context = Context(self.client, self.informers, self.recorder, clock, random.Random(0))

    def put(self, kind: Kind[V], body: Body) -> V:
        """Create the object as written, status included."""
        namespace = body["metadata"].get("namespace", "")
        made = self.api.create(kind, namespace, body)
        if "status" in body:
            made = self.api.update(
                kind, namespace, made["metadata"]["name"], made | {"status": body["status"]}, "status"
            )
        return kind.decode(msgspec.json.encode(made))

    def change(self, kind: Kind[V], name: str, body: Mapping[str, Any], *, subresource: str = "") -> V:
        """Apply a merge patch of another client."""
        namespace = "default" if kind.namespaced else ""
        changed = self.api.patch(kind, namespace, name, MergePatch(body), subresource)
        return kind.decode(msgspec.json.encode(changed))

    def delete(self, kind: Kind[V], name: str) -> None:
        self.api.delete(kind, "default" if kind.namespaced else "", name)

    def body(self, kind: Kind[V], name: str) -> Body:
        return self.api.get(kind, "default" if kind.namespaced else "", name)

    def node_of(self, pod: str) -> str:
        return str(self.body(POD, pod)["spec"].get("nodeName", ""))

    def finish_binding(self, claim: str, volume: str) -> None:
        """Write what the PV controller writes once a volume is reserved for the claim."""
        notes = {"annotations": {well_known.BIND_COMPLETED: well_known.ANNOTATION_SET}}
        self.change(CLAIM, claim, {"metadata": notes, "spec": {"volumeName": volume}})

    def finish_bindings(self) -> None:
        for body in self.api.list(VOLUME):
            reference = body["spec"].get("claimRef")
            if reference and reference.get("uid"):
                claim = self.body(CLAIM, reference["name"])
                if not claim["spec"].get("volumeName"):
                    self.finish_binding(reference["name"], body["metadata"]["name"])

    async def settle(self, seconds: float = 0.5) -> None:
        """Let pending work complete."""
        await self.clock.sleep(seconds)


def in_world(scenario: Callable[[SmallWorld], Awaitable[None]]) -> None:
    """Run a scenario while the informers run."""

    async def main(clock: VirtualClock) -> None:
        world = SmallWorld(clock)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(world.informers.run())
            try:
                await scenario(world)
            finally:
                running.cancel()

    virtual_time.run_in_virtual_time(main)
