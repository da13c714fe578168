"""A driver at the end of a bad line: what was done and what the caller hears, for everything that can go wrong."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import pytest

from mooring.cluster.local_client import LocalClient
from mooring.csi.contract import (
    AccessMode,
    Capacity,
    Code,
    CreateVolume,
    DriverError,
    DriverVolume,
    NodeInfo,
    VolumeCapability,
)
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.sim import loop
from mooring.sim.faults import BadRpc, Crash, DriverTrouble, Fault, FaultPlan, Pause
from mooring.sim.faulty_driver import DriverProcess, FaultyDriver
from mooring.sim.history import History, Noted, WitnessedStore
from mooring.sim.lifeline import Lifeline, Network
from mooring.sim.loop import VirtualClock
from mooring.sim.weather import Luck, Weather
from sim.pocket_driver import PocketDriver

ME = "somebody"
WRITER = VolumeCapability(AccessMode.SINGLE_NODE_WRITER)


class Scene(NamedTuple):
    mine: FaultyDriver
    #: Another incarnation's way to the same driver, on which nothing goes wrong.
    others: FaultyDriver
    backend: PocketDriver
    history: History
    clock: VirtualClock
    crashes: list[Crash]

    async def create(self, name: str, size: int = 10) -> DriverVolume:
        return await self.mine.create_volume(CreateVolume(name, size), secrets={})

    async def ids(self) -> list[str]:
        return [volume.volume_id for volume in await self.backend.list_volumes()]

    @property
    def told(self) -> list[str]:
        return [entry.what for entry in self.history.entries if isinstance(entry, Noted)]


def play(scenario: Callable[[Scene], Awaitable[None]], *faults: Fault, latency: float = 0.0) -> None:
    async def main(clock: VirtualClock) -> None:
        history = History(clock)
        server = LocalClient(ApiServer(WitnessedStore(history), clock, random.Random(0)), User("tester"))
        weather = Weather(FaultPlan(faults, latency), clock)
        weather.begin()
        crashes: list[Crash] = []
        network = Network(server, weather, history, clock)
        backend = PocketDriver()
        process = DriverProcess("pocket", backend, history, clock)
        mine, others = (
            FaultyDriver(process, Lifeline(network, who, Luck(weather, who), random.Random(0), crashes.append))
            for who in (ME, "somebody else")
        )
        await scenario(Scene(mine, others, backend, history, clock, crashes))

    loop.run(main)


@pytest.mark.parametrize("code", Code)
def test_a_refused_call_does_nothing_whatever_its_code(code: Code) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("first")
        with pytest.raises(DriverError) as caught:
            await scene.create("second")
        assert caught.value.code is code
        await scene.create("third")
        assert await scene.ids() == ["id-first", "id-third"]
        assert scene.told == ["create_volume second: the driver refused"]

    play(scenario, BadRpc(ME, "create_volume", 2, DriverTrouble.REFUSED, code))


def test_a_lost_answer_comes_after_the_work() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(DriverError) as caught:
            await scene.create("volume")
        assert not caught.value.final
        assert await scene.ids() == ["id-volume"]
        assert (await scene.create("volume")).volume_id == "id-volume"

    play(scenario, BadRpc(ME, "create_volume", 1, DriverTrouble.LOST_ANSWER, Code.CANCELLED))


@pytest.mark.parametrize("trouble", [DriverTrouble.SLOW_CALL, DriverTrouble.SLOW_ANSWER])
def test_a_slow_call_takes_its_time(trouble: DriverTrouble) -> None:
    async def scenario(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.create("volume"))
        await scene.clock.sleep(4.0)
        assert await scene.ids() == (["id-volume"] if trouble is DriverTrouble.SLOW_ANSWER else [])
        await task
        assert scene.clock.monotonic() == 5.0

    play(scenario, BadRpc(ME, "create_volume", 1, trouble, seconds=5.0))


def test_a_driver_that_hangs_is_waited_for_until_the_deadline() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(DriverError) as caught:
            await scene.create("volume")
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        assert scene.clock.monotonic() == 5.0
        assert await scene.ids() == []

    play(scenario, BadRpc(ME, "create_volume", 1, DriverTrouble.HUNG, seconds=5.0))


def test_what_the_caller_stopped_waiting_for_is_done_all_the_same() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(DriverError) as caught:
            await scene.create("volume")
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        assert await scene.ids() == []
        for driver in (scene.mine, scene.others):
            with pytest.raises(DriverError) as busy:
                await driver.create_volume(CreateVolume("volume", 10), secrets={})
            assert busy.value.code is Code.ABORTED
        await scene.create("another")
        await scene.clock.sleep(5.0)
        assert await scene.ids() == ["id-another", "id-volume"]
        assert (await scene.create("volume")).volume_id == "id-volume"
        assert scene.told[-1] == "create_volume volume: done after all"

    play(scenario, BadRpc(ME, "create_volume", 1, DriverTrouble.DONE_LATE, seconds=5.0))


def test_what_is_done_late_may_fail_late() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(DriverError):
            await scene.create("too much", size=1000)
        await scene.clock.sleep(5.0)
        assert await scene.ids() == []
        assert scene.told[-1] == "create_volume too much: not done after all: RESOURCE_EXHAUSTED: no room"

    play(scenario, BadRpc(ME, "create_volume", 1, DriverTrouble.DONE_LATE, seconds=5.0))


def test_a_driver_may_say_that_a_volume_is_smaller_than_asked_for() -> None:
    async def scenario(scene: Scene) -> None:
        assert (await scene.create("volume", 10)).capacity_bytes == 9
        assert await scene.ids() == ["id-volume"]

    play(scenario, BadRpc(ME, "create_volume", 1, DriverTrouble.WRONG))


def test_a_driver_may_say_that_less_than_nothing_is_left() -> None:
    async def scenario(scene: Scene) -> None:
        async def capacity() -> Capacity:
            return await scene.mine.get_capacity(capabilities=(WRITER,), parameters={}, accessible_from=None)

        assert await capacity() == Capacity(-1)
        assert await capacity() == Capacity(100)

    play(scenario, BadRpc(ME, "get_capacity", 1, DriverTrouble.WRONG))


def test_calls_are_counted_by_kind() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.mine.delete_volume("id-nothing", secrets={})
        await scene.create("first")
        with pytest.raises(DriverError):
            await scene.mine.delete_volume("id-first", secrets={})
        assert await scene.ids() == ["id-first"]

    play(scenario, BadRpc(ME, "delete_volume", 2, DriverTrouble.REFUSED, Code.INTERNAL))


def test_what_a_driver_does_is_a_write_after_which_its_caller_may_crash() -> None:
    async def scenario(scene: Scene) -> None:
        async def live() -> None:
            try:
                for name in ("first", "second", "third"):
                    await scene.create(name)
            finally:
                await scene.create("last will")

        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(live())
        assert scene.crashes == [Crash(ME, 2, 1.0)]
        assert await scene.ids() == ["id-first", "id-second"]
        assert scene.told[-1] == "create_volume second: the caller did not live to hear of it"

    play(scenario, Crash(ME, 2, 1.0))


def test_questions_are_no_writes() -> None:
    async def scenario(scene: Scene) -> None:
        for _ in range(3):
            await scene.mine.list_volumes()
            await scene.mine.get_capacity(capabilities=(), parameters={}, accessible_from=None)
        assert scene.crashes == []

    play(scenario, Crash(ME, 1, 1.0))


def test_who_pauses_hears_nothing_from_the_driver_either() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.clock.sleep(1.0)
        await scene.create("volume")
        assert scene.clock.monotonic() == 6.0

    play(scenario, Pause(ME, at=0.0, seconds=6.0))


Call = Callable[[FaultyDriver], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "answer", "done"),
    [
        pytest.param(lambda d: d.name(), "pocket.example.com", [], id="name"),
        pytest.param(lambda d: d.vendor_version(), "1", [], id="version"),
        pytest.param(lambda d: d.plugin_capabilities(), frozenset(), [], id="plugin capabilities"),
        pytest.param(lambda d: d.probe(), True, [], id="probe"),
        pytest.param(lambda d: d.node_capabilities(), frozenset(), [], id="node capabilities"),
        pytest.param(lambda d: d.info(), NodeInfo("node-1"), [], id="info"),
        pytest.param(lambda d: d.list_volumes(), [], [], id="list"),
        pytest.param(lambda d: d.validate_capabilities("v", capabilities=(WRITER,)), None, [], id="validate"),
        pytest.param(
            lambda d: d.controller_publish("v", node_id="n", capability=WRITER),
            {"device": "1"},
            ["attach v"],
            id="attach",
        ),
        pytest.param(lambda d: d.controller_unpublish("v", node_id="n"), None, ["detach v"], id="detach"),
        pytest.param(lambda d: d.stage("v", staging_target="/s", capability=WRITER), None, ["stage v"], id="stage"),
        pytest.param(lambda d: d.unstage("v", staging_target="/s"), None, ["unstage v"], id="unstage"),
        pytest.param(
            lambda d: d.publish("v", target="/t", capability=WRITER, read_only=False), None, ["publish v"], id="publish"
        ),
        pytest.param(lambda d: d.unpublish("v", target="/t"), None, ["unpublish v"], id="unpublish"),
    ],
)
def test_every_call_reaches_the_driver(call: Call, answer: object, done: Sequence[str]) -> None:
    async def scenario(scene: Scene) -> None:
        assert await call(scene.mine) == answer
        assert scene.backend.calls == done

    play(scenario)
