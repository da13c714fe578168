"""A claim is deleted and created again, recorded first: the writes that every such replacement has, and the base of
the controllers that continue the records of a process that has ended.

Why a claim is replaced and in which order is decided elsewhere: `volumes.lost_storage_record`, `volumes.unused.record`.
"""

import asyncio
from abc import abstractmethod
from typing import Any, Generic, TypeVar

import structlog

from mooring.api.errors import AlreadyExists, Conflict, NotFound
from mooring.api.kinds import CLAIM, Kind
from mooring.api.views.storage import Claim
from mooring.client.contract import Client
from mooring.client.informer import Informer
from mooring.control.component import Context, Reconciler
from mooring.volumes.lost_storage_record import (
    CLAIM_MANIFEST,
    RECOVERY_RECORD,
    ClaimManifest,
    ClaimRecord,
    MalformedRecovery,
    RecoveryConfigMap,
    read_record,
    record_body,
)

log = structlog.get_logger(__name__)

R = TypeVar("R", bound=ClaimRecord)


class RecordedClaims:
    """Writes of claims and their records; a deletion is conditional on what was read."""

    def __init__(self, client: Client, namespace: str) -> None:
        """`namespace` is that of the records, closed to ordinary users."""
        self._client = client
        self._namespace = namespace

    async def manifest(self, claim: Claim) -> ClaimManifest:
        """The claim with its whole spec. Raises Conflict if another one has its name."""
        manifest = await self._client.get(CLAIM_MANIFEST, claim.name, namespace=claim.namespace)
        if manifest.uid != claim.uid:
            raise Conflict(f"claim {claim.key} was replaced while it was read")
        return manifest

    async def begin(self, record: ClaimRecord) -> bool:
        """Write the record; False if an earlier process has."""
        try:
            await self._client.create(RECOVERY_RECORD, record_body(record), namespace=self._namespace)
        except AlreadyExists:
            log.info("replacement continued", claim=record.key, record=record.name)
            return False
        return True

    async def delete(self, claim: Claim) -> None:
        version = claim.metadata.resource_version
        await self._client.delete(CLAIM, claim.name, namespace=claim.namespace, uid=claim.uid, resource_version=version)

    async def create(self, record: ClaimRecord, body: dict[str, Any]) -> bool:
        """False if the namespace was deleted, and with it all need for a claim."""
        try:
            await self._client.create(CLAIM, body, namespace=record.namespace)
            log.info("claim created", claim=record.key)
        except AlreadyExists:
            # Its StatefulSet was faster.
            return True
        except NotFound:
            return False
        return True

    async def forget(self, record: ClaimRecord) -> None:
        try:
            await self._client.delete(RECOVERY_RECORD, record.name, namespace=self._namespace)
        except NotFound:
            return


class RecordingController(Reconciler[str], Generic[R]):
    """Base of controllers whose unfinished work is in records."""

    def __init__(self, context: Context, queue: str, kind: Kind[Any], record: type[R], *, namespace: str) -> None:
        """`kind` is that of the objects whose keys are queued, `namespace` that of the records."""
        super().__init__(context, context.work_queue(queue, kind))
        self._record = record
        #: Not shared: only records of this controller.
        self._records: Informer[RecoveryConfigMap] = Informer(
            context.client,
            RECOVERY_RECORD,
            clock=context.clock,
            rng=context.rng,
            scope={"namespace": namespace, "labels": record.SELECTOR},
            report=context.internal_error,
        )
        #: Keys of the records that are not finished, by the key that is queued for them.
        self._unfinished: dict[str, set[str]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._records.run(), name="informer of records")
            group.create_task(super().run())

    @abstractmethod
    def _queued_for(self, record: R) -> str:
        """The key that is queued until the record is finished."""

    def _on_record(self, before: RecoveryConfigMap | None, after: RecoveryConfigMap | None) -> None:
        found = after if after is not None else before
        if found is None:
            return
        try:
            key = self._queued_for(read_record(found, self._record))
        except MalformedRecovery as error:
            log.error("claim record malformed", record=found.key, error=str(error))
            return
        if after is not None:
            self._unfinished.setdefault(key, set()).add(found.key)
            self._queue.add(key)
            return
        self._unfinished.get(key, set()).discard(found.key)
        if not self._unfinished.get(key):
            self._unfinished.pop(key, None)

    def _unfinished_record(self, key: str) -> RecoveryConfigMap | None:
        found = map(self._records.get, sorted(self._unfinished.get(key, ())))
        return next((record for record in found if record is not None), None)
