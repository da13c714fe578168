"""An `HttpClient` and a server with configured responses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from aiohttp import web

from mooring.client.access import Access
from mooring.client.http import HttpClient
from support.http_server import Handler, serving


class RecordingClock:
    """Records the durations of sleeps instead of waiting."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@asynccontextmanager
async def talking_to(
    handler: Handler, *, timeout: float = 5.0, clock: RecordingClock | None = None
) -> AsyncIterator[HttpClient]:
    async with serving(handler) as address:
        client = HttpClient(Access(address), component="scheduler", clock=clock or RecordingClock(), timeout=timeout)
        try:
            yield client
        finally:
            await client.close()


Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(conversation: Conversation, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """`host:port` of a server that sends given bytes and closes the connection."""
    talking: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        try:
            await conversation(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            talking.remove(task)

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    finally:
        server.close()
        for task in talking:
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)


class Recorder:
    """Responds with one object and records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections: set[int] = set()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        decoded = msgspec.json.decode(body) if body else None
        self.asked.append((request.method, request.path, dict(request.query), decoded))
        self.headers.append(dict(request.headers))
        self.connections.add(id(request.transport))
        return an_object()


def an_object(name: str = "x", version: str = "1") -> web.Response:
    return answer({"metadata": {"name": name, "resourceVersion": version}})


def answer(body: object, status: int = 200, **headers: str) -> web.Response:
    encoded = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return web.Response(body=encoded, status=status, headers={key.replace("_", "-"): v for key, v in headers.items()})


def answers_of(*responses: Callable[[], web.Response]) -> Handler:
    left = list(responses)

    async def handler(request: web.BaseRequest) -> web.Response:
        return left.pop(0)()

    return handler
