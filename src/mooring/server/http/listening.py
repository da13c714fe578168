"""Sockets: where the server listens, and how it stops.

HTTP/1.1 over aiohttp's low-level server, in the running event loop. Handlers are cancelled when their client goes,
so a watch never outlives its reader. How much a connection may cost is `connections`' question, what is said on it
the handler's business.
"""

import errno
import os
import ssl
from typing import Final

from aiohttp import web

from mooring.server.http.connections import ConnectionLimits, Doorkeeper, Handler

#: Go's clients keep idle connections for 90 s and fail a POST on one the server has just closed, so the server
#: must be the more patient one, with room for a machine that sleeps a little.
KEEP_ALIVE_SECONDS: Final = 180.0

#: Label selectors with many values make long request lines, and tokens long headers; aiohttp stops at 8 kB.
MAX_LINE_BYTES: Final = 64 * 1024

#: What requests under way get on closing; they take milliseconds, and watches were ended before.
CLOSING_SECONDS: Final = 1.0


class CannotListen(Exception):
    """The address cannot be had; the text is one sentence that says what to do."""


class Listener:
    """An open door. `port` is the real one, also where 0 was asked for."""

    def __init__(self, runner: web.ServerRunner, host: str, port: int, scheme: str) -> None:
        self._runner = runner
        self.host = host
        self.port = port
        self._scheme = scheme

    @property
    def url(self) -> str:
        """The address clients on this machine use."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._scheme}://{host}:{self.port}"

    async def close(self) -> None:
        """Accept nothing new, let requests under way finish for a moment, then cut. Idempotent."""
        await self._runner.cleanup()


async def listen(
    handler: Handler,
    host: str,
    port: int,
    ssl_context: ssl.SSLContext | None,
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008  # immutable
) -> Listener:
    """Raises CannotListen. `host` is an address or a name for one; port 0 picks a free one."""
    server = Doorkeeper(handler, limits, keep_alive_seconds=KEEP_ALIVE_SECONDS, max_line_bytes=MAX_LINE_BYTES)
    runner = web.ServerRunner(server, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=ssl_context).start()
    except OSError as error:
        await runner.cleanup()
        raise CannotListen(_what_to_do(error, host, port)) from error
    return Listener(runner, host, runner.addresses[0][1], "https" if ssl_context else "http")


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
