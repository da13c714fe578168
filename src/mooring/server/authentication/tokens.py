"""What the server asks about bearer tokens: whose they are, and for whom they are meant."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from mooring.server.contract import User

#: The group every authenticated user is in.
AUTHENTICATED: Final = "system:authenticated"


class BadToken(Exception):
    """Nobody's token. The text says why, without the token, to whoever may review tokens; others hear Unauthorized."""


class Identified(msgspec.Struct, frozen=True):
    """Whose a token is, and for which of the audiences asked about it is good."""

    user: User
    audiences: tuple[str, ...]


class Tokens(Protocol):
    """One kind of token, or several in turn."""

    async def identify(self, token: str, audiences: Sequence[str]) -> Identified | None:
        """None where it is not this kind of token; raises BadToken where it is, and is no good.

        No audiences means the API server's own.
        """
        ...


class TokensInTurn:
    """Asks each kind of token until one knows it."""

    def __init__(self, *kinds: Tokens) -> None:
        self._kinds = kinds

    async def identify(self, token: str, audiences: Sequence[str]) -> Identified | None:
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
    """The user with the group that all who were identified are in."""
    if AUTHENTICATED in user.groups:
        return user
    return msgspec.structs.replace(user, groups=(*user.groups, AUTHENTICATED))


_contract: type[Tokens] = TokensInTurn
