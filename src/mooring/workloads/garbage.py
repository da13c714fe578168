"""Owner garbage collection: what lost its last owner goes, and owners that wait for their dependents are let go.

Pure rules first (`fate`, `blocks`), then the shell. An object goes only if every owner it names is certainly gone:
absent from the cache *and* denied by the server, or there under another uid; or if all that are left wait for it to go.
Owners this server does not know, and owners that cannot be (a namespaced one of an object without a namespace), keep
their dependents alive. What a dependent itself owns is collected in the background, also under foreground deletion.
"""

import enum
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

import structlog

from mooring.api import keys
from mooring.api.errors import NotFound
from mooring.api.kinds import BY_KIND, EVENT, STORED, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject, OwnerReference
from mooring.client.indexes import BY_OWNER
from mooring.control.component import Context
from mooring.control.queue import WorkQueue
from mooring.control.worker import work

#: Kinds whose objects are looked at as dependents and as owners. Events have no owners and there are many.
COLLECTED: Final[tuple[Kind[ApiObject], ...]] = tuple(kind for kind in STORED if kind is not EVENT)
WORKERS: Final = 2

log = structlog.get_logger(__name__)


class OwnerState(enum.Enum):
    ALIVE = "alive"
    GONE = "gone"
    #: Being deleted, and waiting in the foreground until its dependents are gone.
    WAITING = "waiting"


class Fate(enum.Enum):
    KEEP = "keep"
    DELETE = "delete"
    #: Some owners are gone, another lives: only the dead references go.
    TRIM = "trim"


def fate(states: Mapping[str, OwnerState]) -> Fate:
    """What becomes of an object whose owners, by uid, are in these states."""
    if not states or all(state is OwnerState.ALIVE for state in states.values()):
        return Fate.KEEP
    if OwnerState.ALIVE in states.values():
        return Fate.TRIM
    return Fate.DELETE


def blocks(dependent: ApiObject, owner_uid: str) -> bool:
    """Whether an owner that waits in the foreground has to wait for this dependent."""
    return any(o.uid == owner_uid and o.block_owner_deletion for o in dependent.metadata.owner_references)


class _Item(NamedTuple):
    kind: Kind[ApiObject]
    key: str


