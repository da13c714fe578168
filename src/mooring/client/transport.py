"""Requests and their answers: who asks, how many at once, how long to wait, and when to ask again.

Between `http`, which knows objects, and `wire`, which knows connections. Sends again only what the server cannot have
acted on, or itself wants again: what it refused with a time to come back (429 and 5xx with Retry-After, as client-go),
what it did not know the sender of (401, once, with a newer credential), and reads that found no connection (once).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple

import aiohttp

from mooring.api.errors import ApiError, Forbidden, Unauthorized, from_status
from mooring.client.access import Access
from mooring.client.contract import Unreachable
from mooring.client.credentials import Credentials, Shown
from mooring.client.exec_plugin import Credential, PluginFailed
from mooring.client.unreachable import refused_certificate, why
from mooring.client.wire import Request, Wire
from mooring.clock import Clock

#: Seconds a request may take; kube-apiserver itself gives up after 60.
TIMEOUT: Final = 30.0
#: Seconds of these until there must be a connection, TLS and all.
CONNECT_TIMEOUT: Final = 10.0
#: Requests under way at once. Each needs a connection of its own, whose handshake costs both sides more than a request;
#: with so many, a server that takes 50 ms for each still does 640 a second. Watches, which do nothing most of the time,
#: are not counted.
IN_FLIGHT: Final = 32
#: How often a request is sent again because the server asked for it; client-go's figure.
RESENDS: Final = 10
#: The longest wait a server may ask for, and the longest all waits of one request may take together, in seconds.
LONGEST_WAIT: Final = 30.0
LONGEST_WAITING: Final = 120.0
#: Seconds by which each of ours that waits comes back after the one before. Servers tell everybody the same second: who
#: then comes back together is refused together again.
APART: Final = 0.02
#: Seconds until a read that found no connection looks once more.
RECONNECT_AFTER: Final = 0.5


#: What can go wrong between here and a server; TimeoutError is among the OSErrors.
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
        """`refused` hears of every request that we may not make."""
        self._refused = refused
        self._access = access
        self._component = component
        self._clock = clock
        self._timeout = timeout
        connecting = min(timeout, CONNECT_TIMEOUT)
        self._for_requests = aiohttp.ClientTimeout(total=timeout, sock_connect=connecting)
        #: How long it takes until an answer begins is bounded here; how long it lasts is the server's business.
        self._for_streams = aiohttp.ClientTimeout(total=None, sock_connect=connecting)
        self._slots = asyncio.Semaphore(in_flight)
        #: How many wait because the server asked for it.
        self._waiting = 0
        self._credentials = Credentials(access, clock)
        self._wire: Wire | None = None
        #: Wires of certificates that were replaced, as long as something still goes over them.
        self._retired: list[Wire] = []
        self._streams: set[aiohttp.ClientResponse] = set()
        self._closed = False

    async def call(self, request: Request) -> bytes:
        """The body of a successful answer. Raises ApiError and Unreachable."""
        resends, waited = 0, 0.0
        while True:
            async with self._slots:
                answer = await self._exchange(request)
            if answer.status < 300:
                return answer.body
            wait = _wanted_wait(answer)
            if wait is None or resends == RESENDS or waited + wait > LONGEST_WAITING:
                raise self._refusal(answer.body, answer.status)
            resends, waited = resends + 1, waited + wait
            await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        """At least so long, and not until the same moment as anybody else."""
        others, self._waiting = self._waiting, self._waiting + 1
        try:
            await self._clock.sleep(seconds + others * APART)
        finally:
            self._waiting -= 1

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[aiohttp.StreamReader]:
        """An answer that lasts as long as the server likes. Raises ApiError, and Unreachable for the reader too."""
        try:
            wire, response = await self._introduced(request, self._for_streams)
            try:
                if response.status != 200:
                    async with asyncio.timeout(self._timeout):
                        raise self._refusal(await response.read(), response.status)
                self._streams.add(response)
                try:
                    yield response.content
                finally:
                    self._streams.remove(response)
                    # Left early, there is nobody to say good-bye to: TLS would wait for an answer long after `close`.
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()
            finally:
                await self._finish(wire, response)
        except _FAILURES as error:
            raise self._unreachable(request, error) from error

    async def close(self) -> None:
        """End every stream and refuse what follows; requests under way end with their time-out. Idempotent."""
        self._closed = True
        for stream in self._streams:
            # Closing the session alone would leave its readers waiting for ever.
            stream.content.set_exception(aiohttp.ClientConnectionError("the client was closed"))
        await self._credentials.close()
        for wire in (self._wire, *self._retired):
            if wire is not None:
                await wire.close()

    async def _exchange(self, request: Request) -> _Answer:
        try:
            wire, response = await self._introduced(request, self._for_requests)
            try:
                return _Answer(response.status, response.headers.get("Retry-After", ""), await response.read())
            finally:
                await self._finish(wire, response)
        except _FAILURES as error:
            raise self._unreachable(request, error) from error

    async def _finish(self, wire: Wire, response: aiohttp.ClientResponse) -> None:
        wire.finish(response)
        if self._retired:
            await self._close_retired()

    async def _introduced(
        self, request: Request, timeout: aiohttp.ClientTimeout
    ) -> tuple[Wire, aiohttp.ClientResponse]:
        """The answer to the request; to a second one where the server did not know us and there is more to show.

        `_finish` it at the end.
        """
        self._refuse_if_closed()
        shown = await self._credentials.current()
        wire, response = await self._begin(request, shown, timeout)
        if response.status != Unauthorized.code:
            return wire, response
        try:
            other = await self._credentials.instead_of(shown)
        except BaseException:
            wire.finish(response)
            raise
        if other is None:
            return wire, response
        wire.finish(response)
        return await self._begin(request, other, timeout)

    async def _begin(
        self, request: Request, shown: Shown, timeout: aiohttp.ClientTimeout
    ) -> tuple[Wire, aiohttp.ClientResponse]:
        try:
            return await self._attempt(request, shown, timeout)
        except aiohttp.ClientConnectorError as error:
            # What another look would not change is not looked at again.
            if request.method != "GET" or isinstance(error, aiohttp.ClientSSLError):
                raise
        await self._clock.sleep(RECONNECT_AFTER)
        return await self._attempt(request, shown, timeout)

    async def _attempt(
        self, request: Request, shown: Shown, timeout: aiohttp.ClientTimeout
    ) -> tuple[Wire, aiohttp.ClientResponse]:
        wire = self._wire_for(shown.credential)
        sending = wire.request(request, authorization=shown.authorization, timeout=timeout)
        if timeout.total is not None:
            return wire, await sending
        async with asyncio.timeout(self._timeout):
            return wire, await sending

    def _wire_for(self, credential: Credential) -> Wire:
        """Without a pause between choosing a wire and using it, so that nobody closes it in between."""
        self._refuse_if_closed()
        access = self._access
        if credential.certificate:
            access = replace(access, certificate=credential.certificate, key=credential.key)
        if self._wire is None or (self._wire.access is not access and self._wire.access != access):
            try:
                fresh = Wire(access, self._component)
            except (ssl.SSLError, ValueError) as error:
                raise PluginFailed(f"the certificate or key of the credential is broken: {error}") from error
            if self._wire is not None:
                self._retired.append(self._wire)
            self._wire = fresh
        return self._wire

    async def _close_retired(self) -> None:
        idle = [wire for wire in self._retired if wire.idle]
        self._retired = [wire for wire in self._retired if not wire.idle]
        for wire in idle:
            await wire.close()

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
        return Unreachable(f"{why(error, self._access, timeout=self._timeout)} ({request})")


def _wanted_wait(answer: _Answer) -> float | None:
    """How long the server asks to wait before the same request, if it does."""
    if not (answer.status == 429 or 500 <= answer.status < 600) or not answer.retry_after.isdecimal():
        return None
    return min(float(answer.retry_after), LONGEST_WAIT)
