"""The stand-ins' shell: watches claims, volumes, classes and nodes, and carries out what `claims` and `reclaim` say.

One component plays all stand-ins. It keeps nothing but what the objects say, so it may end and start at any moment; a
volume's name follows from its claim's uid, so making it twice makes it once.
"""

import asyncio
from typing import Final

import structlog

from mooring.api import keys
from mooring.api.errors import AlreadyExists, ApiError, NotFound
from mooring.api.kinds import CLAIM, NODE, STORAGE_CLASS, VOLUME
from mooring.api.patches.contract import MergePatch
from mooring.api.views.claim import Claim
from mooring.api.views.node import Node
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.client.contract import Unreachable
from mooring.control.component import Context
from mooring.control.worker import work
from mooring.provisioner.standins.claims import Plan, Task, decide, task
from mooring.provisioner.standins.contract import Refused
from mooring.provisioner.standins.pools import Pools
from mooring.provisioner.standins.reclaim import Upkeep, made_here, upkeep

WORKERS: Final = 16
#: external-provisioner's --retry-interval-start and -max.
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0

log = structlog.get_logger(__name__)


class StandInProvisioner:
    name = "standin-provisioner"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._claims = context.informers.of(CLAIM)
        self._volumes = context.informers.of(VOLUME)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._nodes = context.informers.of(NODE)
        self._claim_work = context.work_queue("standin_claims")
        self._volume_work = context.work_queue("standin_volumes")
        self._pools = Pools()
        #: Claims that could not be served, and how often in a row.
        self._refusals: dict[str, int] = {}
        self.ready = False

    async def run(self) -> None:
        await self._volumes.subscribe(self._on_volume)
        await self._classes.subscribe(self._on_class)
        await self._nodes.subscribe(self._on_node)
        await self._claims.subscribe(self._on_claim)
        self.ready = True
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._claim_work, self._sync_claim, workers=WORKERS, name=f"{self.name} claims"))
            group.create_task(work(self._volume_work, self._sync_volume, workers=WORKERS, name=f"{self.name} volumes"))

    def _on_claim(self, _: Claim | None, after: Claim | None) -> None:
        if after is not None and task(after, self._classes.get(after.storage_class)) is not None:
            self._claim_work.add(after.key)

    def _on_class(self, _: StorageClass | None, after: StorageClass | None) -> None:
        """A claim may have been handed over before its class could be seen here."""
        for claim in self._claims.items():
            if after is not None and claim.storage_class == after.name:
                self._on_claim(None, claim)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        """Who was refused may find a place now; who waits for a node that is gone has to be told."""
        if before is None or after is None or before.metadata.labels != after.metadata.labels:
            for key in self._refusals:
                self._claim_work.add(key)
        if after is None:
            for claim in self._claims.items():
                self._on_claim(None, claim)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        if after is not None and made_here(after):
            self._pools.observe(after)
            if upkeep(after) is not None:
                self._volume_work.add(after.key)
        elif before is not None and after is None and made_here(before):
            self._pools.release(before.name)
            for key in self._refusals:
                self._claim_work.add(key)

    async def _sync_claim(self, key: str) -> None:
        claim = self._claims.get(key)
        wanted = None if claim is None else task(claim, self._classes.get(claim.storage_class))
        if wanted is None or self._volumes.get(wanted.volume) is not None:
            self._refusals.pop(key, None)
            return
        self._say(wanted, "Normal", "Provisioning", f'External provisioner is provisioning volume for claim "{key}"')
        answer = await self._decide(wanted)
        if isinstance(answer, Plan):
            await self._create(wanted, answer)
        else:
            await self._refuse(wanted, answer)

    async def _decide(self, wanted: Task) -> Plan | Refused:
        name = wanted.claim.selected_node
        node = self._nodes.get(name) if name else None
        if name and node is None:
            try:
                node = await self._client.get(NODE, name)
            except NotFound:
                return Refused(f'node "{name}" not found', elsewhere=True)
        plan = decide(wanted, node, self._nodes.items(), self._pools)
        if isinstance(plan, Plan):
            # Charged before anything is awaited: claims decided meanwhile must see it.
            self._pools.charge(wanted.volume, wanted.storage_class.name, plan.places, wanted.size)
        return plan

    async def _create(self, wanted: Task, plan: Plan) -> None:
        try:
            await self._client.create(VOLUME, plan.body)
        except AlreadyExists:
            log.debug("made already", volume=wanted.volume)
        except (ApiError, Unreachable):
            # If it was made after all, the volume itself brings the charge back.
            self._pools.release(wanted.volume)
            raise
        self._refusals.pop(wanted.claim.key, None)
        log.info("provisioned", claim=wanted.claim.key, volume=wanted.volume, places=[*map(sorted, plan.places)])
        self._say(wanted, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {wanted.volume}")

    async def _refuse(self, wanted: Task, refused: Refused) -> None:
        claim = wanted.claim
        text = f'failed to provision volume with StorageClass "{wanted.storage_class.name}": {refused.why}'
        log.info("cannot provision", claim=claim.key, why=refused.why, elsewhere=refused.elsewhere)
        if refused.elsewhere and claim.selected_node is not None:
            await self._give_node_back(claim)
            self._refusals.pop(claim.key, None)
        else:
            count = self._refusals.get(claim.key, 0)
            self._refusals[claim.key] = count + 1
            # The ninth doubling is beyond the longest pause.
            self._claim_work.add_after(claim.key, min(FIRST_PAUSE * 2 ** min(count, 9), LONGEST_PAUSE))
        self._say(wanted, "Warning", "ProvisioningFailed", text)

    async def _give_node_back(self, claim: Claim) -> None:
        """Without a selected node the scheduler may choose another."""
        dropped: dict[str, str | None] = {keys.SELECTED_NODE: None, keys.SELECTED_NODE_DRAFT: None}
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version, "annotations": dropped}}
        await self._client.patch(CLAIM, claim.name, MergePatch(body), namespace=claim.namespace)

    async def _sync_volume(self, key: str) -> None:
        volume = self._volumes.get(key)
        due = None if volume is None else upkeep(volume)
        if volume is None or due is None:
            return
        others = [name for name in volume.metadata.finalizers if name != keys.EXTERNAL_PROVISIONER]
        if due is Upkeep.GUARD:
            await self._finalize(volume, [*others, keys.EXTERNAL_PROVISIONER])
            return
        if due is Upkeep.DELETE and not volume.deleting:
            await self._client.delete(VOLUME, volume.name, uid=volume.uid)
            log.info("deleted", volume=volume.name)
            # The deletion comes back as a change, and then the finalizer goes.
            if keys.EXTERNAL_PROVISIONER in volume.metadata.finalizers:
                return
        if keys.EXTERNAL_PROVISIONER in volume.metadata.finalizers:
            await self._finalize(volume, others)

    async def _finalize(self, volume: Volume, finalizers: list[str]) -> None:
        body = {"metadata": {"resourceVersion": volume.metadata.resource_version, "finalizers": finalizers or None}}
        try:
            await self._client.patch(VOLUME, volume.name, MergePatch(body))
        except NotFound:
            log.debug("gone already", volume=volume.name)

    def _say(self, about: Task, event_type: str, reason: str, message: str) -> None:
        self._recorder.record(about.claim, CLAIM, event_type, reason, message)