class GarbageCollector:
    name = "garbage-collector"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._informers = {kind: context.informers.of(kind) for kind in COLLECTED}
        for informer in self._informers.values():
            informer.add_index(*BY_OWNER)
        self._queue: WorkQueue[_Item] = WorkQueue(context.clock, context.observer("garbage_collector"))
        self.ready = False

    async def run(self) -> None:
        for kind, informer in self._informers.items():
            await informer.subscribe(partial(self._on_change, kind))
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_change(self, kind: Kind[ApiObject], before: ApiObject | None, after: ApiObject | None) -> None:
        news = before is None or _fate_facts(before) != _fate_facts(after)
        if news and after is not None and (after.metadata.owner_references or _waits(after)):
            self._queue.add(_Item(kind, after.key))
        changed = after if after is not None else before
        if news and changed is not None and (after is None or after.deleting):
            for dependent_kind, dependent in self._dependents(changed.uid):
                self._queue.add(_Item(dependent_kind, dependent.key))
        if before is not None and _owners(before) != _owners(after):
            self._look_at_owners(before)

    def _look_at_owners(self, dependent: ApiObject) -> None:
        for reference in dependent.metadata.owner_references:
            kind = _kind_of(reference, dependent)
            if kind is not None:
                self._queue.add(_Item(kind, _key(kind, reference, dependent)))

    def _dependents(self, uid: str) -> list[tuple[Kind[ApiObject], ApiObject]]:
        return [(k, item) for k, informer in self._informers.items() for item in informer.by_index(BY_OWNER.name, uid)]

    async def _sync(self, item: _Item) -> None:
        informer = self._informers.get(item.kind)
        thing = informer.get(item.key) if informer is not None else None
        if thing is None:
            return
        if _waits(thing):
            await self._serve_waiting(item.kind, thing)
        if thing.metadata.owner_references:
            await self._judge(item.kind, thing)

    async def _judge(self, kind: Kind[ApiObject], thing: ApiObject) -> None:
        references = thing.metadata.owner_references
        states = {o.uid: await self._state(o, thing) for o in references}
        match fate(states):
            case Fate.KEEP:
                return
            case Fate.DELETE:
                if not thing.deleting:
                    await self._delete(kind, thing)
            case Fate.TRIM:
                dead = {uid for uid, state in states.items() if state is not OwnerState.ALIVE}
                await self._drop_owners(kind, thing, dead)

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
        if owner.deleting and keys.FOREGROUND_DELETION in owner.metadata.finalizers:
            return OwnerState.WAITING
        return OwnerState.ALIVE

    async def _serve_waiting(self, kind: Kind[ApiObject], owner: ApiObject) -> None:
        dependents = self._dependents(owner.uid)
        if keys.ORPHAN_DEPENDENTS in owner.metadata.finalizers:
            for dependent_kind, dependent in dependents:
                await self._drop_owners(dependent_kind, dependent, {owner.uid})
            await self._drop_finalizer(kind, owner, keys.ORPHAN_DEPENDENTS)
        elif not any(blocks(dependent, owner.uid) for _, dependent in dependents):
            await self._drop_finalizer(kind, owner, keys.FOREGROUND_DELETION)

    async def _delete(self, kind: Kind[ApiObject], thing: ApiObject) -> None:
        """Of this very version: somebody may have given the object another owner since."""
        try:
            await self._client.delete(
                kind,
                thing.name,
                namespace=thing.namespace,
                uid=thing.uid,
                resource_version=thing.metadata.resource_version,
                propagation="Background",
            )
        except NotFound:
            return
        log.info("collected", kind=kind.kind, object=thing.key)

    async def _drop_owners(self, kind: Kind[ApiObject], thing: ApiObject, uids: Iterable[str]) -> None:
        gone = set(uids)
        rest = [_reference(o) for o in thing.metadata.owner_references if o.uid not in gone]
        await self._patch(kind, thing, {"ownerReferences": rest or None})

    async def _drop_finalizer(self, kind: Kind[ApiObject], thing: ApiObject, finalizer: str) -> None:
        rest = [name for name in thing.metadata.finalizers if name != finalizer]
        await self._patch(kind, thing, {"finalizers": rest or None})

    async def _patch(self, kind: Kind[ApiObject], thing: ApiObject, meta: dict[str, object]) -> None:
        body = {"metadata": {"resourceVersion": thing.metadata.resource_version} | meta}
        await self._client.patch(kind, thing.name, MergePatch(body), namespace=thing.namespace)


def _fate_facts(thing: ApiObject | None) -> tuple[object, ...]:
    """Of all that changes on an object, what decides over it and its dependents; heartbeats change none of it."""
    if thing is None:
        return ()
    return (thing.metadata.owner_references, thing.metadata.finalizers, thing.deleting)


def _waits(thing: ApiObject) -> bool:
    finalizers = thing.metadata.finalizers
    return thing.deleting and (keys.FOREGROUND_DELETION in finalizers or keys.ORPHAN_DEPENDENTS in finalizers)


def _owners(thing: ApiObject | None) -> tuple[OwnerReference, ...]:
    return thing.metadata.owner_references if thing is not None else ()


def _kind_of(reference: OwnerReference, dependent: ApiObject) -> Kind[ApiObject] | None:
    """None for an owner that cannot be looked up: of a kind not served, or in no namespace it could be in."""
    kind = BY_KIND.get((reference.api_version, reference.kind))
    if kind is None or (kind.namespaced and not dependent.namespace):
        return None
    return kind


def _key(kind: Kind[ApiObject], reference: OwnerReference, dependent: ApiObject) -> str:
    return f"{dependent.namespace}/{reference.name}" if kind.namespaced else reference.name


def _reference(owner: OwnerReference) -> dict[str, object]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }
