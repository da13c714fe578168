"""Informers on the real kube-apiserver: they follow it, and neither cut wires nor a restart makes them lose count."""

import asyncio
import dataclasses
import itertools
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from conformance.control_plane import ControlPlane
from conformance.waiting import PATIENCE
from mooring.api.kinds import CONFIG_MAP
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Change, Client
from mooring.client.http import HttpClient
from mooring.client.informer import Informer
from mooring.clock import Clock, SystemClock
from network.weak_link import WeakLink

NAMESPACE: Final = "default"
#: Writers at work at the same time, and objects each of them leaves standing.
WRITERS: Final = 8
KEPT: Final = 5
#: How often all wires are cut while they write, and how far apart.
CUTS: Final = 30
CUT_SECONDS: Final = 0.1

#: What happened, in order: an object's key and its new version, or None once it was deleted.
Story = list[tuple[str, int | None]]


class Hasty(SystemClock):
    """Pauses a fiftieth of what one asks for, so that a cut hits a watch again and not a pause."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 50)


class Witness:
    """A handler that writes down what it is told, and checks that it is one unbroken story per object."""

    def __init__(self) -> None:
        self._last: dict[str, ApiObject] = {}
        self._news = asyncio.Event()
        self.story: Story = []

    def __call__(self, before: ApiObject | None, after: ApiObject | None) -> None:
        item = after if after is not None else before
        assert item is not None
        self._news.set()
        self.story.append((item.key, None if after is None else version(item)))
        assert before == self._last.get(item.key), "a change was lost or told twice"
        if after is None:
            del self._last[item.key]
            return
        assert before is None or version(before) < version(after), "versions went back"
        self._last[item.key] = after

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something told makes it true."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._news.clear()
                await self._news.wait()


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
async def informed(client: Client, clock: Clock | None = None) -> AsyncIterator[tuple[Informer[ApiObject], Witness]]:
    """An informer of ConfigMaps that has listed them, with a witness of all it ever said."""
    informer = Informer(client, CONFIG_MAP, clock=clock or SystemClock(), rng=random.Random(0))
    witness = Witness()
    informer.on_change(witness)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        async with asyncio.timeout(PATIENCE):
            await informer.synced.wait()
        yield informer, witness
        running.cancel()


async def state_of(client: Client) -> dict[str, int]:
    return {item.key: version(item) for item in (await client.list(CONFIG_MAP)).items}


def known_to(informer: Informer[ApiObject]) -> dict[str, int]:
    return {item.key: version(item) for item in informer.items()}


async def history(client: Client, *, after: str, last: ApiObject) -> Story:
    """The server's own account: everything after a version, up to the creation of the last object."""
    story: Story = []
    watching = client.watch(CONFIG_MAP, after=after, namespace=NAMESPACE)
    async with asyncio.timeout(PATIENCE), aclosing(watching) as events:
        async for event in events:
            if event.change is not Change.BOOKMARK:
                gone = event.change is Change.DELETED
                story.append((event.object.key, None if gone else version(event.object)))
            if event.object.key == last.key:
                return story
    raise AssertionError("the server ended its account early")


async def write_until(enough: asyncio.Event, client: Client, name: str) -> None:
    """Create, change and delete objects. A few stay for a while, and names come again."""
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


async def test_an_informer_holds_what_the_server_holds_and_tells_what_changes(client: HttpClient) -> None:
    async with informed(client) as (informer, witness):
        assert known_to(informer) == await state_of(client)
        made = await client.create(CONFIG_MAP, {"metadata": {"name": "followed"}}, namespace=NAMESPACE)
        await witness.until(lambda: informer.get(made.key) == made)
        painted = await client.patch(
            CONFIG_MAP, made.name, MergePatch({"data": {"color": "blue"}}), namespace=NAMESPACE
        )
        await witness.until(lambda: informer.get(made.key) == painted)
        await client.delete(CONFIG_MAP, made.name, namespace=NAMESPACE)
        await witness.until(lambda: informer.get(made.key) is None)


async def test_cut_connections_cost_no_change_and_repeat_none(kube: ControlPlane, client: HttpClient) -> None:
    server = urlsplit(kube.url)
    assert server.hostname is not None
    assert server.port is not None
    link = WeakLink(server.hostname, server.port)
    async with link.serving() as port:
        weak = dataclasses.replace(kube.access, server=f"https://{server.hostname}:{port}")
        async with connected(weak) as weak_client, informed(weak_client, Hasty()) as (informer, witness):
            start = await client.list(CONFIG_MAP)
            assert known_to(informer) == {item.key: version(item) for item in start.items}
            del witness.story[:]
            enough = asyncio.Event()
            async with asyncio.TaskGroup() as writers:
                for number in range(WRITERS):
                    writers.create_task(write_until(enough, client, f"writer-{number}"))
                for _ in range(CUTS):
                    await asyncio.sleep(CUT_SECONDS)
                    link.cut()
                enough.set()
            end = await client.create(CONFIG_MAP, {"metadata": {"name": "the-end"}}, namespace=NAMESPACE)
            await witness.until(lambda: informer.get(end.key) is not None)
            assert known_to(informer) == await state_of(client)
            assert witness.story == await history(client, after=start.resource_version, last=end)
            assert link.connections > CUTS / 2, "hardly any watch was cut"


async def test_a_restarted_server_is_followed_from_where_it_was_left(start_kube: Callable[[], ControlPlane]) -> None:
    kube = start_kube()
    async with connected(kube.access) as client, informed(client) as (informer, witness):
        kept, lost = [
            await client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace=NAMESPACE)
            for name in ("kept", "lost")
        ]
        await witness.until(lambda: {kept.key, lost.key} <= known_to(informer).keys())
        await asyncio.to_thread(kube.stop_apiserver, signal.SIGKILL)
        await asyncio.to_thread(kube.start_apiserver)
        await client.delete(CONFIG_MAP, lost.name, namespace=NAMESPACE)
        await client.create(CONFIG_MAP, {"metadata": {"name": "new"}}, namespace=NAMESPACE)
        final = await state_of(client)
        await witness.until(lambda: known_to(informer) == final)
        assert kept.key in final
        assert lost.key not in final
