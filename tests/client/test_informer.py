import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring import clock
from mooring.api.errors import Invalid
from mooring.api.kinds import CONFIG_MAP, KINDS, SECRET, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Unreachable
from mooring.client.informer import Informer, Informers
from mooring.clock import BATCH
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock
from support.fake_api_server import FakeApiServer
from support.fake_client import FakeClient


class Cluster:
    """A server with informers running on it, in virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.api = FakeApiServer()
        self.client = FakeClient(self.api)
        #: The objects that handlers have failed with, by what was reported.
        self.reported: list[str] = []
        self.informers = Informers(self.client, clock, random.Random(0), report=self._report)

    def _report(
        self, name: str, error: Exception, about: ApiObject | None = None, kind: Kind[Any] | None = None
    ) -> None:
        assert (name, kind) == (f"informer of {CONFIG_MAP.plural}", CONFIG_MAP)
        assert about is not None
        self.reported.append(f"{about.name}: {error!r}")

    def make(self, *names: str) -> None:
        for name in names:
            self.api.create(CONFIG_MAP, "default", {"metadata": {"name": name}})

    def remove(self, name: str) -> None:
        self.api.delete(CONFIG_MAP, "default", name)

    async def settle(self) -> None:
        """Give everything that is under way the time it takes."""
        await self.clock.sleep(1.0)


def in_cluster(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run the scenario while the informers run."""

    async def main(clock: VirtualClock) -> None:
        cluster = Cluster(clock)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(cluster.informers.run())
            await scenario(cluster)
            running.cancel()

    virtual_time.run_in_virtual_time(main)


