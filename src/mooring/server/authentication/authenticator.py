"""From what a connection and a request show to a User, or to nobody.

A certificate's common name is the user and its organisations are the groups, as Kubernetes reads them; that it was
signed by our authority was checked by TLS. It comes before a token, as upstream asks them. Showing nothing is not
an error here: some answers are for anybody. Showing a token that is nobody's always is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import structlog

from mooring.api.errors import Unauthorized
from mooring.server.authentication.tokens import BadToken, Tokens, authenticated
from mooring.server.contract import User

#: What `ssl.SSLSocket.getpeercert()` gives: the subject is a tuple of tuples of (name, value) pairs.
PeerCertificate = Mapping[str, Any]

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Authenticator:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def authenticate(self, authorization: str, certificate: PeerCertificate | None) -> User | None:
        """`authorization` is the header of that name. None where nothing was shown; raises Unauthorized."""
        if certificate and (user := _from_certificate(certificate)) is not None:
            return authenticated(user)
        token = _bearer(authorization)
        if not token:
            return None
        try:
            found = await self._tokens.identify(token, ())
        except BadToken as problem:
            log.info("a bearer token was refused", why=str(problem))
            found = None
        if found is None:
            raise Unauthorized("Unauthorized")
        return found.user


def _bearer(authorization: str) -> str:
    scheme, _, credentials = authorization.strip().partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


def _from_certificate(certificate: PeerCertificate) -> User | None:
    subject = tuple(_names_of(certificate))
    common = [value for name, value in subject if name == "commonName"]
    if not common:
        return None
    return User(common[-1], tuple(value for name, value in subject if name == "organizationName"))


def _names_of(certificate: PeerCertificate) -> Iterator[tuple[str, str]]:
    for relative in certificate.get("subject", ()):
        yield from relative
