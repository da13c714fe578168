"""The client with injected network faults; a crashed instance does not write."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple

import pytest

from mooring.api.errors import ApiError, Conflict, Expired, ServiceUnavailable, TooManyRequests
from mooring.api.kinds import CONFIG_MAP, EVENT, NAMESPACE
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Unreachable
from mooring.cluster.local_client import LocalClient
from mooring.server.api import ApiServer
from mooring.server.contract import User
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.simulation.faults import BadCall, BadWatch, Crash, Fault, FaultPlan, Pause, RequestFault, WatchFault
from support.simulation.faulty_client import FaultyClient
from support.simulation.history import History, Noted, RecordingStore
from support.simulation.injector import FaultInjector, InstanceConnection, InstanceFaults, Network

ME = "component"


class Scene(NamedTuple):
    mine: FaultyClient
    connection: InstanceConnection
    reliable: LocalClient
    injector: FaultInjector
    history: History
    clock: VirtualClock
    crashes: list[Crash]

    async def names(self) -> list[str]:
        return [item.name for item in (await self.reliable.list(CONFIG_MAP)).items]

    async def create(self, name: str) -> None:
        await self.mine.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")


def run_scenario(scenario: Callable[[Scene], Awaitable[None]], *faults: Fault, latency: float = 0.0) -> None:
    """Run a scenario with one client under these faults, active from the start."""

    async def main(clock: VirtualClock) -> None:
        history = History(clock)
        reliable = LocalClient(ApiServer(RecordingStore(history), clock, random.Random(0)), User("tester"))
        await reliable.create(NAMESPACE, {"metadata": {"name": "default"}})
        injector = FaultInjector(FaultPlan(faults, latency), clock)
        injector.begin()
        crashes: list[Crash] = []
        network = Network(reliable, injector, history, clock)
        connection = InstanceConnection(network, ME, InstanceFaults(injector, ME), random.Random(0), crashes.append)
        await scenario(Scene(FaultyClient(connection), connection, reliable, injector, history, clock, crashes))

    virtual_time.run_in_virtual_time(main)


@pytest.mark.parametrize(
    ("effect", "error", "takes_effect"),
    [
        pytest.param(RequestFault.LOST_REQUEST, Unreachable, False, id="lost request"),
        pytest.param(RequestFault.LOST_ANSWER, Unreachable, True, id="lost response"),
        pytest.param(RequestFault.UNAVAILABLE, ServiceUnavailable, False, id="503"),
        pytest.param(RequestFault.THROTTLED, TooManyRequests, False, id="429"),
    ],
)
def test_failed_request_takes_effect_only_if_response_is_lost(
    effect: RequestFault, error: type[Exception], takes_effect: bool
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("first")
        with pytest.raises(error):
            await scene.create("second")
        await scene.create("third")
        assert await scene.names() == ["first", *(["second"] if takes_effect else []), "third"]

    run_scenario(scenario, BadCall(ME, 2, effect))


@pytest.mark.parametrize("effect", [RequestFault.SLOW_REQUEST, RequestFault.SLOW_ANSWER])
def test_slow_request_is_delayed(effect: RequestFault) -> None:
    async def scenario(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.create("slow"))
        await scene.clock.sleep(4.0)
        assert await scene.names() == (["slow"] if effect is RequestFault.SLOW_ANSWER else [])
        assert not task.done()
        await task
        assert scene.clock.monotonic() == 5.0

    run_scenario(scenario, BadCall(ME, 1, effect, 5.0))


def test_overtaken_write_gets_a_real_conflict() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("thing")
        thing = await scene.mine.get(CONFIG_MAP, "thing", namespace="default")
        patch = MergePatch({"metadata": {"resourceVersion": thing.metadata.resource_version, "labels": {"a": "b"}}})
        with pytest.raises(Conflict):
            await scene.mine.patch(CONFIG_MAP, "thing", patch, namespace="default")
        assert (await scene.reliable.get(CONFIG_MAP, "thing", namespace="default")).metadata.labels == {}

    run_scenario(scenario, BadCall(ME, 3, RequestFault.OVERTAKEN))


def test_messages_are_delayed_up_to_the_latency() -> None:
    async def scenario(scene: Scene) -> None:
        for name in "abcdefgh":
            await scene.create(name)
        # Eight requests and eight answers of half a second on average.
        assert 4.0 < scene.clock.monotonic() < 12.0

    run_scenario(scenario, latency=1.0)


def test_paused_instance_neither_sends_nor_receives() -> None:
    async def scenario(scene: Scene) -> None:
        received: list[float] = []

        async def listen() -> None:
            nonlocal received
            async with aclosing(scene.mine.watch(CONFIG_MAP, after="1")) as events:
                async for _ in events:
                    received += [scene.clock.monotonic()]

        listening = asyncio.ensure_future(listen())
        await scene.clock.sleep(2.0)
        await scene.reliable.create(CONFIG_MAP, {"metadata": {"name": "theirs"}}, namespace="default")
        await scene.create("mine")
        assert scene.clock.monotonic() == 6.0
        await scene.clock.sleep(1.0)
        listening.cancel()
        assert received == [6.0, 6.0]

    run_scenario(scenario, Pause(ME, at=1.0, seconds=5.0))


@pytest.mark.parametrize(
    ("effect", "error"),
    [
        pytest.param(WatchFault.BROKEN, Unreachable, id="broken"),
        pytest.param(WatchFault.EXPIRED, Expired, id="expired"),
        pytest.param(WatchFault.ENDED, None, id="ended"),
    ],
)
def test_watch_fails_after_some_events(effect: WatchFault, error: type[Exception] | None) -> None:
    async def scenario(scene: Scene) -> None:
        for name in "abc":
            await scene.create(name)
        seen: list[str] = []
        failure: Exception | None = None
        try:
            async with aclosing(scene.mine.watch(CONFIG_MAP, after="1")) as events:
                async for event in events:
                    seen += [event.object.name]
        except (ApiError, Unreachable) as caught:
            failure = caught
        assert seen == ["a", "b"]
        assert failure is None if error is None else isinstance(failure, error)

    run_scenario(scenario, BadWatch(ME, 1, 2, effect))


def test_stalled_watch_loses_no_event() -> None:
    async def scenario(scene: Scene) -> None:
        for name in "abc":
            await scene.create(name)
        seen: list[tuple[float, str]] = []
        async with aclosing(scene.mine.watch(CONFIG_MAP, after="1")) as events:
            async for event in events:
                seen.append((scene.clock.monotonic(), event.object.name))
                if len(seen) == 3:
                    break
        assert seen == [(0.0, "a"), (3.0, "b"), (3.0, "c")]

    run_scenario(scenario, BadWatch(ME, 1, 1, WatchFault.STALLED, 3.0))


def test_requests_fail_while_server_restarts() -> None:
    async def scenario(scene: Scene) -> None:
        scene.injector.take_server_away(2.0)
        with pytest.raises(Unreachable):
            await scene.create("early")
        await scene.clock.sleep(2.0)
        await scene.create("late")
        assert await scene.names() == ["late"]

    run_scenario(scenario)


def test_crashed_instance_does_not_write() -> None:
    """Not even in a `finally` block."""

    async def scenario(scene: Scene) -> None:
        async def write_until_crash() -> None:
            try:
                for name in ("first", "second", "third"):
                    await scene.create(name)
            finally:
                await scene.create("in-finally")

        process = asyncio.ensure_future(write_until_crash())
        with pytest.raises(asyncio.CancelledError):
            await process
        assert scene.crashes == [Crash(ME, 2, 1.0)]
        assert await scene.names() == ["first", "second"]
        with pytest.raises(asyncio.CancelledError):
            await scene.mine.get(CONFIG_MAP, "first", namespace="default")

    run_scenario(scenario, Crash(ME, 2, 1.0))


def test_disconnected_watch_delivers_no_event() -> None:
    async def scenario(scene: Scene) -> None:
        async with aclosing(scene.mine.watch(CONFIG_MAP, after="1")) as events:
            await scene.create("before")
            assert (await anext(events)).object.name == "before"
            scene.connection.disconnect()
            await scene.reliable.create(CONFIG_MAP, {"metadata": {"name": "after"}}, namespace="default")
            with pytest.raises(asyncio.CancelledError):
                await anext(events)

    run_scenario(scenario)


def test_requests_about_events_are_not_counted() -> None:
    async def scenario(scene: Scene) -> None:
        for number in range(3):
            body = {"metadata": {"name": f"event-{number}"}, "involvedObject": {"namespace": "default"}}
            await scene.mine.create(EVENT, body, namespace="default")
        with pytest.raises(Unreachable):
            await scene.create("thing")

    run_scenario(scenario, BadCall(ME, 1, RequestFault.LOST_REQUEST))


def test_no_fault_after_stop() -> None:
    async def scenario(scene: Scene) -> None:
        scene.injector.stop()
        for name in "abc":
            await scene.create(name)
        assert await scene.names() == ["a", "b", "c"]
        assert not any(isinstance(entry, Noted) for entry in scene.history.entries)

    run_scenario(
        scenario,
        *(BadCall(ME, call, RequestFault.LOST_REQUEST) for call in range(10)),
        Crash(ME, 1, 1.0),
        Pause(ME, 0.0, 9),
    )
