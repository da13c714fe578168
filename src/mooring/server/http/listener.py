"""HTTP/1.1 listeners on aiohttp's low-level server, with connection limits and timeouts.

    accepted ──► counted before the TLS handshake, which must end within `handshake_seconds`
             ──► aborted without a complete request within `first_request_seconds`
             ──► above the limit: the oldest connection without a request is aborted, else the new one
    response ──► aborted by the kernel if the client reads nothing for `stalled_seconds`

Handlers are cancelled when their client disconnects. Every plain-HTTP listener is behind `host_guard`.
"""

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from mooring.api.errors import Details, TooManyRequests
from mooring.server.http.host_guard import HostGuard, guarded
from mooring.server.http.responses import failure

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

#: More than a cluster on one machine needs: a scheduler has about twenty, a benchmark with 200 watches 220.
MAX_CONNECTIONS: Final = 4096
#: File descriptors for other uses: the store, drivers, logs, libraries.
RESERVED_FILES: Final = 128
#: A TLS handshake takes two round trips.
HANDSHAKE_SECONDS: Final = 10.0
#: After accept() failed (EMFILE, ENFILE, ENOMEM).
ACCEPT_RETRY_SECONDS: Final = 0.5
#: Clients send a request at once; the time is for overloaded machines.
FIRST_REQUEST_SECONDS: Final = 30.0
#: Of all requests in flight: 85 bodies of the maximum size.
BODIES_BYTES: Final = 256 << 20
#: Assumed for chunked or compressed bodies: the maximum size.
DEFAULT_BODY_BYTES: Final = 3 << 20
#: kube-apiserver's request timeout.
STALLED_SECONDS: Final = 60.0

#: Go's clients keep idle connections for 90 s and fail a POST on one the server has just closed, so the server keeps
#: them longer.
KEEP_ALIVE_SECONDS: Final = 180.0

#: For label selectors with many values and long tokens; aiohttp's default is 8 kB.
MAX_LINE_BYTES: Final = 64 * 1024

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class _ContentFreeHandler(logging.Handler):
    """aiohttp's log without request bytes, which may contain credentials."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            _log.info("malformed HTTP request rejected", error=type(error).__name__)
        elif record.levelno >= logging.ERROR:
            _log.error("unexpected error", where="aiohttp", exc_info=error)


_LOGGER: Final = logging.Logger("mooring.server.http.aiohttp")
_LOGGER.addHandler(_ContentFreeHandler())


def _connections_allowed_by_rlimit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, soft - RESERVED_FILES))


@dataclass(frozen=True)
class ConnectionLimits:
    #: None derives the limit from RLIMIT_NOFILE.
    connections: int | None = None
    handshake_seconds: float = HANDSHAKE_SECONDS
    bodies_bytes: int = BODIES_BYTES
    first_request_seconds: float = FIRST_REQUEST_SECONDS
    stalled_seconds: float = STALLED_SECONDS


class ConnectionLimiter(web.Server):
    """aiohttp server with limits; a connection counts from accept until it is closed."""

    def __init__(self, handler: Handler, limits: ConnectionLimits) -> None:
        super().__init__(
            self._on_request,
            handler_cancellation=True,
            # `bodies` decompresses, up to its limit.
            auto_decompress=False,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            access_log=None,
            logger=_LOGGER,
        )
        self._handler = handler
        self._limits = limits
        self._max_connections = _connections_allowed_by_rlimit() if limits.connections is None else limits.connections
        self._open: set[web.RequestHandler] = set()
        #: Connections without a request, oldest first: how to abort each, and the timer.
        self._idle: dict[web.RequestHandler, tuple[Callable[[], object], asyncio.TimerHandle]] = {}
        self._full = False
        #: Bytes of the bodies of requests in flight.
        self._bodies = 0

    async def accept(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accept connections of a listening socket until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except ConnectionError:
                continue
            except OSError as error:
                # Out of file descriptors or memory, until connections are closed.
                _log.error("cannot accept connections; retrying", error=str(error))
                await _pause(ACCEPT_RETRY_SECONDS)
                continue
            self._admit(accepted, tls)
            # `sock_accept` does not yield while sockets wait; aborted sockets are closed by the loop.
            await _pause(0)

    def _admit(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Count the socket and start its handshake. At the limit, abort the oldest idle connection, if any."""
        if len(self._open) >= self._max_connections:
            if not self._full:
                _log.warning("too many connections", limit=self._max_connections, idle=len(self._idle))
            self._full = True
            if not self._idle:
                accepted.close()
                return
            self._abort(next(iter(self._idle)))
        else:
            self._full = False
        loop = asyncio.get_running_loop()
        handler = self()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting = loop.create_task(
            loop.connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=self._limits.handshake_seconds if tls is not None else None,
            )
        )
        self._open.add(handler)
        timer = loop.call_later(self._limits.first_request_seconds, self._abort_idle, handler)
        self._idle[handler] = connecting.cancel, timer
        connecting.add_done_callback(lambda task: self._connected(handler, task))

    def _connected(self, handler: web.RequestHandler, task: "asyncio.Task[Any]") -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget(handler)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        _set_user_timeout(transport, self._limits.stalled_seconds)
        if handler in self._idle:
            self._idle[handler] = transport.abort, self._idle[handler][1]
        else:
            transport.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self._forget(handler)
        super().connection_lost(handler, exc)

    def abort_idle(self) -> None:
        """Before closing: abort connections without a request."""
        for handler in tuple(self._idle):
            self._abort(handler)

    async def _on_request(self, request: web.BaseRequest) -> web.StreamResponse:
        if (idle := self._idle.pop(request.protocol, None)) is not None:
            idle[1].cancel()
        size = _body_bytes(request)
        if self._bodies and self._bodies + size > self._limits.bodies_bytes:
            message = "Too many request bodies in memory, please try again later"
            return failure(TooManyRequests(message, details=Details(retry_after_seconds=1)))
        self._bodies += size
        try:
            return await self._handler(request)
        finally:
            self._bodies -= size

    def _forget(self, handler: web.RequestHandler) -> None:
        self._open.discard(handler)
        if (idle := self._idle.pop(handler, None)) is not None:
            idle[1].cancel()

    def _abort(self, handler: web.RequestHandler) -> None:
        abort, _ = self._idle[handler]
        self._forget(handler)
        abort()

    def _abort_idle(self, handler: web.RequestHandler) -> None:
        _log.info("connection closed: no request received in time")
        self._abort(handler)


