"""Sends requests to one API server: connection pools, authentication, concurrency limit, timeouts and retries.

Retries only what the server has not acted on or asks to repeat: 429 and 5xx with Retry-After (as client-go), 401 once
with newer credentials, and reads without a connection once. A client certificate belongs to its TLS connections, so a
new one needs a new `ConnectionPool`.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict

from mooring import __version__
from mooring.api.errors import ApiError, Forbidden, Unauthorized, from_status
from mooring.client.access import Access, Credentials, RequestCredentials
from mooring.client.contract import Unreachable
from mooring.client.diagnosis import explain_failure, refused_certificate
from mooring.client.exec_plugin import Credential, PluginFailed
from mooring.clock import Clock

JSON: Final = "application/json"
#: Seconds an idle connection is kept: below the 75 s of aiohttp's server, the shortest known.
KEPT_IDLE: Final = 60.0
#: Seconds without traffic before a connection is probed, between probes, and probes until it counts as dead.
PROBE_AFTER, PROBE_EVERY, PROBES = 30, 15, 3

#: Writes that aiohttp itself would resend after a broken connection.
_SENT_AGAIN: Final = ("PUT", "DELETE")

#: Not percent-encoded in header names: RFC 9110's `tchar` less the percent sign.
_IN_HEADER_NAMES: Final = "!#$&'*+-.^_`|~"


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    media_type: str = JSON

    def __str__(self) -> str:
        return f"{'WATCH' if self.query and 'watch' in self.query else self.method} {self.path}"


class ConnectionPool:
    """Raises ssl.SSLError or ValueError where certificate and key are broken. Needs a running loop."""

    def __init__(self, access: Access, component: str) -> None:
        self.access = access
        self._under_way = 0
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=access.tls() or True,
                # `Transport` limits concurrent requests; watches do not count there.
                limit=0,
                keepalive_timeout=KEPT_IDLE,
                socket_factory=_probed_socket,
            ),
            headers=_default_headers(access, component),
            skip_auto_headers=() if access.compression else ("Accept-Encoding",),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=access.proxy or None,
        )

    async def request(
        self, request: Request, *, authorization: str, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """The response once its headers arrived; call `finish` at the end. Raises aiohttp's errors."""
        headers = {"Authorization": authorization} if authorization else {}
        if request.body is not None:
            headers["Content-Type"] = request.media_type
        self._under_way += 1
        try:
            return await self._session.request(
                request.method,
                self.access.server + request.path,
                params=request.query,
                data=request.body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                server_hostname=self.access.server_name or None,
                middlewares=(_send_once,) if request.method in _SENT_AGAIN else (),
            )
        except BaseException:
            self._under_way -= 1
            raise

    def finish(self, response: aiohttp.ClientResponse) -> None:
        """Release the response; its connection is reused if it was read to the end."""
        response.release()
        self._under_way -= 1

    @property
    def idle(self) -> bool:
        """Whether no request is in flight."""
        return self._under_way == 0

    async def close(self) -> None:
        await self._session.close()


class ConnectionBroken(aiohttp.ClientError):
    """The connection broke after a write may have been sent over it."""


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Prevent a resend after a broken connection: the first write may have taken effect, and the second would conflict
    with it or hit a new object of that name."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (OSError, aiohttp.ServerDisconnectedError) as error:
        raise ConnectionBroken(str(error)) from error


def _default_headers(access: Access, component: str) -> CIMultiDict[str]:
    headers = CIMultiDict({"Accept": JSON, "User-Agent": f"mooring/{__version__} ({component})"})
    identity = access.impersonation
    if identity is None:
        return headers
    headers["Impersonate-User"] = identity.user
    if identity.uid:
        headers["Impersonate-Uid"] = identity.uid
    for group in identity.groups:
        headers.add("Impersonate-Group", group)
    for key, values in identity.extra:
        for value in values:
            headers.add(f"Impersonate-Extra-{quote(key, safe=_IN_HEADER_NAMES)}", value)
    return headers


