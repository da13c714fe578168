"""Volumes that are held until their pod has all of them: an attempt on record, the volume, the held object.

Carries out `volumes.holds.provisioning`, step by step, on live reads. Whoever calls holds the claim's lock (a work
queue gives a key to one worker at a time), and tries again later what ended in a Refusal.
"""

import random
from functools import partial

from mooring.api.errors import NotFound
from mooring.api.kinds import VOLUME
from mooring.api.views.claim import Claim
from mooring.api.views.storage import StorageClass
from mooring.api.views.volume import Volume
from mooring.client.contract import Client
from mooring.clock import Clock
from mooring.provisioner import planning, selected_node
from mooring.provisioner.accessibility import Places
from mooring.provisioner.attempt import Refusal, State
from mooring.provisioner.held_attempts import HeldAttempt, HeldAttempts
from mooring.provisioner.held_plan import given_plan, held_plan, wanted_on
from mooring.provisioner.hold_policy import HoldPolicy
from mooring.provisioner.live_claims import live_claim
from mooring.provisioner.making import Making
from mooring.provisioner.room import Room
from mooring.provisioner.volume_names import volume_name
from mooring.volumes.holds import objects
from mooring.volumes.holds.facts import Situation
from mooring.volumes.holds.intent import Intent, Phase
from mooring.volumes.holds.provisioning import Close, Create, OpenAttempt, next_step


class HeldProvisioning:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        driver: planning.Driver,
        places: Places,
        attempts: HeldAttempts,
        policy: HoldPolicy,
        making: Making,
        room: Room,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._driver = driver
        self._places = places
        self._attempts = attempts
        self._policy = policy
        self._making = making
        self._room = room

    async def serve(self, uid: str, claim: Claim | None, storage_class: StorageClass | None) -> Volume | Refusal | None:
        """The held volume once it is there, why there is none, or None when there is nothing to do.

        Raises Conflict where somebody else is at it too.
        """
        made: Volume | None = None
        while True:
            attempt = await self._attempts.read(uid)
            situation, volume = await self._look(uid, claim, attempt)
            match next_step(situation):
                case OpenAttempt(intent):
                    refused = await self._open(uid, claim, storage_class, intent, attempt)
                    if refused is not None:
                        return refused
                case Create():
                    assert attempt is not None, "only an open attempt is carried out"
                    if await self._attempts.read(uid) != attempt:
                        # SEEN: a look took long, and the volume that was there when it began was given up meanwhile.
                        # Whoever gives one up closes its attempt before the object goes.
                        continue
                    # The attempt is closed before anything of it is deleted: what others save of it stays uncommitted.
                    give_up = partial(self._attempts.close, attempt, attempt.intent.now(Phase.FAILED))
                    ended = await self._making.make(attempt.plan, give_up=give_up)
                    if isinstance(ended, Refusal):
                        await self._refused(attempt, ended)
                        return ended
                    made = ended
                    self._room.made(made)
                case Close(intent):
                    assert attempt is not None, "only an open attempt is closed"
                    await self._attempts.close(attempt, intent)
                    made = made or volume
                case _:
                    return made

    async def _look(
        self, uid: str, claim: Claim | None, attempt: HeldAttempt | None
    ) -> tuple[Situation, Volume | None]:
        """Everything as the server has it: what is decided on old news would have to be undone."""
        known = claim or (planning.named(attempt.plan) if attempt is not None else None)
        live = await live_claim(self._client, uid, known)
        volume: Volume | None
        try:
            volume = await self._client.get(VOLUME, self._name(uid))
        except NotFound:
            volume = None
        namespace = self._attempts.namespace
        facts = objects.volume_facts(volume, hold_namespace=namespace, attached=False) if volume is not None else None
        found = objects.claim_facts(live) if live is not None else None
        return Situation(found, facts, attempt.intent if attempt is not None else None), volume

    def _name(self, uid: str) -> str:
        settings = self._driver.settings
        return volume_name(uid, prefix=settings.volume_name_prefix, uuid_length=settings.volume_name_uuid_length)

    async def _open(
        self,
        uid: str,
        claim: Claim | None,
        storage_class: StorageClass | None,
        intent: Intent,
        over: HeldAttempt | None,
    ) -> Refusal | None:
        if over is not None and over.intent.attempt == intent.attempt:
            # SEEN: the object of a created volume is gone; the same attempt goes on with the same plan.
            await self._attempts.open(uid, intent, over.plan, over=over)
            return None
        assert claim is not None, "an attempt begins with a claim"
        assert storage_class is not None, "a claim is served by its class"
        made = planning.plan(wanted_on(claim, intent.node), storage_class, self._driver, self._places, self._rng)
        if isinstance(made, Refusal):
            if made.state is State.RESCHEDULE:
                await selected_node.remove(self._client, claim, intent.node)
            return made
        if await self._policy.coordinated():
            namespace, now = self._attempts.namespace, self._clock.now()
            made = held_plan(made, claim, intent, now=now, hold_namespace=namespace)
        else:
            made = given_plan(made, intent)
        await self._attempts.open(uid, intent, made, over=over)
        return None

    async def _refused(self, attempt: HeldAttempt, ended: Refusal) -> None:
        """What goes on in the background stays open."""
        if ended.state not in (State.RESCHEDULE, State.FINISHED):
            return
        reschedule = ended.state is State.RESCHEDULE
        if reschedule:
            await self._room.refresh(attempt.plan)
        await self._attempts.end_refused(attempt, reschedule=reschedule)
