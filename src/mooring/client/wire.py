"""The connections of one client identity to one server: TLS, proxy, and what every request says.

A certificate belongs to a TLS context and so to its connections: a new one needs a new `Wire`. Knows HTTP, not
Kubernetes, and not when to send something again.
"""

import socket
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict

from mooring import __version__
from mooring.client.access import Access, Impersonation

JSON: Final = "application/json"
#: Seconds an idle connection is kept: below the 75 after which aiohttp's server, the shortest we know, closes it.
KEPT_IDLE: Final = 60.0
#: Seconds without traffic before a connection is probed, between probes, and probes until it counts as dead.
PROBE_AFTER, PROBE_EVERY, PROBES = 30, 15, 3

#: The writes that aiohttp sends again by itself when a connection breaks.
_SENT_AGAIN: Final = ("PUT", "DELETE")

#: What may stand in the name of a header; everything else is percent-encoded. RFC 9110's `tchar` less the percent sign.
_IN_HEADER_NAMES: Final = "!#$&'*+-.^_`|~"


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    media_type: str = JSON

    def __str__(self) -> str:
        return f"{'WATCH' if self.query and 'watch' in self.query else self.method} {self.path}"


class Wire:
    """Raises ssl.SSLError or ValueError where certificate and key are broken. Needs a running loop."""

    def __init__(self, access: Access, component: str) -> None:
        self.access = access
        self._under_way = 0
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=access.tls() or True,
                # How many requests there are at once is decided above, where watches can be told from others.
                limit=0,
                keepalive_timeout=KEPT_IDLE,
                socket_factory=_probed_socket,
            ),
            headers=_said_always(access, component),
            skip_auto_headers=() if access.compression else ("Accept-Encoding",),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=access.proxy or None,
        )

    async def request(
        self, request: Request, *, authorization: str, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """The answer, once it has begun; `finish` it at the end. Raises what aiohttp raises."""
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
        """Nobody reads on; a connection whose answer was read to the end serves the next request."""
        response.release()
        self._under_way -= 1

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self._under_way == 0

    async def close(self) -> None:
        await self._session.close()


class Broken(aiohttp.ClientError):
    """The connection broke after a write may have been sent over it."""


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Not again when a connection breaks, since the first may have been heard: the second would meet its own work, or
    the next object of that name."""
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (OSError, aiohttp.ServerDisconnectedError) as error:
        raise Broken(str(error)) from error


def _said_always(access: Access, component: str) -> CIMultiDict[str]:
    said = CIMultiDict({"Accept": JSON, "User-Agent": f"mooring/{__version__} ({component})"})
    if access.impersonation is not None:
        said.extend(_impersonating(access.impersonation))
    return said


def _impersonating(whom: Impersonation) -> CIMultiDict[str]:
    headers = CIMultiDict({"Impersonate-User": whom.user})
    if whom.uid:
        headers["Impersonate-Uid"] = whom.uid
    for group in whom.groups:
        headers.add("Impersonate-Group", group)
    for key, values in whom.extra:
        for value in values:
            headers.add(f"Impersonate-Extra-{quote(key, safe=_IN_HEADER_NAMES)}", value)
    return headers


def _probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices when its peer is gone, so that a silent watch is not waited on for ever."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", PROBE_AFTER), ("TCP_KEEPINTVL", PROBE_EVERY), ("TCP_KEEPCNT", PROBES)):
        # Other systems than Linux lack some of them; the probe is then as often as the system has it.
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    made.setblocking(False)
    return made
