"""Namespace deletion: empties a namespace that is being deleted, says how far it is, and lets it go.

The shell around `namespace_progress`. Pods go first, as upstream has it, and the rest once no pod is left, so that
nothing a running pod relies on vanishes under it. What holds on to its objects is waited for: nodes end pods,
protection lets go of claims.

    list ─► is it still this namespace? ─► delete, by uid ─► list again ─► report ─► nothing left: finalize

The look at the namespace between list and deletion makes the list one of *this* namespace: had it gone and come again
under its name, perhaps by the hand of another instance of this controller, its new contents are not touched.

Knows the kinds of Mooring's table, which on the embedded server is all there are. A real cluster has more of them and
a namespace controller of its own; there this one stays off, or it would let go of namespaces that are not empty.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from mooring.api import keys
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM, NAMESPACE, POD, STORED, Kind
from mooring.api.patches.contract import StrategicPatch
from mooring.api.timestamps import to_time
from mooring.api.views.meta import ApiObject
from mooring.api.views.namespace import Namespace
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.workloads.namespace_progress import (
    LONGEST_PAUSE,
    Leftovers,
    conditions,
    leftovers,
    news,
    pause,
    released,
)

#: What is removed, stage by stage; a stage begins when nothing is left of those before it.
STAGES: Final[tuple[tuple[Kind[ApiObject], ...], ...]] = (
    (POD,),
    tuple(kind for kind in STORED if kind.namespaced and kind is not POD),
)
#: Kinds whose objects usually take their time to go. For others with finalizers, looking again now and then will do.
LINGERING: Final[tuple[Kind[ApiObject], ...]] = (POD, CLAIM)
#: How long to wait for more after one of those went: they go in swarms, and every look at a namespace lists it all.
GATHERING: Final = 0.2
#: Upstream's number of namespaces emptied at once.
WORKERS: Final = 10
#: Deletions under way at once in one namespace: enough to hide the way to the server.
AT_ONCE: Final = 8
#: How often a list is asked for in one go when its answer gets lost.
LIST_TRIES: Final = 3

log = structlog.get_logger(__name__)


class NamespaceController:
    name = "namespace-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._clock = context.clock
        self._namespaces = context.informers.of(NAMESPACE)
        self._lingering = [context.informers.of(kind) for kind in LINGERING]
        self._queue = context.work_queue("namespace")
        self.ready = False

    async def run(self) -> None:
        await self._namespaces.subscribe(self._on_namespace)
        for informer in self._lingering:
            await informer.subscribe(self._on_content)
        self.ready = True
        await work(self._queue, self._sync, workers=WORKERS, name=self.name)

    def _on_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        """Only the beginning counts: later changes are mostly our own reports."""
        if after is not None and after.deleting and (before is None or not before.deleting):
            self._queue.add(after.name)

    def _on_content(self, before: ApiObject | None, after: ApiObject | None) -> None:
        if before is None or after is not None:
            return
        namespace = self._namespaces.get(before.namespace)
        if namespace is not None and namespace.deleting:
            self._queue.add_after(namespace.name, GATHERING)

    async def _sync(self, name: str) -> None:
        namespace = await self._find(name)
        if namespace is None:
            return
        # The pauses between retries grow beyond this; of several delays the shortest counts.
        self._queue.add_after(name, LONGEST_PAUSE)
        left, refusals = await self._empty(namespace)
        namespace = await self._report(namespace, left, refusals)
        if refusals:
            raise refusals[0]
        if left:
            self._queue.add_after(name, pause(namespace, now=self._clock.now()))
        else:
            await self._release(namespace)

    async def _find(self, name: str) -> Namespace | None:
        """The namespace as the server has it, if it is ours to empty."""
        try:
            namespace = await self._client.get(NAMESPACE, name)
        except NotFound:
            return None
        return namespace if namespace.deleting and keys.NAMESPACE_CONTENTS in namespace.spec.finalizers else None

    async def _empty(self, namespace: Namespace) -> tuple[list[Leftovers], list[ApiError]]:
        """What is left, and what the server refused; a refusal for one kind does not keep the others."""
        left: list[Leftovers] = []
        refusals: list[ApiError] = []
        for stage in STAGES:
            for kind in stage:
                try:
                    rest = await self._remove(namespace, kind)
                except ApiError as refusal:
                    refusals.append(refusal)
                else:
                    if rest:
                        left.append(leftovers(kind, rest, now=self._clock.now()))
            if left or refusals:
                break
        return left, refusals

    async def _remove(self, namespace: Namespace, kind: Kind[ApiObject]) -> Sequence[ApiObject]:
        """Asks for the deletion of all objects of a kind, and returns those that are there afterwards."""
        found = await self._list(kind, namespace.name)
        if not found:
            return ()
        now = await self._find(namespace.name)
        if now is None or now.uid != namespace.uid:
            # SEEN: the namespace is gone. What was found is not its content, and no later write will get through.
            return ()
        await self._delete(kind, [item for item in found if not item.deleting])
        return await self._list(kind, namespace.name)

    async def _list(self, kind: Kind[ApiObject], namespace: str) -> Sequence[ApiObject]:
        """A list that gets lost is asked for again at once: of all the kinds looked at in one go, one often does."""
        for _ in range(LIST_TRIES - 1):
            try:
                return (await self._client.list(kind, namespace=namespace)).items
            except Unreachable:
                log.debug("a list got lost", kind=kind.plural, namespace=namespace)
        return (await self._client.list(kind, namespace=namespace)).items

    async def _delete(self, kind: Kind[ApiObject], items: Iterable[ApiObject]) -> None:
        """Some at a time, in order; raises the first refusal once all were asked for."""
        rest = iter(items)
        refusals: list[ApiError | Unreachable] = []

        async def ask() -> None:
            for item in rest:
                try:
                    await self._client.delete(
                        kind, item.name, namespace=item.namespace, uid=item.uid, propagation="Background"
                    )
                except NotFound:
                    continue
                except ApiError as refusal:
                    refusals.append(refusal)
                except Unreachable as silence:
                    refusals.append(silence)
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(ask())
        if refusals:
            raise refusals[0]

    async def _report(self, namespace: Namespace, left: Sequence[Leftovers], refusals: Sequence[ApiError]) -> Namespace:
        wanted = conditions(namespace.name, left, (refusal.message for refusal in refusals))
        changed = news(namespace.status.conditions, wanted, moment=to_time(self._clock.now()))
        if not changed:
            return namespace
        body = {
            "metadata": {"resourceVersion": namespace.metadata.resource_version},
            "status": {"conditions": changed},
        }
        return await self._client.patch(NAMESPACE, namespace.name, StrategicPatch(body), subresource="status")

    async def _release(self, namespace: Namespace) -> None:
        try:
            await self._client.update(NAMESPACE, released(namespace), subresource="finalize")
        except NotFound:
            return
        log.info("namespace emptied", namespace=namespace.name)
