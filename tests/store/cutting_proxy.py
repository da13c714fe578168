"""A line to etcd that a test can cut: at once, for a while, or so that only the answers are lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .etcd_process import HOST


class CuttingProxy:
    """`async with proxied(port)`; connections go to `port` of the same host."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lines: set[asyncio.Task[None]] = set()
        #: Nobody gets through.
        self.closed = False
        #: What etcd says goes nowhere; what it is told, arrives.
        self.deaf = False
        self.url = ""

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        return server

    async def cut(self) -> None:
        """End all lines; new ones may come."""
        lines = set(self._lines)
        for line in lines:
            line.cancel()
        if lines:
            await asyncio.wait(lines)

    async def lose_answers(self, seconds: float) -> None:
        """For a while etcd hears and is not heard; then the lines break."""
        self.deaf = True
        await asyncio.sleep(seconds)
        await self.cut()
        self.deaf = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        try:
            if not self.closed:
                await self._carry(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # that is what it is for
        finally:
            self._lines.discard(task)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(HOST, self._port)
        ways = [
            asyncio.create_task(self._one_way(reader, there_writer, hears=True)),
            asyncio.create_task(self._one_way(there_reader, writer, hears=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            there_writer.transport.abort()

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, hears: bool) -> None:
        silent = False
        while data := await reader.read(1 << 16):
            # No line loses something and goes on after it: what was silent once, stays so until it is cut.
            silent = silent or (self.deaf and not hears)
            if not silent:
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def proxied(port: int) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(port)
    server = await proxy.serve()
    try:
        yield proxy
    finally:
        server.close()
        await proxy.cut()
        await server.wait_closed()
