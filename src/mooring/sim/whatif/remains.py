"""Removes the claims that pods had for themselves alone once the pods are gone, as a cluster's garbage collector does.

The collector itself has no place in a what-if world: it would also remove everything whose owner nobody listed.
"""

from mooring.api.errors import Conflict, NotFound
from mooring.api.kinds import CLAIM, POD
from mooring.api.views.pod import Pod
from mooring.control.component import Component, Context
from mooring.control.worker import work


class Remains:
    name = "remains"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._pods = context.informers.of(POD)
        self._claims = context.informers.of(CLAIM)
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
            for volume in before.spec.volumes:
                if volume.ephemeral is not None:
                    self._work.add(f"{before.namespace}/{before.claim_name(volume)}")

    async def _sync(self, key: str) -> None:
        claim = self._claims.get(key)
        owner = claim.controller if claim is not None else None
        if claim is None or owner is None or owner.kind != POD.kind:
            return
        pod = self._pods.get(f"{claim.namespace}/{owner.name}")
        if pod is not None and pod.uid == owner.uid:
            return
        try:
            await self._client.delete(CLAIM, claim.name, namespace=claim.namespace, uid=claim.uid)
        except (NotFound, Conflict):
            # SEEN: somebody else was faster.
            return


def _contract(remains: Remains) -> Component:
    return remains
