"""Removes the claims that pods own once the pods are gone, as a cluster's garbage collector does: those of ephemeral
volumes, and those of a StatefulSet whose retention policy says so.

The collector itself has no place in a what-if world: it would also remove everything whose owner nobody listed.
"""

from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, POD
from mooring.api.views.meta import OwnerReference
from mooring.api.views.pod import Pod
from mooring.client.indexes import BY_OWNER, BY_UID
from mooring.control.component import Component, Context
from mooring.control.worker import work


class Remains:
    name = "remains"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._pods = context.informers.of(POD)
        self._pods.add_index(*BY_UID)
        self._claims = context.informers.of(CLAIM)
        self._claims.add_index(*BY_OWNER)
        self._work = context.work_queue("remains")
        self.ready = False

    async def run(self) -> None:
        await self._pods.synced.wait()
        await self._claims.synced.wait()
        self._pods.on_change(self._on_pod)
        self.ready = True
        await work(self._work, self._sync, workers=1, name=self.name)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and after is None:
            for claim in self._claims.by_index(BY_OWNER.name, before.uid):
                self._work.add(claim.key)

    async def _sync(self, key: str) -> None:
        claim = self._claims.get(key)
        owners = () if claim is None else claim.metadata.owner_references
        if claim is None or not owners or any(owner.kind != POD.kind or self._is_there(owner) for owner in owners):
            return
        try:
            await self._client.delete(CLAIM, claim.name, namespace=claim.namespace, uid=claim.uid)
        except (NotFound, Conflict):
            # SEEN: somebody else was faster.
            return

    def _is_there(self, owner: OwnerReference) -> bool:
        return bool(self._pods.by_index(BY_UID.name, owner.uid))


def _contract(remains: Remains) -> Component:
    return remains