def _probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket with TCP keepalive, so that a watch notices a lost peer."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", PROBE_AFTER), ("TCP_KEEPINTVL", PROBE_EVERY), ("TCP_KEEPCNT", PROBES)):
        # Systems other than Linux lack some of these options and use their defaults.
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    made.setblocking(False)
    return made


#: Seconds per request; kube-apiserver's own limit is 60.
TIMEOUT: Final = 30.0
#: Seconds until the connection, including TLS, is established.
CONNECT_TIMEOUT: Final = 10.0
#: Concurrent requests without watches. Each needs a connection, whose handshake costs more than a request; a server
#: that takes 50 ms for each still serves 640 a second.
IN_FLIGHT: Final = 32
#: Maximum retries on request of the server, as client-go.
RESENDS: Final = 10
#: Maximum of one Retry-After, and of all waits of one request together.
MAX_RETRY_AFTER_SECONDS: Final = 30.0
MAX_TOTAL_WAIT_SECONDS: Final = 120.0
#: Interval between the retries of waiting requests: servers send all clients the same Retry-After, and simultaneous
#: retries would be rejected together again.
RETRY_SPACING_SECONDS: Final = 0.02
#: Seconds until a read without a connection is retried.
RECONNECT_AFTER: Final = 0.5


#: TimeoutError is an OSError.
_FAILURES: Final = (aiohttp.ClientError, OSError)


class _Answer(NamedTuple):
    status: int
    retry_after: str
    body: bytes


