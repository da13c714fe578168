"""Records of groups of pods (`volumes.holds.group_record`) in the API: live reads and compare-and-swap.

Shared by the scheduler and the coordinator, which both write them. None stands for a record that does not exist, or
for a write that lost against another one; a malformed record is logged and taken for none.
"""

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, Conflict, NotFound
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client
from mooring.client.live_reads import get_or_none
from mooring.volumes.holds import group_objects, group_record, objects
from mooring.volumes.holds.group_record import GROUP_LABEL, GroupRecord, MalformedGroup, StoredGroup
from mooring.volumes.holds.transitions import Intent, MalformedIntent

log: FilteringBoundLogger = structlog.get_logger(__name__)


class GroupRecords:
    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read(self, group_uid: str) -> StoredGroup | None:
        found = await self._find(group_uid)
        return None if found is None else _stored(found)

    async def is_malformed(self, group_uid: str) -> bool:
        """Whether there is a record that cannot be read: `create` fails then, and `swap` has nothing to replace."""
        found = await self._find(group_uid)
        return found is not None and _stored(found) is None

    async def list_all(self) -> dict[str, StoredGroup]:
        """By uid of the PodGroup."""
        labels = f"{group_objects.RECORD_LABEL}=true"
        listing = await self._client.list(objects.INTENT_RECORD, namespace=self._namespace, labels=labels)
        found = (_stored(each) for each in listing.items)
        return {stored.record.uid: stored for stored in found if stored is not None}

    async def read_with_intents(self, group_uid: str) -> tuple[StoredGroup | None, dict[str, Intent]]:
        """The record, and by claim uid the intents of the group, in one list."""
        labels = f"{GROUP_LABEL}={group_uid}"
        listing = await self._client.list(objects.INTENT_RECORD, namespace=self._namespace, labels=labels)
        stored: StoredGroup | None = None
        intents: dict[str, Intent] = {}
        for each in listing.items:
            if group_objects.is_record(each):
                stored = _stored(each)
            elif (claim := objects.claim_uid_of(each)) and (intent := _intent(each)) is not None:
                intents[claim] = intent
        return stored, intents

    async def read_intent(self, claim_uid: str) -> Intent | None:
        name = objects.intent_name(claim_uid)
        found = await get_or_none(self._client, objects.INTENT_RECORD, name, namespace=self._namespace)
        return None if found is None else _intent(found)

    async def _find(self, group_uid: str) -> objects.IntentRecord | None:
        name = group_record.record_name(group_uid)
        return await get_or_none(self._client, objects.INTENT_RECORD, name, namespace=self._namespace)

    async def create(self, record: GroupRecord) -> StoredGroup | None:
        try:
            body = group_objects.record_body(record)
            return _stored(await self._client.create(objects.INTENT_RECORD, body, namespace=self._namespace))
        except AlreadyExists:
            return None

    async def write(self, stored: StoredGroup | None, record: GroupRecord) -> StoredGroup | None:
        """Replace the record that was read, or create it where there was none."""
        return await (self.create(record) if stored is None else self.swap(stored, record))

    async def swap(self, stored: StoredGroup, record: GroupRecord | None) -> StoredGroup | None:
        """Replace the record that was read; `record` None is nothing to write."""
        if record is None:
            return None
        name, patch = group_record.record_name(record.uid), MergePatch(group_objects.record_patch(stored, record))
        try:
            return _stored(await self._client.patch(objects.INTENT_RECORD, name, patch, namespace=self._namespace))
        except (Conflict, NotFound):
            return None

    async def delete(self, stored: StoredGroup) -> bool:
        """Whether it is deleted, and had not changed since it was read."""
        name, version = group_record.record_name(stored.record.uid), stored.version
        try:
            await self._client.delete(objects.INTENT_RECORD, name, namespace=self._namespace, resource_version=version)
        except (Conflict, NotFound):
            return False
        return True


def _stored(found: objects.IntentRecord) -> StoredGroup | None:
    try:
        return group_objects.stored_group(found)
    except MalformedGroup as problem:
        log.error("record of a group malformed", record=found.key, error=str(problem))
        return None


def _intent(found: objects.IntentRecord) -> Intent | None:
    try:
        return objects.intent_of(found)
    except MalformedIntent as problem:
        log.warning("intent record malformed", record=found.key, error=str(problem))
        return None
