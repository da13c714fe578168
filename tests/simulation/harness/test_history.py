"""The history of a simulated cluster records every write with its author."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from mooring.api.errors import Expired, ServiceUnavailable
from mooring.api.kinds import CONFIG_MAP, NAMESPACE, NODE
from mooring.cluster.local_client import LocalClient
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.simulation.history import History, RecordingStore, Written, acting

Scenario = Callable[[LocalClient, RecordingStore], Awaitable[None]]


def run_scenario(scenario: Scenario) -> History:
    async def main(clock: VirtualClock) -> History:
        history = History(clock)
        store = RecordingStore(history)
        client = LocalClient(ApiServer(store, clock, random.Random(0)), User("tester"))
        await client.create(NAMESPACE, {"metadata": {"name": "default"}})
        await scenario(client, store)
        return history

    return virtual_time.run_in_virtual_time(main)


async def some_writes(client: LocalClient, _: RecordingStore) -> None:
    with acting("scheduler", "bind"):
        await client.create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="default")
    await asyncio.sleep(2.5)
    await client.create(NODE, {"metadata": {"name": "n"}})
    await client.delete(CONFIG_MAP, "a", namespace="default")


def test_every_write_is_recorded_with_time_and_author() -> None:
    written = [(w.at, w.author, w.verb, w.kind.kind, w.key) for w in run_scenario(some_writes).writes()]
    assert written[1:] == [
        (0.0, "scheduler", "bind", "ConfigMap", "default/a"),
        (2.5, "user", "create", "Node", "n"),
        (2.5, "user", "delete", "ConfigMap", "default/a"),
    ]


def test_concurrent_tasks_keep_their_authors() -> None:
    async def scenario(client: LocalClient, _: RecordingStore) -> None:
        async def create(author: str, pause: float) -> None:
            with acting(author, "create"):
                await asyncio.sleep(pause)
                await client.create(CONFIG_MAP, {"metadata": {"name": author}}, namespace="default")

        await asyncio.gather(create("a", 2.0), create("b", 1.0))

    assert [(w.author, w.key) for w in run_scenario(scenario).writes()][1:] == [("b", "default/b"), ("a", "default/a")]


def test_listeners_are_called_right_after_a_write() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        history = History(clock)
        store = RecordingStore(history)
        client = LocalClient(ApiServer(store, clock, random.Random(0)), User("tester"))
        delivered: list[tuple[str, int]] = []

        def listen(written: Written) -> None:
            delivered.append((written.key, store.revision))

        history.on_write(listen)
        for name in "ab":
            await client.create(NAMESPACE, {"metadata": {"name": name}})
        return delivered

    assert virtual_time.run_in_virtual_time(main) == [("a", 1), ("b", 2)]


def test_digest_differs_between_runs() -> None:
    async def other_writes(client: LocalClient, store: RecordingStore) -> None:
        await some_writes(client, store)
        await client.delete(NODE, "n")

    assert (
        run_scenario(some_writes).digest() == run_scenario(some_writes).digest() != run_scenario(other_writes).digest()
    )


def test_restart_ends_watches_and_keeps_objects() -> None:
    async def scenario(client: LocalClient, store: RecordingStore) -> None:
        async with aclosing(client.watch(CONFIG_MAP, after="1")) as events:
            await client.create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="default")
            assert (await anext(events)).object.name == "a"
            store.restart()
            with pytest.raises(ServiceUnavailable):
                await anext(events)
        async with aclosing(client.watch(CONFIG_MAP, after="1")) as events:
            with pytest.raises(Expired):
                await anext(events)
        assert [item.name for item in (await client.list(CONFIG_MAP)).items] == ["a"]

    run_scenario(scenario)
