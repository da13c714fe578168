"""Connections that cost too much: too many, too slow, too large. Others must not notice."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from aiohttp import ClientSession, ServerDisconnectedError, web
from structlog.testing import capture_logs

from mooring.api.errors import ServerTimeout, TooManyRequests
from mooring.server.http.bodies import read_body
from mooring.server.http.listener import MAX_LINE_BYTES, ConnectionLimits, Listener, listen
from mooring.server.http.watches import WatchLimiter
from support.certificates import a_pair, server_tls

TIMEOUT_SECONDS = 5.0
#: More than the buffers of two sockets on one machine hold.
MUCH = b"x" * (64 << 20)


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


@asynccontextmanager
async def listening(
    handler: Callable[[web.BaseRequest], Coroutine[None, None, web.StreamResponse]] = hello, **limits: float
) -> AsyncIterator[Listener]:
    listener = await listen(handler, "127.0.0.1", 0, None, ConnectionLimits(**limits))  # type: ignore[arg-type]
    try:
        yield listener
    finally:
        await listener.close()


@asynccontextmanager
async def connected(listener: Listener) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def is_served(listener: Listener) -> bool:
    try:
        async with ClientSession() as client, client.get(listener.url) as answer:
            return answer.status == 200
    except (ServerDisconnectedError, ConnectionResetError):
        return False


async def ends(reader: asyncio.StreamReader) -> bool:
    """Whether the other side closes; nothing may have been said."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await reader.read() == b""
    except ConnectionResetError:
        return True


async def test_idle_connection_is_closed() -> None:
    async with listening(first_request_seconds=0.05) as listener:
        with capture_logs() as logs:
            async with connected(listener) as (reader, _):
                assert await ends(reader)
        assert [line["event"] for line in logs] == ["connection closed: no request received in time"]
        assert await is_served(listener)


async def test_slow_request_is_closed() -> None:
    """Slow-loris: always about to finish its headers."""
    async with listening(first_request_seconds=0.2) as listener:
        async with connected(listener) as (reader, writer):
            ended = asyncio.create_task(ends(reader))
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            while not ended.done():
                writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.02)
            assert await ended
        assert await is_served(listener)


