"""What becomes of errors in the loop that nobody awaits."""

import asyncio
import contextlib
import signal

import pytest
from structlog.testing import capture_logs

from mooring.cli import event_loop
from mooring.cli.event_loop import StopSignals


@pytest.mark.parametrize(
    ("closed", "told"),
    [
        pytest.param(True, [], id="of a connection that is over: nothing"),
        pytest.param(False, ["error in the event loop"], id="of one that is open: a line"),
    ],
)
def test_errors_of_connections(closed: bool, told: list[str]) -> None:
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
        event_loop.run(main())
    assert [line["event"] for line in logs] == told


def test_a_task_that_nobody_awaited_is_told_of_with_its_error() -> None:
    async def fail() -> None:
        raise ValueError("nobody looks")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(0)
        del task

    with capture_logs() as logs:
        event_loop.run(main())
    [line] = logs
    assert "never retrieved" in line["what"]
    assert str(line["exc_info"]) == "nobody looks"


async def test_signal_ends_the_waiting_where_the_block_swallowed_its_cancellation() -> None:
    async with StopSignals() as stop:
        signal.raise_signal(signal.SIGTERM)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.wait_for(stop.wait(), 30)
    assert stop.interrupted is signal.SIGTERM
