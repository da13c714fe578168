"""An asyncio event loop whose time moves only when everybody waits.

Foundation of the simulated world. Whenever nothing is ready to run, the clock jumps to the next alarm, so an idle
hour costs one step. The loop touches nothing real: sockets, threads, executors, signals and subprocesses raise
`RealWorld`, because they would bring in time and order that no seed can replay.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, TypeVar

T = TypeVar("T")

#: Simulated runs begin here, so that timestamps in their objects are the same every time.
EPOCH: Final = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class RealWorld(RuntimeError):
    """Something tried to leave the simulated world."""


#: Rounds the loop may make at one moment. A cluster of a hundred nodes that starts all at once makes some thousands.
MOST_ROUNDS: Final = 100_000


class Stuck(RuntimeError):
    """Time cannot go on: every task waits and no alarm is set, or some are busy for ever. In the real world this
    program would hang, or burn a processor."""


class _NothingToSelect:
    """Takes the place of the selector: instead of waiting for sockets, it moves the clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop
        self._rounds = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("every task waits and no alarm is set")
        self._rounds = 0 if timeout > 0.0 else self._rounds + 1
        if self._rounds > MOST_ROUNDS:
            self._rounds = 0
            raise Stuck(f"{MOST_ROUNDS} rounds, and it is still {self._loop.time()} s")
        self._loop.advance(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()
        self._selector = _NothingToSelect(self)

    def time(self) -> float:
        return self._now

    @property
    def _clock_resolution(self) -> float:
        """asyncio rings alarms early by up to this. Here it is the smallest step there is: whoever waits for a moment
        and is woken before it would ask for the rest again, for ever, while time stands still."""
        return math.ulp(self._now)

    @_clock_resolution.setter
    def _clock_resolution(self, _: float) -> None:
        """What the operating system's clock offers does not matter."""

    def advance(self, seconds: float) -> None:
        self._now += max(seconds, 0.0)

    def _process_events(self, event_list: list[Any]) -> None:
        """There never are any."""

    def _write_to_self(self) -> None:
        """Nobody blocks in select, so nobody needs to be woken."""

    def _refuse(self, what: str) -> NoReturn:
        raise RealWorld(f"{what} has no place in the simulated world")

    def call_soon_threadsafe(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a thread")

    def run_in_executor(self, *_: object, **__: object) -> NoReturn:
        self._refuse("an executor")

    def add_signal_handler(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a signal handler")

    def add_reader(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a socket")

    def add_writer(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a socket")

    async def create_connection(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a socket")

    async def create_server(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a socket")

    async def create_datagram_endpoint(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a socket")

    async def getaddrinfo(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a name lookup")

    async def subprocess_exec(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a subprocess")

    async def subprocess_shell(self, *_: object, **__: object) -> NoReturn:
        self._refuse("a subprocess")


class VirtualClock:
    """The `Clock` of a `VirtualLoop`: wall time begins at `start`, waiting costs nothing."""

    def __init__(self, loop: VirtualLoop, *, start: float = EPOCH) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> float:
        return self._start + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


def run(main: Callable[[VirtualClock], Awaitable[T]], *, start: float = EPOCH) -> T:
    """Run `main` in a fresh simulated world, in which it is `start` o'clock, and return what it returns."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop, start=start)

        async def body() -> T:
            return await main(clock)

        return runner.run(body())
