"""TCP proxy to etcd that can close connections or drop responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.store.etcd_process import HOST


class CuttingProxy:
    """`async with proxied(port)`; connections go to `port` of the same host."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connections: set[asyncio.Task[None]] = set()
        #: Refuse new connections.
        self.closed = False
        #: Drop responses; requests still arrive.
        self.drop_responses = False
        self.url = ""

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        return server

    async def cut(self) -> None:
        """Close all connections; new ones are accepted."""
        connections = set(self._connections)
        for connection in connections:
            connection.cancel()
        if connections:
            await asyncio.wait(connections)

    async def lose_responses(self, seconds: float) -> None:
        """Drop responses for some seconds, then close the connections."""
        self.drop_responses = True
        await asyncio.sleep(seconds)
        await self.cut()
        self.drop_responses = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self.closed:
                await self._carry(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # closed on purpose
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(HOST, self._port)
        ways = [
            asyncio.create_task(self._forward(reader, there_writer, responses=False)),
            asyncio.create_task(self._forward(there_reader, writer, responses=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            there_writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, responses: bool) -> None:
        dropped = False
        while data := await reader.read(1 << 16):
            # TCP has no gaps: a connection that dropped data drops the rest too.
            dropped = dropped or (self.drop_responses and responses)
            if not dropped:
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
