"""One provisioning attempt: secrets, CreateVolume, PersistentVolume; and the records of requests in flight.

What an outcome means for the claim is decided by the caller.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from mooring.api.kinds import VOLUME
from mooring.api.times import to_micro_time
from mooring.api.views.storage import Claim, SecretReference, StorageClass, Volume
from mooring.client.contract import Client, Unreachable
from mooring.client.live_reads import get_or_none, secret_values
from mooring.clock import Clock, IncreasingTime
from mooring.control.component import Context
from mooring.control.workqueue import ConcurrencyLimit
from mooring.csi.contract import Code, DriverError, DriverVolume
from mooring.provisioner.capacity.publisher import CapacityListener
from mooring.provisioner.metrics import DriverCalls, ProvisionerMetrics
from mooring.provisioner.provision import request
from mooring.provisioner.provision.request import ConfiguredDriver, ProvisioningPlan
from mooring.provisioner.provision.topology import TopologySource
from mooring.provisioner.settings import ProvisioningFailure, ProvisioningState, after_error
from mooring.volumes.holds.objects import INTENT_RECORD, IntentRecord, intent_name, intent_of
from mooring.volumes.holds.transitions import Intent, IntentPhase, MalformedIntent, to_data

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: DeleteVolume calls for a created volume that cannot be used, as external-provisioner.
MAX_DISCARD_ATTEMPTS: Final = 5
#: On a provisioning record: the driver's name.
DRIVER_LABEL: Final = "mooring.dev/provisioner"

#: Awaited before a step; raises ProvisioningFailure to prevent it.
Precondition = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class DriverContext:
    """What provisioning, deletion and rollback for one driver share."""

    component: Context
    driver: ConfiguredDriver
    calls: DriverCalls
    topology: TopologySource
    #: Orders polls of capacity and created volumes.
    times: IncreasingTime
    capacity_listener: CapacityListener
    metrics: ProvisionerMetrics
    #: Of CreateVolume calls.
    limit: ConcurrencyLimit

    @property
    def client(self) -> Client:
        return self.component.client

    @property
    def clock(self) -> Clock:
        return self.component.clock

    @property
    def namespace(self) -> str:
        """Of provisioning records."""
        return self.driver.settings.namespace

    def plan(self, claim: Claim, storage_class: StorageClass) -> ProvisioningPlan:
        return request.plan_provisioning(claim, storage_class, self.driver, self.topology, self.component.rng)


async def read_secret(client: Client, reference: SecretReference | None) -> dict[str, str]:
    """The secret's values; empty without a reference. Raises ProvisioningFailure."""
    if reference is None:
        return {}
    try:
        return await secret_values(client, reference)
    except (ApiError, Unreachable) as error:
        shown = f"{reference.namespace}/{reference.name}"
        raise ProvisioningFailure(ProvisioningState.NO_CHANGE, f"error getting secret {shown}: {error}") from error


async def _no_precondition() -> None: ...


