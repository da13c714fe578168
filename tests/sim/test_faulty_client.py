"""The client behind a bad network: each fault does what its name says, and the dead do not write."""

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
from mooring.sim import loop
from mooring.sim.faults import BadCall, BadWatch, Crash, Fault, FaultPlan, Pause, Trouble, WatchTrouble
from mooring.sim.faulty_client import FaultyClient
from mooring.sim.history import History, Noted, WitnessedStore
from mooring.sim.lifeline import Lifeline, Network
from mooring.sim.loop import VirtualClock
from mooring.sim.weather import Luck, Weather

ME = "somebody"


class Scene(NamedTuple):
    mine: FaultyClient
    line: Lifeline
    reliable: LocalClient
    weather: Weather
    history: History
    clock: VirtualClock
    crashes: list[Crash]

    async def names(self) -> list[str]:
        return [item.name for item in (await self.reliable.list(CONFIG_MAP)).items]

    async def create(self, name: str) -> None:
        await self.mine.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")


def play(scenario: Callable[[Scene], Awaitable[None]], *faults: Fault, latency: float = 0.0) -> None:
    """Run a scenario with one client under these faults, which are in force from the start."""

    async def main(clock: VirtualClock) -> None:
        history = History(clock)
        reliable = LocalClient(ApiServer(WitnessedStore(history), clock, random.Random(0)), User("tester"))
        await reliable.create(NAMESPACE, {"metadata": {"name": "default"}})
        weather = Weather(FaultPlan(faults, latency), clock)
        weather.begin()
        crashes: list[Crash] = []
        network = Network(reliable, weather, history, clock)
        line = Lifeline(network, ME, Luck(weather, ME), random.Random(0), crashes.append)
        await scenario(Scene(FaultyClient(line), line, reliable, weather, history, clock, crashes))

    loop.run(main)


@pytest.mark.parametrize(
    ("trouble", "error", "takes_effect"),
    [
        pytest.param(Trouble.LOST_REQUEST, Unreachable, False, id="the request got lost"),
        pytest.param(Trouble.LOST_ANSWER, Unreachable, True, id="the answer got lost"),
        pytest.param(Trouble.UNAVAILABLE, ServiceUnavailable, False, id="503"),
        pytest.param(Trouble.THROTTLED, TooManyRequests, False, id="429"),
    ],
)
def test_a_failed_request_takes_effect_only_if_its_answer_got_lost(
    trouble: Trouble, error: type[Exception], takes_effect: bool
) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("first")
        with pytest.raises(error):
            await scene.create("second")
        await scene.create("third")
        assert await scene.names() == ["first", *(["second"] if takes_effect else []), "third"]

    play(scenario, BadCall(ME, 2, trouble))


@pytest.mark.parametrize("trouble", [Trouble.SLOW_REQUEST, Trouble.SLOW_ANSWER])
def test_a_slow_request_takes_its_time(trouble: Trouble) -> None:
    async def scenario(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.create("slow"))
        await scene.clock.sleep(4.0)
        assert await scene.names() == (["slow"] if trouble is Trouble.SLOW_ANSWER else [])
        assert not task.done()
        await task
        assert scene.clock.monotonic() == 5.0

    play(scenario, BadCall(ME, 1, trouble, 5.0))


def test_an_overtaken_write_meets_a_true_conflict() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.create("thing")
        thing = await scene.mine.get(CONFIG_MAP, "thing", namespace="default")
        patch = MergePatch({"metadata": {"resourceVersion": thing.metadata.resource_version, "labels": {"a": "b"}}})
        with pytest.raises(Conflict):
            await scene.mine.patch(CONFIG_MAP, "thing", patch, namespace="default")
        assert (await scene.reliable.get(CONFIG_MAP, "thing", namespace="default")).metadata.labels == {}

    play(scenario, BadCall(ME, 3, Trouble.OVERTAKEN))


