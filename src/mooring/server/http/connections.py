"""Connections that cost too much: how many there may be, and how long one may say or read nothing.

    made ──► within `first_request_seconds` a whole request has come, or it is cut
         ──► one too many: cut at once; others are not affected
    answers ──► whoever reads nothing for `stalled_seconds` while there is something to read is cut, by the kernel

Between requests a connection may be idle for longer (`listening.KEEP_ALIVE_SECONDS`): clients keep them for reuse.
Watches have their own, shorter patience, which also counts what waits in this process. What is said on a connection
is not known here.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

#: Far more than a cluster of one machine needs (a scheduler has about twenty, a test bench with 200 watchers 220).
MAX_CONNECTIONS: Final = 4096
#: Files that are not connections: the store, drivers, logs, libraries.
RESERVED_FILES: Final = 128
#: A first request follows the handshake at once; the time is for machines that are very busy.
FIRST_REQUEST_SECONDS: Final = 30.0
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
    first_request_seconds: float = FIRST_REQUEST_SECONDS
    stalled_seconds: float = STALLED_SECONDS


class Doorkeeper(web.Server):
    """aiohttp's server, with an eye on who comes in."""

    def __init__(
        self, handler: Handler, limits: ConnectionLimits, *, keep_alive_seconds: float, max_line_bytes: int
    ) -> None:
        super().__init__(
            self._let_in,
            handler_cancellation=True,
            keepalive_timeout=keep_alive_seconds,
            max_line_size=max_line_bytes,
            max_field_size=max_line_bytes,
            access_log=None,
            logger=_LOGGER,
        )
        self._handler = handler
        self._limits = limits
        self._most = _as_many_as_files_allow() if limits.connections is None else limits.connections
        #: Of connections that have not asked for anything yet.
        self._timers: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > self._most:
            _log.warning("too many connections: cut one off", limit=self._most)
            transport.abort()
            return
        _cut_when_stalled(transport, self._limits.stalled_seconds)
        loop = asyncio.get_running_loop()
        self._timers[handler] = loop.call_later(self._limits.first_request_seconds, self._cut_silent, transport)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self._forget_timer(handler)
        super().connection_lost(handler, exc)

    async def _let_in(self, request: web.BaseRequest) -> web.StreamResponse:
        self._forget_timer(request.protocol)
        return await self._handler(request)

    def _forget_timer(self, handler: web.RequestHandler) -> None:
        if (timer := self._timers.pop(handler, None)) is not None:
            timer.cancel()

    @staticmethod
    def _cut_silent(transport: asyncio.Transport) -> None:
        _log.info("connection cut off: no request came in time", client=transport.get_extra_info("peername"))
        transport.abort()


def _cut_when_stalled(transport: asyncio.Transport, seconds: float) -> None:
    """Where the system has this (Linux): sent data that is not taken for so long ends the connection."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
