"""Informers on kube-apiserver: broken connections and restarts lose or duplicate no event."""

import asyncio
import dataclasses
import itertools
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from mooring.api.kinds import CONFIG_MAP
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Client, WatchEventType
from mooring.client.http import HttpClient
from mooring.client.informer import Informer
from mooring.clock import Clock, SystemClock
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS
from support.network.cuttable_proxy import CuttableProxy
from support.network.faulty_proxy import check_informer_under_cuts

NAMESPACE: Final = "default"
#: Concurrent writers, and objects that each of them keeps.
WRITERS: Final = 8
KEPT: Final = 5
#: Number of cuts of all connections while they write, and the interval.
CUTS: Final = 30
CUT_SECONDS: Final = 0.1

#: Events in order: an object's key and its new version, or None after its deletion.
Events = list[tuple[str, int | None]]


class FastClock(SystemClock):
    """A clock that sleeps a fiftieth of the time, so that a cut hits a watch and not a backoff."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50)


class EventLog:
    """An event handler that records all events, and checks that they are consistent per object."""

    def __init__(self) -> None:
        self._last: dict[str, ApiObject] = {}
        self._changed = asyncio.Event()
        self.recorded: Events = []

    def __call__(self, before: ApiObject | None, after: ApiObject | None) -> None:
        item = after if after is not None else before
        assert item is not None
        self._changed.set()
        self.recorded.append((item.key, None if after is None else version(item)))
        assert before == self._last.get(item.key), "an event was lost or delivered twice"
        if after is None:
            del self._last[item.key]
            return
        assert before is None or version(before) < version(after), "a version is older than its predecessor"
        self._last[item.key] = after

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until an event makes the condition true."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def version(item: ApiObject) -> int:
    return int(item.metadata.resource_version)


@asynccontextmanager
async def connected(access: Access) -> AsyncIterator[HttpClient]:
    client = HttpClient(access, component="conformance", clock=SystemClock())
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def informed(client: Client, clock: Clock | None = None) -> AsyncIterator[tuple[Informer[ApiObject], EventLog]]:
    """A synced informer of ConfigMaps, with a recorder of all its events."""
    informer = Informer(client, CONFIG_MAP, clock=clock or SystemClock(), rng=random.Random(0))
    event_log = EventLog()
    informer.on_change(event_log)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await informer.synced.wait()
        yield informer, event_log
        running.cancel()


async def state_of(client: Client) -> dict[str, int]:
    return {item.key: version(item) for item in (await client.list(CONFIG_MAP)).items}


def known_to(informer: Informer[ApiObject]) -> dict[str, int]:
    return {item.key: version(item) for item in informer.items()}


async def history(client: Client, *, after: str, last: ApiObject) -> Events:
    """The server's history: all events after a version, up to the creation of the last object."""
    recorded: Events = []
    watching = client.watch(CONFIG_MAP, after=after, namespace=NAMESPACE)
    async with asyncio.timeout(TIMEOUT_SECONDS), aclosing(watching) as events:
        async for event in events:
            if event.change is not WatchEventType.BOOKMARK:
                gone = event.change is WatchEventType.DELETED
                recorded.append((event.object.key, None if gone else version(event.object)))
            if event.object.key == last.key:
                return recorded
    raise AssertionError("the watch ended early")


async def write_until(enough: asyncio.Event, client: Client, name: str) -> None:
    """Create, change and delete objects. Some exist for several rounds, and names are reused."""
    names = [f"{name}-{number}" for number in range(KEPT + 1)]
    for number in itertools.count():
        if enough.is_set():
            return
        made = await client.create(CONFIG_MAP, {"metadata": {"name": names[0]}}, namespace=NAMESPACE)
        for color in ("red", "green", "blue"):
            await client.patch(CONFIG_MAP, made.name, MergePatch({"data": {"color": color}}), namespace=NAMESPACE)
        names.append(names.pop(0))
        if number >= KEPT:
            await client.delete(CONFIG_MAP, names[0], namespace=NAMESPACE)


async def test_informer_matches_the_server(client: HttpClient) -> None:
    async with informed(client) as (informer, event_log):
        assert known_to(informer) == await state_of(client)
        made = await client.create(CONFIG_MAP, {"metadata": {"name": "followed"}}, namespace=NAMESPACE)
        await event_log.until(lambda: informer.get(made.key) == made)
        patched = await client.patch(
            CONFIG_MAP, made.name, MergePatch({"data": {"color": "blue"}}), namespace=NAMESPACE
        )
        await event_log.until(lambda: informer.get(made.key) == patched)
        await client.delete(CONFIG_MAP, made.name, namespace=NAMESPACE)
        await event_log.until(lambda: informer.get(made.key) is None)


async def test_informer_survives_broken_connections(kube: ControlPlane, client: HttpClient) -> None:
    server = urlsplit(kube.url)
    assert server.hostname is not None
    assert server.port is not None
    proxy = CuttableProxy(server.hostname, server.port)
    async with proxy.serving() as port:
        proxied = dataclasses.replace(kube.access, server=f"https://{server.hostname}:{port}")
        async with connected(proxied) as proxied_client, informed(proxied_client, FastClock()) as (informer, event_log):
            start = await client.list(CONFIG_MAP)
            assert known_to(informer) == {item.key: version(item) for item in start.items}
            del event_log.recorded[:]
            enough = asyncio.Event()
            async with asyncio.TaskGroup() as writers:
                for number in range(WRITERS):
                    writers.create_task(write_until(enough, client, f"writer-{number}"))
                for _ in range(CUTS):
                    await asyncio.sleep(CUT_SECONDS)
                    proxy.cut()
                enough.set()
            end = await client.create(CONFIG_MAP, {"metadata": {"name": "the-end"}}, namespace=NAMESPACE)
            await event_log.until(lambda: informer.get(end.key) is not None)
            assert known_to(informer) == await state_of(client)
            assert event_log.recorded == await history(client, after=start.resource_version, last=end)
            assert proxy.connections > CUTS / 2, "too few watches were cut"


async def test_informer_resumes_after_server_restart(start_kube: Callable[[], ControlPlane]) -> None:
    kube = start_kube()
    async with connected(kube.access) as client, informed(client) as (informer, event_log):
        kept, lost = [
            await client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace=NAMESPACE)
            for name in ("kept", "lost")
        ]
        await event_log.until(lambda: {kept.key, lost.key} <= known_to(informer).keys())
        await asyncio.to_thread(kube.stop_apiserver, signal.SIGKILL)
        await asyncio.to_thread(kube.start_apiserver)
        await client.delete(CONFIG_MAP, lost.name, namespace=NAMESPACE)
        await client.create(CONFIG_MAP, {"metadata": {"name": "new"}}, namespace=NAMESPACE)
        final = await state_of(client)
        await event_log.until(lambda: known_to(informer) == final)
        assert kept.key in final
        assert lost.key not in final


async def test_informer_versions_stay_in_order(start_kube: Callable[[], ControlPlane]) -> None:
    await check_informer_under_cuts(start_kube().access, writers=30)
