import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.control.queue import LONGEST_RETRY, WorkQueue
from mooring.sim import loop
from mooring.sim.loop import VirtualClock

T = TypeVar("T")


class Bench:
    """A queue in virtual time, and when things came out of it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.queue: WorkQueue[str] = WorkQueue(clock)

    async def take(self) -> str:
        """The next key, done at once."""
        key = await self.queue.next()
        self.queue.done(key)
        return key

    async def take_at(self) -> tuple[str, float]:
        return await self.take(), round(self.clock.monotonic(), 6)

    async def nothing_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.queue.next(), seconds)
        except TimeoutError:
            return True
        return False


def on_bench(scenario: Callable[[Bench], Awaitable[T]]) -> T:
    async def main(clock: VirtualClock) -> T:
        return await scenario(Bench(clock))

    return loop.run(main)


def test_keys_come_in_the_order_they_were_added_and_once() -> None:
    async def scenario(bench: Bench) -> list[str]:
        for key in ("b", "a", "b", "c", "a"):
            bench.queue.add(key)
        assert bench.queue.depth == 3
        return [await bench.take() for _ in range(3)]

    assert on_bench(scenario) == ["b", "a", "c"]


def test_a_key_added_while_it_is_worked_on_comes_again_once_after_done() -> None:
    async def scenario(bench: Bench) -> None:
        bench.queue.add("a")
        key = await bench.queue.next()
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
        first = await bench.queue.next()
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


def test_a_shorter_delay_wakes_who_already_waits() -> None:
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
        key = await bench.queue.next()
        bench.queue.add_after("a", 10)
        assert await bench.nothing_within(20)
        bench.queue.done(key)
        assert await bench.take_at() == ("a", 20)

    on_bench(scenario)


def test_retries_wait_twice_as_long_each_time_until_forgotten() -> None:
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
    assert on_bench(scenario) == pytest.approx([*doubling, LONGEST_RETRY, LONGEST_RETRY, 0.005])


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


def test_a_key_is_done_only_by_who_has_it() -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(KeyError):
            bench.queue.done("a")

    on_bench(scenario)


def test_cancelling_who_waits_loses_no_key() -> None:
    async def scenario(bench: Bench) -> None:
        waiting = [asyncio.create_task(bench.queue.next()) for _ in range(3)]
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
        waiting = [asyncio.create_task(bench.queue.next()) for _ in range(3)]
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
            key = await bench.queue.next()
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
def test_no_key_is_worked_on_twice_at_once_and_none_is_forgotten(script: list[tuple[str, ...]], workers: int) -> None:
    async def scenario(bench: Bench) -> None:
        working: set[str] = set()
        seen_at: dict[str, float] = {}
        asked_at: dict[str, float] = {}

        async def worker() -> None:
            while True:
                key = await bench.queue.next()
                assert key not in working
                working.add(key)
                seen_at[key] = bench.clock.monotonic()
                await bench.clock.sleep(0.3)
                working.remove(key)
                bench.queue.done(key)

        tasks = [asyncio.create_task(worker()) for _ in range(workers)]
        for verb, *arguments in script:
            if verb == "rest":
                await bench.clock.sleep(float(arguments[0]))
                continue
            asked_at[arguments[0]] = bench.clock.monotonic()
            getattr(bench.queue, verb)(*arguments)
        await bench.clock.sleep(100)
        assert not any(task.done() for task in tasks)
        assert all(seen_at[key] >= when for key, when in asked_at.items())
        assert bench.queue.depth == 0

    on_bench(scenario)
