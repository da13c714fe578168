"""Held volumes whose storage went with its node: ends what the driver of that node cannot end any more.

A volume of a node that is gone can neither be deleted nor be made, and a claim waits for that. That a node does not
answer, or that its object is gone, proves nothing about its disks: an administrator has to say so, with the annotation
`hold.mooring.dev/storage-lost` on the volume or on the record of the attempt, which ordinary users cannot write. Even
then nothing is ended while there is a Node of that name.
"""

from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api import keys
from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import NODE, VOLUME
from mooring.api.views.meta import ApiObject
from mooring.api.views.volume import Volume
from mooring.client.contract import Unreachable
from mooring.client.indexes import Index
from mooring.client.informer import Informer
from mooring.control.component import Context
from mooring.control.invariants import InvariantViolated
from mooring.provisioner.held_attempts import HeldAttempt, HeldAttempts
from mooring.provisioner.object_removal import remove_object
from mooring.provisioner.undoing import Undoing
from mooring.provisioner.unfinished import DRIVER_LABEL
from mooring.volumes.holds import objects
from mooring.volumes.holds.intent import Phase

log: FilteringBoundLogger = structlog.get_logger(__name__)


def _is_lost(item: ApiObject) -> tuple[str, ...]:
    return (keys.YES,) if objects.STORAGE_LOST in item.metadata.annotations else ()


#: What an administrator has given up.
_LOST: Final[Index[ApiObject]] = Index("storage lost", _is_lost)
THERE: Final = "its node is there: only the node's driver can delete it"


class LostStorage:
    """Hears of the word of an administrator through informers: nothing is listed to look for it."""

    def __init__(self, context: Context, *, namespace: str) -> None:
        """`namespace` is where provisioners keep records of attempts."""
        client = self._client = context.client
        self._volumes = context.informers.of(VOLUME)
        self._volumes.add_index(*_LOST)
        #: Its own, of nothing but the records.
        self._records: Informer[objects.IntentRecord] = Informer(
            client,
            objects.INTENT_RECORD,
            clock=context.clock,
            rng=context.rng,
            scope={"namespace": namespace, "labels": DRIVER_LABEL},
        )
        self._records.add_index(*_LOST)
        self._attempts = HeldAttempts(client, driver="", namespace=namespace)
        self._undoing = Undoing(
            client,
            context.clock,
            self._attempts,
            delete_storage=self._written_off,
            remove_object=lambda volume: remove_object(client, volume),
            # Nothing is attached to a node that is gone, and no held volume ever was.
            attached=lambda name: False,
            invariants=context.invariants,
        )

    async def run(self) -> None:
        """Keep the records current until cancelled."""
        await self._records.run()

    async def look(self) -> None:
        try:
            await self._end_volumes()
            await self._end_attempts()
        except (ApiError, Unreachable) as error:
            log.info("lost storage not looked at", why=str(error))

    async def _end_volumes(self) -> None:
        for volume in tuple(self._volumes.by_index(_LOST.name, keys.YES)):
            if self._undoing.concerns(volume):
                try:
                    problem, _ = await self._undoing.undo(volume.name)
                except InvariantViolated as violation:
                    problem = str(violation)
                if problem:
                    log.warning("volume of a lost node not ended", volume=volume.name, why=problem)

    async def _written_off(self, volume: Volume) -> str:
        """Stands for DeleteVolume: why it cannot be taken for deleted; "" where it can."""
        node = volume.metadata.annotations.get(objects.NODE, "")
        if objects.STORAGE_LOST not in volume.metadata.annotations:
            return "nobody has said that its storage is lost"
        if not await self._is_gone(node):
            return THERE
        log.warning("storage taken for lost", volume=volume.name, node=node)
        return ""

    async def _end_attempts(self) -> None:
        """Attempts that were begun on such a node and will never be heard of."""
        for record in tuple(self._records.by_index(_LOST.name, keys.YES)):
            attempt = await self._attempts.read(objects.claim_uid_of(record))
            if attempt is not None and attempt.intent.phase is Phase.CREATING:
                await self._end(attempt)

    async def _end(self, attempt: HeldAttempt) -> None:
        """As after any other refusal."""
        node = attempt.intent.node
        if not await self._is_gone(node):
            log.warning("attempt of a lost node not ended", claim=attempt.uid, why=THERE)
            return
        await self._attempts.end_refused(attempt, reschedule=True)
        log.warning("attempt taken for lost", claim=attempt.uid, node=node)

    async def _is_gone(self, node: str) -> bool:
        """Whether there is no such Node, by the server's own word."""
        if not node:
            return False
        try:
            await self._client.get(NODE, node)
        except NotFound:
            return True
        return False
