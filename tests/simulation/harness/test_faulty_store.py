"""The store with injected faults: what is written, whose writes are affected, and the API server's responses."""

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
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.simulation.faults import BadWrite, FaultPlan, StoreFault
from support.simulation.faulty_client import FaultyStore
from support.simulation.history import History, Noted, RecordingStore, acting
from support.simulation.injector import FaultInjector


class Scene(NamedTuple):
    client: LocalClient
    injector: FaultInjector
    history: History
    clock: VirtualClock

    async def create(self, name: str) -> None:
        """As a component, not as a user."""
        with acting("component", "create"):
            await self.client.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")

    async def names(self) -> list[str]:
        return [item.name for item in (await self.client.list(CONFIG_MAP)).items]

    @property
    def notes(self) -> list[str]:
        return [entry.what for entry in self.history.entries if isinstance(entry, Noted)]


def run_scenario(scenario: Callable[[Scene], Awaitable[None]], *faults: BadWrite) -> None:
    async def main(clock: VirtualClock) -> None:
        history = History(clock)
        injector = FaultInjector(FaultPlan(faults), clock)
        store = FaultyStore(RecordingStore(history), injector, history, clock)
        client = LocalClient(ApiServer(store, clock, random.Random(0)), User("tester"))
        await client.create(NAMESPACE, {"metadata": {"name": "default"}})
        injector.begin()
        await scenario(Scene(client, injector, history, clock))

    virtual_time.run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("effect", "is_written"),
    [
        pytest.param(StoreFault.FAILED, False, id="before the write"),
        pytest.param(StoreFault.FAILED_AFTERWARDS, True, id="after the write"),
    ],
)
def test_failed_store_write_returns_service_unavailable(effect: StoreFault, is_written: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("first")
        with pytest.raises(ServiceUnavailable):
            await scene.create("second")
        await scene.create("third")
        assert await scene.names() == ["first", *(["second"] if is_written else []), "third"]
        assert scene.notes == [f"component, /core/configmaps/default/second: {effect.value}"]

    run_scenario(scenario, BadWrite(2, effect))


def test_slow_write_does_not_block_other_writes() -> None:
    async def scenario(scene: Scene) -> None:
        slow = asyncio.ensure_future(scene.create("slow"))
        await scene.clock.sleep(1.0)
        await scene.create("quick")
        assert await scene.names() == ["quick"]
        await slow
        assert scene.clock.monotonic() == 5.0
        assert await scene.names() == ["quick", "slow"]

    run_scenario(scenario, BadWrite(1, StoreFault.SLOW, 5.0))


def test_slow_patch_applies_to_the_current_object() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("thing")

        async def label(name: str) -> None:
            patch = MergePatch({"metadata": {"labels": {name: "yes"}}})
            with acting("component", "patch"):
                await scene.client.patch(CONFIG_MAP, "thing", patch, namespace="default")

        slow = asyncio.ensure_future(label("slow"))
        await scene.clock.sleep(1.0)
        await label("quick")
        await slow
        thing = await scene.client.get(CONFIG_MAP, "thing", namespace="default")
        assert thing.metadata.labels == {"slow": "yes", "quick": "yes"}

    run_scenario(scenario, BadWrite(2, StoreFault.SLOW, 5.0))


def test_users_events_and_stopped_injector_have_no_faults() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.client.create(CONFIG_MAP, {"metadata": {"name": "of-a-user"}}, namespace="default")
        event = {
            "metadata": {"name": "happened"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "of-a-user"},
        }
        with acting("component", "create"):
            await scene.client.create(EVENT, event, namespace="default")
        scene.injector.stop()
        await scene.create("of-a-component")
        assert scene.notes == []

    run_scenario(scenario, *(BadWrite(n, StoreFault.FAILED) for n in range(1, 9)))
