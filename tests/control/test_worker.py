import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from mooring.api.errors import Conflict, Forbidden
from mooring.client.contract import Unreachable
from mooring.clock import BATCH
from mooring.control.queue import WorkQueue
from mooring.control.worker import work
from mooring.sim import loop
from mooring.sim.loop import VirtualClock


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

    return loop.run(main)


def test_keys_are_reconciled_and_forgotten() -> None:
    async def scenario(controller: Controller) -> None:
        controller.queue.add("a")
        controller.queue.add("b")
        await controller.clock.sleep(1)

    assert at_work(scenario).done == ["a", "b"]


@pytest.mark.parametrize(
    ("failure", "level", "event"),
    [
        pytest.param(Conflict("the object has been modified"), "info", "trying again", id="somebody was faster"),
        pytest.param(Forbidden("not you"), "warning", "trying again", id="the server refuses"),
        pytest.param(Unreachable("reset by peer"), "warning", "trying again", id="no answer"),
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


def test_one_key_is_never_in_two_hands() -> None:
    async def scenario(controller: Controller) -> None:
        controller.takes = 5.0
        rng = random.Random(0)
        for _ in range(20):
            controller.queue.add("a")
            await controller.clock.sleep(rng.random())
        await controller.clock.sleep(20)

    assert at_work(scenario, workers=3).busiest == 1


def test_no_workers_is_a_mistake_said_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        controller = Controller(clock)
        await work(controller.queue, controller.reconcile, workers=0, name="idle")

    with pytest.raises(ValueError, match="idle has no workers"):
        loop.run(main)


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

    loop.run(main)
