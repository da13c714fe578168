"""Claims in, volumes out: carries out what `eligibility`, `planning` and `attempt` decide, one claim at a time.

    claim ──► ours? ──► plan ──► CreateVolume ──► PersistentVolume
                          ▲           │ no answer: the same request again, whatever happens to the claim
                          └── retry ──┘ no room: the scheduler is asked to choose another node

Nothing is remembered that a restart could not do without: the volume's name follows from the claim, and attempts
without an answer are on record (`unfinished`).
"""

import random

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, NotFound
from mooring.api.kinds import CLAIM, STORAGE_CLASS, VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.meta import ApiObject
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.client.contract import Unreachable
from mooring.client.indexes import BY_UID
from mooring.client.recorder import NORMAL, WARNING
from mooring.control.component import Context
from mooring.provisioner import planning, selected_node
from mooring.provisioner.accessibility import Places
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.calls import DriverCalls
from mooring.provisioner.data_sources import Filled, filled_by
from mooring.provisioner.eligibility import Claimed, Verdict, addressed_to, verdict
from mooring.provisioner.holding import Holding
from mooring.provisioner.making import Making
from mooring.provisioner.metrics import ProvisionerMetrics
from mooring.provisioner.offers import Offers
from mooring.provisioner.patience import Patience
from mooring.provisioner.planning import Plan
from mooring.provisioner.room import Room
from mooring.provisioner.unfinished import Unfinished
from mooring.provisioner.volume_names import volume_name

log: FilteringBoundLogger = structlog.get_logger(__name__)


