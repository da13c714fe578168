import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from mooring.api.errors import Conflict, Forbidden
from mooring.client.contract import Unreachable
from mooring.clock import BATCH
from mooring.control.workqueue import MAX_RETRY_SECONDS, ConcurrencyLimit, KeyedLocks, WorkQueue, work
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import VirtualClock

ONE, OTHER = ("n1", "driver", "one"), ("n1", "driver", "other")


async def test_one_task_at_a_time_is_at_a_volume_in_the_order_they_came() -> None:
    turns: KeyedLocks[tuple[str, str, str]] = KeyedLocks()
    story: list[str] = []

    async def be_at(name: str) -> None:
        async with turns.holding([ONE]):
            story.append(f"{name} comes")
            await asyncio.sleep(0)
            story.append(f"{name} goes")

    await asyncio.gather(*(be_at(name) for name in "abc"))
    assert story == [f"{name} {what}" for name in "abc" for what in ("comes", "goes")]


async def test_tasks_at_different_volumes_do_not_wait_for_each_other() -> None:
    turns: KeyedLocks[tuple[str, str, str]] = KeyedLocks()
    async with turns.holding([ONE]), turns.holding([OTHER]):
        assert len(turns) == 2


async def test_unlocked_keys_are_not_kept() -> None:
    turns: KeyedLocks[tuple[str, str, str]] = KeyedLocks()
    for number in range(100):
        async with turns.holding([("n1", "driver", str(number))]):
            assert len(turns) == 1
    with pytest.raises(RuntimeError):
        async with turns.holding([ONE]):
            raise RuntimeError("the driver is gone")
    async with turns.holding([ONE]):
        gives_up = asyncio.create_task(turns.holding([ONE]).__aenter__())
        await asyncio.sleep(0)
        gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        assert len(turns) == 1, "the first is still at it"
    assert len(turns) == 0


T = TypeVar("T")


