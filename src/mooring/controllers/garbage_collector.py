"""Owner garbage collection: deletes objects without a remaining owner, and finishes foreground and orphan deletion.

An object is deleted only if every owner is certainly gone: not in the cache *and* NotFound at the server, or present
with another uid; or if all remaining owners wait for it in the foreground. Owners of unknown kinds, and namespaced
owners of cluster-scoped objects, keep their dependents.
"""

import contextlib
import enum
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import msgspec
import structlog

from mooring.api import well_known
from mooring.api.errors import NotFound
from mooring.api.kinds import BY_KIND, EVENT, STORED, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject, OwnerReference
from mooring.client.cache import BY_OWNER
from mooring.client.contract import Deletion
from mooring.control.component import Context, Reconciler
from mooring.control.workqueue import WorkQueue

#: Kinds considered as dependents and owners. Events have no owners and are many.
COLLECTED: Final[tuple[Kind[ApiObject], ...]] = tuple(kind for kind in STORED if kind is not EVENT)
DELETION_FINALIZERS: Final = frozenset({well_known.FOREGROUND_DELETION, well_known.ORPHAN_DEPENDENTS})

log = structlog.get_logger(__name__)


class OwnerState(enum.Enum):
    ALIVE = "alive"
    GONE = "gone"
    #: In foreground deletion.
    WAITING = "waiting"


def stale_owners(states: Mapping[str, OwnerState]) -> set[str]:
    """Uids of owners that do not keep the object: all of them delete it, some are dropped from its references."""
    return {uid for uid, state in states.items() if state is not OwnerState.ALIVE}


def blocks(dependent: ApiObject, owner_uid: str) -> bool:
    """Whether foreground deletion of the owner waits for this dependent."""
    return any(o.uid == owner_uid and o.block_owner_deletion for o in dependent.metadata.owner_references)


class _Item(NamedTuple):
    kind: Kind[ApiObject]
    key: str


