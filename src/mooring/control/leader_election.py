"""Leader election on a Lease: of several instances of a component, one acts.

The half that asks and waits; `candidacy` holds the rules and the reason why two do not act at once. It behaves as
client-go's election with `ReleaseOnCancel`, and is stricter in two points: the holder's time runs from its last
successful renewal and not from the first failed one, and it stops as soon as it sees another holder.

A Lease that somebody deletes or edits by hand protects nobody until the holder has noticed.
"""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from mooring.api.errors import ApiError, Conflict, NotFound
from mooring.api.kinds import LEASE
from mooring.api.patches.contract import MergePatch
from mooring.api.timestamps import to_micro_time
from mooring.api.views.lease import Lease
from mooring.client.contract import Client, Unreachable
from mooring.clock import Clock
from mooring.control.candidacy import Candidacy, Create, Swap, Timings

log: FilteringBoundLogger = structlog.get_logger(__name__)

DEFAULT_TIMINGS: Final = Timings()


def incarnation(host: str, rng: random.Random) -> str:
    """An identity that no other process has, nor this one after a restart: `host_uuid`, as upstream's components."""
    return f"{host}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"


async def lead(
    client: Client,
    clock: Clock,
    rng: random.Random,
    *,
    name: str,
    namespace: str,
    identity: str,
    act: Callable[[], Awaitable[None]],
    timings: Timings = DEFAULT_TIMINGS,
    report: Callable[[bool], None] = lambda leads: None,
) -> None:
    """Campaign for the Lease, run `act` while it is ours, campaign again when it is lost, until cancelled.

    `act` is cancelled when the lease can no longer be relied on and must then end within `lease_duration -
    renew_deadline`. When it ends by itself, or fails, so does this. The Lease is given back on every way out, once
    `act` has ended. `report` hears True before `act` begins and False after it has ended.
    """
    elector = _Elector(client, clock, rng, name=name, namespace=namespace, identity=identity, timings=timings)
    try:
        while True:
            await elector.campaign()
            report(True)
            try:
                ended = await elector.serve(act)
            finally:
                report(False)
            if ended:
                return
    finally:
        await elector.release()


class _Elector:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        *,
        name: str,
        namespace: str,
        identity: str,
        timings: Timings,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._name = name
        self._namespace = namespace
        self._timings = timings
        self._candidacy = Candidacy(identity, timings)
        self._log = log.bind(lease=f"{namespace}/{name}", identity=identity)

    @property
    def _leads(self) -> bool:
        return self._candidacy.leads(self._clock.monotonic())

    async def campaign(self) -> None:
        """Until the lease is ours."""
        self._log.info("attempting to acquire leader lease")
        await self._try()
        while not self._leads:
            await self._clock.sleep(self._candidacy.rest(now=self._clock.monotonic(), chance=self._rng.random()))
            await self._try()
        self._log.info("acquired lease")

    async def serve(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Act while the lease is ours. Whether `act` ended by itself."""

        async def acting() -> None:
            await act()

        async with asyncio.TaskGroup() as group:
            # Time is kept apart from renewing: no request, however stuck, can keep `act` running.
            term = group.create_task(self._term(), name="leader term")
            renewing = group.create_task(self._renew(), name="leader renewal")
            work = group.create_task(acting(), name="leader")
            finished, _ = await asyncio.wait((term, renewing, work), return_when=asyncio.FIRST_COMPLETED)
            for task in (work, renewing, term):
                task.cancel()
        if work in finished:
            return True
        self._log.warning("stopped leading", holder=self._candidacy.holder)
        if self._clock.monotonic() >= self._candidacy.exclusive_until:
            self._log.error("acted for longer than the lease lasts; another instance may have acted meanwhile")
        return False

    async def release(self) -> None:
        """Give the lease back, if it is ours or may be. Not insisted on: it ends by itself."""
        if self._candidacy.entangled:
            await self._attempt(self._resign, "cannot release lease")

    async def _term(self) -> None:
        while (left := self._candidacy.leads_until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)

    async def _renew(self) -> None:
        # From beginning to beginning: slow answers must not eat up the time for the next try.
        due = self._candidacy.renews_from
        while self._leads:
            await self._clock.sleep(due - self._clock.monotonic())
            due = self._clock.monotonic() + self._timings.retry_period
            await self._try()

    async def _try(self) -> None:
        holder = self._candidacy.holder
        await self._attempt(self._move, "cannot acquire or renew lease")
        if self._candidacy.holder not in ("", holder, self._candidacy.identity):
            self._log.info("new leader elected", holder=self._candidacy.holder)

    async def _attempt(self, write: Callable[[], Awaitable[None]], failure: str) -> None:
        """Write by what is known if the lease is ours, otherwise and after a conflict by a fresh look."""
        try:
            if self._candidacy.informed:
                try:
                    return await write()
                except (Conflict, NotFound) as error:
                    self._log.info("lease has changed", why=str(error))
            await self._look()
            await write()
        except (ApiError, Unreachable) as error:
            self._log.warning(failure, why=str(error))
        except TimeoutError:
            self._log.warning(failure, why=f"no answer within {self._timings.patience:g} s")

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(self._timings.patience):
                lease = await self._client.get(LEASE, self._name, namespace=self._namespace)
        except NotFound:
            lease = None
        self._candidacy.saw(lease, now=self._clock.monotonic())

    async def _move(self) -> None:
        now = self._clock.monotonic()
        move = self._candidacy.move(now=now, date=self._date())
        if move is not None:
            self._candidacy.won(await self._send(move), sent=now)

    async def _resign(self) -> None:
        move = self._candidacy.resignation(date=self._date())
        if move is not None:
            self._candidacy.saw(await self._send(move), now=self._clock.monotonic())
            self._log.info("released lease")

    async def _send(self, move: Create | Swap) -> Lease:
        self._candidacy.sends()
        async with asyncio.timeout(self._timings.patience):
            match move:
                case Create(spec):
                    body = {"metadata": {"name": self._name}, "spec": spec}
                    return await self._client.create(LEASE, body, namespace=self._namespace)
                case Swap(spec, version):
                    patch = MergePatch({"metadata": {"resourceVersion": version}, "spec": spec})
                    return await self._client.patch(LEASE, self._name, patch, namespace=self._namespace)

    def _date(self) -> str:
        return to_micro_time(self._clock.now())
