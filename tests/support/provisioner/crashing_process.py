"""A component that crashes: its client stops reaching the server after a number of writes.

The crash occurs after a write has taken effect and before its response. From then on all requests fail, so that the
rest of the process has no effect; then its tasks are cancelled.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, Unpack

from mooring.api.kinds import EVENT, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Deletion, ObjectList, Unreachable, WatchEvent
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.control.component import Context
from mooring.control.feature_gates import DEFAULTS, FeatureGates
from support.partial_control_plane import Build, Plane

V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")


class CrashingClient:
    """Allows `writes` writes, not counting events; the last one gets no response."""

    def __init__(self, client: Client, writes: int | None = None) -> None:
        self._client = client
        self._writes = writes
        self.dead = asyncio.Event()

    def die(self) -> None:
        self.dead.set()

    def _check(self) -> None:
        if self.dead.is_set():
            raise Unreachable("severed")

    async def _write(self, kind: Kind[V], call: Awaitable[T]) -> T:
        if self.dead.is_set():
            call.close()  # type: ignore[attr-defined]  # a coroutine that is never awaited
            raise Unreachable("severed")
        answer = await call
        if kind is not EVENT and self._writes is not None:
            self._writes -= 1
            if self._writes <= 0:
                self.die()
        self._check()
        return answer

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        self._check()
        return await self._client.get(kind, name, namespace=namespace)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> ObjectList[V]:
        self._check()
        return await self._client.list(kind, namespace=namespace, labels=labels, fields=fields)

    async def watch(
        self, kind: Kind[V], *, after: str | None, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent[V], None]:
        stream = self._client.watch(kind, after=after, namespace=namespace, labels=labels, fields=fields)
        async with aclosing(stream) as events:
            async for event in events:
                self._check()
                yield event

    async def create(self, kind: Kind[V], body: Mapping[str, Any], *, namespace: str = "") -> V:
        return await self._write(kind, self._client.create(kind, body, namespace=namespace))

    async def patch(self, kind: Kind[V], name: str, patch: Patch, *, namespace: str = "", subresource: str = "") -> V:
        return await self._write(
            kind, self._client.patch(kind, name, patch, namespace=namespace, subresource=subresource)
        )

    async def delete(self, kind: Kind[V], name: str, *, namespace: str = "", **options: Unpack[Deletion]) -> None:
        await self._write(kind, self._client.delete(kind, name, namespace=namespace, **options))


@asynccontextmanager
async def alive(
    plane: Plane,
    build: Build,
    client: CrashingClient | None = None,
    *,
    ready: bool = True,
    gates: FeatureGates = DEFAULTS,
) -> AsyncIterator[CrashingClient]:
    """Run the component inside the block, with its own client, and wait for readiness if required."""
    own = client or CrashingClient(plane.client)
    rng = random.Random(1)
    informers = Informers(own, plane.clock, rng)  # type: ignore[arg-type]  # all of the contract that is used
    recorder = EventRecorder(own, plane.clock, "tester", rng)  # type: ignore[arg-type]  # likewise
    component = build(Context(own, informers, recorder, plane.clock, rng, gates))  # type: ignore[arg-type]  # likewise
    tasks = [asyncio.ensure_future(run()) for run in (informers.run, recorder.run, component.run)]
    try:
        while ready and not component.ready:
            await plane.clock.sleep(0.01)
        yield own
    finally:
        own.die()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
