"""Informers on the real kube-apiserver: they follow it, and neither cut wires nor a restart makes them lose count."""

import asyncio
import dataclasses
import itertools
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from conformance.control_plane import ControlPlane
from conformance.weak_link import WeakLink
from mooring.api.kinds import CONFIG_MAP
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.access import Access
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.client.informer import Informer
from mooring.clock import SystemClock

NAMESPACE: Final = "default"
#: Seconds until a test gives up; the reflector's pauses after failures are counted in.
PATIENCE: Final = 60.0
#: Writers at work at the same time, and how long they write while wires are cut this often.
WRITERS: Final = 8
WRITING_SECONDS: Final = 3.0
CUT_SECONDS: Final = 0.1
#: Objects each of them leaves standing.
KEPT: Final = 5


class Witness:
    """A handler that checks that what it is told is one unbroken story per object."""

    def __init__(self) -> None:
        self._last: dict[str, ApiObject] = {}
        self._news = asyncio.Event()
        self.told = 0

    def __call__(self, before: ApiObject | None, after: ApiObject | None) -> None:
        self.told += 1
        self._news.set()
        item = after if after is not None else before
        assert item is not None
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
async def informed(client: Client) -> AsyncIterator[tuple[Informer[ApiObject], Witness]]:
    """An informer of ConfigMaps that has listed them, with a witness of all it ever said."""
    informer = Informer(client, CONFIG_MAP, clock=SystemClock(), rng=random.Random(0))
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


async def write_on(client: Client, name: str) -> None:
    """Create, change and delete objects without end. A few stay for a while, and names come again."""
    names = [f"{name}-{number}" for number in range(KEPT + 1)]
    for number in itertools.count():
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
        async with connected(weak) as weak_client, informed(weak_client) as (informer, witness):
            writers = [asyncio.create_task(write_on(client, f"writer-{number}")) for number in range(WRITERS)]
            for _ in range(round(WRITING_SECONDS / CUT_SECONDS)):
                await asyncio.sleep(CUT_SECONDS)
                link.cut()
            for writer in writers:
                writer.cancel()
            endings = await asyncio.gather(*writers, return_exceptions=True)
            assert {type(ending) for ending in endings} == {asyncio.CancelledError}
            final = await state_of(client)
            await witness.until(lambda: known_to(informer) == final)
            assert link.connections > 1, "no connection was ever cut"
            assert witness.told > len(final)


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
