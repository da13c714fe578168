"""Replaces claims whose storage was lost with its node, for StorageClasses with `mooring.dev/lost-storage`.

The delay of a class is counted from when this process first saw the Node deleted or out of service: a restart can only
lengthen it, and a Node that comes back ends it. Whether the pod fits afterwards is not checked: `mooring orphans
--plan` shows that.
"""

from typing import Final

import structlog

from mooring.api import well_known
from mooring.api.kinds import CLAIM, NODE, STORAGE_CLASS, VOLUME
from mooring.api.selectors import Operator
from mooring.api.views.core import Node
from mooring.api.views.storage import StorageClass, Volume
from mooring.client.cache import Index
from mooring.client.recorder import WARNING
from mooring.control.component import Context
from mooring.pvcontroller.claim_replacement import RecordingController
from mooring.pvcontroller.lost_storage_recovery import RecoveryProgress, StorageRecovery
from mooring.volumes.binding import HOLD_NAMESPACE
from mooring.volumes.lost_storage import (
    Confirmation,
    LostPair,
    ReachableNodes,
    RecoveryRefusalCode,
    VolumePair,
    delay_of,
    is_out_of_service,
    lost_pair,
    node_of,
)
from mooring.volumes.lost_storage_record import RecoveryRecord, read_record
from mooring.volumes.topology import affinity_of

log = structlog.get_logger(__name__)

#: Between two attempts for a claim that a finalizer keeps.
RETRY_SECONDS: Final = 15.0
#: How long a claim's deletion is waited for before other volumes have their turn.
DELETION_TIMEOUT_SECONDS: Final = 2.0
STORAGE_REPLACED: Final = "the storage was lost with node {node}; the claim was created again without a volume"


def _named_nodes(volume: Volume) -> tuple[str, ...]:
    """Values of the volume's affinity that may be the name of its only node."""
    required = affinity_of(volume)
    terms = required.terms if required is not None else ()
    alone = (one for term in terms for one in term.expressions if one.operator is Operator.IN and len(one.values) == 1)
    return tuple(dict.fromkeys(value for one in alone for value in one.values))


def _names(node: Node) -> frozenset[str]:
    """By which volumes name a node: its own name, and its hostname, which may differ."""
    return frozenset({node.name, node.metadata.labels.get(well_known.HOSTNAME, node.name)})


_BY_NAMES: Final[Index[Node]] = Index("name or hostname", _names)
_BY_NODE: Final[Index[Volume]] = Index("node named by affinity", _named_nodes)
_BY_CLASS: Final[Index[Volume]] = Index("storage class", lambda volume: (volume.storage_class,))


class LostStorageController(RecordingController[RecoveryRecord]):
    """Its keys are names of volumes."""

    name = "lost-storage-controller"

    def __init__(self, context: Context, *, namespace: str = HOLD_NAMESPACE) -> None:
        """`namespace` is that of the records."""
        super().__init__(context, "lost_storage", VOLUME, RecoveryRecord, namespace=namespace)
        self._nodes = context.informers.of(NODE)
        self._nodes.add_index(*_BY_NAMES)
        self._volumes = context.informers.of(VOLUME)
        self._volumes.add_index(*_BY_NODE)
        self._volumes.add_index(*_BY_CLASS)
        self._claims = context.informers.of(CLAIM)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._recovery = StorageRecovery(
            context.client, context.clock, namespace=namespace, timeout=DELETION_TIMEOUT_SECONDS
        )
        #: Since when a node is seen to be deleted or out of service, of nodes that volumes name.
        self._lost: dict[str, float] = {}

    async def _subscribe(self) -> None:
        for informer in (self._nodes, self._volumes, self._claims, self._classes):
            await informer.synced.wait()
        await self._nodes.subscribe(self._on_node)
        await self._classes.subscribe(self._on_class)
        await self._volumes.subscribe(self._on_volume)
        await self._records.subscribe(self._on_record)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        # Of both: a changed hostname label leaves the earlier name without a node.
        for name in frozenset().union(*(_names(node) for node in (before, after) if node is not None)):
            if self._exists(name):
                self._lost.pop(name, None)
                continue
            for volume in self._volumes.by_index(_BY_NODE.name, name):
                self._lost.setdefault(name, self._clock.monotonic())
                self._queue.add(volume.name)

    def _on_class(self, _: StorageClass | None, after: StorageClass | None) -> None:
        if after is not None:
            for volume in self._volumes.by_index(_BY_CLASS.name, after.name):
                self._on_volume(None, volume)

    def _on_volume(self, before: Volume | None, after: Volume | None) -> None:
        if after is None and before is not None:
            for name in _named_nodes(before):
                if not self._volumes.by_index(_BY_NODE.name, name):
                    self._lost.pop(name, None)
        if after is not None and not all(self._exists(name) for name in _named_nodes(after)):
            self._queue.add(after.name)

    def _queued_for(self, record: RecoveryRecord) -> str:
        return record.volume

    def _exists(self, name: str) -> bool:
        """Whether a Node with this name or hostname is in service."""
        return not all(map(is_out_of_service, self._nodes.by_index(_BY_NAMES.name, name)))

    async def _sync(self, key: str) -> None:
        record = self._unfinished_record(key)
        if record is not None:
            node = read_record(record, RecoveryRecord).node
            outcome = await self._recovery.resume(record, self._confirmation(node))
            if outcome.progress is RecoveryProgress.WAITING:
                self._queue.add_after(key, RETRY_SECONDS)
            elif outcome.refusal is not None:
                # Nothing was deleted: the delay is counted again, without the record.
                self._unfinished.pop(key, None)
                self._queue.add(key)
            return
        volume = self._volumes.get(key)
        reference = volume.spec.claim_ref if volume is not None else None
        claim = self._claims.get(f"{reference.namespace}/{reference.name}") if reference is not None else None
        place = node_of(volume, claim) if volume is not None and claim is not None else None
        if volume is None or claim is None or place is None:
            return
        known = self._confirmation(place[1])
        storage_class = self._classes.get(claim.storage_class)
        nodes = ReachableNodes(self._nodes.by_index(_BY_NAMES.name, place[1]))
        # A first look at the cache; the decision itself is made on live objects.
        decided = lost_pair(VolumePair(volume, claim, storage_class), nodes, known)
        if isinstance(decided, LostPair):
            outcome = await self._recovery.recover(key, known)
            if outcome.progress is RecoveryProgress.DONE:
                text = STORAGE_REPLACED.format(node=place[1])
                self._recorder.record(claim, CLAIM, WARNING, "LostStorageReplaced", text)
            elif outcome.progress is RecoveryProgress.WAITING or outcome.refusal is not None:
                log.info("lost storage not replaced", volume=key, reason=outcome.detail)
                self._queue.add_after(key, RETRY_SECONDS)
        elif decided.code is RecoveryRefusalCode.DELAY_NOT_OVER:
            delay = delay_of(storage_class)
            assert isinstance(delay, float), "the delay was compared"
            self._queue.add_after(key, delay - known.lost_seconds[place[1]])

    def _confirmation(self, node: str) -> Confirmation:
        if self._exists(node):
            return Confirmation()
        now = self._clock.monotonic()
        named = self._volumes.by_index(_BY_NODE.name, node)
        since = self._lost.setdefault(node, now) if named else now
        return Confirmation(lost_seconds={node: now - since})
