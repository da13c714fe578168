"""Host and Origin checks of plain-HTTP listeners: the page, the extender, probes and metrics. Pure but for `guarded`.

Such a port can be reached by any web site that a user of this machine visits. A site whose DNS name is made to point
here (DNS rebinding) is same-origin for the browser, so the name in `Host` is the only thing that tells; what a site
sends across origins is marked by the browser in `Origin` and `Sec-Fetch-Site`, which scripts cannot set.
"""

from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from mooring.server.http.answers import text_answer

#: Services in a cluster's DNS; no public name ends like this.
CLUSTER_NAMES: Final = (".svc", ".svc.cluster.local")

MISDIRECTED: Final = (421, "This is no name of mine: ask for the address that was printed.\n")
FOREIGN: Final = (403, "Other sites may not ask.\n")

REFUSAL_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'",
}

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HostGuard:
    """`names` are the host names, besides addresses and localhost, that a listener answers to; a leading dot admits
    all names below."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        known = [name.lower().rstrip(".") for name in names]
        self._names = frozenset(name for name in known if name and not name.startswith(".")) | {"localhost"}
        self._suffixes = tuple(name for name in known if name.startswith("."))

    def knows_host(self, host: str) -> bool:
        """Whether the Host header names this listener. An address cannot be rebound; of names only known ones count."""
        name = _without_port(host).lower().rstrip(".")
        if name in self._names or name.endswith(self._suffixes):
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True

    def refusal(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Code and sentence for a request that a listener must not answer."""
        host = headers.get("Host", "")
        if not self.knows_host(host):
            return MISDIRECTED
        origin = headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host}".lower():
            return FOREIGN
        # A link on another site may lead here; nothing else on it may.
        followed = method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
        if not followed and is_cross_site(headers.get("Sec-Fetch-Site", "")):
            return FOREIGN
        return None


def is_cross_site(fetch_site: str) -> bool:
    """Whether the browser itself says that the request comes from another site; older ones say nothing."""
    return fetch_site not in ("", "same-origin", "none")


def is_loopback(host: str) -> bool:
    """Names other than localhost count as reachable: they may mean anything."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def guarded(handler: Handler, guard: HostGuard) -> Handler:
    """The handler behind the guard."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        refused = guard.refusal(request.method, request.headers)
        if refused is not None:
            answer = text_answer(refused[1], code=refused[0])
            answer.headers.update(REFUSAL_HEADERS)
            return answer
        return await handler(request)

    return handle


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