class VolumeCreator:
    def __init__(self, context: DriverContext) -> None:
        self._client = context.client
        self._times = context.times
        self._calls = context.calls
        self._clock = context.clock
        self._limit = context.limit
        self._facts = context.driver.facts
        self._topology = context.topology

    async def create(
        self,
        plan: ProvisioningPlan,
        *,
        before_call: Precondition = _no_precondition,
        before_discard: Precondition = _no_precondition,
    ) -> Volume:
        """The PersistentVolume, created or found; the same plan returns the same volume. `before_call` is awaited when
        nothing but CreateVolume is left to do. `before_discard` is awaited before an unusable volume is deleted, which
        another instance may have saved.

        Raises ProvisioningFailure.
        """
        secrets = await read_secret(self._client, plan.secret)
        await before_call()
        begun = self._clock.monotonic()
        try:
            created = await self._calls.create_volume(request.complete_request(plan, self._topology), secrets)
            self._limit.observe(begun, self._clock.monotonic())
        except DriverError as error:
            if error.code is Code.DEADLINE_EXCEEDED:
                self._limit.observe(begun, self._clock.monotonic())
            raise after_error(error, topology=self._facts.has_topology, selected_node=plan.node) from error
        failure = request.unusable(plan, created)
        if failure is not None:
            return await self._reject(plan, created, failure, secrets, before_discard)
        return await self._save(plan, created)

    async def _reject(
        self,
        plan: ProvisioningPlan,
        created: DriverVolume,
        failure: ProvisioningFailure,
        secrets: dict[str, str],
        before_discard: Precondition,
    ) -> Volume:
        """Delete the unusable volume, unless its PersistentVolume exists: an earlier response was valid, and the volume
        may hold data."""
        name = plan.request.name
        try:
            existing = await get_or_none(self._client, VOLUME, name)
        except (ApiError, Unreachable) as error:
            raise _in_background(f"error reading PersistentVolume {name}: {error}") from error
        if existing is not None and _is_object_of(existing, created):
            return existing
        if created.volume_id:
            await before_discard()
            # Best effort: the same request finds the volume again otherwise.
            for _ in range(MAX_DISCARD_ATTEMPTS):
                try:
                    await self._calls.delete_volume(created.volume_id, secrets)
                    break
                except DriverError as error:
                    log.warning("unusable volume not deleted", volume=created.volume_id, error=str(error))
        raise failure

    async def _save(self, plan: ProvisioningPlan, created: DriverVolume) -> Volume:
        """Create the PersistentVolume. Until it exists, no other component knows the volume."""
        body = request.volume_body(plan, created, self._facts, created_at=to_micro_time(self._times.after()))
        name = plan.request.name
        action = "saving"
        try:
            try:
                return await self._client.create(VOLUME, body)
            except AlreadyExists:
                action = "reading"
                existing = await self._client.get(VOLUME, name)
        except (ApiError, Unreachable) as error:
            raise _in_background(f"error {action} PersistentVolume {name}: {error}") from error
        if _is_object_of(existing, created):
            return existing
        raise _in_background(f"PersistentVolume {name} already exists with another volume handle")


def _is_object_of(volume: Volume, created: DriverVolume) -> bool:
    return volume.spec.csi is not None and volume.spec.csi.volume_handle == created.volume_id


def _in_background(text: str) -> ProvisioningFailure:
    return ProvisioningFailure(ProvisioningState.IN_BACKGROUND, text)


