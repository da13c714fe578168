"""The API server on a memory store, with a manual clock, for tests of verbs."""

import random
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from mooring.api.errors import Cause, Invalid
from mooring.api.kinds import NAMESPACE, POD, Kind
from mooring.api.patches.contract import Patch
from mooring.server.api import ApiServer
from mooring.server.contract import (
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
from mooring.store.contract import Store
from mooring.store.watch_cache import MemoryStore
from support.builders import Body

TEST_USER = User("tester", ("system:masters",))

PLAIN = WriteOptions()
DRY_RUN = WriteOptions(dry_run=True)
EVERYTHING = ListOptions()
GENTLY = DeleteOptions()

#: 2026-01-02T03:04:05Z, the start time of every test.
START = 1_767_323_045.0


class ManualClock:
    """Advances only by sleeping."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return START + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Harness:
    """Bodies in, bodies out; the namespace is `default` unless given."""

    def __init__(self, store: Store | None = None, rng: random.Random | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self.clock = ManualClock()
        self.api = ApiServer(self.store, self.clock, random.Random(0) if rng is None else rng)

    async def start(self) -> "Harness":
        for name in ("default", "other"):
            await self.create(NAMESPACE, {"metadata": {"name": name}})
        return self

    def target(self, kind: Kind[Any], name: str = "", *, namespace: str = "default", subresource: str = "") -> Target:
        return Target(kind, namespace if kind.namespaced else "", name, subresource)

    async def create(
        self, kind: Kind[Any], body: Mapping[str, Any], options: WriteOptions = PLAIN, *, namespace: str = "default"
    ) -> Body:
        return decoded((await self.created(kind, body, options, namespace=namespace)).body)

    async def created(
        self, kind: Kind[Any], body: Mapping[str, Any], options: WriteOptions = PLAIN, *, namespace: str = "default"
    ) -> Written:
        return await self.api.create(TEST_USER, self.target(kind, namespace=namespace), body, options)

    async def get(self, kind: Kind[Any], name: str, *, namespace: str = "default", subresource: str = "") -> Body:
        target = self.target(kind, name, namespace=namespace, subresource=subresource)
        return decoded(await self.api.get(TEST_USER, target))

    async def listed(
        self, kind: Kind[Any], options: ListOptions = EVERYTHING, *, namespace: str = "default"
    ) -> list[Body]:
        return [decoded(item) for item in (await self.page(kind, options, namespace=namespace)).items]

    async def page(self, kind: Kind[Any], options: ListOptions = EVERYTHING, *, namespace: str = "default") -> Page:
        return await self.api.list(TEST_USER, self.target(kind, namespace=namespace), options)

    async def update(
        self, kind: Kind[Any], body: Mapping[str, Any], options: WriteOptions = PLAIN, *, subresource: str = ""
    ) -> Body:
        return decoded((await self.updated(kind, body, options, subresource=subresource)).body)

    async def updated(
        self,
        kind: Kind[Any],
        body: Mapping[str, Any],
        options: WriteOptions = PLAIN,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Written:
        target = self.target(kind, name or body["metadata"]["name"], subresource=subresource)
        return await self.api.update(TEST_USER, target, body, options)

    async def patch(
        self, kind: Kind[Any], name: str, patch: Patch, options: WriteOptions = PLAIN, *, subresource: str = ""
    ) -> Body:
        return decoded((await self.patched(kind, name, patch, options, subresource=subresource)).body)

    async def patched(
        self, kind: Kind[Any], name: str, patch: Patch, options: WriteOptions = PLAIN, *, subresource: str = ""
    ) -> Written:
        target = self.target(kind, name, subresource=subresource)
        return await self.api.patch(TEST_USER, target, patch, options)

    async def delete(self, kind: Kind[Any], name: str, options: DeleteOptions = GENTLY) -> Body:
        return decoded((await self.api.delete(TEST_USER, self.target(kind, name), options)).body)

    async def delete_all(
        self, kind: Kind[Any], selection: ListOptions = EVERYTHING, options: DeleteOptions = GENTLY
    ) -> list[Body]:
        page = await self.api.delete_collection(TEST_USER, self.target(kind), selection, options)
        return [decoded(item) for item in page.items]

    async def bind(self, pod: str, body: Mapping[str, Any], options: WriteOptions = PLAIN) -> Written:
        return await self.api.bind(TEST_USER, self.target(POD, pod), body, options)

    async def evict(self, pod: str, body: Mapping[str, Any], options: WriteOptions = PLAIN) -> Written:
        return await self.api.evict(TEST_USER, self.target(POD, pod), body, options)

    async def watch(
        self, kind: Kind[Any], options: WatchOptions, *, namespace: str = "default"
    ) -> AsyncGenerator[StreamEvent | None, None]:
        """One event after the other; None marks the end of the first batch."""
        stream = _one_by_one(await self.api.watch(TEST_USER, self.target(kind, namespace=namespace), options))
        await anext(stream)  # from here on, closing it closes the watch
        return stream

    @property
    def revision(self) -> int:
        return int(self.store.revision)


async def _one_by_one(batches: Batches) -> AsyncGenerator[StreamEvent | None, None]:
    async with aclosing(batches):
        yield None
        async for batch in batches:
            for event in batch:
                yield event
            yield None


def decoded(body: bytes) -> Body:
    obj: Body = msgspec.json.decode(body)
    return obj


def causes(refusal: Invalid) -> list[Cause]:
    assert refusal.details is not None
    return list(refusal.details.causes)


def fields(refusal: Invalid) -> list[str]:
    """The invalid fields, in order."""
    return [cause.field for cause in causes(refusal)]


#: The value that removes a field.
ABSENT: Any = object()


def altered(body: Body, *changes: tuple[str, object]) -> Body:
    """The body with other values at some paths; `spec.containers.0.image` goes through lists, missing objects are
    created.
    """
    result: Body = msgspec.json.decode(msgspec.json.encode(body))
    for path, value in changes:
        *parents, last = path.split(".")
        place: Any = result
        for step in parents:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if value is ABSENT:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return result


async def problems(write: Coroutine[Any, Any, object]) -> list[str]:
    """The messages about invalid fields of a write; empty if it was accepted."""
    try:
        await write
    except Invalid as refusal:
        return [f"{cause.field}: {cause.message}" for cause in causes(refusal)]
    return []


def begins(found: list[str], expected: list[str]) -> bool:
    """Whether each problem begins as expected, so that tables need not contain long texts."""
    return len(found) == len(expected) and all(map(str.startswith, found, expected))