def _body_bytes(request: web.BaseRequest) -> int:
    """Upper bound of a body's memory, from the headers."""
    if not request.body_exists:
        return 0
    length = request.content_length or 0
    return length if length and "Content-Encoding" not in request.headers else max(length, DEFAULT_BODY_BYTES)


async def _pause(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    timer = loop.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


def _set_user_timeout(transport: asyncio.Transport, seconds: float) -> None:
    """TCP_USER_TIMEOUT (Linux): the kernel closes the connection if sent data is not acknowledged in time."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


#: For requests in flight on closing; they take milliseconds, and watches end before.
CLOSING_SECONDS: Final = 1.0

BACKLOG: Final = 128


class CannotListen(Exception):
    """The address cannot be bound; the text says what to do."""


class Listener:
    """Open listening sockets. `port` is the actual port, also if 0 was requested."""

    def __init__(
        self,
        server: ConnectionLimiter,
        runner: web.ServerRunner,
        sockets: list[socket.socket],
        host: str,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._server = server
        self._runner = runner
        self._sockets = sockets
        self._accepting = [asyncio.create_task(server.accept(each, tls)) for each in sockets]
        self.host = host
        self.port: int = sockets[0].getsockname()[1]
        self._scheme = "http" if tls is None else "https"

    @property
    def url(self) -> str:
        """For clients on this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._scheme}://{host}:{self.port}"

    async def close(self) -> None:
        """Stop accepting, give requests in flight CLOSING_SECONDS, then close connections. Idempotent."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._sockets:
            each.close()
        self._server.abort_idle()
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
    """Raises CannotListen. Port 0 picks a free one. `names` are host names a plain-HTTP listener accepts besides
    addresses, localhost and `host`."""
    if ssl_context is None:
        handler = guarded(handler, HostGuard((*names, host)))
    server = ConnectionLimiter(handler, limits)
    try:
        sockets = await _bind(host, port)
    except OSError as error:
        raise CannotListen(_advice(error, host, port)) from error
    runner = web.ServerRunner(server, shutdown_timeout=CLOSING_SECONDS)
    await runner.setup()
    return Listener(server, runner, sockets, host, ssl_context)


async def _bind(host: str, port: int) -> list[socket.socket]:
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


def _advice(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"Port {port} on {host} is already in use: stop the program that holds it, "
                f"or choose another port (0 picks a free one)."
            )
        case errno.EACCES:
            return f"Port {port} on {host} is reserved for privileged programs: choose one above 1023."
        case _:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            return f"Cannot listen on {host}, port {port} ({reason}): choose a local address, such as 127.0.0.1."