def test_messages_take_up_to_the_latency() -> None:
    async def scenario(scene: Scene) -> None:
        for name in "abcdefgh":
            await scene.create(name)
        # Eight requests and eight answers of half a second on average.
        assert 4.0 < scene.clock.monotonic() < 12.0

    play(scenario, latency=1.0)


def test_who_pauses_sends_and_hears_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        heard: list[float] = []

        async def listen() -> None:
            nonlocal heard
            async with aclosing(scene.mine.watch(CONFIG_MAP, after="1")) as events:
                async for _ in events:
                    heard += [scene.clock.monotonic()]

        listening = asyncio.ensure_future(listen())
        await scene.clock.sleep(2.0)
        await scene.reliable.create(CONFIG_MAP, {"metadata": {"name": "theirs"}}, namespace="default")
        await scene.create("mine")
        assert scene.clock.monotonic() == 6.0
        await scene.clock.sleep(1.0)
        listening.cancel()
        assert heard == [6.0, 6.0]

    play(scenario, Pause(ME, at=1.0, seconds=5.0))


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        pytest.param(WatchTrouble.BROKEN, Unreachable, id="broken"),
        pytest.param(WatchTrouble.EXPIRED, Expired, id="expired"),
        pytest.param(WatchTrouble.ENDED, None, id="ended"),
    ],
)
def test_a_watch_fails_after_so_many_events(trouble: WatchTrouble, error: type[Exception] | None) -> None:
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

    play(scenario, BadWatch(ME, 1, 2, trouble))


def test_a_watch_that_stands_still_loses_nothing() -> None:
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

    play(scenario, BadWatch(ME, 1, 1, WatchTrouble.STALLED, 3.0))


def test_the_server_may_be_away() -> None:
    async def scenario(scene: Scene) -> None:
        scene.weather.take_server_away(2.0)
        with pytest.raises(Unreachable):
            await scene.create("early")
        await scene.clock.sleep(2.0)
        await scene.create("late")
        assert await scene.names() == ["late"]

    play(scenario)


def test_the_dead_do_not_write() -> None:
    """Not even in what they do last."""

    async def scenario(scene: Scene) -> None:
        async def live() -> None:
            try:
                for name in ("first", "second", "third"):
                    await scene.create(name)
            finally:
                await scene.create("last will")

        life = asyncio.ensure_future(live())
        with pytest.raises(asyncio.CancelledError):
            await life
        assert scene.crashes == [Crash(ME, 2, 1.0)]
        assert await scene.names() == ["first", "second"]
        with pytest.raises(asyncio.CancelledError):
            await scene.mine.get(CONFIG_MAP, "first", namespace="default")

    play(scenario, Crash(ME, 2, 1.0))


def test_a_severed_watch_shows_nothing_more() -> None:
    async def scenario(scene: Scene) -> None:
        async with aclosing(scene.mine.watch(CONFIG_MAP, after="1")) as events:
            await scene.create("before")
            assert (await anext(events)).object.name == "before"
            scene.line.sever()
            await scene.reliable.create(CONFIG_MAP, {"metadata": {"name": "after"}}, namespace="default")
            with pytest.raises(asyncio.CancelledError):
                await anext(events)

    play(scenario)


def test_requests_about_events_are_not_counted() -> None:
    async def scenario(scene: Scene) -> None:
        for number in range(3):
            body = {"metadata": {"name": f"event-{number}"}, "involvedObject": {"namespace": "default"}}
            await scene.mine.create(EVENT, body, namespace="default")
        with pytest.raises(Unreachable):
            await scene.create("thing")

    play(scenario, BadCall(ME, 1, Trouble.LOST_REQUEST))


def test_nothing_goes_wrong_once_it_is_calm() -> None:
    async def scenario(scene: Scene) -> None:
        scene.weather.calm()
        for name in "abc":
            await scene.create(name)
        assert await scene.names() == ["a", "b", "c"]
        assert not any(isinstance(entry, Noted) for entry in scene.history.entries)

    play(
        scenario, *(BadCall(ME, call, Trouble.LOST_REQUEST) for call in range(10)), Crash(ME, 1, 1.0), Pause(ME, 0.0, 9)
    )
