import asyncio
import itertools
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest

from mooring.clock import Clock
from mooring.whatif import virtual_time
from mooring.whatif.virtual_time import EPOCH, RealWorld, Stuck, VirtualClock


def test_an_hour_of_waiting_takes_no_time_and_all_of_it_shows_on_the_clock() -> None:
    async def main(clock: VirtualClock) -> tuple[float, float]:
        await clock.sleep(3600)
        return clock.monotonic(), clock.now()

    assert virtual_time.run_in_virtual_time(main) == (3600.0, EPOCH + 3600.0)


def test_timers_fire_in_the_order_of_their_deadlines() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        rung: list[str] = []

        async def ring(after: float, name: str) -> None:
            await clock.sleep(after)
            rung.append(name)

        await asyncio.gather(ring(3, "late"), ring(1, "early"), ring(2, "middle"), ring(1, "early too"))
        return rung

    assert virtual_time.run_in_virtual_time(main) == ["early", "early too", "middle", "late"]


def test_time_outs_of_the_standard_library_follow_virtual_time() -> None:
    async def main(clock: VirtualClock) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        return clock.monotonic()

    assert virtual_time.run_in_virtual_time(main) == pytest.approx(60.0)


def test_time_stands_still_while_work_is_ready() -> None:
    async def main(clock: VirtualClock) -> float:
        for _ in range(100):
            await clock.sleep(0)
        return clock.monotonic()

    assert virtual_time.run_in_virtual_time(main) == 0.0


def test_no_task_is_woken_before_its_deadline() -> None:
    async def main(clock: VirtualClock) -> None:
        await clock.sleep(1234.5)
        for step in (1e-12, 5e-10, 0.1, 1 / 3):
            due = clock.monotonic() + step
            while clock.monotonic() < due:
                before = clock.monotonic()
                await clock.sleep(due - before)
                assert clock.monotonic() > before

    virtual_time.run_in_virtual_time(main)


def test_waiting_for_something_that_can_never_happen_is_reported_not_hung() -> None:
    async def main(clock: VirtualClock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        virtual_time.run_in_virtual_time(main)


def test_tasks_that_are_busy_for_ever_stop_time_and_the_run() -> None:
    async def spin(clock: Clock) -> None:
        for _ in itertools.count():
            await clock.sleep(0.0)

    async def main(clock: Clock) -> None:
        await asyncio.create_task(spin(clock), name="spinning")

    with pytest.raises(Stuck, match="busy: spinning"):
        virtual_time.run_in_virtual_time(main)


async def _executor(_: Clock) -> None:
    await asyncio.to_thread(lambda: None)


async def _connection(_: Clock) -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def _server(_: Clock) -> None:
    await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)


async def _process(_: Clock) -> None:
    await asyncio.create_subprocess_exec("true")


async def _thread(_: Clock) -> None:
    running = asyncio.get_running_loop()
    failure: list[BaseException] = []

    def call() -> None:
        try:
            running.call_soon_threadsafe(lambda: None)
        except RealWorld as error:
            failure.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    raise failure[0]


async def _raw_socket(_: Clock) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        asyncio.get_running_loop().add_reader(ours, lambda: None)


@pytest.mark.parametrize(
    "escape",
    [
        pytest.param(_executor, id="executor"),
        pytest.param(_connection, id="connection"),
        pytest.param(_server, id="server"),
        pytest.param(_process, id="subprocess"),
        pytest.param(_thread, id="call from a thread"),
        pytest.param(_raw_socket, id="raw socket"),
    ],
)
def test_nothing_real_can_be_reached(escape: Callable[[Clock], Awaitable[None]]) -> None:
    with pytest.raises(RealWorld):
        virtual_time.run_in_virtual_time(escape)