class Bench:
    """A queue in virtual time, and when things came out of it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.queue: WorkQueue[str] = WorkQueue(clock)

    async def take(self) -> str:
        """The next key, done at once."""
        key = await self.queue.get()
        self.queue.done(key)
        return key

    async def take_at(self) -> tuple[str, float]:
        return await self.take(), round(self.clock.monotonic(), 6)

    async def nothing_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.queue.get(), seconds)
        except TimeoutError:
            return True
        return False


def on_bench(scenario: Callable[[Bench], Awaitable[T]]) -> T:
    async def main(clock: VirtualClock) -> T:
        return await scenario(Bench(clock))

    return virtual_time.run_in_virtual_time(main)


def test_keys_come_in_the_order_they_were_added_and_once() -> None:
    async def scenario(bench: Bench) -> list[str]:
        for key in ("b", "a", "b", "c", "a"):
            bench.queue.add(key)
        assert len(bench.queue._waiting) == 3
        return [await bench.take() for _ in range(3)]

    assert on_bench(scenario) == ["b", "a", "c"]


def test_keys_come_by_priority_and_equal_ones_in_the_order_they_were_added() -> None:
    async def scenario(bench: Bench) -> list[str]:
        bench.queue.priority = lambda key: (key[0],)
        for key in ("b1", "a2", "b2", "a1", "a2"):
            bench.queue.add(key)
        first = await bench.queue.get()
        bench.queue.add(first)
        bench.queue.done(first)
        return [first, *[await bench.take() for _ in range(4)]]

    assert on_bench(scenario) == ["a2", "a1", "a2", "b1", "b2"]


def test_a_key_added_while_it_is_worked_on_comes_again_once_after_done() -> None:
    async def scenario(bench: Bench) -> None:
        bench.queue.add("a")
        key = await bench.queue.get()
        bench.queue.add("a")
        bench.queue.add("a")
        assert await bench.nothing_within(10)
        bench.queue.done(key)
        assert await bench.take() == "a"
        assert await bench.nothing_within(10)

    on_bench(scenario)


def test_a_key_that_comes_again_goes_to_the_end_of_the_line() -> None:
    async def scenario(bench: Bench) -> list[str]:
        for key in ("a", "b"):
            bench.queue.add(key)
        first = await bench.queue.get()
        bench.queue.add(first)
        bench.queue.done(first)
        return [await bench.take() for _ in range(2)]

    assert on_bench(scenario) == ["b", "a"]


def test_delayed_keys_come_when_their_time_has_come() -> None:
    async def scenario(bench: Bench) -> list[tuple[str, float]]:
        bench.queue.add_after("late", 30)
        bench.queue.add_after("early", 10)
        bench.queue.add_after("also early", 10)
        bench.queue.add_after("now", 0)
        return [await bench.take_at() for _ in range(4)]

    assert on_bench(scenario) == [("now", 0), ("early", 10), ("also early", 10), ("late", 30)]


def test_deadline_is_over_after_its_remainder_however_small() -> None:
    """1000 s and less than half of the smallest difference between floats there: the same time, again and again."""

    async def scenario(bench: Bench) -> None:
        await bench.clock.sleep(1000.0)
        bench.queue.add_after("a", 1e-14)
        assert await bench.take() == "a"
        assert 0 < bench.clock.monotonic() - 1000.0 < 0.01

    on_bench(scenario)


def test_shorter_delay_wakes_a_waiting_worker() -> None:
    async def scenario(bench: Bench) -> list[tuple[str, float]]:
        bench.queue.add_after("a", 100)
        taken = [asyncio.create_task(bench.take_at()) for _ in range(2)]
        await bench.clock.sleep(1)
        bench.queue.add_after("b", 5)
        return [await each for each in taken]

    assert on_bench(scenario) == [("b", 6), ("a", 100)]


@pytest.mark.parametrize(
    ("delays", "want"),
    [
        pytest.param([50, 10], 10, id="shorter later"),
        pytest.param([10, 50], 10, id="longer later"),
        pytest.param([10, 10], 10, id="the same twice"),
    ],
)
def test_of_several_delays_of_a_key_the_earliest_counts(delays: list[float], want: float) -> None:
    async def scenario(bench: Bench) -> None:
        for delay in delays:
            bench.queue.add_after("a", delay)
        assert await bench.take_at() == ("a", want)
        assert await bench.nothing_within(100)

    on_bench(scenario)


def test_a_delay_holds_although_the_key_came_before() -> None:
    async def scenario(bench: Bench) -> list[tuple[str, float]]:
        bench.queue.add_after("a", 10)
        bench.queue.add("a")
        return [await bench.take_at() for _ in range(2)]

    assert on_bench(scenario) == [("a", 0), ("a", 10)]


def test_a_delay_that_ends_while_the_key_is_worked_on_makes_it_come_again() -> None:
    async def scenario(bench: Bench) -> None:
        bench.queue.add("a")
        key = await bench.queue.get()
        bench.queue.add_after("a", 10)
        assert await bench.nothing_within(20)
        bench.queue.done(key)
        assert await bench.take_at() == ("a", 20)

    on_bench(scenario)


def test_retry_backoff_doubles_until_reset() -> None:
    async def scenario(bench: Bench) -> list[float]:
        waits = []
        for _ in range(20):
            before = bench.clock.monotonic()
            bench.queue.retry("a")
            await bench.take()
            waits.append(bench.clock.monotonic() - before)
        assert bench.queue.failures("a") == 20
        bench.queue.forget("a")
        assert bench.queue.failures("a") == 0
        bench.queue.retry("a")
        before = bench.clock.monotonic()
        await bench.take()
        return [*waits, bench.clock.monotonic() - before]

    doubling = [0.005 * 2**n for n in range(18)]
    assert on_bench(scenario) == pytest.approx([*doubling, MAX_RETRY_SECONDS, MAX_RETRY_SECONDS, 0.005])


def test_retries_of_one_key_do_not_slow_another() -> None:
    async def scenario(bench: Bench) -> tuple[str, float]:
        for _ in range(10):
            bench.queue.retry("bad")
            await bench.take()
        start = bench.clock.monotonic()
        bench.queue.retry("bad")
        bench.queue.retry("good")
        key, at = await bench.take_at()
        return key, at - start

    key, waited = on_bench(scenario)
    assert key == "good"
    assert waited == pytest.approx(0.005, abs=1e-5)


def test_only_the_worker_of_a_key_marks_it_done() -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(KeyError):
            bench.queue.done("a")

    on_bench(scenario)


def test_cancelled_worker_loses_no_key() -> None:
    async def scenario(bench: Bench) -> None:
        waiting = [asyncio.create_task(bench.queue.get()) for _ in range(3)]
        bench.queue.add_after("late", 10)
        await bench.clock.sleep(1)
        bench.queue.add("a")
        # The first waiter is about to be given the key when it is cancelled.
        waiting[0].cancel()
        waiting[1].cancel()
        assert await waiting[2] == "a"
        assert await bench.take_at() == ("late", 10)

    on_bench(scenario)


def test_nothing_is_left_behind_when_the_workers_are_cancelled() -> None:
    async def scenario(bench: Bench) -> None:
        waiting = [asyncio.create_task(bench.queue.get()) for _ in range(3)]
        bench.queue.add_after("a", 1000)
        await bench.clock.sleep(1)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await bench.clock.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on_bench(scenario)


def test_waiters_are_served_in_turn() -> None:
    async def scenario(bench: Bench) -> list[str]:
        served: list[str] = []

        async def serve(name: str) -> None:
            key = await bench.queue.get()
            served.append(f"{name} gets {key}")

        async with asyncio.TaskGroup() as group:
            for name in ("first", "second", "third"):
                group.create_task(serve(name))
            await bench.clock.sleep(1)
            for key in ("a", "b", "c"):
                bench.queue.add(key)
        return served

    assert on_bench(scenario) == ["first gets a", "second gets b", "third gets c"]


KEYS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS),
    st.tuples(st.just("add_after"), KEYS, st.sampled_from([0.5, 2.0, 7.0])),
    st.tuples(st.just("retry"), KEYS),
    st.tuples(st.just("rest"), st.sampled_from([0.0, 1.0, 3.0])),
)


@settings(max_examples=100)
@given(st.lists(STEPS, max_size=25), st.integers(1, 3))
def test_each_key_has_one_worker_at_a_time_and_none_is_lost(calls: list[tuple[str, ...]], workers: int) -> None:
    async def scenario(bench: Bench) -> None:
        working: set[str] = set()
        seen_at: dict[str, float] = {}
        asked_at: dict[str, float] = {}

        async def worker() -> None:
            while True:
                key = await bench.queue.get()
                assert key not in working
                working.add(key)
                seen_at[key] = bench.clock.monotonic()
                await bench.clock.sleep(0.3)
                working.remove(key)
                bench.queue.done(key)

        tasks = [asyncio.create_task(worker()) for _ in range(workers)]
        for verb, *arguments in calls:
            if verb == "rest":
                await bench.clock.sleep(float(arguments[0]))
                continue
            asked_at[arguments[0]] = bench.clock.monotonic()
            getattr(bench.queue, verb)(*arguments)
        await bench.clock.sleep(100)
        assert not any(task.done() for task in tasks)
        assert all(seen_at[key] >= when for key, when in asked_at.items())
        assert not bench.queue._waiting

    on_bench(scenario)


class Controller:
    """Reconciles by writing down when, and failing as told."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.queue: WorkQueue[str] = WorkQueue(clock)
        self.failures: dict[str, list[Exception]] = {}
        self.takes = 0.0
        self.done: list[str] = []
        self.busy = 0
        self.busiest = 0

    async def reconcile(self, key: str) -> None:
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await self.clock.sleep(self.takes)
            if self.failures.get(key):
                raise self.failures[key].pop(0)
            self.done.append(key)
        finally:
            self.busy -= 1


