"""Who may ask, and what every answer carries. Pure.

The page listens on a port of this machine, where any web site the reader visits can send requests. So every request
must name a host that cannot be somebody's DNS name for us (rebinding), and everything that tells of the cluster needs a
token that only the printed address has. The token comes in a header, which no other site can set without asking, and
nobody is allowed to ask: there is no CORS. It is in the address's fragment, which browsers do not send.
"""

import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

#: Longer than any token here; more is not even looked at.
LONGEST_TOKEN: Final = 512
SCHEME: Final = "Bearer "

#: Scripts and styles from this server alone and never inline; nothing may be embedded, and nothing may embed it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """`names` are the host names besides addresses and localhost under which the page may be asked for."""

    def __init__(self, token: str, *, names: tuple[str, ...] = ()) -> None:
        self._token = token.encode()
        self._names = frozenset(name.lower().rstrip(".") for name in names) | {"localhost"}

    def hosts(self, host: str) -> bool:
        """Whether the Host header names us. An address cannot be rebound; of names only known ones count."""
        name = _without_port(host).lower().rstrip(".")
        if name in self._names:
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True

    def knows(self, authorization: str) -> bool:
        """Whether the Authorization header has the token. Takes as long for a wrong one as for the right one."""
        if not authorization.startswith(SCHEME) or len(authorization) > LONGEST_TOKEN:
            return False
        shown = authorization.removeprefix(SCHEME).encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, self._token)


def of_another_site(fetch_site: str) -> bool:
    """Whether the browser itself says that the request comes from another site; older ones say nothing."""
    return fetch_site not in ("", "same-origin", "none")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