class InFlightRecords:
    """CreateVolume requests without a final response, by claim uid, in memory and as ConfigMaps.

    The ConfigMap is written before the call, so that a call that is cut by the end of the process is known to the next
    one. The same request is repeated until the driver's response is final, whatever happens to the claim, its class or
    the nodes: only then does a volume whose response was lost get its PersistentVolume, or is deleted.
    """

    def __init__(self, context: DriverContext, *, node: str = "") -> None:
        """`node` excludes records of volumes for other nodes."""
        self._client = context.client
        self._driver = context.driver.facts.name
        self._namespace = context.namespace
        self._node = node
        self._plans: dict[str, ProvisioningPlan] = {}
        #: Uids of claims whose record exists, and of those whose record may exist.
        self._written: set[str] = set()
        self._sent: set[str] = set()

    async def find(self, uid: str) -> ProvisioningPlan | None:
        """The request without a final response. Reads the record where one may exist that this process has not seen:
        its own write got no response, or another instance has written it. Raises ApiError and Unreachable."""
        if uid in self._sent and uid not in self._plans:
            record = await get_or_none(self._client, INTENT_RECORD, intent_name(uid), namespace=self._namespace)
            plan = self._own_plan(record) if record is not None else None
            if plan is not None:
                self._loaded(plan)
            else:
                self._sent.discard(uid)
        return self._plans.get(uid)

    def may_have_record(self, uid: str) -> bool:
        return uid in self._sent

    def expect_record(self, uid: str) -> None:
        self._sent.add(uid)

    async def load(self) -> list[str]:
        """Load the records of an earlier process. Returns the uids of their claims."""
        labels = f"{DRIVER_LABEL}={self._driver}"
        listing = await self._client.list(INTENT_RECORD, namespace=self._namespace, labels=labels)
        for record in listing.items:
            plan = self._own_plan(record)
            if plan is not None:
                self._loaded(plan)
        return list(self._plans)

    def _own_plan(self, record: IntentRecord) -> ProvisioningPlan | None:
        """None for a record that is malformed, of a held attempt, or of another node."""
        try:
            plan = _recorded_plan(record)
        except MalformedIntent as error:
            log.error("provisioning record malformed", record=record.key, error=str(error))
            return None
        return plan if plan is not None and self._is_own(plan) else None

    def _is_own(self, plan: ProvisioningPlan) -> bool:
        return not self._node or plan.node == self._node

    def _loaded(self, plan: ProvisioningPlan) -> None:
        uid = plan.claim["uid"]
        self._plans[uid] = plan
        self._written.add(uid)
        self._sent.add(uid)

    async def open(self, plan: ProvisioningPlan) -> bool:
        """Record a request that is about to be sent; False if the claim has the record of a held attempt that
        `HeldAttempts` has to complete: the request must not be sent then.

        Raises ProvisioningFailure if the record could not be written, or is that of another request.
        """
        uid = plan.claim["uid"]
        if uid not in self._written:
            self._sent.add(uid)
            try:
                await self._client.create(INTENT_RECORD, self._body(plan), namespace=self._namespace)
                self._written.add(uid)
            except AlreadyExists:
                if not await self._is_recorded(plan):
                    self._sent.discard(uid)
                    return False
            except Forbidden as error:
                log.warning("request in flight not recorded: a restart may leave a volume behind", error=error.message)
            except (ApiError, Unreachable) as error:
                raise _not_recorded(error) from error
        self._plans[uid] = plan
        return True

    async def _is_recorded(self, plan: ProvisioningPlan) -> bool:
        """Whether the existing record is of this request: its own write got no response. That of another request, which
        another instance may have sent, is repeated instead. False for the record of a held attempt."""
        uid = plan.claim["uid"]
        try:
            record = await self._client.get(INTENT_RECORD, intent_name(uid), namespace=self._namespace)
            recorded = _recorded_plan(record)
        except (ApiError, Unreachable, MalformedIntent) as error:
            raise _not_recorded(error) from error
        if recorded is None:
            return False
        if self._is_own(recorded):
            self._loaded(recorded)
        if recorded != plan:
            raise _not_recorded("another request for the same volume has no final response")
        return True

    async def close(self, uid: str) -> None:
        """The response was final, or nothing was sent. Raises ApiError and Unreachable, and keeps the request in that
        case: a restart would load the record that was left behind."""
        if uid in self._sent:
            with contextlib.suppress(NotFound):
                await self._client.delete(INTENT_RECORD, intent_name(uid), namespace=self._namespace)
            self._sent.discard(uid)
            self._written.discard(uid)
        self._plans.pop(uid, None)

    def _body(self, plan: ProvisioningPlan) -> dict[str, object]:
        claim = plan.claim
        about = {"claim": f"{claim['namespace']}/{claim['name']}", "plan": msgspec.json.encode(plan).decode()}
        return {
            "metadata": {"name": intent_name(claim["uid"]), "labels": {DRIVER_LABEL: self._driver}},
            "data": to_data(Intent(0, plan.node, IntentPhase.CREATING)) | about,
        }


def _recorded_plan(record: IntentRecord) -> ProvisioningPlan | None:
    """None for a held attempt, whose record `HeldAttempts` reads. Raises MalformedIntent."""
    if intent_of(record).held:
        return None
    try:
        return msgspec.json.decode(record.data.get("plan", ""), type=ProvisioningPlan)
    except msgspec.DecodeError as error:
        raise MalformedIntent(str(error)) from error


def _not_recorded(reason: object) -> ProvisioningFailure:
    return ProvisioningFailure(ProvisioningState.NO_CHANGE, f"error recording the request: {reason}")