def at_work(scenario: Callable[[Controller], Awaitable[None]], *, workers: int = 1) -> Controller:
    """Run the scenario while the workers work."""

    async def main(clock: VirtualClock) -> Controller:
        controller = Controller(clock)
        task = asyncio.create_task(work(controller.queue, controller.reconcile, workers=workers, name="test claims"))
        await scenario(controller)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return controller

    return virtual_time.run_in_virtual_time(main)


def test_added_keys_are_reconciled() -> None:
    async def scenario(controller: Controller) -> None:
        controller.queue.add("a")
        controller.queue.add("b")
        await controller.clock.sleep(1)

    assert at_work(scenario).done == ["a", "b"]


@pytest.mark.parametrize(
    ("failure", "level", "event"),
    [
        pytest.param(Conflict("the object has been modified"), "info", "reconcile failed; retrying", id="conflict"),
        pytest.param(Forbidden("not you"), "warning", "reconcile failed; retrying", id="forbidden"),
        pytest.param(Unreachable("reset by peer"), "warning", "reconcile failed; retrying", id="unreachable"),
        pytest.param(LookupError("oh"), "error", "reconcile failed with a bug", id="a bug"),
    ],
)
def test_what_fails_is_logged_with_its_key_and_tried_again(failure: Exception, level: str, event: str) -> None:
    async def scenario(controller: Controller) -> None:
        controller.failures["shop/data"] = [failure, failure]
        controller.queue.add("shop/data")
        await controller.clock.sleep(1)
        assert controller.queue.failures("shop/data") == 0

    with capture_logs() as logs:
        assert at_work(scenario).done == ["shop/data"]
    assert [(line["log_level"], line["event"], line["key"], line["failures"]) for line in logs] == [
        (level, event, "shop/data", 0),
        (level, event, "shop/data", 1),
    ]
    assert all(line["queue"] == "test claims" for line in logs)
    assert all(bool(line.get("exc_info")) is (level == "error") for line in logs)


