"""A TCP proxy on loopback that cuts every connection now and then: the network at its worst, made to order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class CuttingProxy:
    """Forwards bytes to `port`; `cut` drops all connections there are, without a goodbye."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: set[asyncio.StreamWriter] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self.port = 0
        self.cuts = 0

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self.cuts += len(self._open) > 0

    async def cut_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, there_writer}
        self._open |= ends
        self._all_closed.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, there_writer))
                group.create_task(_pump(there_reader, writer))
        finally:
            self._open -= ends
            if not self._open:
                self._all_closed.set()
            for end in ends:
                end.transport.abort()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["CuttingProxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self
            self.cut()
            await self._all_closed.wait()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
