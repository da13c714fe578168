"""The history of a world: nothing is written unseen, and it is known who wrote it."""

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
from mooring.sim import loop
from mooring.sim.history import History, WitnessedStore, Written, acting
from mooring.sim.loop import VirtualClock

Scenario = Callable[[LocalClient, WitnessedStore], Awaitable[None]]


def play(scenario: Scenario) -> History:
    async def main(clock: VirtualClock) -> History:
        history = History(clock)
        store = WitnessedStore(history)
        client = LocalClient(ApiServer(store, clock, random.Random(0)), User("tester"))
        await client.create(NAMESPACE, {"metadata": {"name": "default"}})
        await scenario(client, store)
        return history

    return loop.run(main)


async def some_writes(client: LocalClient, _: WitnessedStore) -> None:
    with acting("scheduler", "bind"):
        await client.create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="default")
    await asyncio.sleep(2.5)
    await client.create(NODE, {"metadata": {"name": "n"}})
    await client.delete(CONFIG_MAP, "a", namespace="default")


def test_every_write_is_known_with_its_moment_and_author() -> None:
    written = [(w.at, w.who, w.verb, w.kind.kind, w.key) for w in play(some_writes).writes()]
    assert written[1:] == [
        (0.0, "scheduler", "bind", "ConfigMap", "default/a"),
        (2.5, "user", "create", "Node", "n"),
        (2.5, "user", "delete", "ConfigMap", "default/a"),
    ]


def test_two_tasks_do_not_write_under_each_others_name() -> None:
    async def scenario(client: LocalClient, _: WitnessedStore) -> None:
        async def create(who: str, pause: float) -> None:
            with acting(who, "create"):
                await asyncio.sleep(pause)
                await client.create(CONFIG_MAP, {"metadata": {"name": who}}, namespace="default")

        await asyncio.gather(create("a", 2.0), create("b", 1.0))

    assert [(w.who, w.key) for w in play(scenario).writes()][1:] == [("b", "default/b"), ("a", "default/a")]


def test_listeners_hear_of_a_write_right_after_it() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, int]]:
        history = History(clock)
        store = WitnessedStore(history)
        client = LocalClient(ApiServer(store, clock, random.Random(0)), User("tester"))
        heard: list[tuple[str, int]] = []

        def listen(written: Written) -> None:
            heard.append((written.key, store.revision))

        history.on_write(listen)
        for name in "ab":
            await client.create(NAMESPACE, {"metadata": {"name": name}})
        return heard

    assert loop.run(main) == [("a", 1), ("b", 2)]


def test_the_digest_tells_runs_apart() -> None:
    async def other_writes(client: LocalClient, store: WitnessedStore) -> None:
        await some_writes(client, store)
        await client.delete(NODE, "n")

    assert play(some_writes).digest() == play(some_writes).digest() != play(other_writes).digest()


def test_a_restart_ends_watches_and_forgets_old_versions_but_keeps_the_objects() -> None:
    async def scenario(client: LocalClient, store: WitnessedStore) -> None:
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

    play(scenario)
