"""An asyncio event loop on virtual time: the clock advances only when every task waits.

An idle hour costs one step. Sockets, threads, executors, signals and subprocesses raise `RealWorld`, because no seed
could replay them.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

#: Simulated runs begin here, so that timestamps in their objects are the same every time.
EPOCH: Final = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class RealWorld(RuntimeError):
    """Something tried to leave the simulated world."""


#: Rounds a loop may make at one moment, by default. A cluster of a hundred nodes that starts all at once makes some
#: thousands.
MOST_ROUNDS: Final = 100_000


class Stuck(RuntimeError):
    """Time cannot go on: every task waits and no alarm is set, or some are busy for ever. In the real world this
    program would hang, or burn a processor."""


def _refusing(what: str) -> Any:  # noqa: ANN401  stands for methods of several types
    def refuse(*_: object, **__: object) -> NoReturn:
        raise RealWorld(f"{what} is not available in virtual time")

    return refuse


#: Timers that may be cancelled before they are removed from the heap, and in any case the smaller half of it.
_MOST_CANCELLED: Final = 100

_Future: TypeAlias = "asyncio.Future[None]"


class _Call(msgspec.Struct):
    """A callback of the next round, with what a loop and its callers use of `asyncio.Handle`."""

    _callback: Any
    _args: tuple[Any, ...]
    _context: Context
    _cancelled: bool = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()

    def cancelled(self) -> bool:
        return self._cancelled


def _raise(error: BaseException) -> NoReturn:
    raise error


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's loop without a selector: every round of a busy cluster would ask it for sockets that never exist."""

    #: asyncio's callbacks of the next round, and whether to return after it; typeshed leaves them out.
    _ready: Any
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        #: Seconds since the loop was made.
        self.now = 0.0
        #: Heap of (time, sequence number, callback or sleeping future).
        self._timers: list[tuple[float, int, asyncio.TimerHandle | _Future]] = []
        self._numbers = itertools.count()
        self._cancelled = 0
        self._rounds = 0
        self.most_rounds = MOST_ROUNDS

    def time(self) -> float:
        return self.now

    def busy_tasks(self) -> set[str]:
        """Names of the tasks that run next."""
        owners = (getattr(getattr(handle, "_callback", None), "__self__", None) for handle in self._ready)
        return {owner.get_name() for owner in owners if isinstance(owner, asyncio.Task)}

    def advance(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        call = _Call(callback, args, copy_context() if context is None else context)
        self._ready.append(call)
        return call  # type: ignore[return-value]

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]  # its cancellation is counted
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def done_after(self, seconds: float) -> _Future:
        """For sleeping without a callback: the round that reaches the time also wakes the task. Call `count_cancelled`
        if it is cancelled."""
        future: _Future = asyncio.Future(loop=self)
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), future))
        return future

    def _timer_handle_cancelled(self, handle: Any) -> None:  # noqa: ANN401  # asyncio's hook
        if handle._scheduled:
            self.count_cancelled()

    def count_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _MOST_CANCELLED and 2 * self._cancelled > len(self._timers):
            self._timers = [row for row in self._timers if not row[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _run_once(self) -> None:
        """One round: move the clock if every task waits, then call all that is due, but nothing added meanwhile."""
        timers, ready = self._timers, self._ready
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._cancelled = max(self._cancelled - 1, 0)
        if not (ready or timers or self._stopping):
            raise Stuck("every task waits and no alarm is set")
        if ready or self._stopping or timers[0][0] <= self.now:
            self._end_if_busy()
        else:
            self.now = timers[0][0]
            self._rounds = 0
        now = self.now
        while timers and timers[0][0] <= now:
            due = heapq.heappop(timers)[2]
            if isinstance(due, asyncio.TimerHandle):
                due._scheduled = False  # type: ignore[attr-defined]
                ready.append(due)
            elif not due.done():
                due.set_result(None)
        for _ in range(len(ready)):
            call = ready.popleft()
            if call._cancelled:
                continue
            try:
                call._context.run(call._callback, *call._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                asyncio.Handle(_raise, (error,), self)._run()  # reports it as asyncio does

    def _end_if_busy(self) -> None:
        self._rounds += 1
        if self._rounds > self.most_rounds:
            self._rounds = 0
            busy = ", ".join(sorted(self.busy_tasks())) or "callbacks only"
            raise Stuck(f"{self.most_rounds} rounds, and it is still {self.now} s; busy: {busy}")

    def _write_to_self(self) -> None:
        """No round blocks, so that no wake-up is needed."""

    call_soon_threadsafe = _refusing("a thread")
    run_in_executor = _refusing("an executor")
    add_signal_handler = _refusing("a signal handler")
    add_reader = add_writer = _refusing("a socket")
    create_connection = create_server = create_datagram_endpoint = _refusing("a socket")
    getaddrinfo = _refusing("a name lookup")
    subprocess_exec = subprocess_shell = _refusing("a subprocess")


class VirtualClock:
    """The `Clock` of a `VirtualLoop`: wall time begins at `start`, waiting costs nothing."""

    def __init__(self, loop: VirtualLoop, *, start: float = EPOCH) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> float:
        return self._start + self._loop.now

    def monotonic(self) -> float:
        return self._loop.now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0.0:
            await asyncio.sleep(0)
            return
        try:
            await self._loop.done_after(seconds)
        except asyncio.CancelledError:
            self._loop.count_cancelled()
            raise


def run_in_virtual_time(main: Callable[[VirtualClock], Awaitable[T]], *, start: float = EPOCH) -> T:
    """Run `main` in a fresh simulated world, in which it is `start` o'clock, and return what it returns."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop, start=start)

        async def body() -> T:
            return await main(clock)

        return runner.run(body())
