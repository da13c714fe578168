"""Looks for volumes that the driver has and nothing names, and sees to it that they are named again or go.

Carries out `volumes.holds.sweep`. Lists now and then; what has been an orphan for long enough is looked at again under
the claim's own key of the work queue, so that no attempt for the claim goes on at the same time.
"""

import contextlib
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import NotFound
from mooring.api.kinds import VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.client.contract import Client
from mooring.client.informer import Informers
from mooring.clock import Clock
from mooring.control.worker import repeat
from mooring.csi.contract import ControllerCapability, DriverError, DriverVolume
from mooring.provisioner import planning, secret_data
from mooring.provisioner.accessibility import Places
from mooring.provisioner.attempt import Refusal, State, rpc_text
from mooring.provisioner.calls import DriverCalls
from mooring.provisioner.held_attempts import HeldAttempt, HeldAttempts
from mooring.provisioner.held_plan import held_plan, wanted_on
from mooring.provisioner.live_claims import live_claim
from mooring.provisioner.orphans import SUSPECT_AFTER, Orphans
from mooring.volumes.holds import objects
from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent
from mooring.volumes.holds.provisioning import OpenAttempt
from mooring.volumes.holds.sweep import DeleteOrphan, Leave, next_step

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Between two lists: an orphan costs room, not correctness.
PAUSE_SECONDS: Final = 300.0
#: How long, and of how many claims, it is remembered that the last attempt ended without a volume: several times what
#: it takes until a volume that turns up late is suspected.
ENDED_SECONDS: Final = 4 * (SUSPECT_AFTER + 2 * PAUSE_SECONDS)
MAX_ENDED: Final = 1000


