"""RBAC authorizer on the store, and the Security settings.

Changes of roles and bindings are buffered by watches of the store and applied before every decision: a grant or its
removal takes effect as soon as its write is acknowledged.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind
from mooring.api.views.core import PolicyRule, RoleBinding
from mooring.clock import Clock
from mooring.server.auth.access import AlwaysAllow, Authorizer
from mooring.server.auth.authenticator import StaticTokens, TokenAuthenticator, TokenAuthenticatorChain
from mooring.server.auth.rbac import AuthorizationDecision, PolicyIndex, Request, UserRules
from mooring.server.contract import User
from mooring.server.objects import Objects
from mooring.store.contract import Compacted, Record, Store, Watch, WatchOverflow

if TYPE_CHECKING:
    # Imports `cryptography`, which servers without service account tokens do not need.
    from mooring.server.auth.service_account_tokens import ServiceAccountTokens

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)

_INDEXED: Final[tuple[Kind[Any], ...]] = (ROLE, CLUSTER_ROLE, ROLE_BINDING, CLUSTER_ROLE_BINDING)


class RbacAuthorizer:
    """Role-based access control over the objects of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._index = PolicyIndex()
        self._watches: dict[Kind[Any], Watch] = {}
        self._loading = asyncio.Lock()

    async def decide(self, user: User, request: Request) -> AuthorizationDecision:
        await self._apply_changes()
        return self._index.decide(user, request)

    async def rules_of(self, user: User, namespace: str) -> UserRules:
        await self._apply_changes()
        return self._index.rules_of(user, namespace)

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        await self._apply_changes()
        return self._index.role(namespace, name)

    async def _apply_changes(self) -> None:
        try:
            if not self._watches:
                await self._load()
            for kind, watch in self._watches.items():
                for change in watch.waiting():
                    if change.after is not None:
                        _put(self._index, kind, change.after)
                    else:
                        _drop(self._index, kind, change.key)
        except (WatchOverflow, Compacted):
            # More changes since the last decision than the watch buffers: reload.
            _close(self._watches)
            self._watches = {}
            await self._load()

    async def _load(self) -> None:
        async with self._loading:
            if self._watches:
                return
            index = PolicyIndex()
            watches: dict[Kind[Any], Watch] = {}
            try:
                for kind in _INDEXED:
                    listing = await self._objects.list(kind, "")
                    watches[kind] = await self._objects.watch(kind, "", after=listing.revision)
                    for record in listing.records:
                        _put(index, kind, record)
            except BaseException:
                _close(watches)
                raise
            self._index, self._watches = index, watches


def _put(index: PolicyIndex, kind: Kind[Any], record: Record) -> None:
    try:
        obj = kind.decode(record.value)
    except msgspec.ValidationError as error:
        # Only after a manual change of the store: validation rejects such objects. It grants nothing.
        log.error("RBAC object unreadable", key=record.key, error=str(error))
        _drop(index, kind, record.key)
        return
    if isinstance(obj, RoleBinding):
        index.put_binding(obj)
    else:
        index.put_role(obj)


def _drop(index: PolicyIndex, kind: Kind[Any], key: str) -> None:
    namespace, _, name = key.removeprefix(kind.store_prefix()).rpartition("/")
    drop = index.drop_binding if kind in (ROLE_BINDING, CLUSTER_ROLE_BINDING) else index.drop_role
    drop(namespace, name)


def _close(watches: Mapping[Kind[Any], Watch]) -> None:
    for watch in watches.values():
        watch.close()


@dataclass(frozen=True)
class Security:
    """Authorizer and token authenticators; by default for in-process callers only."""

    access: Authorizer = field(default_factory=AlwaysAllow)
    tokens: TokenAuthenticator = field(default_factory=lambda: StaticTokens({}))
    accounts: "ServiceAccountTokens | None" = None


def cluster_security(store: Store, *, clock: Clock, directory: Path, tokens: Mapping[str, User]) -> Security:
    """For a server on the network: RBAC, static `tokens`, and service account tokens signed with the directory's key.

    Raises BadSigningKey.
    """
    from mooring.server.auth.service_account_tokens import ServiceAccountTokens, ensure_signing_key

    objects = Objects(store)
    accounts = ServiceAccountTokens(ensure_signing_key(directory), objects, clock)
    known = TokenAuthenticatorChain(StaticTokens(tokens, audiences=accounts.audiences), accounts)
    return Security(RbacAuthorizer(objects), known, accounts)
