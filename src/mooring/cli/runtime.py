"""Event loop (uvloop where available), stop signals, logging and the progress line of commands."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import click
import structlog
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import Processor

from mooring.cli import terminal
from mooring.clock import Clock

T = TypeVar("T")

log = structlog.get_logger()

#: New containers between two garbage collections (Python's default is 700). A request creates hundreds of dicts and no
#: cycles; collections took a twelfth of the API server's time. At most a few megabytes are freed later.
GC_THRESHOLD: Final = 20_000

#: Thread switch interval (Python's default is 5 ms). The store's thread needs the GIL a few times per batch, for
#: microseconds: with 5 ms it got the GIL only while the event loop was idle, and writes waited for it. A much shorter
#: interval costs more than it gains.
SWITCH_INTERVAL_SECONDS: Final = 0.0001


def run_event_loop(main: Coroutine[object, object, T]) -> T:
    """`asyncio.run` with uvloop where available."""
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    if sys.platform == "win32":
        return asyncio.run(_with_error_handling(main))
    # Imported here: commands without an event loop start faster.
    import uvloop

    return uvloop.run(_with_error_handling(main))


async def _with_error_handling(main: Coroutine[object, object, T]) -> T:
    asyncio.get_running_loop().set_exception_handler(_log_loop_error)
    try:
        return await main
    except BaseExceptionGroup as group:
        if (only := _only(group)) is None:
            raise
        raise only from None


def _only(error: BaseException) -> BaseException | None:
    """The single error of nested groups, so that `except` clauses match errors from inside task groups."""
    while isinstance(error, BaseExceptionGroup):
        if len(error.exceptions) != 1:
            return None
        error = error.exceptions[0]
    return error


def _log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task awaits."""
    transport = context.get("transport")
    if transport is not None and transport.is_closing():
        # uvloop's TLS may write to a closed connection; its user gets the error from its own await.
        return
    log.error("event loop error", error=context.get("message", ""), exc_info=context.get("exception"))


@contextmanager
def api_errors_as(failure: type[click.ClickException]) -> Iterator[None]:
    """Raise `failure`, with one sentence, when the API server is unreachable or rejects a request."""
    from mooring.api.errors import ApiError
    from mooring.client.contract import Unreachable

    try:
        yield
    except Unreachable as error:
        raise failure(f"Cannot use the API server: {error}.") from error
    except ApiError as error:
        raise failure(f"The API server rejected the request: {error.message}.") from error


def stop_event() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    return stop


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
        self._remove_handlers()
        if self.interrupted is None or not isinstance(error, Exception | asyncio.CancelledError):
            return False
        self._task.uncancel()
        if isinstance(error, Exception):
            log.warning("failed while being cancelled", exc_info=error)
        return True

    async def wait(self) -> None:
        """Until the first signal; returns at once if a signal cancelled the block and code inside swallowed that."""
        self._waits = True
        await self._stop.wait()

    def _on_signal(self, received: signal.Signals) -> None:
        if self._waits and not self._stop.is_set():
            self._stop.set()
        else:
            self._remove_handlers()
            self.interrupted = received
            self._stop.set()
            self._task.cancel()

    @staticmethod
    def _remove_handlers() -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(each)


LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

#: Tracebacks without the values of variables: those hold tokens and the data of Secrets.
PROCESSORS: Final[Sequence[Processor]] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
    structlog.processors.JSONRenderer(),
)


def configure_logging(level: str) -> None:
    structlog.configure(
        processors=list(PROCESSORS),  # structlog copies it as a list where it captures logs
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


#: Shorter activities show no line; a line that changes more often is unreadable.
FIRST_SHOWN_AFTER_SECONDS: Final = 1.0
REDRAW_SECONDS: Final = 0.1
#: Seconds between two lines in a file.
FILE_INTERVAL_SECONDS: Final = 10.0
#: Characters between the brackets.
WIDTH: Final = 30


class ProgressLine:
    """Shows activity, done and total (0 if unknown) on standard error after a second; cleared at the end."""

    def __init__(self, clock: Clock, *, in_files: bool = False) -> None:
        """`in_files`: also if standard error is not a terminal."""
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._watched = self._terminal or in_files
        self._due = clock.monotonic() + FIRST_SHOWN_AFTER_SECONDS
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._terminal:
            terminal.redraw("")

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock.monotonic()
        if not self._watched or now < self._due:
            return
        self._due = now + (REDRAW_SECONDS if self._terminal else FILE_INTERVAL_SECONDS)
        self._shown = True
        if self._terminal:
            filled = WIDTH * done // total if total else 0
            share = f" [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total}" if total else f" {done or '…'}"
            terminal.redraw(f"{what}{share}")
        else:
            sys.stderr.write(f"{what}{f': {done} of {total}' if total else ' …'}\n")
            sys.stderr.flush()
