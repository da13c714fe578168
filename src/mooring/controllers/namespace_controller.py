"""Deletes the contents of a terminating namespace, reports progress in its conditions, and removes its finalizer.

Pods are deleted first, as upstream, so that nothing a running pod relies on disappears under it. Between list and
delete the namespace is read again: if it was deleted and created again under its name, its new contents are not
touched. Knows Mooring's kinds only, which on the embedded server are all; on a real cluster this controller stays off.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from mooring.api import well_known
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM, NAMESPACE, POD, STORED, Kind
from mooring.api.patches.contract import StrategicPatch
from mooring.api.times import to_time
from mooring.api.views.core import Namespace
from mooring.api.views.meta import ApiObject
from mooring.client.contract import Unreachable
from mooring.client.live_reads import get_or_none
from mooring.control.component import Context, Reconciler
from mooring.controllers import namespace_progress
from mooring.controllers.namespace_progress import RemainingObjects

#: A stage starts when nothing remains of the previous one.
STAGES: Final = ((POD,), tuple(kind for kind in STORED if kind.namespaced and kind is not POD))
#: Kinds whose deletion usually takes time; their deletions trigger a recheck. Others are polled.
WATCHED_KINDS: Final[tuple[Kind[ApiObject], ...]] = (POD, CLAIM)
#: Wait for more deletions: they arrive in bursts, and every check lists the whole namespace.
DEBOUNCE_SECONDS: Final = 0.2
#: Per namespace; enough to hide latency.
MAX_CONCURRENT_DELETES: Final = 8
#: Attempts of a list whose response is lost.
MAX_LIST_ATTEMPTS: Final = 3

log = structlog.get_logger(__name__)


class NamespaceController(Reconciler[str]):
    name = "namespace-controller"
    #: As upstream.
    WORKERS = 10

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.work_queue("namespace", NAMESPACE))
        self._namespaces = context.informers.of(NAMESPACE)
        self._watched = [context.informers.of(kind) for kind in WATCHED_KINDS]

    async def _subscribe(self) -> None:
        await self._namespaces.subscribe(self._on_namespace)
        for informer in self._watched:
            await informer.subscribe(self._on_content)

    def _on_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        """Only the start of the deletion: later changes are mostly this controller's own."""
        if after is not None and after.deleting and (before is None or not before.deleting):
            self._queue.add(after.name)

    def _on_content(self, before: ApiObject | None, after: ApiObject | None) -> None:
        if before is None or after is not None:
            return
        namespace = self._namespaces.get(before.namespace)
        if namespace is not None and namespace.deleting:
            self._queue.add_after(namespace.name, DEBOUNCE_SECONDS)

    async def _sync(self, name: str) -> None:
        namespace = await self._find(name)
        if namespace is None:
            return
        # Bounds the backoff of retries: of several delays the earliest counts.
        self._queue.add_after(name, namespace_progress.MAX_PAUSE_SECONDS)
        left, refusals = await self._empty(namespace)
        namespace = await self._report(namespace, left, refusals)
        if refusals:
            raise refusals[0]
        if left:
            self._queue.add_after(name, namespace_progress.seconds_until_recheck(namespace, now=self._clock.now()))
        else:
            with contextlib.suppress(NotFound):
                await self._client.update(
                    NAMESPACE, namespace_progress.finalize_body(namespace), subresource="finalize"
                )
                log.info("namespace emptied", namespace=name)

    async def _find(self, name: str) -> Namespace | None:
        """The namespace from the server, if it is terminating and has the contents finalizer."""
        namespace = await get_or_none(self._client, NAMESPACE, name)
        if namespace is None or not namespace.deleting:
            return None
        return namespace if well_known.NAMESPACE_CONTENTS in namespace.spec.finalizers else None

    async def _empty(self, namespace: Namespace) -> tuple[list[RemainingObjects], list[ApiError]]:
        """Remaining objects and errors; an error for one kind does not stop the others of its stage."""
        left: list[RemainingObjects] = []
        refusals: list[ApiError] = []
        for stage in STAGES:
            for kind in stage:
                try:
                    rest = await self._remove(namespace, kind)
                except ApiError as refusal:
                    refusals.append(refusal)
                else:
                    if rest:
                        left.append(namespace_progress.remaining_objects(kind, rest, now=self._clock.now()))
            if left or refusals:
                break
        return left, refusals

    async def _remove(self, namespace: Namespace, kind: Kind[ApiObject]) -> Sequence[ApiObject]:
        """Delete all objects of a kind; return those that remain."""
        found = await self._list(kind, namespace.name)
        if not found:
            return ()
        now = await self._find(namespace.name)
        if now is None or now.uid != namespace.uid:
            # Race: the namespace was deleted meanwhile; what was listed may belong to its successor.
            return ()
        await self._delete(kind, [item for item in found if not item.deleting])
        return await self._list(kind, namespace.name)

    async def _list(self, kind: Kind[ApiObject], namespace: str) -> Sequence[ApiObject]:
        """Lost responses are retried at once: with this many lists per check, one is often lost."""
        for _ in range(MAX_LIST_ATTEMPTS - 1):
            try:
                return (await self._client.list(kind, namespace=namespace)).items
            except Unreachable:
                log.debug("list request failed", kind=kind.plural, namespace=namespace)
        return (await self._client.list(kind, namespace=namespace)).items

    async def _delete(self, kind: Kind[ApiObject], items: Iterable[ApiObject]) -> None:
        """Delete concurrently; raise the first error after all requests."""
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
                except (ApiError, Unreachable) as refusal:
                    refusals.append(refusal)
                    if isinstance(refusal, Unreachable):
                        return

        async with asyncio.TaskGroup() as group:
            for _ in range(MAX_CONCURRENT_DELETES):
                group.create_task(ask())
        if refusals:
            raise refusals[0]

    async def _report(
        self, namespace: Namespace, left: Sequence[RemainingObjects], refusals: Sequence[ApiError]
    ) -> Namespace:
        desired = namespace_progress.conditions(namespace.name, left, (refusal.message for refusal in refusals))
        changed = namespace_progress.changed_conditions(
            namespace.status.conditions, desired, moment=to_time(self._clock.now())
        )
        if not changed:
            return namespace
        meta = {"resourceVersion": namespace.metadata.resource_version}
        patch = StrategicPatch({"metadata": meta, "status": {"conditions": changed}})
        return await self._client.patch(NAMESPACE, namespace.name, patch, subresource="status")
