"""One attempt at one volume: secrets, CreateVolume, and the PersistentVolume that says what came of it.

What an end means for the claim is decided by whoever asked; here is only what must happen, in order, for the storage
and the object to agree.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import AlreadyExists, ApiError, NotFound
from mooring.api.kinds import VOLUME
from mooring.api.timestamps import to_micro_time
from mooring.api.views.volume import Volume
from mooring.client.contract import Client, Unreachable
from mooring.clock import Clock
from mooring.csi.contract import DriverError, DriverVolume
from mooring.provisioner import secret_data
from mooring.provisioner.attempt import Refusal, State, after_error
from mooring.provisioner.calls import DriverCalls
from mooring.provisioner.planning import Plan
from mooring.provisioner.settings import DriverFacts
from mooring.provisioner.volume_object import unusable, volume_body

log: FilteringBoundLogger = structlog.get_logger(__name__)

#: Tries to delete a volume that was made but cannot be used, as external-provisioner.
DISCARD_TRIES: Final = 5

GiveUp = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    """Nobody else has to be told."""


class Making:
    def __init__(self, client: Client, clock: Clock, calls: DriverCalls, facts: DriverFacts) -> None:
        self._client = client
        self._clock = clock
        self._calls = calls
        self._facts = facts

    async def make(self, plan: Plan, *, give_up: GiveUp = _nothing) -> Volume | Refusal:
        """The volume, made or found; the same plan gives the same one. `give_up` is awaited before one that cannot be
        used is deleted, and raises where that must not happen: another instance may have saved it by now."""
        secrets = await secret_data.read(self._client, plan.secret)
        if isinstance(secrets, Refusal):
            return secrets
        try:
            made = await self._calls.create_volume(plan.request, secrets)
        except DriverError as error:
            return after_error(error, topology=self._facts.knows_topology, selected_node=plan.node)
        flaw = unusable(plan, made)
        if flaw is not None:
            return await self._reject(plan, made, flaw, secrets, give_up)
        return await self._save(plan, made)

    async def _reject(
        self, plan: Plan, made: DriverVolume, flaw: Refusal, secrets: dict[str, str], give_up: GiveUp
    ) -> Volume | Refusal:
        """Delete what cannot be used, unless it has its object: an earlier answer was a better one, and there may be
        data by now."""
        name = plan.request.name
        try:
            there = await self._client.get(VOLUME, name)
        except NotFound:
            await self._discard(made, secrets, give_up)
            return flaw
        except (ApiError, Unreachable) as error:
            return Refusal(State.IN_BACKGROUND, f"error reading PersistentVolume {name}: {error}")
        if there.spec.csi is not None and there.spec.csi.volume_handle == made.volume_id:
            return there
        await self._discard(made, secrets, give_up)
        return flaw

    async def _discard(self, made: DriverVolume, secrets: dict[str, str], give_up: GiveUp) -> None:
        """Delete what cannot be used. Best effort: the same request will find it again otherwise."""
        if not made.volume_id:
            return
        await give_up()
        for _ in range(DISCARD_TRIES):
            try:
                await self._calls.delete_volume(made.volume_id, secrets)
                return
            except DriverError as error:
                log.warning("unusable volume not deleted", volume=made.volume_id, why=str(error))

    async def _save(self, plan: Plan, made: DriverVolume) -> Volume | Refusal:
        """Write the PersistentVolume. Until it is there, nobody else knows of the volume."""
        answered = to_micro_time(self._clock.now())
        body = volume_body(plan, made, self._facts, created_at=answered)
        name = plan.request.name
        try:
            return await self._client.create(VOLUME, body)
        except AlreadyExists:
            return await self._compare(name, made)
        except (ApiError, Unreachable) as error:
            return Refusal(State.IN_BACKGROUND, f"error saving PersistentVolume {name}: {error}")

    async def _compare(self, name: str, made: DriverVolume) -> Volume | Refusal:
        try:
            there = await self._client.get(VOLUME, name)
        except (ApiError, Unreachable) as error:
            return Refusal(State.IN_BACKGROUND, f"error reading PersistentVolume {name}: {error}")
        if there.spec.csi is not None and there.spec.csi.volume_handle == made.volume_id:
            return there
        return Refusal(State.IN_BACKGROUND, f"a PersistentVolume {name} exists that is of another volume")
