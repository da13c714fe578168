"""What the verbs know about callers: what they may do, whose tokens are whose, and who signs new ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.clock import Clock
from mooring.server.authentication.token_file import StaticTokens
from mooring.server.authentication.tokens import Identified, Tokens, TokensInTurn
from mooring.server.authorization.access import Access, AlwaysAllow
from mooring.server.authorization.authorizer import Authorizer
from mooring.server.contract import User
from mooring.server.objects import Objects
from mooring.store.contract import Store

if TYPE_CHECKING:
    # It brings in `cryptography`, which servers that issue no tokens do without.
    from mooring.server.authentication.service_account_tokens import ServiceAccountTokens


class NoTokens:
    """Nobody has one."""

    async def identify(self, token: str, audiences: Sequence[str]) -> Identified | None:
        return None


@dataclass(frozen=True)
class Security:
    """By default that of a server which is asked only from within: no refusals, and no tokens."""

    access: Access = field(default_factory=AlwaysAllow)
    tokens: Tokens = field(default_factory=NoTokens)
    accounts: "ServiceAccountTokens | None" = None


def cluster_security(store: Store, *, clock: Clock, directory: Path, tokens: Mapping[str, User]) -> Security:
    """That of a server on the network: roles decide, and the key for service account tokens lies in the directory.

    `tokens` are those given out by hand. Raises BadSigningKey.
    """
    from mooring.server.authentication.service_account_tokens import ServiceAccountTokens
    from mooring.server.authentication.signing_key_file import ensure_signing_key

    objects = Objects(store)
    accounts = ServiceAccountTokens(ensure_signing_key(directory), objects, clock)
    known = TokensInTurn(StaticTokens(tokens, audiences=accounts.audiences), accounts)
    return Security(Authorizer(objects), known, accounts)


_contract: type[Tokens] = NoTokens
