"""The store that fails: what is written and what is not, whom it strikes, and what a client of the server hears."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from mooring.api.errors import ServiceUnavailable
from mooring.api.kinds import CONFIG_MAP, EVENT, NAMESPACE
from mooring.api.patches.contract import MergePatch
from mooring.cluster.local_client import LocalClient
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.sim import loop
from mooring.sim.faults import BadWrite, FaultPlan, StoreTrouble
from mooring.sim.faulty_store import FaultyStore
from mooring.sim.history import History, Noted, WitnessedStore, acting
from mooring.sim.loop import VirtualClock
from mooring.sim.weather import Weather


class Scene(NamedTuple):
    client: LocalClient
    weather: Weather
    history: History
    clock: VirtualClock

    async def create(self, name: str) -> None:
        """As a component does."""
        with acting("somebody", "create"):
            await self.client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")

    async def names(self) -> list[str]:
        return [item.name for item in (await self.client.list(CONFIG_MAP)).items]

    @property
    def told(self) -> list[str]:
        return [entry.what for entry in self.history.entries if isinstance(entry, Noted)]


def play(scenario: Callable[[Scene], Awaitable[None]], *faults: BadWrite) -> None:
    async def main(clock: VirtualClock) -> None:
        history = History(clock)
        weather = Weather(FaultPlan(faults), clock)
        store = FaultyStore(WitnessedStore(history), weather, history, clock)
        client = LocalClient(ApiServer(store, clock, random.Random(0)), User("tester"))
        await client.create(NAMESPACE, {"metadata": {"name": "default"}})
        weather.begin()
        await scenario(Scene(client, weather, history, clock))

    loop.run(main)


@pytest.mark.parametrize(
    ("trouble", "is_written"),
    [
        pytest.param(StoreTrouble.FAILED, False, id="before the write"),
        pytest.param(StoreTrouble.FAILED_AFTERWARDS, True, id="after the write"),
    ],
)
def test_a_failing_store_is_a_server_that_is_not_available(trouble: StoreTrouble, is_written: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("first")
        with pytest.raises(ServiceUnavailable):
            await scene.create("second")
        await scene.create("third")
        assert await scene.names() == ["first", *(["second"] if is_written else []), "third"]
        assert scene.told == [f"somebody, /core/configmaps/default/second: {trouble.value}"]

    play(scenario, BadWrite(2, trouble))


def test_a_slow_write_keeps_others_from_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        slow = asyncio.ensure_future(scene.create("slow"))
        await scene.clock.sleep(1.0)
        await scene.create("quick")
        assert await scene.names() == ["quick"]
        await slow
        assert scene.clock.monotonic() == 5.0
        assert await scene.names() == ["quick", "slow"]

    play(scenario, BadWrite(1, StoreTrouble.SLOW, 5.0))


def test_a_slow_change_is_made_on_what_is_there_when_it_is_written() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("thing")

        async def label(name: str) -> None:
            patch = MergePatch({"metadata": {"labels": {name: "yes"}}})
            with acting("somebody", "patch"):
                await scene.client.patch(CONFIG_MAP, "thing", patch, namespace="default")

        slow = asyncio.ensure_future(label("slow"))
        await scene.clock.sleep(1.0)
        await label("quick")
        await slow
        thing = await scene.client.get(CONFIG_MAP, "thing", namespace="default")
        assert thing.metadata.labels == {"slow": "yes", "quick": "yes"}

    play(scenario, BadWrite(2, StoreTrouble.SLOW, 5.0))


def test_users_events_and_calm_weather_are_not_struck() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.client.create(CONFIG_MAP, {"metadata": {"name": "of-a-user"}}, namespace="default")
        event = {
            "metadata": {"name": "happened"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "of-a-user"},
        }
        with acting("somebody", "create"):
            await scene.client.create(EVENT, event, namespace="default")
        scene.weather.calm()
        await scene.create("of-a-component")
        assert scene.told == []

    play(scenario, *(BadWrite(n, StoreTrouble.FAILED) for n in range(1, 9)))
