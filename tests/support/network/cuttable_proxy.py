"""A TCP proxy whose connections a test can cut; TLS passes through unchanged."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

CHUNK: Final = 64 * 1024


class CuttableProxy:
    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._wires: set[asyncio.StreamWriter] = set()
        #: Number of connections so far.
        self.connections = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """The loopback port to connect to."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            self.cut()
            await server.wait_closed()

    def cut(self) -> None:
        """Abort every connection, with its pending data."""
        for wire in self._wires:
            wire.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._wires.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            self._drop(writer)
            return
        self._wires.add(far_writer)
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK):
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass  # cut, or the other side left: either way this direction is over
        finally:
            self._drop(writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._wires.discard(writer)
        writer.close()
