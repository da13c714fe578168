"""Who asks: bearer tokens and client certificates, turned into a User.

Nobody is let in without either; there is no anonymous user. A certificate's common name is the user and its
organisations are the groups, as Kubernetes reads them; that it was signed by our authority was checked by TLS.
What a user may do is `authorization`'s question.
"""

import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final

from multidict import MultiMapping

from mooring.api.errors import NotImplementedHere, Unauthorized
from mooring.server.contract import User

#: The group every authenticated user is in.
AUTHENTICATED: Final = "system:authenticated"

_IMPERSONATION: Final = "impersonate-"

#: What `ssl.SSLSocket.getpeercert()` gives: the subject is a tuple of tuples of (name, value) pairs.
PeerCertificate = Mapping[str, Any]


class Authenticator:
    """Knows the tokens of this server."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = {token.encode(): user for token, user in tokens.items()}

    def authenticate(self, headers: MultiMapping[str], certificate: PeerCertificate | None) -> User:
        """Raises Unauthorized. A certificate comes before a token, as upstream asks them."""
        self._refuse_impersonation(headers)
        user = _from_certificate(certificate) if certificate else None
        user = user or self._from_token(headers.get("Authorization", ""))
        if user is None:
            raise Unauthorized("Unauthorized")
        return User(user.name, tuple(dict.fromkeys((*user.groups, AUTHENTICATED))))

    def _from_token(self, authorization: str) -> User | None:
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        given = credentials.strip().encode(errors="surrogateescape")
        found: User | None = None
        # All tokens are compared, each in constant time: how long it takes tells nothing about any of them.
        for token, user in self._tokens.items():
            if hmac.compare_digest(token, given):
                found = user
        return found

    @staticmethod
    def _refuse_impersonation(headers: MultiMapping[str]) -> None:
        """Ignoring `kubectl --as` would run the request with the rights of the caller."""
        if any(name.lower().startswith(_IMPERSONATION) for name in headers):
            raise NotImplementedHere("impersonation (Impersonate-User and the like) is not implemented")


def _from_certificate(certificate: PeerCertificate) -> User | None:
    subject = tuple(_names_of(certificate))
    common = [value for name, value in subject if name == "commonName"]
    if not common:
        return None
    return User(common[-1], tuple(value for name, value in subject if name == "organizationName"))


def _names_of(certificate: PeerCertificate) -> Iterator[tuple[str, str]]:
    for relative in certificate.get("subject", ()):
        yield from relative