class Provisioning:
    """`sync` takes the uid of a claim. Failures wait in `queue` by themselves."""

    def __init__(
        self,
        context: Context,
        driver: planning.Driver,
        calls: DriverCalls,
        places: Places,
        unfinished: Unfinished,
        room: Room,
        metrics: ProvisionerMetrics,
        making: Making,
        holding: Holding,
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._rng: random.Random = context.rng
        self._recorder = context.recorder
        self._claims = context.informers.of(CLAIM)
        self._claims.add_index(*BY_UID)
        self._classes = context.informers.of(STORAGE_CLASS)
        self._volumes = context.informers.of(VOLUME)
        self._driver = driver
        self._places = places
        self._unfinished = unfinished
        self._making = making
        self._holding = holding
        self._room = room
        self._metrics = metrics
        self._patience: Patience[str] = Patience(
            driver.settings.retry_interval_start, driver.settings.retry_interval_max
        )
        self._offers = Offers(context, driver, calls, places)
        self.queue = context.work_queue("claims")

    def observe(self, before: Claim | None, after: Claim | None) -> None:
        """A claim changed. One that waits after a failure goes on waiting, unless its node was chosen anew."""
        if after is None:
            if before is not None and self._holding.knows(before.uid):
                self.queue.add(before.uid)
            return
        if not addressed_to(after, self._driver.facts.name):
            return
        chosen_anew = before is not None and before.selected_node != after.selected_node
        if chosen_anew or not self._patience.failing(after.uid):
            self.queue.add(after.uid)

    def class_changed(self, storage_class: StorageClass) -> None:
        """Claims may have waited for their class, or for a better one."""
        for claim in self._claims.items():
            if claim.storage_class == storage_class.name and not claim.spec.volume_name:
                self.observe(None, claim)

    async def sync(self, uid: str) -> None:
        claim = next(iter(self._claims.by_index(BY_UID.name, uid)), None)
        plan = self._unfinished.get(uid)
        if plan is None:
            if not await self._holding.swept(uid, claim, self._class_of(claim)):
                self._retry(uid)
                return
            if await self._holding.concerns(uid, claim):
                await self._hold(uid, claim)
                return
        if plan is None and claim is None:
            # Nothing is left to do for a claim that is gone, and nothing to remember.
            self._forget(uid)
            return
        if plan is None and claim is not None:
            plan = await self._begin(claim)
        if plan is None:
            return
        begun = self._clock.monotonic()
        ended = await self._making.make(plan)
        if isinstance(ended, Refusal):
            await self._fail(plan, claim, ended)
            return
        try:
            await self._unfinished.close(uid)
        except (ApiError, Unreachable) as error:
            log.warning("record of an attempt not removed yet", claim=uid, why=str(error))
            self._retry(uid)
            return
        self._succeed(plan, claim, ended, self._clock.monotonic() - begun)

    async def _hold(self, uid: str, claim: Claim | None) -> None:
        """The volume is made like any other, but its claim is not given it yet."""
        storage_class = self._class_of(claim)
        ended = await self._holding.serve(uid, claim, storage_class)
        if isinstance(ended, Refusal):
            if ended.state is not State.NO_CHANGE and storage_class is not None:
                self._room.failed(storage_class.name)
            if claim is not None:
                self._warn(claim, ended)
            if ended.state is State.RESCHEDULE:
                self._forget(uid)
            else:
                self._retry(uid)
            return
        self._forget(uid)
        if ended is not None and claim is not None:
            text = f"Volume {ended.name} is made and held until the pod has all its volumes"
            self._say(claim, NORMAL, "VolumeHeld", text)

    def _class_of(self, claim: Claim | None) -> StorageClass | None:
        return self._classes.get(claim.storage_class) if claim is not None else None

    async def _begin(self, claim: Claim) -> Plan | None:
        """What to ask for a claim that nothing is under way for; None when there is nothing to ask now."""
        storage_class = self._classes.get(claim.storage_class)
        settings, facts = self._driver.settings, self._driver.facts
        match verdict(Claimed(claim, storage_class, facts.name, settings.node_deployment)):
            case Verdict.LEAVE:
                self._forget(claim.uid)
                return None
            case Verdict.NO_CLASS:
                text = f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
                self._refuse(claim, Refusal(State.NO_CHANGE, text))
                return None
            case Verdict.OFFER:
                await self._offer(claim, storage_class)
                return None
            case Verdict.SERVE:
                return await self._plan(claim, storage_class)

    async def _plan(self, claim: Claim, storage_class: StorageClass | None) -> Plan | None:
        assert storage_class is not None, "a claim is served by its class"
        wait = self._patience.rest(claim.uid, class_uid=storage_class.uid, now=self._clock.monotonic())
        if wait:
            self.queue.add_after(claim.uid, wait)
            return None
        if filled_by(claim) is Filled.POPULATOR:
            self._say(claim, NORMAL, "Provisioning", "Assuming an external populator will provision the volume")
            self._forget(claim.uid)
            return None
        if await self._exists(claim):
            self._forget(claim.uid)
            return None
        text = f'External provisioner is provisioning volume for claim "{claim.key}"'
        self._say(claim, NORMAL, "Provisioning", text)
        made = planning.plan(claim, storage_class, self._driver, self._places, self._rng)
        if isinstance(made, Refusal):
            if made.state is State.RESCHEDULE:
                await self._reschedule(claim.uid, claim, claim.selected_node or "", made)
            else:
                self._refuse(claim, made)
            return None
        return made

    async def _exists(self, claim: Claim) -> bool:
        """Whether the claim's volume is there; asked of the server, because the cache may be behind."""
        settings = self._driver.settings
        name = volume_name(claim.uid, prefix=settings.volume_name_prefix, uuid_length=settings.volume_name_uuid_length)
        if self._volumes.get(name) is not None:
            return True
        try:
            await self._client.get(VOLUME, name)
        except NotFound:
            return False
        return True

    async def _offer(self, claim: Claim, storage_class: StorageClass | None) -> None:
        assert storage_class is not None, "only a class can be immediate"
        wait = await self._offers.make(claim, storage_class)
        if wait is not None:
            self.queue.add_after(claim.uid, wait)

    def _succeed(self, plan: Plan, claim: Claim | None, volume: Volume, seconds: float) -> None:
        self._metrics.provisioned.labels(plan.storage_class, "").inc()
        self._metrics.provision_duration.labels(plan.storage_class, "").observe(seconds)
        about = claim or planning.named(plan)
        self._say(about, NORMAL, "ProvisioningSucceeded", f"Successfully provisioned volume {volume.name}")
        self._forget(about.uid)
        self._room.made(volume)

    async def _fail(self, plan: Plan, claim: Claim | None, ended: Refusal) -> None:
        uid, about = plan.claim["uid"], claim or planning.named(plan)
        if ended.state is not State.RESCHEDULE:
            self._metrics.provision_failed.labels(plan.storage_class, "").inc()
        if ended.state is not State.NO_CHANGE:
            self._room.failed(plan.storage_class)
        match ended.state:
            case State.IN_BACKGROUND:
                await self._unfinished.keep(plan)
            case State.FINISHED | State.RESCHEDULE:
                try:
                    await self._unfinished.close(uid)
                except (ApiError, Unreachable) as error:
                    log.warning("record of an attempt not removed yet", claim=uid, why=str(error))
                    self._retry(uid)
                    return
            case State.NO_CHANGE:
                pass
        if ended.state is State.RESCHEDULE:
            self._metrics.exhausted.labels(plan.storage_class).inc()
            await self._room.refresh(plan)
            await self._reschedule(uid, about, plan.node, ended)
        elif ended.state is State.FINISHED and claim is None:
            # SEEN: the claim is gone and the driver has nothing.
            self._forget(uid)
        else:
            self._refuse(about, ended)

    async def _reschedule(self, uid: str, about: ApiObject, node: str, ended: Refusal) -> None:
        """Give the choice of the node back to the scheduler."""
        self._warn(about, ended)
        try:
            freed = await selected_node.remove(self._client, about, node)
        except (ApiError, Unreachable) as error:
            log.warning("selected node not removed", claim=about.key, why=str(error))
            self._retry(uid)
            return
        self._forget(uid)
        if not freed:
            self.queue.add(uid)

    def _refuse(self, about: ApiObject, ended: Refusal) -> None:
        self._warn(about, ended)
        if ended.infeasible and isinstance(about, Claim):
            storage_class = self._classes.get(about.storage_class)
            class_uid = storage_class.uid if storage_class is not None else ""
            self._patience.slow_down(about.uid, class_uid=class_uid, now=self._clock.monotonic())
        self._retry(about.uid)

    def _retry(self, uid: str) -> None:
        self.queue.add_after(uid, self._patience.next_delay(uid))

    def _forget(self, uid: str) -> None:
        self._patience.forget(uid)
        self._offers.forget(uid)

    def _warn(self, about: ApiObject, ended: Refusal) -> None:
        text = ended.text
        if isinstance(about, Claim):
            text = f'failed to provision volume with StorageClass "{about.storage_class}": {text}'
        if ended.infeasible:
            text = f"Volume provisioning failed with infeasible error. Retries will be delayed. {text}"
        self._say(about, WARNING, "ProvisioningFailed", text)

    def _say(self, about: ApiObject, event_type: str, reason: str, text: str) -> None:
        self._recorder.record(about, CLAIM, event_type, reason, text)
