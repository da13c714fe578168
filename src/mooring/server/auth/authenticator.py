"""Authentication by client certificate, bearer token and token file.

TLS has verified a certificate's signature; its common name is the user, its organizations are the groups. As in
kube-apiserver it precedes a token. A request without credentials is not an error here (probes), an invalid token is.
"""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import structlog

from mooring.api.errors import Unauthorized
from mooring.server.contract import User

#: The group every authenticated user is in.
AUTHENTICATED: Final = "system:authenticated"


class BadToken(Exception):
    """The text gives the reason without the token, for TokenReviews; requests get Unauthorized."""


class AuthenticatedUser(msgspec.Struct, frozen=True):
    """The user of a token, and the requested audiences it is valid for."""

    user: User
    audiences: tuple[str, ...]


class TokenAuthenticator(Protocol):
    async def identify(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        """None if the token is of another type; raises BadToken if it is of this type but invalid.

        Without audiences, those of the API server apply.
        """


class TokenAuthenticatorChain:
    """Tries several authenticators in order."""

    def __init__(self, *kinds: TokenAuthenticator) -> None:
        self._kinds = kinds

    async def identify(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        problems: list[BadToken] = []
        for kind in self._kinds:
            try:
                found = await kind.identify(token, audiences)
            except BadToken as problem:
                problems.append(problem)
            else:
                if found is not None:
                    return found
        if problems:
            raise problems[0]
        return None


def authenticated(user: User) -> User:
    """The user with the group system:authenticated."""
    if AUTHENTICATED in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))


#: Result of `ssl.SSLSocket.getpeercert()`: the subject is a tuple of tuples of (name, value) pairs.
PeerCertificate = Mapping[str, Any]

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Authenticator:
    def __init__(self, tokens: TokenAuthenticator) -> None:
        self._tokens = tokens

    async def authenticate(self, authorization: str, certificate: PeerCertificate | None) -> User | None:
        """`authorization` is the header. None without credentials; raises Unauthorized."""
        if certificate and (user := _from_certificate(certificate)) is not None:
            return authenticated(user)
        token = _bearer(authorization)
        if not token:
            return None
        try:
            found = await self._tokens.identify(token, ())
        except BadToken as problem:
            log.info("bearer token rejected", reason=str(problem))
            found = None
        if found is None:
            raise Unauthorized("Unauthorized")
        return found.user


def _bearer(authorization: str) -> str:
    scheme, _, credentials = authorization.strip().partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


def _from_certificate(certificate: PeerCertificate) -> User | None:
    subject = [pair for relative in certificate.get("subject", ()) for pair in relative]
    common = [value for name, value in subject if name == "commonName"]
    if not common:
        return None
    return User(common[-1], tuple(value for name, value in subject if name == "organizationName"))


_MIN_COLUMNS: Final = 3
_GROUPS: Final = 3


class BadTokenFile(ValueError):
    """The text names file and row, not the content."""


class StaticTokens:
    """Predefined tokens, none of them empty.

    Looked up by digest: the time of a lookup leaks nothing, and no token is kept in clear text.
    """

    def __init__(self, tokens: Mapping[str, User], *, audiences: Sequence[str] = ()) -> None:
        if "" in tokens:
            raise ValueError("a token must not be empty")
        self._audiences = tuple(audiences)
        self._found = {
            _digest(token): AuthenticatedUser(authenticated(user), self._audiences) for token, user in tokens.items()
        }

    async def identify(self, token: str, audiences: Sequence[str]) -> AuthenticatedUser | None:
        found = self._found.get(_digest(token))
        if found is None or not audiences:
            return found
        good_for = tuple(audience for audience in audiences if audience in self._audiences)
        return AuthenticatedUser(found.user, good_for) if good_for else None


def read_token_file(path: Path) -> dict[str, User]:
    """kube-apiserver's `--token-auth-file`: rows of `token,user,uid,"group1,group2"`, the groups optional.

    Tokens do not expire. Raises BadTokenFile and OSError.
    """
    found: dict[str, User] = {}
    with path.open(newline="", encoding="utf-8") as file:
        try:
            for number, row in enumerate(csv.reader(file, strict=True), start=1):
                if row:
                    token, user = _read_row(row, f"token file '{path}', row {number}")
                    if token in found:
                        raise BadTokenFile(f"token file '{path}', row {number}: same token as in an earlier row")
                    found[token] = user
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadTokenFile(f"token file '{path}' is not a CSV file: {error}") from error
    return found


def _read_row(row: Sequence[str], where: str) -> tuple[str, User]:
    if len(row) < _MIN_COLUMNS:
        raise BadTokenFile(f"{where}: must have at least 3 columns (token, user name, user uid), found {len(row)}")
    token, name, uid = (cell.strip() for cell in row[:_MIN_COLUMNS])
    if not token or not name:
        raise BadTokenFile(f"{where}: neither the token nor the user name may be empty")
    groups = row[_GROUPS].split(",") if len(row) > _GROUPS else []
    return token, User(name, tuple(group.strip() for group in groups if group.strip()), uid=uid)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
