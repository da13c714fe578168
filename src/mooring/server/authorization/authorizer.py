"""The decision at the newest revision: an index that takes up what was written before every question.

Roles and bindings are read once; from then on their changes wait in watches of the store, and are taken from there
without waiting when somebody asks. So a right counts from the moment its write was acknowledged, and is gone from the
moment its removal was; there is no task that could lag behind.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from mooring.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, Kind
from mooring.api.views.access import PolicyRule
from mooring.server.authorization.access import Access
from mooring.server.authorization.attributes import Decision, Request
from mooring.server.authorization.index import PolicyIndex, UserRules
from mooring.server.contract import User
from mooring.server.objects import Objects
from mooring.store.contract import Change, Compacted, Overrun, Record, Watch

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Filing:
    """How objects of one kind get into an index and out of it."""

    put: Callable[[PolicyIndex, Any], None]
    drop: Callable[[PolicyIndex, str, str], None]


_ROLES: Final = _Filing(PolicyIndex.put_role, PolicyIndex.drop_role)
_BINDINGS: Final = _Filing(PolicyIndex.put_binding, PolicyIndex.drop_binding)
_FILINGS: Final[Mapping[Kind[Any], _Filing]] = {
    ROLE: _ROLES,
    CLUSTER_ROLE: _ROLES,
    ROLE_BINDING: _BINDINGS,
    CLUSTER_ROLE_BINDING: _BINDINGS,
}


class Authorizer:
    """Role-based access control over the objects of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._index = PolicyIndex()
        self._watches: dict[Kind[Any], Watch] = {}
        self._loading = asyncio.Lock()

    async def decide(self, user: User, request: Request) -> Decision:
        await self._catch_up()
        return self._index.decide(user, request)

    async def rules_of(self, user: User, namespace: str) -> UserRules:
        await self._catch_up()
        return self._index.rules_of(user, namespace)

    async def role(self, namespace: str, name: str) -> Sequence[PolicyRule] | None:
        await self._catch_up()
        return self._index.role(namespace, name)

    async def _catch_up(self) -> None:
        try:
            if not self._watches:
                await self._load()
            for kind, watch in self._watches.items():
                for change in watch.waiting():
                    self._take(self._index, kind, change)
        except (Overrun, Compacted):
            # So much was written since the last question that the changes were not kept: begin again.
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
                for kind in _FILINGS:
                    listing = await self._objects.list(kind, "")
                    watches[kind] = await self._objects.watch(kind, "", after=listing.revision)
                    for record in listing.records:
                        self._put(index, kind, record)
            except BaseException:
                _close(watches)
                raise
            self._index, self._watches = index, watches

    def _take(self, index: PolicyIndex, kind: Kind[Any], change: Change) -> None:
        if change.after is not None:
            self._put(index, kind, change.after)
        else:
            self._drop(index, kind, change.key)

    def _put(self, index: PolicyIndex, kind: Kind[Any], record: Record) -> None:
        try:
            obj = kind.decode(record.value)
        except msgspec.ValidationError as error:
            # Validation lets nothing like it in; a file edited by hand might. What cannot be read grants nothing.
            log.error("unreadable access rules", key=record.key, why=str(error))
            self._drop(index, kind, record.key)
        else:
            _FILINGS[kind].put(index, obj)

    def _drop(self, index: PolicyIndex, kind: Kind[Any], key: str) -> None:
        namespace, _, name = key.removeprefix(kind.store_prefix()).rpartition("/")
        _FILINGS[kind].drop(index, namespace, name)


def _close(watches: Mapping[Kind[Any], Watch]) -> None:
    for watch in watches.values():
        watch.close()


_contract: type[Access] = Authorizer