class Transport:
    """One server, one identity. Needs a running loop at the first request, and `close` at the end."""

    def __init__(
        self,
        access: Access,
        *,
        component: str,
        clock: Clock,
        timeout: float,
        in_flight: int,
        refused: Callable[[Forbidden], None] = lambda _: None,
    ) -> None:
        """`refused` is called for every Forbidden."""
        self._refused = refused
        self._access = access
        self._component = component
        self._clock = clock
        self._timeout = timeout
        connecting = min(timeout, CONNECT_TIMEOUT)
        self._for_requests = aiohttp.ClientTimeout(total=timeout, sock_connect=connecting)
        #: Streams have a time limit for the response headers only.
        self._for_streams = aiohttp.ClientTimeout(total=None, sock_connect=connecting)
        self._slots = asyncio.Semaphore(in_flight)
        #: Requests that wait for a Retry-After.
        self._waiting = 0
        self._credentials = Credentials(access, clock)
        self._pool: ConnectionPool | None = None
        #: Pools of replaced certificates, while requests use them.
        self._retired_pools: list[ConnectionPool] = []
        self._streams: set[aiohttp.ClientResponse] = set()
        self._closed = False

    async def call(self, request: Request) -> bytes:
        """The body of a successful response. Raises ApiError and Unreachable."""
        resends, waited = 0, 0.0
        while True:
            async with self._slots:
                answer = await self._exchange(request)
            if answer.status < 300:
                return answer.body
            wait = _retry_after_seconds(answer)
            if wait is None or resends == RESENDS or waited + wait > MAX_TOTAL_WAIT_SECONDS:
                raise self._refusal(answer.body, answer.status)
            resends, waited = resends + 1, waited + wait
            await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        """Sleep, spaced from other waiting requests."""
        others, self._waiting = self._waiting, self._waiting + 1
        try:
            await self._clock.sleep(seconds + others * RETRY_SPACING_SECONDS)
        finally:
            self._waiting -= 1

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[aiohttp.StreamReader]:
        """A streamed response. Raises ApiError and Unreachable, the latter while reading too."""
        try:
            pool, response = await self._send_authenticated(request, self._for_streams)
            try:
                if response.status != 200:
                    async with asyncio.timeout(self._timeout):
                        raise self._refusal(await response.read(), response.status)
                self._streams.add(response)
                try:
                    yield response.content
                finally:
                    self._streams.remove(response)
                    # Abort: a TLS close handshake would outlast `close`.
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()
            finally:
                await self._finish(pool, response)
        except _FAILURES as error:
            raise self._unreachable(request, error) from error

    async def close(self) -> None:
        """End every stream and reject further requests; requests in flight end with their timeout. Idempotent."""
        self._closed = True
        for stream in self._streams:
            # Closing the session alone would leave its readers waiting.
            stream.content.set_exception(aiohttp.ClientConnectionError("the client was closed"))
        await self._credentials.close()
        for pool in (self._pool, *self._retired_pools):
            if pool is not None:
                await pool.close()

    async def _exchange(self, request: Request) -> _Answer:
        try:
            pool, response = await self._send_authenticated(request, self._for_requests)
            try:
                return _Answer(response.status, response.headers.get("Retry-After", ""), await response.read())
            finally:
                await self._finish(pool, response)
        except _FAILURES as error:
            raise self._unreachable(request, error) from error

    async def _finish(self, pool: ConnectionPool, response: aiohttp.ClientResponse) -> None:
        pool.finish(response)
        if self._retired_pools:
            idle = [pool for pool in self._retired_pools if pool.idle]
            self._retired_pools = [pool for pool in self._retired_pools if not pool.idle]
            for pool in idle:
                await pool.close()

    async def _send_authenticated(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> tuple[ConnectionPool, aiohttp.ClientResponse]:
        """The response, after 401 that of a retry with newer credentials if any. Call `_finish` at the end."""
        self._refuse_if_closed()
        shown = await self._credentials.current()
        pool, response = await self._begin(request, shown, timeout)
        if response.status != Unauthorized.code:
            return pool, response
        try:
            other = await self._credentials.refresh_after_unauthorized(shown)
        except BaseException:
            pool.finish(response)
            raise
        if other is None:
            return pool, response
        pool.finish(response)
        return await self._begin(request, other, timeout)

    async def _begin(
        self, request: Request, shown: RequestCredentials, timeout: aiohttp.ClientTimeout
    ) -> tuple[ConnectionPool, aiohttp.ClientResponse]:
        try:
            return await self._attempt(request, shown, timeout)
        except aiohttp.ClientConnectorError as error:
            # A TLS error would not change.
            if request.method != "GET" or isinstance(error, aiohttp.ClientSSLError):
                raise
        await self._clock.sleep(RECONNECT_AFTER)
        return await self._attempt(request, shown, timeout)

    async def _attempt(
        self, request: Request, shown: RequestCredentials, timeout: aiohttp.ClientTimeout
    ) -> tuple[ConnectionPool, aiohttp.ClientResponse]:
        pool = self._pool_for(shown.credential)
        sending = pool.request(request, authorization=shown.authorization, timeout=timeout)
        if timeout.total is not None:
            return pool, await sending
        async with asyncio.timeout(self._timeout):
            return pool, await sending

    def _pool_for(self, credential: Credential) -> ConnectionPool:
        """The pool of this certificate. Not async: another task could retire the pool before its use."""
        self._refuse_if_closed()
        access = self._access
        if credential.certificate:
            access = replace(access, certificate=credential.certificate, key=credential.key)
        if self._pool is None or (self._pool.access is not access and self._pool.access != access):
            try:
                fresh = ConnectionPool(access, self._component)
            except (ssl.SSLError, ValueError) as error:
                raise PluginFailed(f"the certificate or key of the credential is broken: {error}") from error
            if self._pool is not None:
                self._retired_pools.append(self._pool)
            self._pool = fresh
        return self._pool

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the client was used after it was closed")

    def _refusal(self, body: bytes, status: int) -> ApiError:
        error = from_status(body, status)
        if isinstance(error, Unauthorized) and (hint := refused_certificate(self._access, self._clock.now())):
            return Unauthorized(f"{error.message}: {hint}", details=error.details)
        if isinstance(error, Forbidden):
            self._refused(error)
        return error

    def _unreachable(self, request: Request, error: BaseException) -> Unreachable:
        return Unreachable(f"{explain_failure(error, self._access, timeout=self._timeout)} ({request})")


def _retry_after_seconds(answer: _Answer) -> float | None:
    """Seconds after which the server asks to repeat the request; None if it does not."""
    if not (answer.status == 429 or 500 <= answer.status < 600) or not answer.retry_after.isdecimal():
        return None
    return min(float(answer.retry_after), MAX_RETRY_AFTER_SECONDS)
