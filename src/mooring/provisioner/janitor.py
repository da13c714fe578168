"""Claims that wait for a node that is gone: frees them, so that the scheduler can choose another.

Where provisioners run on the nodes themselves, the only instance that could give such a claim back is gone with its
node. One janitor per cluster does it instead, for all drivers. Nothing is taken from a claim that has a volume, or
for which a driver may be making one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM, CSI_NODE, NODE, VOLUME, Kind
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.node import Node
from mooring.api.views.storage import CsiNode
from mooring.client.contract import Unreachable
from mooring.client.indexes import VOLUME_BY_CLAIM_UID
from mooring.client.recorder import WARNING
from mooring.clock import set_within
from mooring.control.component import Context
from mooring.control.worker import repeat
from mooring.provisioner import selected_node
from mooring.provisioner.lost_storage import LostStorage
from mooring.volumes.holds.intent import MalformedIntent
from mooring.volumes.holds.objects import INTENT_RECORD, intent_name, intent_of

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Between two looks at all claims; a node that goes is noticed at once.
LOOK_SECONDS: Final = 15.0
#: How long a driver may be missing on a node that is there: it may only be restarting.
GRACE_SECONDS: Final = 60.0


class Stranded(NamedTuple):
    """Why a claim's selected node will not do."""

    why: str
    #: Whether it may come back in a moment.
    passing: bool


def stranded(claim: Claim, node: Node | None, csi_nodes: Mapping[str, Iterable[str]]) -> Stranded | None:
    """`csi_nodes` are the drivers of each node. None where the claim has a volume, or a node that will do."""
    name = claim.selected_node
    if name is None or claim.spec.volume_name or claim.deleting:
        return None
    if node is None:
        return Stranded(f'selected node "{name}" does not exist any more', passing=False)
    annotations = claim.metadata.annotations
    driver = annotations.get(keys.STORAGE_PROVISIONER, annotations.get(keys.STORAGE_PROVISIONER_BETA, ""))
    registers = any(driver in drivers for drivers in csi_nodes.values())
    if not registers or driver in csi_nodes.get(name, ()):
        # A provisioner that no node lists is not a CSI driver, or has left for good: no other node would be better.
        return None
    return Stranded(f'selected node "{name}" does not have driver {driver} any more', passing=True)


class SelectedNodeJanitor:
    name = "selected-node-janitor"

    def __init__(self, context: Context, *, namespace: str = "default") -> None:
        """`namespace` is where provisioners keep records of unfinished attempts."""
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._claims = context.informers.of(CLAIM)
        self._nodes = context.informers.of(NODE)
        self._csi_nodes = context.informers.of(CSI_NODE)
        self._volumes = context.informers.of(VOLUME)
        self._volumes.add_index(*VOLUME_BY_CLAIM_UID)
        self._namespace = namespace
        self._lost_storage = LostStorage(context, namespace=namespace)
        #: Since when a claim's driver is missing.
        self._missing: dict[str, float] = {}
        #: Uids of the claims that have volumes by the server's own word, asked at most once in a round.
        self._owners: frozenset[str] | None = None
        self.ready = False

    async def run(self) -> None:
        for informer in (self._claims, self._nodes, self._csi_nodes, self._volumes):
            await informer.synced.wait()
        look = asyncio.Event()

        def on_node(before: Node | None, after: Node | None) -> None:
            if after is None:
                look.set()

        await self._nodes.subscribe(on_node)
        self.ready = True

        async def step() -> None:
            look.clear()
            await self._look()
            await self._lost_storage.look()

        async with asyncio.TaskGroup() as group:
            group.create_task(self._lost_storage.run(), name="informer of attempt records")
            group.create_task(repeat(step, lambda: set_within(look, LOOK_SECONDS, self._clock), name=self.name))

    async def _look(self) -> None:
        self._owners = None
        csi_nodes = {each.name: _drivers(each) for each in self._csi_nodes.items()}
        suspects: set[str] = set()
        for claim in tuple(self._claims.items()):
            found = stranded(claim, self._nodes.get(claim.selected_node or ""), csi_nodes)
            if found is None:
                continue
            suspects.add(claim.uid)
            since = self._missing.setdefault(claim.uid, self._clock.monotonic())
            if not found.passing or self._clock.monotonic() - since >= GRACE_SECONDS:
                await self._free(claim, found)
        self._missing = {uid: since for uid, since in self._missing.items() if uid in suspects}

    async def _free(self, claim: Claim, found: Stranded) -> None:
        node = claim.selected_node or ""
        try:
            if not found.passing and await self._there(NODE, node):
                return
            if await self._served(claim):
                return
            if await selected_node.remove(self._client, claim, node):
                text = f"{found.why}: another one can be chosen now"
                self._recorder.record(claim, CLAIM, WARNING, "ProvisioningFailed", text)
        except (ApiError, Unreachable) as error:
            log.info("claim not freed yet", claim=claim.key, why=str(error))

    async def _served(self, claim: Claim) -> bool:
        """Whether there is a volume for it, or may be one. The server is asked for all volumes last, once for all
        claims of a round, and only where nothing else has settled the question."""
        if self._volumes.by_index(VOLUME_BY_CLAIM_UID.name, claim.uid) or await self._being_made(claim):
            return True
        if self._owners is None:
            volumes = (await self._client.list(VOLUME)).items
            self._owners = frozenset(each.spec.claim_ref.uid for each in volumes if each.spec.claim_ref is not None)
        return claim.uid in self._owners

    async def _being_made(self, claim: Claim) -> bool:
        """Whether an attempt is on record that has not come to nothing."""
        try:
            record = await self._client.get(INTENT_RECORD, intent_name(claim.uid), namespace=self._namespace)
        except NotFound:
            return False
        try:
            return not intent_of(record).closed
        except MalformedIntent:
            return True

    async def _there(self, kind: Kind[ApiObject], name: str, *, namespace: str = "") -> bool:
        try:
            await self._client.get(kind, name, namespace=namespace)
        except NotFound:
            return False
        return True


def _drivers(csi_node: CsiNode) -> frozenset[str]:
    return frozenset(each.name for each in csi_node.spec.drivers or ())