class GarbageCollector(Reconciler[_Item]):
    name = "garbage-collector"
    WORKERS = 2

    def __init__(self, context: Context) -> None:
        def report(item: _Item, error: Exception) -> None:
            context.internal_error("garbage_collector", error, self._informers[item.kind].get(item.key), item.kind)

        super().__init__(context, WorkQueue(context.clock, context.observer("garbage_collector"), report=report))
        self._informers = {kind: context.informers.of(kind) for kind in COLLECTED}
        for informer in self._informers.values():
            informer.add_index(*BY_OWNER)

    async def _subscribe(self) -> None:
        for kind, informer in self._informers.items():
            await informer.subscribe(partial(self._on_change, kind))

    def _on_change(self, kind: Kind[ApiObject], before: ApiObject | None, after: ApiObject | None) -> None:
        relevant = before is None or _collection_state(before) != _collection_state(after)
        if relevant and after is not None and (after.metadata.owner_references or _has_deletion_finalizer(after)):
            self._queue.add(_Item(kind, after.key))
        changed = after if after is not None else before
        if relevant and changed is not None and (after is None or after.deleting):
            for dependent_kind, dependent in self._dependents(changed.uid):
                self._queue.add(_Item(dependent_kind, dependent.key))
        if before is not None and (
            after is None or before.metadata.owner_references != after.metadata.owner_references
        ):
            for reference in before.metadata.owner_references:
                if (owner := _kind_of(reference, before)) is not None:
                    self._queue.add(_Item(owner, _key(owner, reference, before)))

    def _dependents(self, uid: str) -> list[tuple[Kind[ApiObject], ApiObject]]:
        return [(k, item) for k, informer in self._informers.items() for item in informer.by_index(BY_OWNER.name, uid)]

    async def _sync(self, key: _Item) -> None:
        informer = self._informers.get(key.kind)
        item = informer.get(key.key) if informer is not None else None
        if item is None:
            return
        if _has_deletion_finalizer(item):
            await self._release_owner(key.kind, item)
        if item.metadata.owner_references:
            await self._collect(key.kind, item)

    async def _collect(self, kind: Kind[ApiObject], item: ApiObject) -> None:
        states = {o.uid: await self._state(o, item) for o in item.metadata.owner_references}
        stale = stale_owners(states)
        if len(stale) < len(states):
            if stale:
                await self._drop_owners(kind, item, stale)
        elif not item.deleting:
            await self._delete(kind, item)

    async def _state(self, reference: OwnerReference, dependent: ApiObject) -> OwnerState:
        kind = _kind_of(reference, dependent)
        if kind is None:
            return OwnerState.ALIVE
        informer = self._informers.get(kind)
        owner = informer.get(_key(kind, reference, dependent)) if informer is not None else None
        if owner is None or owner.uid != reference.uid:
            try:
                namespace = dependent.namespace if kind.namespaced else ""
                owner = await self._client.get(kind, reference.name, namespace=namespace)
            except NotFound:
                return OwnerState.GONE
        if owner.uid != reference.uid:
            return OwnerState.GONE
        if owner.deleting and well_known.FOREGROUND_DELETION in owner.metadata.finalizers:
            return OwnerState.WAITING
        return OwnerState.ALIVE

    async def _release_owner(self, kind: Kind[ApiObject], owner: ApiObject) -> None:
        dependents = self._dependents(owner.uid)
        if well_known.ORPHAN_DEPENDENTS in owner.metadata.finalizers:
            for dependent_kind, dependent in dependents:
                await self._drop_owners(dependent_kind, dependent, {owner.uid})
            await self._drop_finalizer(kind, owner, well_known.ORPHAN_DEPENDENTS)
        elif not any(blocks(dependent, owner.uid) for _, dependent in dependents):
            await self._drop_finalizer(kind, owner, well_known.FOREGROUND_DELETION)

    async def _delete(self, kind: Kind[ApiObject], item: ApiObject) -> None:
        """With resourceVersion: another owner may have been added since."""
        options = Deletion(uid=item.uid, resource_version=item.metadata.resource_version, propagation="Background")
        with contextlib.suppress(NotFound):
            await self._client.delete(kind, item.name, namespace=item.namespace, **options)
            log.info("object garbage-collected", kind=kind.kind, object=item.key)

    async def _drop_owners(self, kind: Kind[ApiObject], item: ApiObject, uids: set[str]) -> None:
        rest = [msgspec.to_builtins(o) for o in item.metadata.owner_references if o.uid not in uids]
        await self._patch(kind, item, {"ownerReferences": rest or None})

    async def _drop_finalizer(self, kind: Kind[ApiObject], item: ApiObject, finalizer: str) -> None:
        rest = [name for name in item.metadata.finalizers if name != finalizer]
        await self._patch(kind, item, {"finalizers": rest or None})

    async def _patch(self, kind: Kind[ApiObject], item: ApiObject, meta: dict[str, object]) -> None:
        body = {"metadata": {"resourceVersion": item.metadata.resource_version} | meta}
        await self._client.patch(kind, item.name, MergePatch(body), namespace=item.namespace)


def _collection_state(item: ApiObject | None) -> tuple[object, ...]:
    """The fields that decide about an object and its dependents; heartbeats do not change them."""
    if item is None:
        return ()
    return (item.metadata.owner_references, item.metadata.finalizers, item.deleting)


def _has_deletion_finalizer(item: ApiObject) -> bool:
    return item.deleting and not DELETION_FINALIZERS.isdisjoint(item.metadata.finalizers)


def _kind_of(reference: OwnerReference, dependent: ApiObject) -> Kind[ApiObject] | None:
    """None if the owner cannot be looked up: unknown kind, or namespaced owner of a cluster-scoped object."""
    kind = BY_KIND.get((reference.api_version, reference.kind))
    if kind is None or (kind.namespaced and not dependent.namespace):
        return None
    return kind


def _key(kind: Kind[ApiObject], reference: OwnerReference, dependent: ApiObject) -> str:
    return f"{dependent.namespace}/{reference.name}" if kind.namespaced else reference.name
