"""Errors of the event loop without an awaiting caller.

What goes into the log, and what never does.
"""

import asyncio
import contextlib
import json
import signal
from typing import Any

import pytest
from structlog.testing import capture_logs

from mooring.cli import runtime
from mooring.cli.runtime import PROCESSORS, StopSignals


@pytest.mark.parametrize(
    ("closed", "events"),
    [
        pytest.param(True, [], id="of a connection that is over: nothing"),
        pytest.param(False, ["event loop error"], id="of one that is open: a line"),
    ],
)
def test_errors_of_connections(closed: bool, events: list[str]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
        if closed:
            transport.abort()
        context = {
            "message": "Fatal error on SSL protocol",
            "exception": RuntimeError("closed"),
            "transport": transport,
        }
        loop.call_exception_handler(context)
        transport.abort()
        server.close()

    with capture_logs() as logs:
        runtime.run_event_loop(main())
    assert [line["event"] for line in logs] == events


def test_exception_of_unawaited_task_is_logged() -> None:
    async def fail() -> None:
        raise ValueError("unawaited")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(0)
        del task

    with capture_logs() as logs:
        runtime.run_event_loop(main())
    [line] = logs
    assert "never retrieved" in line["error"]
    assert str(line["exc_info"]) == "unawaited"


async def test_signal_ends_the_waiting_where_the_block_swallowed_its_cancellation() -> None:
    async with StopSignals() as stop:
        signal.raise_signal(signal.SIGTERM)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.wait_for(stop.wait(), 30)
    assert stop.interrupted is signal.SIGTERM


def rendered(event: dict[str, Any]) -> str:
    line: Any = event
    for process in PROCESSORS:
        line = process(None, "error", line)
    assert isinstance(line, str)
    return line


def test_a_traceback_shows_where_and_not_what_was_held_there() -> None:
    def handle(token: str) -> None:
        raise RuntimeError("something broke")

    try:
        handle("s3cret")
    except RuntimeError as error:
        line = rendered({"event": "unexpected error", "exc_info": error})
    record = json.loads(line)
    assert record["level"] == "error"
    assert record["exception"][0]["exc_value"] == "something broke"
    assert record["exception"][0]["frames"][-1]["name"] == "handle"
    assert "s3cret" not in line
