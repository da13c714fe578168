"""Stubs for the HTTP handler: an Api with configured responses, and a stopped clock."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mooring.api.patches.contract import Patch
from mooring.clock import Clock
from mooring.server.contract import (
    Api,
    Batches,
    DeleteOptions,
    ListOptions,
    Page,
    StreamEvent,
    Target,
    User,
    WatchOptions,
    WriteOptions,
    Written,
)

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z

CONFIG = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {
        "name": "a",
        "namespace": "default",
        "resourceVersion": "7",
        "creationTimestamp": "2025-12-31T23:59:00Z",
    },
    "data": {"k": "v"},
}
RAW = msgspec.json.encode(CONFIG)


class StubApi:
    """Records every call as (user, target, arguments…) under the verb's name."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self.written = Written(RAW)
        self.items: tuple[bytes, ...] = (RAW,)
        #: Raised by every verb, if set.
        self.refusal: Exception | None = None
        #: What a watch yields, or raises, before it sends nothing more.
        self.watch_events: Sequence[StreamEvent | Exception | None] = ()
        self.watches_closed = 0
        self._closed = asyncio.Event()

    def _note(self, verb: str, *arguments: object) -> None:
        self.calls[verb].append(arguments)
        if self.refusal is not None:
            raise self.refusal

    async def get(self, user: User, target: Target, *, resource_version: str = "") -> bytes:
        self._note("get", user, target)
        return self.items[0]

    async def list(self, user: User, target: Target, options: ListOptions) -> Page:
        self._note("list", user, target, options)
        return Page(self.items, "9")

    async def watch(self, user: User, target: Target, options: WatchOptions) -> Batches:
        self._note("watch", user, target, options)
        return self._events()

    async def _events(self) -> Batches:
        try:
            batch: list[StreamEvent] = []
            for step in self.watch_events:
                if isinstance(step, StreamEvent):
                    batch.append(step)
                    continue
                yield batch
                batch = []
                if step is not None:
                    raise step
            yield batch
            await asyncio.Event().wait()
        finally:
            self.watches_closed += 1
            self._closed.set()

    async def closed(self) -> None:
        """Wait until a watch has been closed."""
        async with asyncio.timeout(3):
            await self._closed.wait()

    async def create(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        self._note("create", user, target, body, options)
        return self.written

    async def update(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        self._note("update", user, target, body, options)
        return self.written

    async def patch(self, user: User, target: Target, patch: Patch, options: WriteOptions) -> Written:
        self._note("patch", user, target, patch, options)
        return self.written

    async def apply(
        self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions, *, force: bool
    ) -> Written:
        self._note("apply", user, target, body, options, force)
        return self.written

    async def delete(self, user: User, target: Target, options: DeleteOptions) -> Written:
        self._note("delete", user, target, options)
        return self.written

    async def delete_collection(
        self, user: User, target: Target, selection: ListOptions, options: DeleteOptions
    ) -> Page:
        self._note("delete_collection", user, target, selection, options)
        return Page(self.items, "9")

    async def bind(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        self._note("bind", user, target, body, options)
        return self.written

    async def evict(self, user: User, target: Target, body: Mapping[str, Any], options: WriteOptions) -> Written:
        self._note("evict", user, target, body, options)
        return self.written


class StoppedClock:
    """Time does not advance; `ring` ends every sleep."""

    def __init__(self) -> None:
        self.time = NOW
        self.slept: list[float] = []
        self._bell = asyncio.Event()

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self._bell.wait()

    def ring(self) -> None:
        self._bell.set()


_api: Api = StubApi()
_clock: Clock = StoppedClock()
