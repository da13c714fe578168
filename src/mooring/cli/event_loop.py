"""The event loop every command runs in: uvloop where it exists, asyncio's own elsewhere, how often it is interrupted
to look for cycles, how long it may keep threads waiting, what becomes of errors that nobody awaits, and signals that
ask to stop.

Processes only: the simulated world brings a loop with virtual time, and tests inside one process use asyncio's, so
both are exercised. Nothing else may depend on which one it is.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import structlog

T = TypeVar("T")

log = structlog.get_logger()

#: New containers between two searches for cycles (Python's own figure is 700). A request makes hundreds of dicts and no
#: cycles, so nearly every search is in vain; it was a twelfth of the API server's time. A few megabytes at most wait.
NEW_CONTAINERS: Final = 20_000

#: Seconds a thread waits for the interpreter before it asks the one that has it to let go (Python's own figure is
#: 5 ms). The store's thread needs it a few times a batch, for microseconds: with 5 ms it got it only where the loop had
#: nothing to do, so a loop that writes stood still while the disk was waited for. Much less costs more than it gives.
LET_GO_SECONDS: Final = 0.0001


def run(main: Coroutine[object, object, T]) -> T:
    """`asyncio.run` in the quicker loop."""
    gc.set_threshold(NEW_CONTAINERS, *gc.get_threshold()[1:])
    sys.setswitchinterval(LET_GO_SECONDS)
    if sys.platform == "win32":
        return asyncio.run(_attended(main))
    # A few milliseconds that commands without a loop do not pay.
    import uvloop

    return uvloop.run(_attended(main))


async def _attended(main: Coroutine[object, object, T]) -> T:
    asyncio.get_running_loop().set_exception_handler(_tell)
    try:
        return await main
    except BaseExceptionGroup as group:
        if (only := _only(group)) is None:
            raise
        raise only from None


def _only(error: BaseException) -> BaseException | None:
    """The one error in groups of groups: what failed inside a task group is to be met by `except` like any other."""
    while isinstance(error, BaseExceptionGroup):
        if len(error.exceptions) != 1:
            return None
        error = error.exceptions[0]
    return error


def _tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An error that nobody awaits, in a line of the log like all others."""
    transport = context.get("transport")
    if transport is not None and transport.is_closing():
        # SEEN: uvloop's TLS may write to a connection that was just cut; whoever used it is told by what he awaits.
        return
    log.error("error in the event loop", what=context.get("message", ""), exc_info=context.get("exception"))


class StopSignals:
    """SIGINT and SIGTERM inside an `async with` block: the first one ends `wait`; while `wait` is not called, or was
    ended already, a signal cancels the block, and the next one ends the process.

    So a signal ends a start at whatever await it has reached, and an orderly stop that takes too long. The block's
    own cancellation ends at the block; `interrupted` is then the signal that cancelled it.
    """

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._waits = False
        self.interrupted: signal.Signals | None = None

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._task = task
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, self._on_signal, each)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._leave_signals_alone()
        if self.interrupted is None or not isinstance(error, Exception | asyncio.CancelledError):
            return False
        self._task.uncancel()
        if isinstance(error, Exception):
            log.warning("failed while being cancelled", exc_info=error)
        return True

    async def wait(self) -> None:
        """Until the first signal; not at all where one cancelled the block and code inside the block took that for a
        cancellation of its own."""
        self._waits = True
        await self._stop.wait()

    def _on_signal(self, received: signal.Signals) -> None:
        if self._waits and not self._stop.is_set():
            self._stop.set()
        else:
            self._leave_signals_alone()
            self.interrupted = received
            self._stop.set()
            self._task.cancel()

    @staticmethod
    def _leave_signals_alone() -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(each)