class Log:
    """A handler that writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, before: ApiObject | None, after: ApiObject | None) -> None:
        match before, after:
            case None, ApiObject() as item:
                self.lines.append(f"+{item.name}")
            case ApiObject() as item, None:
                self.lines.append(f"-{item.name}")
            case _, ApiObject() as item:
                self.lines.append(f"~{item.name}")


def test_handlers_get_every_change_in_order_and_the_cache_agrees() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make("a", "b")
        informer, log = cluster.informers.of(CONFIG_MAP), Log()
        informer.on_change(log)
        await cluster.informers.wait_synced()
        assert log.lines == ["+a", "+b"]
        cluster.make("c")
        cluster.remove("a")
        await cluster.settle()
        assert log.lines == ["+a", "+b", "+c", "-a"]
        assert [item.name for item in informer.items()] == ["b", "c"]
        assert informer.get("default/a") is None
        found = informer.get("default/c")
        assert found is not None
        assert found.name == "c"

    in_cluster(scenario)


def test_a_handler_added_late_hears_what_is_there() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make("a", "b")
        informer, log = cluster.informers.of(CONFIG_MAP), Log()
        await informer.synced.wait()
        informer.on_change(log)
        assert log.lines == ["+a", "+b"]
        cluster.remove("b")
        await cluster.settle()
        assert log.lines == ["+a", "+b", "-b"]

    in_cluster(scenario)


def test_a_handler_added_by_a_handler_hears_each_object_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        informer, log = cluster.informers.of(CONFIG_MAP), Log()
        await informer.synced.wait()
        informer.on_change(lambda _before, _after: informer.on_change(log) if not log.lines else None)
        cluster.make("a")
        await cluster.settle()
        cluster.make("b")
        await cluster.settle()
        assert log.lines == ["+a", "+b"]

    in_cluster(scenario)


def test_synced_is_set_after_the_handlers_got_the_list() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make("a")
        informer = cluster.informers.of(CONFIG_MAP)
        early: list[bool] = []
        informer.on_change(lambda _before, _after: early.append(informer.synced.is_set()))
        await informer.synced.wait()
        assert early == [False]

    in_cluster(scenario)


def test_failing_handler_misses_its_object_and_nothing_else() -> None:
    told: list[tuple[str, str]] = []

    def fail(before: ApiObject | None, after: ApiObject | None) -> None:
        name = after.name if after is not None else ""
        told.append(("first", name))
        if name == "poison":
            raise LookupError("a bug in a handler")

    def note(before: ApiObject | None, after: ApiObject | None) -> None:
        told.append(("second", after.name if after is not None else ""))

    async def scenario(cluster: Cluster) -> None:
        informer = cluster.informers.of(CONFIG_MAP)
        informer.on_change(fail)
        informer.on_change(note)
        await informer.synced.wait()
        for name in ("a", "poison", "b"):
            cluster.make(name)
        await cluster.clock.sleep(1.0)
        assert told == [(who, name) for name in ("a", "poison", "b") for who in ("first", "second")]
        assert cluster.reported == ["poison: LookupError('a bug in a handler')"]
        with pytest.raises(LookupError):
            fail(None, informer.get("default/poison"))
        informer.on_change(fail)
        assert len(cluster.reported) == 2, "what is there already is told in the same way"

    in_cluster(scenario)


def test_there_is_one_informer_and_one_watch_per_kind() -> None:
    async def scenario(cluster: Cluster) -> None:
        first = cluster.informers.of(CONFIG_MAP)
        assert cluster.informers.of(CONFIG_MAP) is first
        assert cluster.informers.of(SECRET) is not first
        await cluster.settle()
        assert cluster.client.requests == ["watch configmaps after None", "watch secrets after None"]

    in_cluster(scenario)


def test_an_informer_asked_for_late_is_started_and_waited_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.informers.wait_synced()
        cluster.make("a")
        await cluster.settle()
        late = cluster.informers.of(CONFIG_MAP)
        await cluster.informers.wait_synced()
        assert [item.name for item in late.items()] == ["a"]

    in_cluster(scenario)


def test_waiting_for_all_includes_those_asked_for_meanwhile() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.client.failures = [Unreachable("not up yet")]
        cluster.informers.of(CONFIG_MAP)
        waiting = asyncio.create_task(cluster.informers.wait_synced())
        await asyncio.sleep(0)
        cluster.client.failures += [Unreachable("not up yet")] * 3
        late = cluster.informers.of(SECRET)
        await waiting
        assert late.synced.is_set()

    in_cluster(scenario)


def test_kind_read_later_is_counted_separately() -> None:
    async def scenario(cluster: Cluster) -> None:
        informers = cluster.informers
        informers.of(CONFIG_MAP)
        assert informers.unsynced(late=False) == ["configmaps"]
        await informers.wait_synced()
        cluster.client.failures = [Unreachable("not up yet")]
        informers.of(SECRET)
        assert informers.unsynced() == ["secrets"]
        assert informers.unsynced(late=False) == []

    in_cluster(scenario)


def test_informers_do_not_run_twice_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.settle()
        with pytest.raises(RuntimeError, match="already running"):
            await cluster.informers.run()

    in_cluster(scenario)


def test_what_was_known_stays_when_they_run_again() -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = Cluster(clock)
        cluster.make("a")
        informer, log = cluster.informers.of(CONFIG_MAP), Log()
        informer.on_change(log)
        for name in ("b", "c"):
            running = asyncio.create_task(cluster.informers.run())
            await cluster.settle()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            cluster.make(name)
        assert log.lines == ["+a", "+b"]
        assert cluster.client.requests == ["watch configmaps after None", "watch configmaps after 1"]

    virtual_time.run_in_virtual_time(main)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_every_kind_can_be_listed_by_stream(kind: object) -> None:
    """The bookmark that ends the list carries metadata only: no view may ask for more."""

    async def main(clock: VirtualClock) -> None:
        chosen = next(each for each in KINDS if each is kind)
        informer = Informer(FakeClient(FakeApiServer()), chosen, clock=clock, rng=random.Random(0))
        running = asyncio.create_task(informer.run())
        await informer.synced.wait()
        running.cancel()

    virtual_time.run_in_virtual_time(main)


class Turns:
    """What a handler has heard at each turn of the event loop."""

    def __init__(self, log: Log, clock: VirtualClock) -> None:
        self._log = log
        self._clock = clock
        self.output = [0]

    async def count(self) -> None:
        while True:
            self.output.append(len(self._log.lines))
            await self._clock.sleep(0)

    @property
    def longest(self) -> int:
        """The most changes that were told without letting others run."""
        return max(after - before for before, after in itertools.pairwise(self.output))


@pytest.mark.parametrize("late", [True, False], ids=["replayed to a late handler", "listed for an early one"])
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "listed"])
def test_a_large_list_is_delivered_in_batches_and_other_tasks_run_between_them(late: bool, streams: bool) -> None:
    """Delivered in one go, a list of 50,000 pods cost the process its lease."""

    async def scenario(cluster: Cluster) -> None:
        cluster.client.refuses_streams = None if streams else Invalid("not here")
        cluster.make(*(f"c{number}" for number in range(3 * BATCH)))
        informer, log = cluster.informers.of(CONFIG_MAP), Log()
        if late:
            await informer.synced.wait()
        turns = Turns(log, cluster.clock)
        counting = asyncio.ensure_future(turns.count())
        if late:
            await informer.subscribe(log)
        else:
            informer.on_change(log)
            await informer.synced.wait()
        counting.cancel()
        assert len(log.lines) == 3 * BATCH
        assert turns.longest <= BATCH

    in_cluster(scenario)


def test_subscribe_returns_after_all_objects_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "BATCH", 1)

    async def scenario(cluster: Cluster) -> None:
        cluster.make("a", "b")
        log = Log()
        await cluster.informers.of(CONFIG_MAP).subscribe(log)
        assert log.lines == ["+a", "+b"]
        cluster.remove("a")
        await cluster.settle()
        assert log.lines == ["+a", "+b", "-a"]

    in_cluster(scenario)


def test_changes_during_a_replay_are_delivered_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "BATCH", 1)

    async def scenario(cluster: Cluster) -> None:
        cluster.make("a-told", "changes", "goes", "made-again")
        informer, log = cluster.informers.of(CONFIG_MAP), Log()
        await informer.synced.wait()
        subscribing = asyncio.ensure_future(informer.subscribe(log))
        while not log.lines:
            await cluster.clock.sleep(0)
        assert log.lines == ["+a-told"]
        cluster.remove("goes")
        cluster.remove("made-again")
        cluster.make("made-again", "new")
        for name in ("a-told", "changes"):
            cluster.api.patch(CONFIG_MAP, "default", name, MergePatch({"data": {"a": "b"}}), "")
        await subscribing
        await cluster.settle()
        assert sorted(log.lines[1:]) in (
            ["+changes", "+made-again", "+new", "~a-told"],
            ["+changes", "+made-again", "+new", "~a-told", "~changes"],
        )
        assert {item.name for item in informer.items()} == {"a-told", "changes", "made-again", "new"}

    in_cluster(scenario)


def test_a_handler_that_fails_during_a_replay_gets_the_other_objects() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make("a", "b")
        output: list[str] = []

        def fail(_before: ApiObject | None, after: ApiObject | None) -> None:
            output.append(after.name if after is not None else "")
            raise LookupError("no such thing")

        await cluster.informers.of(CONFIG_MAP).subscribe(fail)
        cluster.make("c")
        await cluster.settle()
        assert output == ["a", "b", "c"]
        assert [line.partition(":")[0] for line in cluster.reported] == ["a", "b", "c"]

    in_cluster(scenario)
