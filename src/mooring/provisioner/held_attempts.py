"""The intents of claims whose volumes are held, with the plan of each attempt, as ConfigMaps of the hold namespace.

Read from the server each time, and written under the version that was read: of two provisioners, one loses and looks
again. They lie beside the records of `unfinished`, whose attempts are not held.
"""

import contextlib
from typing import Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, Conflict, NotFound
from mooring.api.patches.contract import MergePatch
from mooring.client.contract import Client
from mooring.provisioner import planning, selected_node
from mooring.provisioner.live_claims import live_claim
from mooring.provisioner.planning import Plan
from mooring.provisioner.unfinished import DRIVER_LABEL
from mooring.volumes.holds import objects
from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent, MalformedIntent, to_data
from mooring.volumes.holds.provisioning import Close, Unselect, after_refusal

log: FilteringBoundLogger = structlog.get_logger(__name__)

PLAN: Final = "plan"
CLAIM: Final = "claim"


class HeldAttempt(msgspec.Struct, frozen=True):
    """A claim's intent as it was read."""

    uid: str
    intent: Intent
    plan: Plan
    version: str


class HeldAttempts:
    def __init__(self, client: Client, *, driver: str, namespace: str) -> None:
        self._client = client
        self._driver = driver
        self.namespace = namespace

    async def load(self) -> list[HeldAttempt]:
        """All that this driver has on record."""
        labels = f"{DRIVER_LABEL}={self._driver}"
        listing = await self._client.list(objects.INTENT_RECORD, namespace=self.namespace, labels=labels)
        found = (_read(record) for record in listing.items)
        return [attempt for attempt in found if attempt is not None]

    async def read(self, uid: str) -> HeldAttempt | None:
        try:
            name = objects.intent_name(uid)
            return _read(await self._client.get(objects.INTENT_RECORD, name, namespace=self.namespace))
        except NotFound:
            return None

    async def open(self, uid: str, intent: Intent, plan: Plan, *, over: HeldAttempt | None) -> None:
        """Raises Conflict where `over` is no longer what is there."""
        claim = f"{plan.claim['namespace']}/{plan.claim['name']}"
        data = to_data(intent) | {CLAIM: claim, PLAN: msgspec.json.encode(plan).decode()}
        if over is not None:
            await self._swap(over, data, objects.node_label(intent.node))
            return
        labels = {DRIVER_LABEL: self._driver} | objects.node_label(intent.node)
        body = {"metadata": {"name": objects.intent_name(uid), "labels": labels}, "data": data}
        try:
            await self._client.create(objects.INTENT_RECORD, body, namespace=self.namespace)
        except AlreadyExists as there:
            raise Conflict(there.message) from there

    async def close(self, attempt: HeldAttempt, intent: Intent) -> None:
        """Write how it ended. Raises Conflict."""
        await self._swap(attempt, to_data(intent))

    async def end_refused(self, attempt: HeldAttempt, *, reschedule: bool) -> None:
        """Carry out `after_refusal` until the attempt is closed. Raises Conflict."""
        named = planning.named(attempt.plan)
        while True:
            claim = await live_claim(self._client, attempt.uid, named)
            known = objects.claim_facts(claim) if claim is not None else None
            match after_refusal(Situation(known, None, attempt.intent), reschedule=reschedule):
                case Unselect(node):
                    await selected_node.remove(self._client, named, node)
                case Close(intent):
                    await self.close(attempt, intent)
                    return
                case _:
                    return

    async def collect(self, uid: str) -> None:
        """The claim is bound or gone: there will be no other attempt to tell this one from."""
        with contextlib.suppress(NotFound):
            await self._client.delete(objects.INTENT_RECORD, objects.intent_name(uid), namespace=self.namespace)

    async def _swap(self, attempt: HeldAttempt, data: dict[str, str], labels: dict[str, str] | None = None) -> None:
        metadata = {"resourceVersion": attempt.version, "labels": labels or {}}
        patch = MergePatch({"metadata": metadata, "data": data})
        name = objects.intent_name(attempt.uid)
        await self._client.patch(objects.INTENT_RECORD, name, patch, namespace=self.namespace)


def _read(record: objects.IntentRecord) -> HeldAttempt | None:
    """None for the records of attempts that are not held."""
    try:
        intent = objects.intent_of(record)
        if not intent.held:
            return None
        plan = msgspec.json.decode(record.data.get(PLAN, ""), type=Plan)
    except (MalformedIntent, msgspec.DecodeError) as problem:
        log.error("record of an attempt cannot be read", record=record.key, why=str(problem))
        return None
    return HeldAttempt(objects.claim_uid_of(record), intent, plan, record.metadata.resource_version)
