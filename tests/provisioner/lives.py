"""Processes that die: a component with a client of its own that stops reaching the server after so many writes.

Death comes after a write has taken effect and before its answer arrives. From then on nothing gets through, so that
whatever the dying component still tries is without effect; then its tasks are cancelled.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, Unpack

from mooring.api.kinds import EVENT, Kind
from mooring.api.patches.contract import Patch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client, Deletion, Listing, Unreachable, WatchEvent
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.control.component import Context
from partial_plane import Build, Plane

V = TypeVar("V", bound=ApiObject)
T = TypeVar("T")


class MortalClient:
    """Writes `lives` times, events not counted; the last one gets no answer."""

    def __init__(self, client: Client, lives: int | None = None) -> None:
        self._client = client
        self._lives = lives
        self.dead = asyncio.Event()

    def die(self) -> None:
        self.dead.set()

    def _check(self) -> None:
        if self.dead.is_set():
            raise Unreachable("severed")

    async def _write(self, kind: Kind[V], call: Awaitable[T]) -> T:
        if self.dead.is_set():
            call.close()  # type: ignore[attr-defined]  # a coroutine nobody will wait for
            raise Unreachable("severed")
        answer = await call
        if kind is not EVENT and self._lives is not None:
            self._lives -= 1
            if self._lives <= 0:
                self.die()
        self._check()
        return answer

    async def get(self, kind: Kind[V], name: str, *, namespace: str = "") -> V:
        self._check()
        return await self._client.get(kind, name, namespace=namespace)

    async def list(self, kind: Kind[V], *, namespace: str = "", labels: str = "", fields: str = "") -> Listing[V]:
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
    plane: Plane, build: Build, client: MortalClient | None = None, *, ready: bool = True
) -> AsyncIterator[MortalClient]:
    """The component runs inside the block, on a client of its own, and is ready when the block begins if it should."""
    own = client or MortalClient(plane.client)
    rng = random.Random(1)
    informers = Informers(own, plane.clock, rng)  # type: ignore[arg-type]  # all of the contract that is used
    recorder = EventRecorder(own, plane.clock, "tester", rng)  # type: ignore[arg-type]  # likewise
    component = build(Context(own, informers, recorder, plane.clock, rng))  # type: ignore[arg-type]  # likewise
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
