"""Host and Origin checks of plain-HTTP listeners: dashboard, extender, probes and metrics.

Any web site in a browser on this machine can reach such a port. With DNS rebinding the site is same-origin for the
browser, and only `Host` reveals it. Cross-origin requests are marked by the browser in `Origin` and `Sec-Fetch-Site`,
which scripts cannot set.
"""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from mooring.server.http.responses import text_response

#: Suffixes of Service names; not public domains.
CLUSTER_NAMES: Final = (".svc", ".svc.cluster.local")

MISDIRECTED: Final = (421, "Unknown host name: use the printed address.\n")
FOREIGN: Final = (403, "Cross-site requests are not allowed.\n")

REFUSAL_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'",
}

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HostGuard:
    """`names` are the accepted host names besides IP addresses and localhost; a leading dot accepts all subdomains."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        known = [name.lower().rstrip(".") for name in names]
        self._names = frozenset(name for name in known if name and not name.startswith(".")) | {"localhost"}
        self._suffixes = tuple(name for name in known if name.startswith("."))

    def knows_host(self, host: str) -> bool:
        """Whether the Host header is an IP address, which cannot be rebound, or an accepted name."""
        name = _without_port(host).lower().rstrip(".")
        if name in self._names or name.endswith(self._suffixes):
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True

    def refusal(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Status code and text of a rejected request, else None."""
        host = headers.get("Host", "")
        if not self.knows_host(host):
            return MISDIRECTED
        origin = headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host}".lower():
            return FOREIGN
        # Links on other sites are allowed.
        followed = method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
        if not followed and is_cross_site(headers.get("Sec-Fetch-Site", "")):
            return FOREIGN
        return None


def is_cross_site(fetch_site: str) -> bool:
    """Whether the browser marks the request as from another site; older browsers send no such header."""
    return fetch_site not in ("", "same-origin", "none")


def is_loopback(host: str) -> bool:
    """Other names than localhost are not resolved: False."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def guarded(handler: Handler, guard: HostGuard) -> Handler:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        refused = guard.refusal(request.method, request.headers)
        if refused is not None:
            answer = text_response(refused[1], code=refused[0])
            answer.headers.update(REFUSAL_HEADERS)
            return answer
        return await handler(request)

    return handle


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
