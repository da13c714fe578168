"""The page's token, and what every answer carries. Pure.

The page listens on a port of this machine, where any web site the reader visits can send requests. `host_guard` refuses
names and origins that are not the page's; everything that tells of the cluster needs, besides, a token that only the
printed address has. The token comes in a header, which no other site can set without CORS, and there is none. It is in
the address's fragment, which browsers do not send. Each start makes a new one: a tab that reconnects to a port which
another program has taken since then gives away a token that no server accepts any more.
"""

import hmac
from collections.abc import Mapping
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
    """Raises ValueError for an empty token, which every request would have."""

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("the page's token must not be empty")
        self._token = token.encode()

    def knows(self, authorization: str) -> bool:
        """Whether the Authorization header has the token. Takes as long for a wrong one as for the right one."""
        if not authorization.startswith(SCHEME) or len(authorization) > LONGEST_TOKEN:
            return False
        shown = authorization.removeprefix(SCHEME).encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, self._token)
