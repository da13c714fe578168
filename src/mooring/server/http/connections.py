"""Connections that cost too much: how many there may be, and how long one may say or read nothing.

    accepted ──► counted, before the TLS handshake, which must end within `handshake_seconds`
             ──► within `first_request_seconds` a whole request has come, or it is cut
             ──► one too many: the oldest that has not asked for anything makes way; where all have, the new one is cut
    answers ──► whoever reads nothing for `stalled_seconds` while there is something to read is cut, by the kernel

Between requests a connection may be idle for longer (`listening.KEEP_ALIVE_SECONDS`): clients keep them for reuse.
Watches have their own, shorter patience, which also counts what waits in this process. What is said on a connection
is not known here.
"""

import asyncio
import logging
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
from mooring.server.http.answers import failure

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

#: Far more than a cluster of one machine needs (a scheduler has about twenty, a test bench with 200 watchers 220).
MAX_CONNECTIONS: Final = 4096
#: Files that are not connections: the store, drivers, logs, libraries.
RESERVED_FILES: Final = 128
#: A client that connects begins the TLS handshake at once and needs two round trips.
HANDSHAKE_SECONDS: Final = 10.0
#: After the system refused to accept a connection (EMFILE, ENFILE, ENOMEM).
ACCEPT_RETRY_SECONDS: Final = 0.5
#: A first request follows the handshake at once; the time is for machines that are very busy.
FIRST_REQUEST_SECONDS: Final = 30.0
#: Bodies of requests under way, together: 85 of the largest that the API server takes.
BODIES_BYTES: Final = 256 << 20
#: What counts for a body that does not say its size, or is compressed: the largest that the API server takes.
UNSAID_BYTES: Final = 3 << 20
#: Upstream gives an ordinary request a minute in all.
STALLED_SECONDS: Final = 60.0

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class _WithoutContent(logging.Handler):
    """What aiohttp has to say, without the bytes it says it about: they may be somebody's credentials."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            _log.info("refused what is not HTTP", why=type(error).__name__)
        elif record.levelno >= logging.ERROR:
            _log.error("unexpected error", where="aiohttp", exc_info=error)


def _logger() -> logging.Logger:
    logger = logging.Logger("mooring.server.http.aiohttp")
    logger.addHandler(_WithoutContent())
    return logger


_LOGGER: Final = _logger()


def _as_many_as_files_allow() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, soft - RESERVED_FILES))


@dataclass(frozen=True)
class ConnectionLimits:
    #: None is as many as the process may have files open, within reason.
    connections: int | None = None
    handshake_seconds: float = HANDSHAKE_SECONDS
    bodies_bytes: int = BODIES_BYTES
    first_request_seconds: float = FIRST_REQUEST_SECONDS
    stalled_seconds: float = STALLED_SECONDS


class Doorkeeper(web.Server):
    """aiohttp server with limits: every accepted socket counts, from accept until it is closed."""

    def __init__(
        self, handler: Handler, limits: ConnectionLimits, *, keep_alive_seconds: float, max_line_bytes: int
    ) -> None:
        super().__init__(
            self._let_in,
            handler_cancellation=True,
            # `bodies` unpacks bodies, as far as they are read.
            auto_decompress=False,
            keepalive_timeout=keep_alive_seconds,
            max_line_size=max_line_bytes,
            max_field_size=max_line_bytes,
            access_log=None,
            logger=_LOGGER,
        )
        self._handler = handler
        self._limits = limits
        self._most = _as_many_as_files_allow() if limits.connections is None else limits.connections
        self._open: set[web.RequestHandler] = set()
        #: Connections without a first request yet, oldest first: how to cut each, and when that is due.
        self._silent: dict[web.RequestHandler, tuple[Callable[[], object], asyncio.TimerHandle]] = {}
        self._full = False
        #: Bytes of the bodies of requests under way.
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
                # Files or memory of the system: closing connections gives them back.
                _log.error("cannot accept connections; retrying", error=str(error))
                await _pause(ACCEPT_RETRY_SECONDS)
                continue
            self._admit(accepted, tls)
            # `sock_accept` does not yield while sockets wait; sockets that were cut are closed by the loop.
            await _pause(0)

    def _admit(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Count the socket and start its handshake. When full, the oldest silent connection makes way, if any."""
        if len(self._open) >= self._most:
            if not self._full:
                _log.warning("too many connections", limit=self._most, silent=len(self._silent))
            self._full = True
            if not self._silent:
                accepted.close()
                return
            self._cut(next(iter(self._silent)))
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
        timer = loop.call_later(self._limits.first_request_seconds, self._cut_silent, handler)
        self._silent[handler] = connecting.cancel, timer
        connecting.add_done_callback(lambda task: self._connected(handler, task))

    def _connected(self, handler: web.RequestHandler, task: "asyncio.Task[Any]") -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget(handler)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        _cut_when_stalled(transport, self._limits.stalled_seconds)
        if handler in self._silent:
            self._silent[handler] = transport.abort, self._silent[handler][1]
        else:
            transport.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self._forget(handler)
        super().connection_lost(handler, exc)

    def cut_handshakes(self) -> None:
        """On closing: connections that have not asked for anything are of no use any more."""
        for handler in tuple(self._silent):
            self._cut(handler)

    async def _let_in(self, request: web.BaseRequest) -> web.StreamResponse:
        if (silent := self._silent.pop(request.protocol, None)) is not None:
            silent[1].cancel()
        size = _body_bytes(request)
        if self._bodies and self._bodies + size > self._limits.bodies_bytes:
            message = "The bodies of other requests take all the memory there is for them, please try again later"
            return failure(TooManyRequests(message, details=Details(retry_after_seconds=1)))
        self._bodies += size
        try:
            return await self._handler(request)
        finally:
            self._bodies -= size

    def _forget(self, handler: web.RequestHandler) -> None:
        self._open.discard(handler)
        if (silent := self._silent.pop(handler, None)) is not None:
            silent[1].cancel()

    def _cut(self, handler: web.RequestHandler) -> None:
        cut, _ = self._silent[handler]
        self._forget(handler)
        cut()

    def _cut_silent(self, handler: web.RequestHandler) -> None:
        _log.info("connection cut off: no request came in time")
        self._cut(handler)


def _body_bytes(request: web.BaseRequest) -> int:
    """What a request's body may take in memory, as far as its headers tell."""
    if not request.body_exists:
        return 0
    length = request.content_length or 0
    return length if length and "Content-Encoding" not in request.headers else max(length, UNSAID_BYTES)


async def _pause(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    timer = loop.call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


def _cut_when_stalled(transport: asyncio.Transport, seconds: float) -> None:
    """Where the system has this (Linux): sent data that is not taken for so long ends the connection."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
