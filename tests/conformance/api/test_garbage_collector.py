"""Mooring's garbage collector on the real kube-apiserver, whose own is not running."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mooring.api.errors import NotFound
from mooring.api.kinds import CONFIG_MAP, SECRET, Kind
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Client
from mooring.client.http import HttpClient
from mooring.client.informer import Informers
from mooring.client.recorder import EventRecorder
from mooring.clock import SystemClock
from mooring.control.component import Context
from mooring.controllers.garbage_collector import GarbageCollector
from support.conformance.control_plane import ControlPlane
from support.conformance.waiting import TIMEOUT_SECONDS

NAMESPACE = "default"


@asynccontextmanager
async def collecting(client: Client) -> AsyncIterator[None]:
    clock, rng = SystemClock(), random.Random(1)
    informers = Informers(client, clock, rng)
    collector = GarbageCollector(Context(client, informers, EventRecorder(client, clock, "gc", rng), clock, rng))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informers.run()), group.create_task(collector.run())]
        yield
        for task in tasks:
            task.cancel()


async def owner_with_dependent(client: Client, name: str, *, blocks: bool = False) -> ApiObject:
    owner = await client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace=NAMESPACE)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": owner.uid,
        "blockOwnerDeletion": blocks,
    }
    await client.create(SECRET, {"metadata": {"name": name, "ownerReferences": [reference]}}, namespace=NAMESPACE)
    return owner


async def look(client: Client, kind: Kind[ApiObject], name: str) -> ApiObject | None:
    try:
        return await client.get(kind, name, namespace=NAMESPACE)
    except NotFound:
        return None


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "propagation",
    [
        pytest.param("Background", id="background"),
        pytest.param("Foreground", id="foreground"),
    ],
)
async def test_dependents_are_deleted_with_their_owner(
    kube: ControlPlane, client: HttpClient, propagation: str
) -> None:
    name = f"owner-{propagation.lower()}"
    owner = await owner_with_dependent(client, name, blocks=True)
    async with collecting(client):
        await client.delete(CONFIG_MAP, name, namespace=NAMESPACE, uid=owner.uid, propagation=propagation)

        async def both_gone() -> bool:
            return not await look(client, SECRET, name) and not await look(client, CONFIG_MAP, name)

        await until(both_gone)


async def test_orphans_lose_their_owner_reference(kube: ControlPlane, client: HttpClient) -> None:
    owner = await owner_with_dependent(client, "owner-orphan")
    async with collecting(client):
        await client.delete(CONFIG_MAP, owner.name, namespace=NAMESPACE, uid=owner.uid, propagation="Orphan")

        async def owner_gone() -> bool:
            return await look(client, CONFIG_MAP, owner.name) is None

        await until(owner_gone)
        orphan = await look(client, SECRET, owner.name)
    assert orphan is not None
    assert orphan.metadata.owner_references == ()


async def test_object_with_existing_owner_is_kept(kube: ControlPlane, client: HttpClient) -> None:
    owner = await owner_with_dependent(client, "owner-alive")
    gone = await owner_with_dependent(client, "owner-witness")
    async with collecting(client):
        await client.delete(CONFIG_MAP, gone.name, namespace=NAMESPACE)

        async def witness_gone() -> bool:
            return await look(client, SECRET, gone.name) is None

        await until(witness_gone)
        assert await look(client, SECRET, owner.name) is not None
