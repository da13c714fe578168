"""Provisioning records of held volumes: intent and plan of each attempt, as ConfigMaps in the hold namespace.

Every write carries the resourceVersion of the record that it replaces, as it was read or written before: of two
provisioners, one gets a Conflict and reads again. Records of attempts that are not held are `InFlightRecords`.
"""

import contextlib
from collections.abc import Mapping
from typing import Final, Self

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, Conflict, NotFound
from mooring.api.patches.contract import MergePatch
from mooring.api.times import to_time
from mooring.api.views.storage import Claim
from mooring.client.contract import Client
from mooring.client.live_reads import get_or_none
from mooring.provisioner.provision import request, selected_node
from mooring.provisioner.provision.create import DRIVER_LABEL, DriverContext
from mooring.provisioner.provision.request import ProvisioningPlan
from mooring.provisioner.provision.selected_node import live_claim
from mooring.provisioner.rollback.groups import HoldingGroup
from mooring.volumes.binding import held_reference
from mooring.volumes.holds import group_objects, objects, transitions
from mooring.volumes.holds.group_record import GROUP_LABEL
from mooring.volumes.holds.transitions import HoldSnapshot, Intent, MalformedIntent, after_refusal

log: FilteringBoundLogger = structlog.get_logger(__name__)

PLAN: Final = "plan"
CLAIM: Final = "claim"


class HeldAttempt(msgspec.Struct, frozen=True):
    """A claim's provisioning record as it was read or written."""

    uid: str
    intent: Intent
    plan: ProvisioningPlan
    version: str


class HeldAttempts:
    def __init__(self, client: Client, *, driver: str, namespace: str) -> None:
        self._client = client
        self._driver = driver
        self.namespace = namespace

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        return cls(context.client, driver=context.driver.facts.name, namespace=context.namespace)

    async def load(self) -> list[HeldAttempt]:
        labels = f"{DRIVER_LABEL}={self._driver}"
        listing = await self._client.list(objects.INTENT_RECORD, namespace=self.namespace, labels=labels)
        found = (_read(record) for record in listing.items)
        return [attempt for attempt in found if attempt is not None]

    async def read(self, uid: str) -> HeldAttempt | None:
        name = objects.intent_name(uid)
        record = await get_or_none(self._client, objects.INTENT_RECORD, name, namespace=self.namespace)
        return None if record is None else _read(record)

    async def open(self, uid: str, intent: Intent, plan: ProvisioningPlan, *, over: HeldAttempt | None) -> HeldAttempt:
        """Create the record, or replace `over`. Raises Conflict if `over` is no longer current, or None was assumed and
        there is a record."""
        claim = f"{plan.claim['namespace']}/{plan.claim['name']}"
        data = transitions.to_data(intent) | {CLAIM: claim, PLAN: msgspec.json.encode(plan).decode()}
        if over is not None:
            version = await self._swap(over, data, objects.node_label(intent.node) | _group_label(plan, replaced=True))
            return HeldAttempt(uid, intent, plan, version)
        labels = {DRIVER_LABEL: self._driver} | objects.node_label(intent.node) | _group_label(plan)
        body = {"metadata": {"name": objects.intent_name(uid), "labels": labels}, "data": data}
        try:
            written = await self._client.create(objects.INTENT_RECORD, body, namespace=self.namespace)
        except AlreadyExists as error:
            raise Conflict(error.message) from error
        return HeldAttempt(uid, intent, plan, written.metadata.resource_version)

    async def close(self, attempt: HeldAttempt, intent: Intent) -> HeldAttempt:
        """Write the outcome. Raises Conflict."""
        version = await self._swap(attempt, transitions.to_data(intent))
        return HeldAttempt(attempt.uid, intent, attempt.plan, version)

    async def end_failed(self, attempt: HeldAttempt, *, reschedule: bool) -> bool:
        """Carry out `after_refusal` until the attempt is closed; whether the claim has another node by now. Raises
        Conflict."""
        named = request.claim_of_plan(attempt.plan)
        while True:
            claim = await live_claim(self._client, attempt.uid, named)
            snapshot = HoldSnapshot(objects.claim_facts(claim), None, attempt.intent)
            match after_refusal(snapshot, reschedule=reschedule):
                case transitions.ClearSelectedNode(node):
                    await selected_node.clear_selected_node(self._client, named, node)
                case transitions.Close(intent):
                    await self.close(attempt, intent)
                    return claim is not None and claim.selected_node not in (None, "", intent.node)
                case _:
                    return False

    async def delete(self, uid: str, *, known: HeldAttempt | None) -> None:
        """The claim is bound or deleted: no further attempt needs a number. Raises Conflict if the record is no longer
        as it is known."""
        name, version = objects.intent_name(uid), known.version if known is not None else ""
        with contextlib.suppress(NotFound):
            await self._client.delete(objects.INTENT_RECORD, name, namespace=self.namespace, resource_version=version)

    async def _swap(
        self, attempt: HeldAttempt, data: dict[str, str], labels: Mapping[str, str | None] | None = None
    ) -> str:
        """Returns the new resourceVersion."""
        metadata = {"resourceVersion": attempt.version, "labels": labels or {}}
        patch = MergePatch({"metadata": metadata, "data": data})
        name = objects.intent_name(attempt.uid)
        written = await self._client.patch(objects.INTENT_RECORD, name, patch, namespace=self.namespace)
        return written.metadata.resource_version


def _read(record: objects.IntentRecord) -> HeldAttempt | None:
    """None for records of attempts that are not held, and for malformed ones."""
    try:
        intent = objects.intent_of(record)
        if not intent.held:
            return None
        plan = msgspec.json.decode(record.data.get(PLAN, ""), type=ProvisioningPlan)
    except (MalformedIntent, msgspec.DecodeError) as error:
        log.error("provisioning record malformed", record=record.key, error=str(error))
        return None
    return HeldAttempt(objects.claim_uid_of(record), intent, plan, record.metadata.resource_version)


def _group_label(plan: ProvisioningPlan, *, replaced: bool = False) -> dict[str, str | None]:
    """The record of an attempt is listed with its group; the next attempt may be for none, which removes the label."""
    group = plan.draft["metadata"].get("labels", {}).get(GROUP_LABEL)
    return {GROUP_LABEL: group} if group or replaced else {}


def direct_plan(plan: ProvisioningPlan, intent: Intent) -> ProvisioningPlan:
    """The plan with the attempt's number, for a volume that is not held because no coordinator runs any more."""
    return _marked(plan, {"annotations": {objects.ATTEMPT: str(intent.attempt)}})


def held_plan(
    plan: ProvisioningPlan,
    claim: Claim,
    intent: Intent,
    *,
    now: float,
    hold_namespace: str,
    group: HoldingGroup | None = None,
) -> ProvisioningPlan:
    """The plan with the attempt's number, the claimRef of a held volume, and the marks of its group."""
    marks = objects.hold_metadata(claim, intent.node, since=to_time(now), attempt=intent.attempt)
    if group is not None:
        marks = group_objects.with_group(marks, group.uid, group.mark)
    return _marked(plan, marks, claimRef=held_reference(claim.uid, hold_namespace=hold_namespace).body())


def _marked(plan: ProvisioningPlan, marks: dict[str, dict[str, str]], **spec: object) -> ProvisioningPlan:
    metadata = plan.draft["metadata"]
    marks = marks | {"annotations": metadata["annotations"] | marks["annotations"]}
    return msgspec.structs.replace(plan, draft={"metadata": metadata | marks, "spec": plan.draft["spec"] | spec})