def test_a_poisoned_key_does_not_stop_the_others() -> None:
    async def scenario(controller: Controller) -> None:
        controller.failures["bad"] = [RuntimeError("always")] * 1000
        for key in ("bad", "a", "b"):
            controller.queue.add(key)
        await controller.clock.sleep(60)
        assert controller.queue.failures("bad") > 10

    with capture_logs():
        assert at_work(scenario).done == ["a", "b"]


def test_as_many_keys_are_worked_on_at_once_as_there_are_workers() -> None:
    async def scenario(controller: Controller) -> None:
        controller.takes = 10.0
        for number in range(9):
            controller.queue.add(f"key-{number}")
        await controller.clock.sleep(31)

    controller = at_work(scenario, workers=3)
    assert controller.busiest == 3
    assert len(controller.done) == 9


def test_limit_keeps_workers_idle() -> None:
    async def scenario(controller: Controller) -> None:
        controller.queue.limit = ConcurrencyLimit(4, timeout=10.0)
        controller.takes = 10.0
        for number in range(9):
            controller.queue.add(f"key-{number}")
        await controller.clock.sleep(31)

    controller = at_work(scenario, workers=8)
    assert controller.busiest == 4
    assert len(controller.done) == 9


@pytest.mark.parametrize(
    ("at_once", "seconds", "least", "most"),
    [
        pytest.param(1, 1.0, 4, 8, id="one call after the other"),
        pytest.param(20, 2.0, 20, 80, id="twenty at once"),
        pytest.param(1000, 0.01, 100, 100, id="fast"),
        pytest.param(1000, 6.0, 100, 100, id="slow but parallel"),
        pytest.param(1, 30.0, 4, 4, id="every call times out"),
    ],
)
def test_limit_follows_what_the_service_handles(at_once: int, seconds: float, least: int, most: int) -> None:
    """A service with this many handlers and a queue; callers keep as many calls in flight as the limit allows."""

    async def main(clock: VirtualClock) -> int:
        limit = ConcurrencyLimit(100, timeout=10.0)
        handlers = asyncio.Semaphore(at_once)
        calls: set[asyncio.Task[None]] = set()

        async def call() -> None:
            begun = clock.monotonic()
            try:
                async with asyncio.timeout(10.0), handlers:
                    await clock.sleep(seconds)
            except TimeoutError:
                pass
            limit.observe(begun, clock.monotonic())

        for _ in range(200):
            calls |= {asyncio.create_task(call()) for _ in range(limit.value - len(calls))}
            _, calls = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for each in calls:
            each.cancel()
        return limit.value

    assert least <= virtual_time.run_in_virtual_time(main) <= most


def test_one_key_is_never_in_two_hands() -> None:
    async def scenario(controller: Controller) -> None:
        controller.takes = 5.0
        rng = random.Random(0)
        for _ in range(20):
            controller.queue.add("a")
            await controller.clock.sleep(rng.random())
        await controller.clock.sleep(20)

    assert at_work(scenario, workers=3).busiest == 1


def test_zero_workers_are_refused() -> None:
    async def main(clock: VirtualClock) -> None:
        controller = Controller(clock)
        await work(controller.queue, controller.reconcile, workers=0, name="idle")

    with pytest.raises(ValueError, match="idle: workers must be at least 1"):
        virtual_time.run_in_virtual_time(main)


def test_workers_that_find_nothing_to_do_let_others_run() -> None:
    """After a takeover every object is looked at once, and most are as they should be: no request, no wait."""

    async def main(clock: VirtualClock) -> None:
        queue: WorkQueue[int] = WorkQueue(clock)
        done: list[int] = []

        async def reconcile(key: int) -> None:
            done.append(key)

        for key in range(3 * BATCH):
            queue.add(key)
        working = asyncio.ensure_future(work(queue, reconcile, workers=2, name="test"))
        seen = [0]
        while len(done) < 3 * BATCH:
            await clock.sleep(0)
            seen.append(len(done))
        working.cancel()
        assert max(after - before for before, after in itertools.pairwise(seen)) <= BATCH

    virtual_time.run_in_virtual_time(main)
