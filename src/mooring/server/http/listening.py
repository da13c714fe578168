"""Sockets: where the server listens, and how it stops.

HTTP/1.1 over aiohttp's low-level server, in the running event loop. Handlers are cancelled when their client goes,
so a watch never outlives its reader. How much a connection may cost is `connections`' question, what is said on it
the handler's business. Every plain-HTTP listener is behind `host_guard`: a browser on the same machine reaches it too.
"""

import asyncio
import errno
import os
import socket
import ssl
from typing import Final

from aiohttp import web

from mooring.server.http.connections import ConnectionLimits, Doorkeeper, Handler
from mooring.server.http.host_guard import HostGuard, guarded

#: Go's clients keep idle connections for 90 s and fail a POST on one the server has just closed, so the server
#: must be the more patient one, with room for a machine that sleeps a little.
KEEP_ALIVE_SECONDS: Final = 180.0

#: Label selectors with many values make long request lines, and tokens long headers; aiohttp stops at 8 kB.
MAX_LINE_BYTES: Final = 64 * 1024

#: What requests under way get on closing; they take milliseconds, and watches were ended before.
CLOSING_SECONDS: Final = 1.0

#: Connections the kernel completes before they are accepted here.
BACKLOG: Final = 128


class CannotListen(Exception):
    """The address cannot be had; the text is one sentence that says what to do."""


class Listener:
    """An open door. `port` is the real one, also where 0 was asked for."""

    def __init__(
        self, server: Doorkeeper, runner: web.ServerRunner, sockets: list[socket.socket], host: str, tls: bool
    ) -> None:
        self._server = server
        self._runner = runner
        self._sockets = sockets
        self._accepting: list[asyncio.Task[None]] = []
        self.host = host
        self.port: int = sockets[0].getsockname()[1]
        self._scheme = "https" if tls else "http"

    @property
    def url(self) -> str:
        """The address clients on this machine use."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._scheme}://{host}:{self.port}"

    def accept(self, tls: ssl.SSLContext | None) -> None:
        self._accepting = [asyncio.create_task(self._server.accept(each, tls)) for each in self._sockets]

    async def close(self) -> None:
        """Accept nothing new, let requests under way finish for a moment, then cut. Idempotent."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._sockets:
            each.close()
        self._server.cut_handshakes()
        await self._runner.cleanup()


async def listen(
    handler: Handler,
    host: str,
    port: int,
    ssl_context: ssl.SSLContext | None,
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008  # immutable
    *,
    names: tuple[str, ...] = (),
) -> Listener:
    """Raises CannotListen. `host` is an address or a name for one; port 0 picks a free one. `names` are the host names,
    besides addresses, localhost and the one listened on, under which a plain-HTTP listener may be asked for."""
    if ssl_context is None:
        handler = guarded(handler, HostGuard((*names, host)))
    server = Doorkeeper(handler, limits, keep_alive_seconds=KEEP_ALIVE_SECONDS, max_line_bytes=MAX_LINE_BYTES)
    try:
        sockets = await _bound(host, port)
    except OSError as error:
        raise CannotListen(_what_to_do(error, host, port)) from error
    runner = web.ServerRunner(server, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    listener = Listener(server, runner, sockets, host, ssl_context is not None)
    listener.accept(ssl_context)
    return listener


async def _bound(host: str, port: int) -> list[socket.socket]:
    """One listening socket per address of the host. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((info[0], info[4]) for info in found):
            sockets.append(socket.create_server(address, family=family, backlog=BACKLOG))
            sockets[-1].setblocking(False)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def _what_to_do(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"Port {port} on {host} is already in use: stop the program that holds it, "
                f"or choose another port (0 picks a free one)."
            )
        case errno.EACCES:
            return f"Port {port} on {host} is reserved for privileged programs: choose one above 1023."
        case _:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            return (
                f"Cannot listen on {host}, port {port} ({why}): choose an address of this machine, such as 127.0.0.1."
            )