class Sweeping:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        informers: Informers,
        driver: planning.Driver,
        calls: DriverCalls,
        places: Places,
        attempts: HeldAttempts,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._volumes = informers.of(VOLUME)
        self._driver = driver
        self._calls = calls
        self._places = places
        self._attempts = attempts
        self._orphans = Orphans(prefix=driver.settings.volume_name_prefix)
        #: How the last attempt ended for claims that are gone, since their records are collected, and when that was.
        #: The oldest first: they are forgotten after a while, and what turns up then is left for people to delete.
        self._ended: OrderedDict[str, tuple[HeldAttempt, float]] = OrderedDict()
        self._told: set[str] = set()

    async def run(self, look_at: Callable[[str], None]) -> None:
        """Until cancelled; `look_at` puts a claim into the work queue."""
        if reason := self._unable():
            log.info("volumes that nothing names are not looked for", why=reason)
            return

        async def step() -> None:
            try:
                listed = await self._calls.list_volumes()
            except DriverError as error:
                log.warning("volumes not listed", why=str(error))
                return
            self._told &= {volume.volume_id for volume in listed}
            for uid in self._orphans.look(listed, self._named(), self._clock.monotonic()):
                look_at(uid)

        await repeat(step, lambda: self._clock.sleep(PAUSE_SECONDS), name="sweep")

    def _unable(self) -> str:
        if ControllerCapability.LIST_VOLUMES not in self._driver.facts.controller_capabilities:
            return "the driver does not list its volumes"
        if self._driver.settings.volume_name_uuid_length >= 0:
            return "names of volumes do not tell their claims with --volume-name-uuid-length"
        return ""

    def _named(self) -> set[str]:
        return {each.spec.csi.volume_handle for each in self._volumes.items() if each.spec.csi is not None}

    def suspects(self, uid: str) -> bool:
        return self._orphans.suspect(uid) is not None

    def ended(self, attempt: HeldAttempt) -> None:
        """The claim is gone, and its last attempt ended without a volume: what turns up later has no claim."""
        if self._unable():
            return
        now = self._clock.monotonic()
        self._ended[attempt.uid] = attempt, now
        self._ended.move_to_end(attempt.uid)
        while len(self._ended) > MAX_ENDED or now - next(iter(self._ended.values()))[1] > ENDED_SECONDS:
            self._ended.popitem(last=False)

    @property
    def remembered(self) -> int:
        """How many attempts of claims that are gone are remembered."""
        return len(self._ended)

    async def sweep(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> bool | Refusal:
        """Decide about the claim's orphan, on live reads: whether an attempt was begun for it. Raises Conflict."""
        volume = self._orphans.suspect(uid)
        if volume is None or volume.volume_id in self._named():
            return False
        attempt = await self._attempts.read(uid) or self._ended.get(uid, (None,))[0]
        known = claim or (planning.named(attempt.plan) if attempt is not None else None)
        claim = await live_claim(self._client, uid, known)
        situation = await self._look(uid, claim, attempt)
        node = self._node(volume, claim)
        match next_step(situation, name=self._name(uid), node=node):
            case OpenAttempt(intent) if node and storage_class is not None and claim is not None:
                return await self._adopt(claim, storage_class, intent, attempt)
            case DeleteOrphan():
                return await self._delete(uid, volume, attempt)
            case Leave() | OpenAttempt():
                self._tell(uid, volume)
        self._orphans.forget(uid)
        return False

    def _name(self, uid: str) -> str:
        return f"{self._driver.settings.volume_name_prefix}-{uid}"

    async def _look(self, uid: str, claim: Claim | None, attempt: HeldAttempt | None) -> Situation:
        known = objects.claim_facts(claim) if claim is not None else None
        facts = None
        with contextlib.suppress(NotFound):
            volume = await self._client.get(VOLUME, self._name(uid))
            facts = objects.volume_facts(volume, hold_namespace=self._attempts.namespace, attached=False)
        return Situation(known, facts, attempt.intent if attempt is not None else None)

    def _node(self, volume: DriverVolume, claim: Claim | None) -> str:
        """Some node that reaches the volume, the selected one where it does; "" if none is known."""
        reaching = [
            node.name
            for node in self._places.nodes()
            if not volume.accessible_from
            or any(place.segments.items() <= node.metadata.labels.items() for place in volume.accessible_from)
        ]
        selected = claim.selected_node if claim is not None else None
        return selected if selected in reaching and selected is not None else min(reaching, default="")

    async def _adopt(
        self, claim: Claim, storage_class: StorageClass, intent: Intent, over: HeldAttempt | None
    ) -> bool | Refusal:
        """An attempt that asks for the very volume: it will be held, and given or rolled back like any other."""
        made = planning.plan(wanted_on(claim, intent.node), storage_class, self._driver, self._places, self._rng)
        if isinstance(made, Refusal):
            return Refusal(State.NO_CHANGE, made.text)
        plan = held_plan(made, claim, intent, now=self._clock.now(), hold_namespace=self._attempts.namespace)
        await self._attempts.open(claim.uid, intent, plan, over=over)
        log.info("orphan adopted", claim=claim.key, node=intent.node, attempt=intent.attempt)
        self._orphans.forget(claim.uid)
        return True

    async def _delete(self, uid: str, volume: DriverVolume, attempt: HeldAttempt | None) -> bool | Refusal:
        secrets = await secret_data.read(self._client, attempt.plan.secret if attempt is not None else None)
        try:
            await self._calls.delete_volume(volume.volume_id, {} if isinstance(secrets, Refusal) else secrets)
        except DriverError as error:
            return Refusal(State.NO_CHANGE, rpc_text(error))
        log.info("orphan deleted", volume=volume.volume_id, claim=uid)
        self._orphans.forget(uid)
        self._ended.pop(uid, None)
        return False

    def _tell(self, uid: str, volume: DriverVolume) -> None:
        if volume.volume_id not in self._told:
            self._told.add(volume.volume_id)
            why = "no object names it, and it may have been used: it is kept, with whatever data it has"
            log.warning("volume left alone", volume=volume.volume_id, claim=uid, why=why)
