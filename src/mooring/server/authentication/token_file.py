"""Tokens that are given out by hand: kube-apiserver's `--token-auth-file`.

    token,user,uid,"group1,group2"

One row per token, the groups optional. The file is read once, at start; tokens in it never expire.
"""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mooring.server.authentication.tokens import Identified, Tokens, authenticated
from mooring.server.contract import User

_MIN_COLUMNS: Final = 3
_GROUPS: Final = 3


class BadTokenFile(ValueError):
    """The text names the file and the row, never its content."""


class StaticTokens:
    """Tokens known beforehand, none of them empty.

    Looked up by digest: how long that takes tells nothing about any of them, and none lies in memory in the clear.
    """

    def __init__(self, tokens: Mapping[str, User], *, audiences: Sequence[str] = ()) -> None:
        if "" in tokens:
            raise ValueError("an empty token is every caller's")
        self._audiences = tuple(audiences)
        self._found = {
            _digest(token): Identified(authenticated(user), self._audiences) for token, user in tokens.items()
        }

    async def identify(self, token: str, audiences: Sequence[str]) -> Identified | None:
        found = self._found.get(_digest(token))
        if found is None or not audiences:
            return found
        good_for = tuple(audience for audience in audiences if audience in self._audiences)
        return Identified(found.user, good_for) if good_for else None


def read_token_file(path: Path) -> dict[str, User]:
    """Raises BadTokenFile, and OSError where it cannot be read."""
    found: dict[str, User] = {}
    with path.open(newline="", encoding="utf-8") as file:
        try:
            for number, row in enumerate(csv.reader(file, strict=True), start=1):
                if row:
                    token, user = _read_row(row, f"token file '{path}', row {number}")
                    if token in found:
                        raise BadTokenFile(f"token file '{path}', row {number}: the token is in an earlier row already")
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


_contract: type[Tokens] = StaticTokens
