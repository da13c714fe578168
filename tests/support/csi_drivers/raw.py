"""Drivers that misbehave on the wire: they return configured bytes, or do not respond."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio

Behaviour = Callable[[str, bytes], Awaitable[bytes]]


class _AnyCall(grpc.GenericRpcHandler):
    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        call = handler_call_details.method.rpartition("/")[2]

        async def respond(request: bytes, _context: grpc.aio.ServicerContext) -> bytes:
            return await self._behave(call, request)

        return grpc.unary_unary_rpc_method_handler(respond)


@asynccontextmanager
async def raw_driver(path: Path, behave: Behaviour) -> AsyncIterator[grpc.aio.Server]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([_AnyCall(behave)])
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    yield server
    await server.stop(None)


@asynccontextmanager
async def malformed_server(path: Path, words: bytes) -> AsyncIterator[None]:
    """Not HTTP/2: sends the same bytes on each connection, then waits."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        try:
            await writer.drain()
            await reader.read()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(talk, path)
    yield
    server.close()
