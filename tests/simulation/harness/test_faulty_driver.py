"""The driver with injected faults: side effects and the caller's response for every fault."""

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
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.csi_drivers.in_memory import MinimalCsiDriver
from support.simulation.faults import BadRpc, Crash, DriverFault, Fault, FaultPlan, Pause
from support.simulation.faulty_driver import DriverProcess, FaultyDriver
from support.simulation.history import History, Noted, RecordingStore
from support.simulation.injector import FaultInjector, InstanceConnection, InstanceFaults, Network

ME = "component"
WRITER = VolumeCapability(AccessMode.SINGLE_NODE_WRITER)


class Scene(NamedTuple):
    mine: FaultyDriver
    #: The same driver for another instance, without faults.
    others: FaultyDriver
    backend: MinimalCsiDriver
    history: History
    clock: VirtualClock
    crashes: list[Crash]

    async def create(self, name: str, size: int = 10) -> DriverVolume:
        return await self.mine.create_volume(CreateVolume(name, size), secrets={})

    async def ids(self) -> list[str]:
        return [volume.volume_id for volume in await self.backend.list_volumes()]

    @property
    def notes(self) -> list[str]:
        return [entry.what for entry in self.history.entries if isinstance(entry, Noted)]


def run_scenario(scenario: Callable[[Scene], Awaitable[None]], *faults: Fault, latency: float = 0.0) -> None:
    async def main(clock: VirtualClock) -> None:
        history = History(clock)
        server = LocalClient(ApiServer(RecordingStore(history), clock, random.Random(0)), User("tester"))
        injector = FaultInjector(FaultPlan(faults, latency), clock)
        injector.begin()
        crashes: list[Crash] = []
        network = Network(server, injector, history, clock)
        backend = MinimalCsiDriver()
        process = DriverProcess("pocket", backend, history, clock)
        mine, others = (
            FaultyDriver(
                process,
                InstanceConnection(
                    network, instance, InstanceFaults(injector, instance), random.Random(0), crashes.append
                ),
            )
            for instance in (ME, "other component")
        )
        await scenario(Scene(mine, others, backend, history, clock, crashes))

    virtual_time.run_in_virtual_time(main)


@pytest.mark.parametrize("code", Code)
def test_refused_call_has_no_effect(code: Code) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("first")
        with pytest.raises(DriverError) as caught:
            await scene.create("second")
        assert caught.value.code is code
        await scene.create("third")
        assert await scene.ids() == ["id-first", "id-third"]
        assert scene.notes == ["create_volume second: the driver refused"]

    run_scenario(scenario, BadRpc(ME, "create_volume", 2, DriverFault.REFUSED, code))


def test_call_with_lost_response_takes_effect() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(DriverError) as caught:
            await scene.create("volume")
        assert not caught.value.final
        assert await scene.ids() == ["id-volume"]
        assert (await scene.create("volume")).volume_id == "id-volume"

    run_scenario(scenario, BadRpc(ME, "create_volume", 1, DriverFault.LOST_ANSWER, Code.CANCELLED))


@pytest.mark.parametrize("effect", [DriverFault.SLOW_CALL, DriverFault.SLOW_ANSWER])
def test_slow_call_is_delayed(effect: DriverFault) -> None:
    async def scenario(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.create("volume"))
        await scene.clock.sleep(4.0)
        assert await scene.ids() == (["id-volume"] if effect is DriverFault.SLOW_ANSWER else [])
        await task
        assert scene.clock.monotonic() == 5.0

    run_scenario(scenario, BadRpc(ME, "create_volume", 1, effect, seconds=5.0))


def test_hung_driver_fails_at_the_deadline() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(DriverError) as caught:
            await scene.create("volume")
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        assert scene.clock.monotonic() == 5.0
        assert await scene.ids() == []

    run_scenario(scenario, BadRpc(ME, "create_volume", 1, DriverFault.HUNG, seconds=5.0))


def test_call_takes_effect_after_the_deadline() -> None:
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
        assert scene.notes[-1] == "create_volume volume: completed late"

    run_scenario(scenario, BadRpc(ME, "create_volume", 1, DriverFault.DONE_LATE, seconds=5.0))


def test_late_call_may_fail() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(DriverError):
            await scene.create("too much", size=1000)
        await scene.clock.sleep(5.0)
        assert await scene.ids() == []
        assert scene.notes[-1] == "create_volume too much: failed late: RESOURCE_EXHAUSTED: no capacity left"

    run_scenario(scenario, BadRpc(ME, "create_volume", 1, DriverFault.DONE_LATE, seconds=5.0))


def test_driver_may_report_too_small_volume() -> None:
    async def scenario(scene: Scene) -> None:
        assert (await scene.create("volume", 10)).capacity_bytes == 9
        assert await scene.ids() == ["id-volume"]

    run_scenario(scenario, BadRpc(ME, "create_volume", 1, DriverFault.WRONG))


def test_driver_may_report_negative_capacity() -> None:
    async def scenario(scene: Scene) -> None:
        async def capacity() -> Capacity:
            return await scene.mine.get_capacity(capabilities=(WRITER,), parameters={}, accessible_from=None)

        assert await capacity() == Capacity(-1)
        assert await capacity() == Capacity(100)

    run_scenario(scenario, BadRpc(ME, "get_capacity", 1, DriverFault.WRONG))


def test_calls_are_counted_by_rpc() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.mine.delete_volume("id-nothing", secrets={})
        await scene.create("first")
        with pytest.raises(DriverError):
            await scene.mine.delete_volume("id-first", secrets={})
        assert await scene.ids() == ["id-first"]

    run_scenario(scenario, BadRpc(ME, "delete_volume", 2, DriverFault.REFUSED, Code.INTERNAL))


def test_caller_may_crash_after_call_with_side_effect() -> None:
    async def scenario(scene: Scene) -> None:
        async def create_until_crash() -> None:
            try:
                for name in ("first", "second", "third"):
                    await scene.create(name)
            finally:
                await scene.create("in-finally")

        with pytest.raises(asyncio.CancelledError):
            await asyncio.ensure_future(create_until_crash())
        assert scene.crashes == [Crash(ME, 2, 1.0)]
        assert await scene.ids() == ["id-first", "id-second"]
        assert scene.notes[-1] == "create_volume second: the caller crashed before the response"

    run_scenario(scenario, Crash(ME, 2, 1.0))


def test_calls_without_side_effect_are_not_writes() -> None:
    async def scenario(scene: Scene) -> None:
        for _ in range(3):
            await scene.mine.list_volumes()
            await scene.mine.get_capacity(capabilities=(), parameters={}, accessible_from=None)
        assert scene.crashes == []

    run_scenario(scenario, Crash(ME, 1, 1.0))


def test_paused_instance_gets_no_response() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.clock.sleep(1.0)
        await scene.create("volume")
        assert scene.clock.monotonic() == 6.0

    run_scenario(scenario, Pause(ME, at=0.0, seconds=6.0))


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

    run_scenario(scenario)
