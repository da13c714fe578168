"""What the rest of the server asks about rights, and the server that refuses nobody."""

from collections.abc import Sequence
from typing import Protocol

from mooring.api.views.access import PolicyRule
from mooring.server.authorization.attributes import Decision, Request
from mooring.server.authorization.index import UserRules
from mooring.server.authorization.rules import FULL_AUTHORITY
from mooring.server.contract import User


class Access(Protocol):
    async def decide(self, user: User, request: Request) -> Decision: ...

    async def rules_of(self, user: User, namespace: str) -> UserRules:
        """All a user may do in a namespace, and in the cluster as a whole."""
        ...

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        """What a Role grants, or without a namespace a ClusterRole; None where there is none."""
        ...


class AlwaysAllow:
    """Everybody may do everything: for servers that are asked only from within, such as the simulated world's."""

    async def decide(self, user: User, request: Request) -> Decision:
        return Decision(True)

    async def rules_of(self, user: User, namespace: str) -> UserRules:
        return UserRules(FULL_AUTHORITY)

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        return FULL_AUTHORITY


_contract: type[Access] = AlwaysAllow
