"""Writes down what the templates of an owner were, and finds them again. The shell around `revisions`.

Used by the controllers of StatefulSets and DaemonSets; each has its own.
"""

import structlog

from mooring.api.errors import AlreadyExists, NotFound
from mooring.api.kinds import CONTROLLER_REVISION, Kind
from mooring.api.patches.contract import MergePatch
from mooring.api.views.meta import ApiObject
from mooring.api.views.revision import ControllerRevision
from mooring.client.indexes import BY_OWNER
from mooring.control.component import Context
from mooring.workloads import ownership, revisions
from mooring.workloads.revisions import HISTORY, Revision, Revisions

log = structlog.get_logger(__name__)


class RevisionHistory:
    def __init__(self, context: Context, kind: Kind[ApiObject]) -> None:
        self._client = context.client
        self._kind = kind
        self.informer = context.informers.of(CONTROLLER_REVISION)
        self.informer.add_index(*BY_OWNER)

    async def settle(self, owner: ApiObject, newest: Revision, *, current: str) -> Revisions:
        """Have the newest template written down as the latest revision; `current` is what the owner's status names."""
        stored = self._of(owner)
        known = next((revision for revision in stored if revision.name == newest.name), None)
        number = revisions.next_number(stored)
        if known is None:
            await self._record(owner, newest, number)
        elif known.revision != number - 1:
            # SEEN: an older template is back, by an undo or by hand.
            await self._renumber(known, number)
        before = next((revision for revision in stored if revision.name == current), None)
        return Revisions(revisions.recorded(before) if before is not None else newest, newest)

    async def trim(self, owner: ApiObject, in_use: set[str], limit: int | None) -> None:
        """Forget the oldest that nobody needs."""
        if owner.deleting:
            return
        for old in revisions.outdated(self._of(owner), in_use, HISTORY if limit is None else limit):
            try:
                await self._client.delete(CONTROLLER_REVISION, old.name, namespace=old.namespace, uid=old.uid)
            except NotFound:
                log.debug("revision was gone already", revision=old.key)

    def _of(self, owner: ApiObject) -> list[ControllerRevision]:
        return list(self.informer.by_index(BY_OWNER.name, owner.uid))

    async def _record(self, owner: ApiObject, newest: Revision, number: int) -> None:
        body = revisions.body(self._kind, owner, newest, number=number)
        try:
            await self._client.create(CONTROLLER_REVISION, body, namespace=owner.namespace)
        except AlreadyExists:
            there = await self._client.get(CONTROLLER_REVISION, newest.name, namespace=owner.namespace)
            if there.controller is None and not there.deleting:
                # SEEN: left behind by an owner that was deleted without its dependents.
                patch = ownership.adoption(self._kind, owner, there)
                await self._client.patch(CONTROLLER_REVISION, there.name, patch, namespace=there.namespace)
            elif there.controller is None or there.controller.uid != owner.uid:
                # SEEN: it goes with an earlier owner of this name; by the next try it is gone.
                raise

    async def _renumber(self, known: ControllerRevision, number: int) -> None:
        meta = {"resourceVersion": known.metadata.resource_version}
        patch = MergePatch({"metadata": meta, "revision": number})
        await self._client.patch(CONTROLLER_REVISION, known.name, patch, namespace=known.namespace)