async def test_connection_stays_open_between_requests() -> None:
    async with listening(first_request_seconds=0.5) as listener, connected(listener) as (reader, writer):
        for pause in (0.7, 0.0):
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(TIMEOUT_SECONDS):
                assert b" 200 " in await reader.readuntil(b"hello")
            await asyncio.sleep(pause)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The status line of a request on an open connection."""
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(b"hello"))
    return head.splitlines()[0]


async def test_connection_above_limit_is_closed() -> None:
    async with listening(connections=2) as listener:
        async with connected(listener) as first, connected(listener) as second:
            assert await ask(*first) == await ask(*second) == b"HTTP/1.1 200 OK"
            async with connected(listener) as (refused, _):
                assert await ends(refused)
            assert await ask(*first) == b"HTTP/1.1 200 OK"
        for _ in range(100):
            if await is_served(listener):
                return
            await asyncio.sleep(0.01)  # the server has not noticed yet that the others went
        pytest.fail("new connections are refused")


@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("loop_type", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_idle_connections_make_way_for_new_ones(
    tmp_path: Path, loop_type: Callable[[], asyncio.AbstractEventLoop], with_tls: bool
) -> None:
    """Sockets that never begin the TLS handshake, or never ask: the oldest makes way, who was served stays."""
    pair = a_pair()
    tls = server_tls(tmp_path, pair) if with_tls else None
    trusting = ssl.create_default_context(cadata=pair.certificate) if with_tls else None

    async def run() -> None:
        listener = await listen(hello, "127.0.0.1", 0, tls, ConnectionLimits(connections=8))
        try:
            served = await asyncio.open_connection("127.0.0.1", listener.port, ssl=trusting)
            assert await ask(*served) == b"HTTP/1.1 200 OK"
            silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(40)]
            for _ in range(5):
                late = await asyncio.open_connection("127.0.0.1", listener.port, ssl=trusting)
                assert await ask(*late) == b"HTTP/1.1 200 OK"
                late[1].close()
            assert await ask(*served) == b"HTTP/1.1 200 OK"
            cut = [await ends(reader) for reader, _ in silent[:33]]
            assert all(cut), "only so many may be open at a time"
            for _, writer in (*silent, served):
                writer.close()
        finally:
            await listener.close()

    with asyncio.Runner(loop_factory=loop_type) as runner:
        runner.run(run())


async def test_bodies_in_flight_are_bounded() -> None:
    """One that would be too much is told to come back before it is read; others go on."""
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(request: web.BaseRequest) -> web.StreamResponse:
        reading.set()
        await go_on.wait()
        return web.Response(text=str(len(await request.read())))

    async with listening(slowly, bodies_bytes=1000) as listener, ClientSession(listener.url) as client:
        first = asyncio.create_task(client.post("/", data=b"x" * 600))
        await reading.wait()
        async with client.post("/", data=b"x" * 600) as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        async with client.post("/", data=b"x", headers={"Content-Encoding": "identity"}) as refused:
            assert refused.status == 429, "what it becomes is not known"
        go_on.set()
        async with client.post("/", data=b"x" * 300) as small, await first as large:
            assert (await small.text(), await large.text()) == ("300", "600")
        async with client.post("/", data=b"x" * 5000) as alone:
            assert await alone.text() == "5000", "the handler has a bound of its own"


async def test_missing_tls_handshake_times_out(tmp_path: Path) -> None:
    tls = server_tls(tmp_path, a_pair())
    listener = await listen(hello, "127.0.0.1", 0, tls, ConnectionLimits(handshake_seconds=0.05))
    try:
        async with connected(listener) as (reader, _):
            assert await ends(reader)
    finally:
        await listener.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system cannot cut stalled readers off")
async def test_client_that_does_not_read_is_closed() -> None:
    written = asyncio.Event()

    async def much(_: web.BaseRequest) -> web.StreamResponse:
        try:
            return web.Response(body=MUCH)
        finally:
            written.set()

    async with listening(much, stalled_seconds=0.3) as listener:
        with socket.create_connection(("127.0.0.1", listener.port)) as stalled:
            stalled.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await written.wait()
            await asyncio.sleep(2.0)  # the kernel looks at a closed window in growing pauses
            received = await asyncio.to_thread(_drained, stalled)
    assert received < len(MUCH)


def _drained(sock: socket.socket) -> int:
    """Reads to the end, which comes at once where the other side is gone; how much there was."""
    sock.settimeout(TIMEOUT_SECONDS)
    received = 0
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(1 << 20):
            received += len(part)
    return received


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET /" + b"a" * (MAX_LINE_BYTES + 1) + b" HTTP/1.1\r\n\r\n", id="a line"),
        pytest.param(b"GET / HTTP/1.1\r\nA: " + b"b" * (MAX_LINE_BYTES + 1) + b"\r\n\r\n", id="a header"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n", id="many headers"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", id="TLS where none is spoken"),
        pytest.param(b"HELO\r\n\r\n", id="another protocol"),
    ],
)
async def test_malformed_request_head_is_rejected(head: bytes) -> None:
    async with listening() as listener:
        async with connected(listener) as (reader, writer), asyncio.timeout(TIMEOUT_SECONDS):
            writer.write(head)
            assert b" 400 " in await reader.readline()
        assert await is_served(listener)


async def test_missing_body_times_out() -> None:
    answered: asyncio.Queue[str] = asyncio.Queue()

    async def reads(request: web.BaseRequest) -> web.StreamResponse:
        try:
            await read_body(request, seconds=0.05)
        except ServerTimeout as error:
            answered.put_nowait(error.message)
        return web.Response(status=504)

    async with (
        listening(reads) as listener,
        connected(listener) as (reader, writer),
        asyncio.timeout(TIMEOUT_SECONDS),
    ):
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert await answered.get() == "Timeout: the request body did not arrive within 0.05 seconds"
        assert b" 504 " in await reader.readline()


def test_watch_limit_is_per_user() -> None:
    places = WatchLimiter(per_user=2)
    with places.acquire("a"), places.acquire("a"):
        with pytest.raises(TooManyRequests, match="has 2 watches open already") as refused, places.acquire("a"):
            pass
        assert refused.value.details is not None
        assert refused.value.details.retry_after_seconds == 1
        with places.acquire("b"):
            pass
    with places.acquire("a"):
        pass
